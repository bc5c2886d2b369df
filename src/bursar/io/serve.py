"""Listening: sockets that accept connections, and `serve`, which gives every connection a task of its own.

SERVE-1  the stream of a connection is closed when its task ends, even if the task was cancelled before it began
SERVE-2  a peer, or a connection that cannot be paid for, never ends the service of the other connections
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from bursar.backend import Kernel, Task
from bursar.errors import BudgetExceeded, BursarError, DelimiterNotFound, SpawnBudgetExceeded, StreamClosed, StreamEnded
from bursar.io.connect import addresses
from bursar.io.sockets import Address, SocketBox, require_context, unix_address
from bursar.io.streams import AskKernel, Call, Endpoint, SocketOperation, Stream
from bursar.law.budget import Budget
from bursar.law.state import Outcome
from bursar.ops.classify import require_coroutine_function, title_of
from bursar.ops.clock import sleep
from bursar.ops.nursery import Nursery
from bursar.ops.task import at_end
from bursar.request import Entry, Operation, loop_module, running
from bursar.text import brief, counted, type_name

if TYPE_CHECKING:
    import ssl

loop_module(__name__)

BACKLOG: Final = 1_024  # connections that the system keeps until they are accepted
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # of the system: the listener still works
SHORTAGE_PAUSE_S: Final = 0.1  # after a shortage, before the next accept
LOST: Final = (OSError, StreamEnded, StreamClosed, DelimiterNotFound, BudgetExceeded)  # errors that end one connection


class _Accept(SocketOperation["Listener", Stream]):
    __slots__ = ()
    action = "accept a connection"

    def why(self) -> str:
        return f"waits for a connection to {self.endpoint.name}"

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        listener = self.endpoint
        if listener._accepted is not None:
            return True
        box = SocketBox()
        peer: Any = kernel.runtime.pump.ask(task, "accept", partial(listener._box.accept, box, listener._tls))
        if self.wants(peer):
            return False
        box.tls = listener._tls is not None
        listener._accepted = Stream(kernel, box, peer, f"{listener._kind} stream from")
        return True

    def take(self, kernel: Kernel, task: Task) -> Stream:
        stream, self.endpoint._accepted = self.endpoint._accepted, None
        assert stream is not None, "`attempt` has accepted it"
        return stream


class Listener(Endpoint):
    """Accepts connections: `await listener.accept()`, or `async for stream in listener`. `async with` closes it.

    Attributes:
        address: Where it listens.
        name: The listener's name in messages.
    """

    __slots__ = ("_accepted", "_kind", "_tls", "address")

    def __init__(self, kernel: Kernel, box: SocketBox, address: str, kind: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(kernel, box, f"{kind} listener at {address}")
        self.address = address
        self._kind = kind
        self._tls = tls
        self._accepted: Stream | None = None  # accepted, but no task got it: another case of a `select` won

    @property
    def port(self) -> int:
        """The TCP port that it listens on."""
        if self._kind != "TCP":
            raise BursarError(f"{self.name} has no port")
        return int(self.address.rpartition(":")[2])

    def accept(self) -> Operation[Stream]:
        """Awaited: the next `Stream`. Works in `select`. Raises `StreamClosed`."""
        return _Accept(self)

    def close(self) -> None:
        """Close the listener, at once and for free. A task that waits on it gets `StreamClosed`. Idempotent."""
        super().close()
        if self._accepted is not None:
            self._accepted.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Stream:
        try:
            return await _Accept(self)
        except StreamClosed:
            raise StopAsyncIteration from None


async def _listen(address: Address, backlog: int, kind: str, tls: ssl.SSLContext | None) -> Listener:
    kernel, box = await AskKernel(), SocketBox()
    where = await Call("listen", f"listen at {address.text}", partial(box.listen, address, backlog))
    return Listener(kernel, box, where, kind, tls)


async def listen_tcp(
    host: str = "127.0.0.1", port: int = 0, *, backlog: int = BACKLOG, tls: ssl.SSLContext | None = None
) -> Listener:
    """Awaited: a `Listener`. With port 0 the system chooses a port. `"0.0.0.0"` and `"::"` mean all addresses of the
    machine.

    With `tls` its streams are encrypted. The handshake is part of the first use of a stream, so a slow client does not
    delay others.
    """
    if tls is not None:
        require_context(tls, server_side=True)
    address, *_ = await addresses(host, port)
    return await _listen(address, backlog, "TCP", tls)


async def listen_unix(path: str, *, backlog: int = BACKLOG) -> Listener:
    """Awaited: a `Listener` at a Unix socket. The file must not exist before, and is not removed afterwards."""
    return await _listen(unix_address(path), backlog, "Unix", None)


# ---- serving


async def serve(
    listener: Listener,
    handler: Callable[[Stream], Coroutine[Any, Any, None]],
    nursery: Nursery,
    *,
    budget: Budget | None = None,
    connections_max: int | None = None,
) -> None:
    """Awaited: accept connections until the listener is closed. For each, a task of `nursery` runs `handler(stream)`.

    Some errors end one connection only, with a report `connection_lost`: it breaks (`OSError`, `StreamClosed`), ends
    early (`StreamEnded`), sends no delimiter (`DelimiterNotFound`), exceeds its `budget`, or the nursery cannot pay for
    it. Any other error of a handler is a failure of its task.

    Args:
        listener: Where connections arrive.
        handler: Called with the stream of each connection. The stream is closed when the handler ends.
        nursery: The nursery of the connections.
        budget: The budget of each connection.
        connections_max: How many connections are served at once. Further ones wait in the system's queue.
    """
    require_coroutine_function(handler)
    if connections_max is not None and (type(connections_max) is not int or connections_max < 1):
        raise ValueError(f"serve(connections_max={connections_max!r}): must be a whole number, at least 1")
    title = title_of(handler)
    served = _Served(connections_max)
    while True:
        if connections_max is not None:
            await _Room(served)
        stream = await _next_connection(listener)
        if stream is None:
            return
        name = f"{title} {stream.peer}".rstrip()
        try:
            task = nursery.spawn(_serve_connection, handler, stream, name=name, budget=budget)
        except SpawnBudgetExceeded as error:  # the purse may be recharged before the next connection comes
            _report(stream, error)
            stream.close()
        except BaseException:
            stream.close()
            raise
        else:
            served.add(stream, task._inside(stream._kernel))


class _Served:
    """How many connections have a task, and the entry of `serve` if it waits for one of these tasks to end."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.number = 0
        self.waiting: Entry | None = None

    def add(self, stream: Stream, task: Task) -> None:
        self.number += 1
        at_end(task, partial(self._ended, stream))

    def _ended(self, stream: Stream, outcome: Outcome) -> None:
        stream.close()  # SERVE-1
        self.number -= 1
        if self.waiting is not None:
            self.waiting.answer(stream._kernel, None)


