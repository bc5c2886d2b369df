"""Opening connections: names to addresses, addresses to sockets, sockets to streams.

If a name has several addresses, they are tried one after the other.

Rejected: trying them all at once (happy eyeballs). It saves time where a network is half broken. But it opens
connections that the program did not ask for, and the task would have to pay for each.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bursar.backend import Kernel, Task
from bursar.drive.pump import Pump
from bursar.io.files import FileOperation, Watches
from bursar.io.sockets import Address, SocketBox, numeric, require_context, resolve, resolved, unix_address
from bursar.io.streams import AskKernel, SocketOperation, Stream
from bursar.request import Entry

if TYPE_CHECKING:
    import ssl


class _Connect(FileOperation[None]):
    """Connect a new socket to one address."""

    __slots__ = ("_address", "_box")
    action = "connect to a socket"

    def __init__(self, box: SocketBox, address: Address) -> None:
        self._box = box
        self._address = address

    def why(self) -> str:
        return f"waits for a connection to {self._address.text}"

    def writes(self) -> bool:
        return True

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        return kernel.runtime.pump.ask(task, "connect", partial(self._box.connect, self._address)) >= 0

    def take(self, kernel: Kernel, task: Task) -> None:
        """Nothing to do: `attempt` has connected the socket."""

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        Watches.of(pump).forget(self._box.fd)
        pump.host.watch(self._box.fd, True, call)  # pyright: ignore

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        if self._box.socket is not None:
            pump.host.unwatch(self._box.fd, True)  # pyright: ignore


class _Handshake(SocketOperation[Stream, None]):
    """The client's side of TLS."""

    __slots__ = ("_context", "_hostname")
    action = "make a TLS connection"

    def __init__(self, stream: Stream, context: ssl.SSLContext, hostname: str | None) -> None:
        super().__init__(stream)
        self._context = context
        self._hostname = hostname

    def why(self) -> str:
        return f"waits for the TLS handshake with {self.endpoint.peer}"

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        call = partial(self.endpoint._box.handshake, self._context, self._hostname)
        return not self.wants(kernel.runtime.pump.ask(task, "handshake", call))

    def take(self, kernel: Kernel, task: Task) -> None:
        """Nothing to do: `attempt` has completed the handshake."""


class _Resolve(FileOperation[str]):
    """Look up a name in a separate thread, because the system's resolver blocks."""

    __slots__ = ("_answer", "_host", "_outcome", "_port")
    action = "look up the name of a host"

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._outcome: Callable[[], str] | None = None
        self._answer = ""

    def why(self) -> str:
        return f"waits for the address of {self._host}"

    def writes(self) -> bool:
        return False

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self.require_allowed(kernel, task)
        return False

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        self._answer = kernel.runtime.pump.ask(task, "getaddrinfo", self._outcome or str)
        return True

    def take(self, kernel: Kernel, task: Task) -> str:
        return self._answer

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._look_up, args=(call,), name=f"bursar resolves {self._host}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the process cannot start another thread
            self._outcome = partial(_throw, OSError(errno.EAGAIN, f"{self._host} cannot be looked up: {error}"))
            call()

    def _look_up(self, call: Callable[[], None]) -> None:
        try:
            self._outcome = partial(str, resolve(self._host, self._port))
        except OSError as error:
            named = type(error)(error.errno, f"{self._host} cannot be looked up: {error.strerror or error}")
            self._outcome = partial(_throw, named)
        call()

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """Nothing to do: the thread ends by itself, and its answer is ignored."""


def _throw(error: OSError) -> str:
    raise error


async def addresses(host: str, port: int) -> list[Address]:
    if type(port) is not int or not 0 <= port < 65_536:
        raise ValueError(f"port {port!r}: must be a whole number from 0 to 65535")
    address = numeric(host, port)
    return [address] if address is not None else resolved(await _Resolve(host, port), port)


async def _open(address: Address, kind: str) -> Stream:
    kernel, box = await AskKernel(), SocketBox()
    try:
        await _Connect(box, address)
    except BaseException:
        if box.socket is not None:
            Watches.of(kernel.runtime.pump).forget(box.fd)
            box.close()
        raise
    return Stream(kernel, box, address.text, kind)


async def open_tcp(
    host: str, port: int, *, tls: ssl.SSLContext | None = None, server_hostname: str | None = None
) -> Stream:
    """Awaited: a `Stream` to a TCP server.

    `host` is an address or a name. A name is looked up without blocking other tasks. If it has several addresses, they
    are tried one after the other.

    Args:
        host: The server.
        port: The server's port.
        tls: An `ssl.SSLContext`: the stream is encrypted, and the server's certificate is checked.
        server_hostname: The name in the certificate, if it is not `host`.
    """
    if tls is not None:
        require_context(tls, hostname=server_hostname or host)
    failures: list[OSError] = []
    for address in await addresses(host, port):
        try:
            stream = await _open(address, "TCP stream to")
        except OSError as error:
            failures.append(error)
            continue
        if tls is not None:
            try:
                await _Handshake(stream, tls, server_hostname or host)
            except BaseException:
                stream.close()
                raise
        return stream
    if len(failures) == 1:
        raise failures[0]
    raise OSError(f"no address of {host} answered: {'; '.join(str(f) for f in failures)}")


async def open_unix(path: str) -> Stream:
    """Awaited: a `Stream` to a Unix socket."""
    return await _open(unix_address(path), "Unix stream to")
