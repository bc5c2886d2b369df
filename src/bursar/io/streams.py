"""Streams: connections to read from and write to. `io/connect.py` opens them, `io/serve.py` accepts them.

Every call to the system is a request: it needs `CapIO`, costs one syscall of the budget, and its answer is recorded.
The stream keeps bytes that it received and no task took, because another case of a `select` won, or because
`receive_until` read too far. The next receive returns them. Bytes that were sent cannot be taken back. So a send that
is cut off in the middle breaks the stream, and later uses raise `StreamClosed`.

Closing is not a request. It is free and always allowed, also for a cancelled task with no budget left. A task that
waits on the stream gets `StreamClosed`.

STREAMS-1  at most one task receives from a stream, and at most one task sends to it
STREAMS-2  a stream returns bytes in the order of their arrival, each once, whatever is cancelled
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from bursar.backend import Kernel, Task
from bursar.drive.pump import Pump
from bursar.errors import (
    BursarError,
    DelimiterNotFound,
    ScopeMisuse,
    StreamClosed,
    StreamEnded,
)
from bursar.io.files import FileOperation, Watches, require_files
from bursar.io.sockets import WANT_WRITE, SocketBox
from bursar.law.capability import CapIO, require
from bursar.law.costs import SYSCALL, Cost
from bursar.request import Entry, Operation, Request, loop_module, require_thread

if TYPE_CHECKING:
    from types import TracebackType

loop_module(__name__)

T_co = TypeVar("T_co", covariant=True)

RECEIVE_SIZE: Final = 65_536  # bytes that one receive asks for, by default
UNTIL_MAX: Final = 65_536  # bytes in which `receive_until` looks for its delimiter, by default


class Call(Request[T_co]):
    """One call to the system that never waits."""

    __slots__ = ("_action", "_call", "_what")
    cost: ClassVar[Cost] = SYSCALL

    def __init__(self, what: str, action: str, call: Callable[[], T_co]) -> None:
        self._what = what
        self._action = action
        self._call = call

    def perform(self, kernel: Kernel, task: Task) -> T_co:
        require(task, task.capabilities, CapIO, self._action)
        require_files(kernel.runtime.pump, task)
        return kernel.runtime.pump.ask(task, self._what, self._call)


class AskKernel(Request[Kernel]):
    """The kernel of the asking task. A new stream belongs to it."""

    __slots__ = ()

    def perform(self, kernel: Kernel, task: Task) -> Kernel:
        return kernel


class Endpoint:
    """A socket of one runtime, and the tasks that wait for it."""

    __slots__ = ("_box", "_calls", "_closed", "_kernel", "_waits", "name")

    def __init__(self, kernel: Kernel, box: SocketBox, name: str) -> None:
        self._kernel = kernel
        self._box = box
        self.name = name
        self._closed = ""  # why it cannot be used any more; empty: it can
        self._waits: dict[type, Entry] = {}  # STREAMS-1: at most one entry for each kind of operation
        self._calls: tuple[list[Callable[[], None]], list[Callable[[], None]]] = ([], [])
        pump: Pump = kernel.runtime.pump
        if box.socket is not None:
            Watches.of(pump).forget(box.fd)

    def _require_usable(self, kernel: Kernel, task: Task, kind: type) -> None:
        if self._kernel is not kernel:
            raise ScopeMisuse(f"task {task.name!r} used {self.name}, which belongs to another runtime")
        if self._closed:
            raise StreamClosed(f"task {task.name!r}: {self.name} {self._closed}")
        other = self._waits.get(kind)
        if other is not None:
            raise ScopeMisuse(f"task {task.name!r}: {self.name} is in use: task {other.task.name!r} {other.reason}")

    def _watch(self, pump: Pump, write: bool, call: Callable[[], None]) -> None:
        """Ask the host to watch the socket. A receive and a send over TLS may both wait until it is readable, so one
        call of the host is passed on to both."""
        self._calls[write].append(call)
        pump.host.watch(self._box.fd, write, partial(self._ready, write))  # pyright: ignore

    def _ready(self, write: bool) -> None:
        calls = self._calls[write][:]
        self._calls[write].clear()
        for call in calls:
            call()

    def _unwatch(self, pump: Pump, call: Callable[[], None]) -> None:
        for write, calls in enumerate(self._calls):
            if call in calls:
                calls.remove(call)
                if not calls and self._box.socket is not None:
                    pump.host.unwatch(self._box.fd, bool(write))  # pyright: ignore

    def close(self) -> None:
        """Close the connection, at once and for free. A task that waits on it gets `StreamClosed`. Idempotent."""
        require_thread(self._kernel, self.name)
        if self._box.socket is not None:
            Watches.of(self._kernel.runtime.pump).forget(self._box.fd)
            self._box.close()
        self._closed = "is closed"
        for entry in list(self._waits.values()):
            entry.refuse(
                self._kernel, StreamClosed(f"task {entry.task.name!r}: {self.name} was closed while it waited")
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{', ' + self._closed if self._closed else ''}>"


E_co = TypeVar("E_co", bound=Endpoint, covariant=True)


class SocketOperation(FileOperation[T_co], Generic[E_co, T_co]):
    """An operation on an endpoint, which may have to wait until the socket is ready."""

    __slots__ = ("_write", "endpoint")

    def __init__(self, endpoint: E_co) -> None:
        self.endpoint = endpoint
        self._write = False

    def writes(self) -> bool:
        return self._write

    def wants(self, answer: object) -> bool:
        """Whether the answer of a socket is `WANT_READ` or `WANT_WRITE`. Notes which."""
        if type(answer) is not int or answer >= 0:
            return False
        self._write = answer == WANT_WRITE
        return True

    def require_allowed(self, kernel: Kernel, task: Task) -> None:
        self.endpoint._require_usable(kernel, task, type(self))
        require(task, task.capabilities, CapIO, self.action)  # that the host has files was checked for this endpoint

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        self.endpoint._watch(pump, self._write, call)

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        self.endpoint._unwatch(pump, call)

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self.endpoint._waits.setdefault(type(self), entry)
        super().enlist(kernel, entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if self.endpoint._waits.get(type(self)) is entry:
            del self.endpoint._waits[type(self)]
        super().delist(kernel, entry)


# ---- streams


class _Receive(SocketOperation["Stream", bytes]):
    __slots__ = ("_size",)
    action = "receive from a socket"

    def __init__(self, stream: Stream, size: int) -> None:
        super().__init__(stream)
        self._size = size

    def why(self) -> str:
        return f"waits for data of {self.endpoint.name}"

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        stream = self.endpoint
        if stream._unread or stream._ended:
            return True
        got: Any = kernel.runtime.pump.ask(task, "receive", partial(stream._box.receive, self._size))
        if self.wants(got):
            return False
        stream._unread = got
        stream._ended = not got
        return True

    def take(self, kernel: Kernel, task: Task) -> bytes:
        return self.endpoint._take(self._size)


class _Send(SocketOperation["Stream", int]):
    """Send as many bytes as the system takes at once."""

    __slots__ = ("_data", "_sent", "tried")
    action = "send to a socket"

    def __init__(self, stream: Stream, data: bytes | memoryview) -> None:
        super().__init__(stream)
        self._data = data
        self._sent = 0
        self.tried = False

    def why(self) -> str:
        return f"waits until {self.endpoint.name} takes more data"

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        self.tried = True
        answer = kernel.runtime.pump.ask(task, "send", partial(self.endpoint._box.send, self._data))
        if self.wants(answer):
            return False
        self._sent = answer
        return True

    def take(self, kernel: Kernel, task: Task) -> int:
        return self._sent


class Stream(Endpoint):
    """A connection. `async with stream:` closes it at the end of the block.

    At most one task may receive and one may send at a time; another task gets `ScopeMisuse`. Each operation needs
    `CapIO` and costs one op and one syscall. If a TLS peer closes the connection without the closing message of TLS,
    `receive` raises `ssl.SSLEOFError`.

    Attributes:
        peer: The address of the other side.
        name: The stream's name in messages.
    """

    __slots__ = ("_ended", "_sending", "_unread", "peer")

    def __init__(self, kernel: Kernel, box: SocketBox, peer: str, kind: str) -> None:
        super().__init__(kernel, box, f"{kind} {peer}".rstrip())
        self.peer = peer
        self._unread = b""  # received, but no task got them yet
        self._ended = False  # the peer sends nothing more
        self._sending = False

    def _take(self, size: int) -> bytes:
        unread = self._unread
        if len(unread) <= size:
            self._unread = b""
            return unread
        self._unread = unread[size:]
        return unread[:size]

    def receive(self, max_bytes: int = RECEIVE_SIZE) -> Operation[bytes]:
        """Awaited: at least one byte and at most `max_bytes`; `b""` when the peer has ended. Works in `select`."""
        _positive("receive", "max_bytes", max_bytes)
        return _Receive(self, max_bytes)

    async def receive_exactly(self, n: int) -> bytes:
        """Awaited: `n` bytes. Raises `StreamEnded` if the peer ends first. If it fails or is cancelled, no byte is
        lost: the next call gets them."""
        if type(n) is not int or n < 0:
            raise ValueError(f"receive_exactly({n!r}): must be a whole number, not negative")
        parts: list[bytes] = []
        missing = n
        try:
            while missing:
                part = await _Receive(self, min(missing, RECEIVE_SIZE))
                if not part:
                    raise StreamEnded(f"{self.name} ended after {n - missing:,} of {n:,} bytes")
                parts.append(part)
                missing -= len(part)
        except BaseException:
            self._unread = b"".join(parts) + self._unread
            raise
        return b"".join(parts)

    async def receive_until(self, delimiter: bytes, max_bytes: int = UNTIL_MAX) -> bytes:
        """Awaited: everything up to and including `delimiter`.

        Raises `DelimiterNotFound` if the delimiter is not within `max_bytes`, and `StreamEnded` if the peer ends first.
        If it fails or is cancelled, no byte is lost: the next call gets them.
        """
        if not delimiter:
            raise ValueError("receive_until(b''): the delimiter must not be empty")
        _positive("receive_until", "max_bytes", max_bytes)
        found, looked = bytearray(), 0
        while True:
            try:
                part = await _Receive(self, RECEIVE_SIZE)
            except BaseException:
                self._unread = bytes(found) + self._unread
                raise
            found += part
            place = found.find(delimiter, max(0, looked - len(delimiter) + 1), max_bytes)
            if place >= 0:
                end = place + len(delimiter)
                self._unread = bytes(found[end:]) + self._unread
                return bytes(found[:end])
            looked = len(found)
            if not part or looked >= max_bytes:
                self._unread = bytes(found) + self._unread
                if not part:
                    raise StreamEnded(f"{self.name} ended after {looked:,} bytes, without {delimiter!r}")
                raise DelimiterNotFound(f"{self.name} sent {max_bytes:,} bytes without {delimiter!r}")

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Awaited: send all of `data`. A send that is cut off in the middle breaks the stream: later uses raise
        `StreamClosed`."""
        view = data if type(data) is bytes else memoryview(data).cast("B")
        if self._sending:
            raise ScopeMisuse(f"{self.name}: two tasks sent at the same time; let one task send, or use a Lock")
        sent, size = 0, len(view)
        one: _Send | None = None
        self._sending = True
        try:
            while sent < size:
                one = _Send(self, memoryview(view)[sent:] if sent else view)
                sent += await one
        except BaseException:
            # TLS encrypts the data at the first try, and then accepts no other data before it is sent.
            begun = sent or (one is not None and one.tried and self._box.tls)
            if begun and not self._closed:
                self._closed = f"is broken: a send was cut off after {sent:,} of {size:,} bytes; close it"
            raise
        finally:
            self._sending = False

    async def send_eof(self) -> None:
        """Awaited: tell the peer that nothing more will be sent. Receiving still works. Not with TLS."""
        if self._box.tls:
            raise BursarError(f"{self.name}: a TLS stream ends in both directions at once; close it")
        if self._closed:
            raise StreamClosed(f"{self.name} {self._closed}")
        await Call("shutdown", "end a stream", self._box.shutdown_write)


def _positive(what: str, name: str, number: int) -> None:
    if type(number) is not int or number < 1:
        raise ValueError(f"{what}({name}={number!r}): must be a whole number, at least 1")
