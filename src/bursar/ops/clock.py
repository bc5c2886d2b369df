"""Requests about time: `sleep`, `sleep_until`, `now`. They use seconds; the law uses whole nanoseconds.

The clock shows 0 when the run begins. Sleeping needs `CapTimer`, and reading the clock needs `CapClock`. A virtual
clock advances only when no task is runnable, so a test of a program that sleeps for an hour takes no time.
"""

from __future__ import annotations

from typing import ClassVar

from bursar.backend import Kernel, Task
from bursar.law.capability import CapClock, CapTimer, require
from bursar.law.timers import NS, TIME_END_NS, TimerKind, to_ns
from bursar.request import SUSPENDED, Entry, Operation, Request, loop_module
from bursar.seam import accelerated, expose_to_c

loop_module(__name__)


def why_sleep(ns: int, absolute: bool) -> str:
    return f"sleeps until {ns / NS:g} s" if absolute else f"sleeps for {ns / NS:g} s"


expose_to_c(why_sleep=why_sleep, to_ns=to_ns)


@accelerated
class _Sleep(Operation[None]):
    __slots__ = ("_absolute", "_ns")
    timed: ClassVar[bool] = True

    def __init__(self, ns: int, absolute: bool) -> None:
        self._ns = ns
        self._absolute = absolute

    def why(self) -> str:
        return why_sleep(self._ns, self._absolute)

    def _deadline_ns(self, kernel: Kernel) -> int:
        return self._ns if self._absolute else min(kernel.now_ns + self._ns, TIME_END_NS)

    def ready(self, kernel: Kernel, task: Task) -> bool:
        require(task, task.capabilities, CapTimer, "sleep")
        return self._deadline_ns(kernel) <= kernel.now_ns

    def take(self, kernel: Kernel, task: Task) -> None:
        """The deadline has passed."""

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        entry.token = kernel.timers.arm(self._deadline_ns(kernel), TimerKind.WAKE, entry.task)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        kernel.timers.disarm(entry.token)

    def perform(self, kernel: Kernel, task: Task) -> object:
        if self.ready(kernel, task):  # a sleep of zero length still yields
            kernel.yielded(task)
            return SUSPENDED
        return super().perform(kernel, task)


@accelerated
def sleep(seconds: float) -> Operation[None]:
    """Awaited: wait for at least `seconds`. `sleep(0)` yields once, like `checkpoint()`. Needs `CapTimer`."""
    return _Sleep(to_ns(seconds, "sleep"), False)


def sleep_until(seconds: float) -> Operation[None]:
    """Awaited: wait until the clock of the run shows `seconds`. Needs `CapTimer`."""
    return _Sleep(to_ns(seconds, "sleep_until"), True)


class _Now(Request[float]):
    __slots__ = ()
    timed: ClassVar[bool] = True

    def perform(self, kernel: Kernel, task: Task) -> float:
        require(task, task.capabilities, CapClock, "read the clock")
        return kernel.now_ns / NS


def now() -> Request[float]:
    """Awaited: seconds since the run began, as of the last time that the scheduler read the clock. Needs
    `CapClock`."""
    return _Now()
