"""Actors: a task with a bounded mailbox that takes one message at a time.

    async def counter(mailbox: Mailbox[int]) -> None:
        async for message in mailbox: ...

    ref = actor(nursery, counter, mailbox=100)       # or actor(supervisor, counter)
    await ref.send(3)

A full mailbox makes the sender wait: that is the back-pressure. `ask` sends a `Call` and waits for the answer. Under a
supervisor the mailbox survives a restart: the new task continues with the next message. Calls that the old task had
taken and not answered fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar, TypeVarTuple

from bursar.backend import Kernel, Wait, WaitList
from bursar.errors import BursarError, ChannelClosed
from bursar.law.budget import Budget
from bursar.law.dispatch import Dispatch
from bursar.law.state import Outcome
from bursar.ops.channel import ReceiveEnd, SendEnd, live_channel
from bursar.ops.classify import require_coroutine_function
from bursar.ops.nursery import Nursery
from bursar.ops.task import Task
from bursar.request import loop_module, running
from bursar.supervision.supervisor import Supervisor, check_profile
from bursar.tracebacks import hide_own_frames

loop_module(__name__)

M = TypeVar("M")
Ts = TypeVarTuple("Ts")


class Call:
    """A message that wants an answer. Answer it once, with `reply` or `fail`, which costs one op and one channel op.

    Attributes:
        payload: What was asked.
    """

    __slots__ = ("_answer", "_answered", "_taken_by", "payload")

    def __init__(self, payload: Any, answer: SendEnd[tuple[Any, BaseException | None]]) -> None:
        self.payload = payload
        self._answer = answer
        self._answered = False
        self._taken_by: dict[Call, None] | None = None  # the unanswered calls of the actor that has taken this call

    @property
    def answered(self) -> bool:
        """Whether the call was answered."""
        return self._answered

    def reply(self, value: Any) -> None:
        """Give the answer to the task that asked. If that task has ended, the answer is discarded."""
        self._answer_once(value, None)

    def fail(self, error: BaseException) -> None:
        """Raise `error` in the task that asked."""
        self._answer_once(None, error)

    def _answer_once(self, value: Any, error: BaseException | None) -> None:
        if self._answered:
            raise BursarError("this call was answered already")
        with contextlib.suppress(ChannelClosed):
            self._answer.send_nowait((value, error))
        self._close()

    def _close(self) -> None:
        """Close the call: no answer can follow."""
        self._answered = True
        self._answer.close()
        if self._taken_by is not None:
            self._taken_by.pop(self, None)


class Mailbox(Generic[M]):
    """What an actor reads: `async for message in mailbox`. `len(mailbox)` is the number of waiting messages."""

    __slots__ = ("_actor", "_receive")

    def __init__(self, receive: ReceiveEnd[M], actor: Actor[M]) -> None:
        self._receive = receive
        self._actor = actor

    async def receive(self) -> M:
        """Awaited: the next message. Raises `ChannelClosed` at the end."""
        message = await self._receive.receive()
        if isinstance(message, Call):
            self._actor._note_taken(message)
        return message

    def __len__(self) -> int:
        return len(self._receive)

    def __bool__(self) -> bool:
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M:
        try:
            return await self.receive()
        except ChannelClosed:
            raise StopAsyncIteration from None


class Actor(Generic[M]):
    """The address of an actor."""

    def __init__(self, kernel: Kernel, mailbox: int) -> None:
        self._kernel = kernel
        self._send, self._receive = live_channel(kernel, running(kernel, "actor()"), mailbox)
        self._taken: dict[Call, None] = {}
        self._current: Callable[[], Task[Any]] | None = None

    @property
    def task(self) -> Task[Any]:
        """The task that runs the actor now."""
        assert self._current is not None, "an actor is made by actor()"
        return self._current()

    async def send(self, message: M) -> None:
        """Awaited: put a message into the mailbox; waits while it is full. Raises `ChannelClosed` after the actor's
        end."""
        await self._send.send(message)

    def send_nowait(self, message: M) -> None:
        """Put a message in now, or raise `WouldBlock`."""
        self._send.send_nowait(message)

    async def ask(self, payload: Any) -> Any:
        """Awaited: send a `Call` and wait for its answer. Raises the error that the actor failed the call with.

        Raises `ChannelClosed` if the actor ends without answering. Needs `CapChannel`, because each answer uses a
        channel.
        """
        answer, result = live_channel(self._kernel, running(self._kernel, "ask()"), 1)
        with result:
            await self._send.send(Call(payload, answer))
            try:
                value, error = await result.receive()
            except ChannelClosed:
                raise ChannelClosed(f"actor {self.task.name!r} ended without answering") from None
        if error is None:
            return value
        try:
            raise error
        except BaseException:
            hide_own_frames(error)
            raise

    def close(self) -> None:
        """Send no more messages: the actor's loop ends when the mailbox is empty."""
        self._send.close()

    # ---- the actor's side

    def _run_by(self, current: Callable[[], Task[Any]]) -> None:
        self._current = current

    def _open_mailbox(self) -> Mailbox[M]:
        return Mailbox(self._receive, self)

    def _note_taken(self, call: Call) -> None:
        self._taken[call] = None
        call._taken_by = self._taken

    def _on_task_end(self, final: bool) -> None:
        """A task of the actor has ended: the calls that it had taken fail. `final`: the mailbox closes, and the calls
        in it fail too."""
        pending: list[object] = list(self._taken)
        self._taken.clear()
        if final:
            pending += self._receive._unread()
            self._receive.close()
        for call in pending:
            if isinstance(call, Call) and not call.answered:
                call._close()


