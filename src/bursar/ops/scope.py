"""Blocks that change how cancellation reaches a task: `timeout` and `shield`.

Both open a cancel scope when the block is entered, and leave it when the block ends, without waiting.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Self

from bursar.backend import CancelScope, Kernel, Task
from bursar.errors import Cancelled, ScopeMisuse
from bursar.law.cancel import CancelPhase
from bursar.law.capability import CapTimer, require
from bursar.law.timers import TimerKind, to_ns
from bursar.request import Request, loop_module

loop_module(__name__)


class _Enter(Request[tuple[Kernel, CancelScope]]):
    __slots__ = ("_shielded", "_timeout_ns")
    timed: ClassVar[bool] = True
    keyword: ClassVar[str] = "async with"

    def __init__(self, timeout_ns: int | None, shielded: bool) -> None:
        self._timeout_ns = timeout_ns
        self._shielded = shielded

    def perform(self, kernel: Kernel, task: Task) -> tuple[Kernel, CancelScope]:
        if self._timeout_ns is not None:
            require(task, task.capabilities, CapTimer, "set a timeout")
        block = CancelScope(task)
        block.shielded = self._shielded
        kernel.note("scope_opened", task, block)
        if self._timeout_ns is not None:
            deadline_ns = kernel.now_ns + self._timeout_ns
            try:
                block.timer = kernel.timers.arm(deadline_ns, TimerKind.DEADLINE, task, block)
            except BaseException:  # no memory: the block is not entered, so nothing else would leave the scope
                kernel.leave_scope(block)
                raise
        return kernel, block


class _ScopeBlock:
    """The common part of `Timeout` and `Shield`: a request enters the scope, and the block's end leaves it at once."""

    def __init__(self, timeout_ns: int | None, shielded: bool) -> None:
        self._enter = _Enter(timeout_ns, shielded)
        self._entered: tuple[Kernel, CancelScope] | None = None

    async def __aenter__(self) -> Self:
        if self._entered is not None:
            raise ScopeMisuse(f"this {type(self).__name__.lower()} is in use already; make a new one for each block")
        self._entered = await self._enter
        return self

    def _delivered(self) -> bool:
        return self._entered is not None and self._entered[1].phase is CancelPhase.DRAINING

    def _leave(self) -> CancelScope:
        if self._entered is None:
            kind = type(self).__name__.lower()
            self._enter.mark_used()  # one complaint is enough
            raise ScopeMisuse(f"this {kind} was left without having been entered; write `async with {kind}(...):`")
        kernel, block = self._entered
        kernel.leave_scope(block)
        self._entered = None
        return block


class Timeout(_ScopeBlock):
    """`async with timeout(s):` raises `TimeoutError` if the block is not done in time."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(None if seconds is None else to_ns(seconds, "timeout"), shielded=False)
        self._seconds = seconds
        self.expired = False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        delivered = self._delivered()
        block = self._leave()
        self.expired = delivered and block.reason is not None
        if isinstance(error, Cancelled) and error.reason is block.reason:
            raise TimeoutError(f"task {block.task.name!r} did not finish the block within {self._seconds} s") from None


class Shield(_ScopeBlock):
    """`async with shield():` keeps cancellation from outside waiting until the block ends."""

    def __init__(self) -> None:
        super().__init__(None, shielded=True)

    async def __aexit__(self, *_: Any) -> None:
        self._leave()


def timeout(seconds: float | None) -> Timeout:
    """A block that must end within `seconds`: `async with timeout(s) as t:`. None sets no limit.

    If the block is not done in time, it raises `TimeoutError`, and `t.expired` is true. Entering needs `CapTimer`,
    leaving is free. Do not hold a timeout open around the `yield` of an async generator, unless the generator is sure
    to be closed.

    ```python
    import bursar


    async def main():
        try:
            async with bursar.timeout(5):
                await bursar.sleep(60)
        except TimeoutError as late:
            print(late)


    bursar.run(main, clock="virtual")
    ```

    ```text
    task 'main' did not finish the block within 5 s
    ```
    """
    return Timeout(seconds)


def shield() -> Shield:
    """A block that delays cancellation from outside: `async with shield():`.

    The cancellation is delivered at the next await after the block. Timeouts and nurseries inside the block still
    work. A shield does not protect a task that is on hold because its budget is spent.
    """
    return Shield()
