"""Channels: pass values from task to task, in order, with a bounded buffer or none.

    send, receive = channel()        rendezvous: a send waits for its receiver
    send, receive = channel(10)      up to ten values wait in the buffer

The first task that awaits a channel, or one of its operations, binds the channel to its kernel. That task needs
`CapChannel`; after that, any task that holds an end may use it. `reserve` is the first half of a send: it waits for
room and returns a `Reservation`, an obligation, which later sends one value without waiting. Ends can be cloned. A side
is closed when all its clones are closed. Then senders get `ChannelClosed`, and so do receivers once the buffer is
empty. A place that was reserved before may still be used.

CHANNEL-1  a value or a place is promised only while buffered + reserved < capacity + waiting receivers
CHANNEL-2  a receiver waits only while nothing is buffered; values leave in the order in which they were accepted
CHANNEL-3  no task waits for a side that is closed

The code that runs at every message exists twice, here and in native/python/ops/channel. The rest is Python only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from bursar.backend import Kernel, Task, WaitList
from bursar.errors import BursarError, CapabilityDenied, ChannelClosed, ScopeMisuse, WouldBlock
from bursar.law.capability import CapChannel, require
from bursar.law.costs import CHANNEL, Cost
from bursar.law.obligation import Settled
from bursar.request import Entry, Operation, Request, loop_module, require_thread, running, where
from bursar.seam import accelerated

loop_module(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@accelerated(omits={"buffer"})
class ChannelCore(Generic[T]):
    """The state that both ends share, and the changes of it at every message."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.buffer: deque[T] = deque()
        self.senders = WaitList()  # sends and reservations, in one queue
        self.receivers = WaitList()
        self.reserved = 0
        self.send_ends = 0
        self.receive_ends = 0
        self.kernel: Kernel | None = None

    @property
    def buffered(self) -> int:
        """The number of values in the buffer."""
        return len(self.buffer)

    def drain(self) -> list[T]:
        """Take all values out of the buffer."""
        values = list(self.buffer)
        self.buffer.clear()
        return values

    def room(self) -> int:
        """How many more values could be accepted now (CHANNEL-1)."""
        return self.capacity + len(self.receivers) - len(self.buffer) - self.reserved

    def accept(self, value: T, sender: Task | None = None) -> None:
        """Accept a value; there must be room. It goes to the receiver that has waited longest, otherwise to the buffer.

        A task that selects both ends does not receive from itself.
        """
        for wait in self.receivers:
            if wait.task is not sender:
                self.receivers.leave(wait)
                wait.answer(self._live(), value)
                return
        self.buffer.append(value)

    def _next_sender(self) -> Entry | None:
        """The sender that has waited longest, of those that can be served now."""
        place = self.capacity > len(self.buffer) + self.reserved
        for entry in self.senders:
            if place or any(wait.task is not entry.task for wait in self.receivers):
                return cast("Entry", entry)
        return None

    def refill(self) -> None:
        """There may be room now: serve the waiting senders, oldest first."""
        while self.senders and self.room() > 0 and (entry := self._next_sender()) is not None:
            self.senders.leave(entry)
            operation = entry.operation
            if isinstance(operation, Send):
                self.accept(cast("Send[T]", operation).value, entry.task)
                entry.answer(self._live(), None)
            else:
                assert isinstance(operation, Reserve)
                entry.answer(self._live(), operation.grant(self._live(), entry.task))

    def _live(self) -> Kernel:
        assert self.kernel is not None, "only a bound channel has waiters"
        return self.kernel


