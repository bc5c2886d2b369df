"""Waking: how many wakes become one queue entry, and what a task waits for.

    IDLE ──notify──► QUEUED ──dispatch──► RUNNING ──notify──► RUNNING_WOKEN
     ▲                 ▲                    │ poll ends             │ poll ends
     └─────────────────┼────── blocks ──────┘                       │
                       └──────────────── queued again ◄─────────────┘      DONE absorbs everything

A *generation* is the number of a task's poll. Whoever wants to wake a task holds (task, generation): the
wake counts for the wait that this poll ends in and for no other. A wake for a finished task or an older
generation is a `stale_wake` record, never an error; a second wake in one generation changes nothing.

Rejected: queueing a task twice and ignoring the second entry when it comes up. It makes the queue as long as
the wake storm, and the storm is the attack.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bursar.law.dispatch import Dispatch
    from bursar.law.task import Task
    from bursar.law.timers import Timer


class WakeState(IntEnum):
    """Where a task stands with respect to its wakes."""

    IDLE = 0
    QUEUED = 1
    RUNNING = 2
    RUNNING_WOKEN = 3
    DONE = 4


class Notice(IntEnum):
    """What a wake came to."""

    ENQUEUE = 0  # the caller must put the task in a lane
    MERGED = 1  # an earlier wake of this generation already did
    NOTED = 2  # it runs: it will be queued again when the poll ends
    STALE = 3  # finished, or another generation


def notify(task: Task, generation: int) -> Notice:
    """Take one wake. Only ENQUEUE asks the caller to do anything."""
    if task.wake is WakeState.DONE or generation != task.generation:
        return Notice.STALE
    match task.wake:
        case WakeState.IDLE:
            if task.wait is None:
                return Notice.STALE  # it waits for nothing that a wake could end: on hold, a wake is no recharge
            task.wake = WakeState.QUEUED
            return Notice.ENQUEUE
        case WakeState.RUNNING:
            task.wake = WakeState.RUNNING_WOKEN
            return Notice.NOTED
        case _:
            return Notice.MERGED


def begin_poll(task: Task) -> None:
    """The one entry was taken: a new generation starts."""
    task.wake = WakeState.RUNNING
    task.generation += 1


def end_poll(task: Task) -> bool:
    """The task stops running and waits. True: it was woken meanwhile and must be queued at once."""
    woken = task.wake is WakeState.RUNNING_WOKEN
    task.wake = WakeState.QUEUED if woken else WakeState.IDLE
    return woken


class _Suspended:
    """The type of `SUSPENDED`."""

    __slots__ = ()


SUSPENDED: Final = _Suspended()  # what performing a request gives when the poll is over


class Wait:
    """One task waiting for one thing. Made when it blocks; `withdraw` may be called more than once.

    Whoever can end the wait holds this object: `answer` with a result, `refuse` with an error.
    """

    __slots__ = ("generation", "task")

    interruptible: bool = True  # False: cancellation is noted, but does not end this wait

    def __init__(self, task: Task) -> None:
        self.task = task
        self.generation = task.generation  # an answer that comes after this poll's wait is stale

    @property
    def reason(self) -> str:
        """A human sentence that completes "the task …"."""
        raise NotImplementedError

    def withdraw(self, kernel: Dispatch) -> None:
        """Leave every queue, if still in one."""

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was asked to stop, or cut off, and this wait is not interruptible: it may see to its own end."""

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        """A timer that this wait armed has fired. The kernel wakes the task; settle the rest here."""
        self.withdraw(kernel)

    def answer(self, kernel: Dispatch, value: Any) -> None:
        """The operation took effect: the task resumes with its result."""
        kernel.wake(self.task, self.generation, value=value, effect=True)

    def refuse(self, kernel: Dispatch, error: BaseException) -> None:
        """The operation cannot be: the task resumes with an error."""
        kernel.wake(self.task, self.generation, error=error)

    def blockers(self) -> Iterable[Task]:
        """The tasks that this wait is known to depend on, for the wait graph."""
        return ()


class WaitList(OrderedDict[Wait, None]):
    """Waits for one thing, oldest first, with O(1) removal from anywhere.

    Invariant: every wait in it is that of a BLOCKED task and withdraws from this list.
    """

    def join(self, wait: Wait) -> None:
        self[wait] = None

    def leave(self, wait: Wait) -> None:
        self.pop(wait, None)

    def oldest(self) -> Wait:
        return next(iter(self))

    def take_oldest(self) -> Wait:
        return self.popitem(last=False)[0]
