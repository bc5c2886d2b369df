"""Waking: merges many wakes into one queue entry. `Wait` says what a task waits for.

    IDLE ──notify──► QUEUED ──dispatch──► RUNNING ──notify──► RUNNING_WOKEN
     ▲                 ▲                    │ poll ends             │ poll ends
     └─────────────────┼────── blocks ──────┘                       │
                       └──────────────── queued again ◄─────────────┘      DONE absorbs everything

A *generation* is the number of a task's poll. A wake names a task and a generation. It counts only for the wait that
ended this poll. A wake for a finished task or an older generation becomes a `stale_wake` record, never an error. A
second wake in one generation changes nothing.

Rejected: queueing a task twice, and ignoring the second entry when its turn comes. The queue would be as long as the
number of wakes, so an attacker could fill it with wakes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bursar.text import NamedInt

if TYPE_CHECKING:
    from bursar.law.dispatch import Dispatch
    from bursar.law.task import Task
    from bursar.law.timers import Timer


class WakeState(NamedInt):
    """Whether a task has a queue entry, runs, or was woken while it runs."""

    IDLE = 0
    QUEUED = 1
    RUNNING = 2
    RUNNING_WOKEN = 3
    DONE = 4


class Notice(NamedInt):
    """The effect of a wake."""

    ENQUEUE = 0  # the caller must put the task in a lane
    MERGED = 1  # an earlier wake of this generation has queued the task already
    NOTED = 2  # the task runs or is paused: it is queued when the poll or the pause ends
    STALE = 3  # the task is finished, or in another generation


def notify(task: Task, generation: int) -> Notice:
    """Take one wake. Returns its effect; on ENQUEUE the caller must queue the task."""
    if task.wake is WakeState.DONE or generation != task.generation:
        return Notice.STALE
    match task.wake:
        case WakeState.IDLE:
            if task.wait is None:
                return Notice.STALE  # the task is on hold: only a recharge ends that, not a wake
            task.wake = WakeState.QUEUED
            return Notice.ENQUEUE
        case WakeState.RUNNING:
            task.wake = WakeState.RUNNING_WOKEN
            return Notice.NOTED
        case _:
            return Notice.MERGED


def begin_poll(task: Task) -> None:
    """The task's queue entry was taken: a new generation starts."""
    task.wake = WakeState.RUNNING
    task.generation += 1


def end_poll(task: Task) -> bool:
    """The task stops running and waits. Returns True if it was woken during the poll and must be queued at once."""
    woken = task.wake is WakeState.RUNNING_WOKEN
    task.wake = WakeState.QUEUED if woken else WakeState.IDLE
    return woken


class _Suspended:
    """The type of `SUSPENDED`."""

    __slots__ = ()


SUSPENDED: Final = _Suspended()  # what `Request.perform` returns when the poll is over


class Wait:
    """The wait of one task for one thing. Made when the task blocks; `withdraw` may be called more than once.

    The object that the task waits for holds the wait, and ends it: `answer` with a result, `refuse` with an error.
    """

    __slots__ = ("generation", "task")

    interruptible: bool = True  # False: a cancel request is noted, but does not end this wait

    def __init__(self, task: Task) -> None:
        self.task = task
        self.generation = task.generation  # an answer that comes after this poll's wait is stale

    @property
    def reason(self) -> str:
        """Why the task waits: text that completes the sentence "the task …"."""
        raise NotImplementedError

    def withdraw(self, kernel: Dispatch) -> None:
        """Leave every queue that this wait is still in."""

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was asked to stop, or was cut, and this wait is not interruptible. The wait may end itself."""

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        """A timer that this wait armed has fired. The kernel wakes the task; the wait does the rest here."""
        self.withdraw(kernel)

    def answer(self, kernel: Dispatch, value: Any) -> None:
        """The operation took effect: resume the task with its result."""
        kernel.wake(self.task, self.generation, value=value, effect=True)

    def refuse(self, kernel: Dispatch, error: BaseException) -> None:
        """The operation is impossible: resume the task with an error."""
        kernel.wake(self.task, self.generation, error=error)

    def blockers(self) -> Iterable[Task]:
        """The tasks that can end this wait, as far as that is known, for the wait graph."""
        return ()


class WaitList(OrderedDict[Wait, None]):
    """Waits for one thing, oldest first, with O(1) removal from anywhere.

    Invariant: the `withdraw` of a wait removes it from this list. Most waits belong to a BLOCKED task. The others only
    call a function of Bursar.
    """

    def join(self, wait: Wait) -> None:
        self[wait] = None

    def leave(self, wait: Wait) -> None:
        self.pop(wait, None)

    def oldest(self) -> Wait:
        return next(iter(self))

    def take_oldest(self) -> Wait:
        return self.popitem(last=False)[0]