class _Channel(ChannelCore[T]):
    """The beginning and the end of a channel."""

    _cap: CapChannel | None = None
    _label = "a channel"

    def __str__(self) -> str:
        return self._label

    def bind(self, kernel: Kernel, task: Task) -> None:
        """Bind the channel to `kernel` at its first use."""
        if self.kernel is kernel:
            return
        if self.kernel is not None:
            raise ScopeMisuse(f"task {task.name!r} used {self}, which belongs to another runtime")
        cap = require(task, task.capabilities, CapChannel, "make a channel")
        if cap.max_buffer is not None and self.capacity > cap.max_buffer:
            raise CapabilityDenied(
                f"task {task.name!r} may not make a channel with a buffer of {self.capacity}: "
                f"its CapChannel allows {cap.max_buffer}"
            )
        kernel.registry.acquire(task, cap, "max_channels", "make a channel")
        self.kernel = kernel
        self._cap = cap
        self._label = f"channel {kernel.new_id()}"

    def _release(self) -> None:
        cap, self._cap = self._cap, None  # first, so that it is released only once even if a later step fails
        if cap is not None and self.kernel is not None:
            self.kernel.registry.release(cap)

    def __del__(self) -> None:
        self._release()

    def closed_to(self, side: str) -> ChannelClosed:
        return ChannelClosed(f"{self} is closed: {side}")

    def closed_here(self) -> ChannelClosed:
        return ChannelClosed(f"this end of {self} was closed; close it after its last use, or give each task a clone")

    def close_if_unused(self) -> None:
        """An end was closed or a reservation ended: refuse the waits that can never end (CHANNEL-3)."""
        if self.kernel is None:
            return
        if not self.receive_ends:
            while self.senders:
                self.senders.take_oldest().refuse(self.kernel, self.closed_to("every receiving end is closed"))
        if not self.send_ends and not self.buffered and not self.reserved:
            while self.receivers:
                self.receivers.take_oldest().refuse(self.kernel, self.closed_to("every sending end is closed"))
        if not self.receive_ends and not self.send_ends and not self.reserved:
            self._release()

    def refuse_waiters(self, waiters: WaitList, end: _End[T]) -> None:
        """Refuse the waits on one closed end. Tasks that wait on its clones go on waiting."""
        if self.kernel is None or not end._waiting:
            return
        for wait in [w for w in waiters if isinstance(w, Entry) and getattr(w.operation, "end", None) is end]:
            waiters.leave(wait)
            wait.refuse(self.kernel, self.closed_here())


@accelerated
class EndCore(Generic[T]):
    """The state of an end."""

    __slots__ = ("_channel", "_open", "_waiting")

    def __init__(self, channel: _Channel[T]) -> None:
        self._channel = channel
        self._open = True
        self._waiting = False  # whether a task has ever waited on this end, not on a clone


class _End(EndCore[T]):
    """What sending and receiving ends have in common."""

    __slots__ = ()

    @property
    def closed(self) -> bool:
        """Whether this end is closed."""
        return not self._open

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_thread(self) -> None:
        if self._channel.kernel is not None:
            require_thread(self._channel.kernel, str(self._channel))

    def _payer(self) -> tuple[Kernel, Task]:
        """The running task, which pays for an operation that does not wait, and its kernel."""
        kernel = self._channel.kernel
        if kernel is None:
            raise ScopeMisuse(
                "no task has used this channel yet, so there is no task to bill: "
                "make it with `send, receive = await channel(n)`, or await send() or receive() once"
            )
        return kernel, running(kernel, str(self._channel))


@accelerated
class SendCore(EndCore[T]):
    """What the sending end does at every message."""

    __slots__ = ()

    def send(self, value: T) -> Send[T]:
        """Awaited: put a value in; waits for room, or without a buffer for a receiver. Raises `ChannelClosed`."""
        return Send(cast("SendEnd[T]", self), value)


class SendEnd(SendCore[T], _End[T]):
    """The end that values go into. Each operation costs one op and one channel op. `with send:` closes it."""

    __slots__ = ()

    def __init__(self, channel: _Channel[T]) -> None:
        super().__init__(channel)
        channel.send_ends += 1

    def reserve(self) -> Reserve[T]:
        """Awaited: wait for room and return a reservation, which sends one value later without waiting."""
        return Reserve(self)

    def send_nowait(self, value: T) -> None:
        """Put a value in now, or raise `WouldBlock`. Raises `ChannelClosed`, and `ScopeMisuse` if the channel is
        not attached."""
        channel = self._channel
        self._check()
        kernel, task = self._payer()
        if channel.room() <= 0:
            raise WouldBlock(f"{channel} has no room; await send(), or make the buffer larger")
        kernel.charge_now(task, CHANNEL)
        channel.accept(value)

    def clone(self) -> SendEnd[T]:
        """Another end of the same side. The side is closed when all its ends are closed."""
        self._require_thread()
        self._check()
        return SendEnd(self._channel)

    def close(self) -> None:
        """Close this end. Idempotent."""
        self._require_thread()
        if self._open:
            self._open = False
            self._channel.send_ends -= 1
            self._channel.refuse_waiters(self._channel.senders, self)
            self._channel.close_if_unused()

    def _check(self) -> None:
        if not self._open:
            raise self._channel.closed_here()
        if not self._channel.receive_ends:
            raise self._channel.closed_to("every receiving end is closed")


