"""The asyncio bridge: the wait of a Bursar task for an asyncio object, on the asyncio host (`hosts.asyncio`).

This file keeps ASYNCIO-1: the task continues only when the asyncio object is done. If the task is cancelled, it cancels
the asyncio object and waits for its end, for as long as its cleanup may take.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from bursar.backend import Kernel, Task, Wait
from bursar.drive.pump import Pump
from bursar.errors import CapabilityDenied, HostMisuse, ScopeMisuse, TaskCancelled
from bursar.law.capability import CapIO, require
from bursar.law.costs import SYSCALL, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.timers import Timer, TimerKind
from bursar.request import SUSPENDED, Request, loop_module
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.hosts.asyncio import AsyncioHost

loop_module(__name__)

T = TypeVar("T")


def from_asyncio(awaitable: Awaitable[T]) -> Request[T]:
    """Awaited by a Bursar task: the result of an asyncio coroutine, task or future.

    Needs `CapIO`, at the start and at the end, and costs a syscall. Raises what the awaitable raises; `TaskCancelled`
    if other code cancelled it; `HostMisuse` on another host, or for a future of another loop; `TypeError` for what
    asyncio cannot await.
    """
    hint = None
    if isinstance(awaitable, Request):
        awaitable.mark_used()  # one complaint is enough
        hint = "is a Bursar operation; await it directly"
    elif not (inspect.isawaitable(awaitable) or asyncio.isfuture(awaitable)):
        hint = "is not something that asyncio can await; pass a coroutine, an asyncio task or an asyncio future"
        if callable(awaitable):
            hint = "is a function; call it, and pass what it returns"
    if hint is not None:
        raise TypeError(f"from_asyncio: {brief(awaitable, repr)} {hint}")
    return _FromAsyncio(awaitable)


class _FromAsyncio(Request[T]):
    __slots__ = ("_awaitable", "_begun")
    cost: ClassVar[Cost] = SYSCALL

    def __init__(self, awaitable: Awaitable[T]) -> None:
        self._awaitable = awaitable
        self._begun = False

    def __await__(self) -> Generator[Request[Any], Any, T]:
        try:
            return (yield self)
        finally:  # refused, or cancelled before it began: no other code will await the coroutine
            if not self._begun and isinstance(self._awaitable, Coroutine):
                cast("Coroutine[Any, Any, T]", self._awaitable).close()

    def perform(self, kernel: Kernel, task: Task) -> Any:
        pump: Pump = kernel.runtime.pump
        host = cast("AsyncioHost", pump.host)
        if getattr(host, "asyncio_loop", None) is None:
            raise HostMisuse(
                f"task {task.name!r} awaits an asyncio object on host {host.name!r}, which has no asyncio loop; "
                "run the program with `await bursar.asyncio.run(main)`"
            )
        require(task, task.capabilities, CapIO, "wait for asyncio")
        future = self._begin(host, task)
        bridge = AsyncioBridge(task, pump, host, future, self._what())
        kernel.blocked(task, bridge)
        return SUSPENDED

    def _what(self) -> str:
        return brief(getattr(self._awaitable, "__qualname__", None) or type(self._awaitable).__qualname__)

    def _begin(self, host: AsyncioHost, task: Task) -> asyncio.Future[T]:
        """The future to wait for. A coroutine gets an asyncio task, in the context of the Bursar task."""
        begun, self._begun = self._begun, True
        if asyncio.isfuture(self._awaitable):
            future = cast("asyncio.Future[T]", self._awaitable)
            if future.get_loop() is not host.asyncio_loop:
                raise HostMisuse(f"task {task.name!r} awaits a future of another asyncio loop; await it in that loop")
            return future
        coroutine = self._awaitable
        if not inspect.iscoroutine(coroutine):
            coroutine = _await(coroutine)
        elif begun or coroutine in host.coroutines or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
            raise ScopeMisuse(
                f"task {task.name!r} awaits coroutine {self._what()!r} a second time; a coroutine runs once, "
                "so call its function again, or share an asyncio task"
            )
        host.coroutines.add(coroutine)
        # not loop.create_task: the loop's task factory may run the coroutine at once, inside this batch (ASYNCIO-2)
        return asyncio.Task(
            coroutine, loop=host.asyncio_loop, name=f"for Bursar task {task.name!r} ({task.id})", context=task.context
        )


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


class AsyncioBridge(Wait):
    """The wait of a Bursar task for an asyncio future, until the future is done (ASYNCIO-1)."""

    __slots__ = ("_abandoned", "_asked", "_awaited", "_future", "_host", "_pump", "_timer", "_what")
    interruptible = False

    def __init__(self, task: Task, pump: Pump, host: AsyncioHost, future: asyncio.Future[Any], what: str) -> None:
        super().__init__(task)
        self._pump = pump
        self._host = host
        self._future = future
        self._what = what
        self._asked = False  # whether the future was asked to stop
        self._awaited = True
        self._abandoned = False  # the end of the future is ignored
        self._timer: Timer | None = None  # limits how long the future may take to stop
        pump.sources += 1
        host.bridges[self] = None
        future.add_done_callback(self._ended, context=host.context)

    @property
    def reason(self) -> str:
        return f"waits for {self._what} of asyncio" + (", which was asked to stop" if self._asked else "")

    # ---- the Bursar side

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was cancelled: cancel the future. If the future takes too long to stop, the task is cut, as in any
        cleanup that takes too long."""
        kernel = cast("Kernel", kernel)
        task = self.task
        if task.cut:
            kernel.report("asyncio_abandoned", task, f"was cut off while {self._what} of asyncio went on")
            self.abandon()
            kernel.wake(task, self.generation)
            return
        self._ask_to_stop()
        if self._timer is None:
            self._timer = kernel.timers.arm(kernel.now_ns + kernel.cleanup_ns, TimerKind.CLEANUP, task)

    def abandon(self) -> None:
        """Stop waiting for the future: ask it to stop, and ignore its end."""
        self._abandoned = True
        self._ask_to_stop()
        self._leave()

    def withdraw(self, kernel: Dispatch) -> None:
        if self._timer is not None:
            kernel.timers.disarm(self._timer)
        self._leave()

    def _leave(self) -> None:
        if self._awaited:
            self._awaited = False
            self._pump.sources -= 1
            del self._host.bridges[self]

    # ---- the asyncio side

    def _ask_to_stop(self) -> None:
        self._asked = True
        why = f"Bursar task {self.task.name!r} was cancelled"
        self._host.asyncio_loop.call_soon(self._future.cancel, why, context=self._host.context)  # ASYNCIO-2

    def _ended(self, future: asyncio.Future[Any]) -> None:
        if isinstance(future, asyncio.Task):
            self._host.coroutines.discard(cast("Any", future.get_coro()))
        if not self._abandoned:
            self._pump.post(f"asyncio {self.task.id} {self.generation}", self._deliver)

    def _deliver(self) -> None:
        """At the beginning of a batch: the future is done, so the task continues."""
        kernel, task, future = self._pump.kernel, self.task, self._future
        if self._abandoned or self._pump.over:
            return
        if future.cancelled():
            if self._asked and task.cancel_pending:
                kernel.wake(task, self.generation)  # the task gets `Cancelled`
                return
            told = f"task {task.name!r} waited for {self._what} of asyncio, which other code cancelled there"
            self.refuse(kernel, TaskCancelled(f"{told}; if that is expected, catch this error"))
            return
        error = future.exception()
        try:
            require(task, task.capabilities, CapIO, f"take the result of {self._what} of asyncio")
        except CapabilityDenied as refused:
            kernel.note("capability_denied", task, refused)
            error = refused
        if error is not None:
            self.refuse(kernel, error)
        else:
            self.answer(kernel, future.result())