class _Room(Operation[None]):
    """Wait until one more connection may be served."""

    __slots__ = ("_served",)

    def __init__(self, served: _Served) -> None:
        self._served = served

    def why(self) -> str:
        return f"waits for one of {counted(self._served.number, 'connection')} to end: more may not be served at once"

    def ready(self, kernel: Kernel, task: Task) -> bool:
        return self._served.most is None or self._served.number < self._served.most

    def take(self, kernel: Kernel, task: Task) -> None:
        """Nothing to do: one more connection may be served."""

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self._served.waiting = entry

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        self._served.waiting = None


async def _next_connection(listener: Listener) -> Stream | None:
    """The next connection. None: the listener is closed.

    If the system is short of something, such as file descriptors, this waits until others give some back.
    """
    while True:
        try:
            return await listener.accept()
        except StreamClosed:
            return None
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            await sleep(SHORTAGE_PAUSE_S)


async def _serve_connection(handler: Callable[[Stream], Coroutine[Any, Any, None]], stream: Stream) -> None:
    async with stream:
        try:
            await handler(stream)
        except* LOST as lost:  # SERVE-2; a handler with a nursery of its own raises a group
            _report(stream, lost)


def _report(stream: Stream, error: BaseException) -> None:
    """Report a lost connection, with its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    kernel = stream._kernel
    kernel.report("connection_lost", running(kernel, stream.name), f"{type_name(error)}: {brief(error)}")