@accelerated
class ReceiveCore(EndCore[T]):
    """What the receiving end does at every message."""

    __slots__ = ()

    def receive(self) -> Receive[T]:
        """Awaited: the next value. Raises `ChannelClosed` when all sending ends are closed and no value is left."""
        return Receive(cast("ReceiveEnd[T]", self))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except ChannelClosed:
            if not self._open:
                raise
            raise StopAsyncIteration from None


class ReceiveEnd(ReceiveCore[T], _End[T]):
    """The end that values come out of. Each operation costs one op and one channel op.

    `async for value in receive` takes values until the channel is closed and empty. `len(receive)` is the number of
    values in the buffer.
    """

    __slots__ = ()

    def __init__(self, channel: _Channel[T]) -> None:
        super().__init__(channel)
        channel.receive_ends += 1

    def receive_nowait(self) -> T:
        """The next value now, or raise `WouldBlock`."""
        receive = Receive(self)
        receive.mark_used()
        kernel, task = self._payer()
        if not receive.possible():
            raise WouldBlock(f"{self._channel} has nothing to receive; await receive()")
        kernel.charge_now(task, CHANNEL)
        return receive.get()

    def clone(self) -> ReceiveEnd[T]:
        """Another end of the same side. The side is closed when all its ends are closed."""
        self._require_thread()
        if not self._open:
            raise self._channel.closed_here()
        return ReceiveEnd(self._channel)

    def close(self) -> None:
        """Close this end. Idempotent. Closing the last receiving end discards the buffered values."""
        self._require_thread()
        if self._open:
            self._open = False
            self._channel.receive_ends -= 1
            if not self._channel.receive_ends:
                self._channel.drain()
            self._channel.refuse_waiters(self._channel.receivers, self)
            self._channel.close_if_unused()

    def _unread(self) -> list[T]:
        """For Bursar's own modules: take all values out of the buffer, free of charge."""
        return self._channel.drain()

    def __len__(self) -> int:
        return self._channel.buffered

    def __bool__(self) -> bool:
        return True