class _EndNotice(Wait):
    """A waiter that is not a task: closes the mailbox when the actor's task ends."""

    __slots__ = ("_actor",)

    def __init__(self, actor: Actor[Any], task: Any) -> None:
        super().__init__(task)
        self._actor = actor

    def answer(self, kernel: Dispatch, value: Outcome) -> None:
        self._actor._on_task_end(final=True)


def actor(
    scope: Nursery | Supervisor,
    fn: Callable[[Mailbox[M], *Ts], Coroutine[Any, Any, Any]],
    *args: *Ts,
    mailbox: int = 64,
    name: str | None = None,
    budget: Budget | None = None,
) -> Actor[M]:
    """Start `fn(mailbox, *args)` as an actor in a nursery or under a supervisor, and return its `Actor`.

    `mailbox` is how many messages may wait, at least 1. Needs `CapSpawn`, `CapChannel`, and the profile `cluster` or
    `sovereign`.

    ```python
    import bursar


    async def counter(mailbox):
        total = 0
        async for message in mailbox:
            if isinstance(message, bursar.Call):
                message.reply(total)
            else:
                total += message


    async def main():
        async with bursar.nursery() as n:
            count = bursar.actor(n, counter)
            await count.send(2)
            await count.send(3)
            print(await count.ask("total"))
            count.close()


    bursar.run(main, profile="cluster")
    ```

    ```text
    5
    ```
    """
    if type(mailbox) is not int or mailbox < 1:
        raise ValueError(f"actor(mailbox={mailbox!r}): must be a whole number, at least 1")
    require_coroutine_function(fn)
    kernel = scope._inside()[0]
    check_profile(kernel, "actor()")
    made: Actor[M] = Actor(kernel, mailbox)
    title = name or getattr(fn, "__qualname__", repr(fn))
    if isinstance(scope, Supervisor):

        async def life() -> Any:
            return await fn(made._open_mailbox(), *args)

        child = scope._start_child(life, (), title, budget, None, "transient", made._on_task_end)
        made._run_by(lambda: child.task)
        return made
    task = scope.spawn(fn, made._open_mailbox(), *args, name=title, budget=budget)
    record = task._inside(kernel)
    record.waiters = WaitList()
    record.waiters.join(_EndNotice(made, record))
    made._run_by(lambda: task)
    return made
