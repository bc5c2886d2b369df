"""Listening: sockets that accept connections, and `serve`, which gives every connection a task of its own."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from bursar.clock import sleep
from bursar.connect import addresses
from bursar.errors import BudgetExceeded, BursarError, StreamClosed, StreamEnded, brief, type_name
from bursar.law.budget import Budget
from bursar.law.kernel import Kernel
from bursar.law.nursery import NurseryState
from bursar.law.task import Task
from bursar.nursery import Nursery, require_coroutine_function, title_of
from bursar.request import Operation, running
from bursar.sockets import Address, Box, unix_address
from bursar.streams import AskKernel, Call, Endpoint, SocketOperation, Stream

if TYPE_CHECKING:
    import ssl

BACKLOG: Final = 1_024  # connections that the system keeps while nobody accepts them
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # no fault of the listener's
SHORTAGE_PAUSE_S: Final = 0.1  # before accepting is tried again then


class _Accept(SocketOperation["Listener", Stream]):
    __slots__ = ()
    action = "accept a connection"

    def why(self) -> str:
        return f"waits for a connection to {self.endpoint.name}"

    def look(self, kernel: Kernel, task: Task) -> bool:
        listener = self.endpoint
        if listener.accepted is not None:
            return True
        box = Box()
        peer: Any = kernel.driver.pump.ask(task, "accept", partial(listener.box.accept, box, listener.tls))
        if self.wants(peer):
            return False
        box.tls = listener.tls is not None
        listener.accepted = Stream(kernel, box, peer, f"{listener.kind} stream from")
        return True

    def take(self, kernel: Kernel, task: Task) -> Stream:
        stream, self.endpoint.accepted = self.endpoint.accepted, None
        assert stream is not None, "a look found it"
        return stream


class Listener(Endpoint):
    """Accepts connections: `await listener.accept()`, or `async for stream in listener`."""

    __slots__ = ("accepted", "address", "kind", "tls")

    def __init__(self, kernel: Kernel, box: Box, address: str, kind: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(kernel, box, f"{kind} listener at {address}")
        self.address = address
        self.kind = kind
        self.tls = tls
        self.accepted: Stream | None = None  # accepted, and not taken

    @property
    def port(self) -> int:
        """The TCP port that it listens on."""
        if self.kind != "TCP":
            raise BursarError(f"{self.name} has no port")
        return int(self.address.rpartition(":")[2])

    def accept(self) -> Operation[Stream]:
        """Awaited: the next connection. Works in `select`. With TLS, its handshake is part of its first use."""
        return _Accept(self)

    def close(self) -> None:
        super().close()
        if self.accepted is not None:
            self.accepted.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Stream:
        try:
            return await _Accept(self)
        except StreamClosed:
            raise StopAsyncIteration from None


async def _listen(address: Address, backlog: int, kind: str, tls: ssl.SSLContext | None) -> Listener:
    kernel, box = await AskKernel(), Box()
    where = await Call("listen", f"listen at {address.text}", partial(box.listen, address, backlog))
    return Listener(kernel, box, where, kind, tls)


async def listen_tcp(
    host: str = "127.0.0.1", port: int = 0, *, backlog: int = BACKLOG, tls: ssl.SSLContext | None = None
) -> Listener:
    """Listen at the first address of `host`; port 0 is one that the system chooses. `"0.0.0.0"`, `"::"`: everywhere."""
    address, *_ = await addresses(host, port)
    return await _listen(address, backlog, "TCP", tls)


async def listen_unix(path: str, *, backlog: int = BACKLOG) -> Listener:
    """Listen at a Unix socket. The file is the caller's: it must not exist before, and stays behind."""
    return await _listen(unix_address(path), backlog, "Unix", None)


# ---- serving


async def serve(
    listener: Listener,
    handler: Callable[[Stream], Coroutine[Any, Any, None]],
    nursery: Nursery,
    *,
    budget: Budget | None = None,
) -> None:
    """Accept until the listener is closed; each connection is a task of `nursery` that runs `handler(stream)`.

    A connection that breaks (`OSError`), ends early (`StreamEnded`) or overruns its `budget` is reported and ends
    alone. Whatever else a handler raises is a failure of its task, and the nursery's affair.
    """
    require_coroutine_function(handler)
    title = title_of(handler)
    waiting: dict[Stream, None] = {}  # their tasks have not begun yet
    try:
        while (stream := await _next(listener)) is not None:
            waiting[stream] = None
            try:
                nursery.spawn(_attend, handler, stream, waiting, name=f"{title} {stream.peer}".rstrip(), budget=budget)
            except BaseException:
                stream.close()
                raise
    finally:
        if nursery.state is NurseryState.CANCELLING:  # a task that is cancelled before it begins cannot close anything
            for stream in waiting:
                stream.close()


async def _next(listener: Listener) -> Stream | None:
    """A connection; None: the listener is closed. When the system is out of something, others must give it back."""
    while True:
        try:
            return await listener.accept()
        except StreamClosed:
            return None
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            await sleep(SHORTAGE_PAUSE_S)


async def _attend(
    handler: Callable[[Stream], Coroutine[Any, Any, None]], stream: Stream, waiting: dict[Stream, None]
) -> None:
    del waiting[stream]
    async with stream:
        try:
            await handler(stream)
        except (OSError, StreamEnded, BudgetExceeded) as error:
            kernel = stream.kernel
            kernel.report("connection_lost", running(kernel, stream.name), f"{type_name(error)}: {brief(error)}")