class _SendSide(Operation[T_co], Generic[T_co, T]):
    """An operation that waits for room: a send or a reservation."""

    __slots__ = ("_channel", "end")

    def __init__(self, end: SendEnd[T]) -> None:
        self.end = end
        self._channel = end._channel

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self._channel.bind(kernel, task)
        return self.end.closed or not self._channel.receive_ends or self._channel.room() > 0

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self.end._waiting = True
        self._channel.senders.join(entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        self._channel.senders.leave(entry)


@accelerated
class Send(_SendSide[None, T]):
    """The request behind `SendEnd.send`."""

    __slots__ = ("value",)
    cost: ClassVar[Cost] = CHANNEL

    def __init__(self, end: SendEnd[T], value: T) -> None:
        super().__init__(end)
        self.value = value

    def why(self) -> str:
        return f"waits to send to {self._channel}"

    def take(self, kernel: Kernel, task: Task) -> None:
        self.end._check()
        self._channel.accept(self.value, task)


class Reserve(_SendSide["Reservation[T]", T]):
    """The request behind `SendEnd.reserve`."""

    __slots__ = ()
    cost: ClassVar[Cost] = CHANNEL

    def why(self) -> str:
        return f"waits to reserve a place in {self._channel}"

    def take(self, kernel: Kernel, task: Task) -> Reservation[T]:
        self.end._check()
        return self.grant(kernel, task)

    def grant(self, kernel: Kernel, task: Task) -> Reservation[T]:
        self._channel.reserved += 1
        return Reservation(self._channel, kernel, task)


class Reservation(Generic[T]):
    """A reserved place in a channel: send one value, or abort, before the task ends. `with` aborts if nothing was
    sent."""

    __slots__ = ("_channel", "_kernel", "_obligation")

    def __init__(self, channel: _Channel[T], kernel: Kernel, task: Task) -> None:
        self._channel = channel
        what = f"a reserved place in {channel}"
        self._kernel = kernel
        self._obligation = kernel.promise(task, what, where(task), self._give_back)

    def _give_back(self) -> None:
        self._channel.reserved -= 1
        self._channel.refill()
        self._channel.close_if_unused()

    def send(self, value: T) -> None:
        """Put the value in. Never waits, and costs nothing more. Raises `ChannelClosed` if no receiver is left."""
        require_thread(self._kernel, self._obligation.what)
        if self._obligation.settled is not Settled.OPEN:
            raise BursarError(f"{self._obligation.what} was {self._obligation.settled.name.lower()} already")
        if not self._channel.receive_ends:
            self._obligation.settle(Settled.ABORTED)
            raise self._channel.closed_to("every receiving end is closed")
        self._obligation.settle(Settled.COMMITTED)
        self._channel.reserved -= 1
        self._channel.accept(value)
        self._channel.close_if_unused()

    def abort(self) -> None:
        """Give the place back. Idempotent."""
        require_thread(self._kernel, self._obligation.what)
        if self._obligation.settled is Settled.OPEN:
            self._obligation.settle(Settled.ABORTED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()


@accelerated
class Receive(Operation[T]):
    """The request behind `ReceiveEnd.receive`."""

    __slots__ = ("_channel", "end")
    cost: ClassVar[Cost] = CHANNEL

    def __init__(self, end: ReceiveEnd[T]) -> None:
        self.end = end
        self._channel = end._channel

    def why(self) -> str:
        return f"waits to receive from {self._channel}"

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self._channel.bind(kernel, task)
        return self.possible()

    def possible(self) -> bool:
        """Whether `get` returns or raises at once, without waiting."""
        channel = self._channel
        if self.end.closed or channel.buffer or (not channel.send_ends and not channel.reserved):
            return True
        return bool(channel.senders) and self._sender_waits()

    def _sender_waits(self) -> bool:
        return isinstance(cast("Entry", self._channel.senders.oldest()).operation, Send)

    def get(self) -> T:
        channel = self._channel
        if self.end.closed:
            raise channel.closed_here()
        if channel.buffer:
            value = channel.buffer.popleft()
            channel.refill()
            channel.close_if_unused()
            return value
        if channel.senders and self._sender_waits():
            entry = cast("Entry", channel.senders.take_oldest())
            entry.answer(channel._live(), None)
            return cast("Send[T]", entry.operation).value
        raise channel.closed_to("every sending end is closed, and every value was received")

    def take(self, kernel: Kernel, task: Task) -> T:
        return self.get()

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self.end._waiting = True
        self._channel.receivers.join(entry)

    def enlisted(self, kernel: Kernel) -> None:
        self._channel.refill()  # a `reserve` may have waited for a receiver

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        self._channel.receivers.leave(entry)


class Channel(tuple[SendEnd[T], ReceiveEnd[T]]):
    """The two ends of a new channel. Unpack it; or await it first, to attach the channel to the runtime at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Request[Any], Any, Channel[T]]:
        yield from _Bind(self[0]._channel).__await__()
        return self


class _Bind(Request[None]):
    """Attach a channel to the runtime of the task."""

    __slots__ = ("_channel",)

    def __init__(self, channel: _Channel[Any]) -> None:
        self._channel = channel

    def perform(self, kernel: Kernel, task: Task) -> None:
        self._channel.bind(kernel, task)


def channel(buffer: int = 0) -> Channel[Any]:
    """A new channel: `send, receive = channel(buffer)`. Without a buffer each send waits for its receiver.

    The channel belongs to the runtime of the first task that awaits one of its operations, and that task needs
    `CapChannel`. `send, receive = await channel(buffer)` attaches it at once.

    ```python
    import bursar


    async def producer(send):
        with send:
            for number in range(3):
                await send.send(number)


    async def main():
        send, receive = bursar.channel(1)
        async with bursar.nursery() as n:
            n.spawn(producer, send)
            print([number async for number in receive])


    bursar.run(main)
    ```

    ```text
    [0, 1, 2]
    ```
    """
    if type(buffer) is not int or buffer < 0:
        raise ValueError(f"channel({buffer!r}): the buffer is a whole number of places, 0 for a rendezvous")
    state: _Channel[Any] = _Channel(buffer)
    return Channel((SendEnd(state), ReceiveEnd(state)))


def live_channel(kernel: Kernel, task: Task, buffer: int) -> Channel[Any]:
    """For Bursar's own modules: a channel that is bound to `kernel` at once, by `task`."""
    ends = channel(buffer)
    ends[0]._channel.bind(kernel, task)
    return ends
