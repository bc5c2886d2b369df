"""Timers: one heap, ordered by (deadline, timer id, generation).

Timers that are due together fire in this order, on every host. A timer runs no code: firing it enqueues a wake or a
cancel request. Disarming costs O(1), because the dead entry stays in the heap. The heap is rebuilt when dead entries
outnumber live ones, so timeouts that never expire do not fill it. If a host reports a timer that is no longer armed,
the kernel writes a `stale_timer` record.

No deadline is later than `TIME_END_NS`, so that every time fits an integer of C.

Rejected: a timing wheel. Inside a slot, it fires in the order of insertion; Bursar's order must follow from the key.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bursar.law.chain import MASK64
from bursar.text import NamedInt

if TYPE_CHECKING:
    from bursar.law.cancel import Scope
    from bursar.law.task import Task

NS: Final = 1_000_000_000
SECONDS_MAX: Final = 1e9  # thirty years: a longer time is a mistake
TIME_END_NS: Final = 2**63 - 1  # 292 years after the run began
COMPACT_MIN = 64  # below this many dead entries a rebuild costs more than it saves


def to_ns(seconds: float, what: str) -> int:
    """Seconds in nanoseconds. Raises TypeError for what is no number, and ValueError below 0 and above SECONDS_MAX."""
    try:
        in_range = 0 <= seconds <= SECONDS_MAX and not math.isnan(seconds)
    except TypeError:
        raise TypeError(f"{what}({seconds!r}): give the seconds as a number") from None
    if not in_range:
        raise ValueError(f"{what}({seconds!r}): must be between 0 and {SECONDS_MAX:g} seconds")
    return round(seconds * NS)


class TimerKind(NamedInt):
    """What a timer does when it fires."""

    WAKE = 0  # wake the task that sleeps
    DEADLINE = 1  # request cancellation of the scope
    CLEANUP = 2  # the task overran its cleanup
    PERMIT = 3  # the task's ticket has waited long enough


class Timer:
    """One timer."""

    __slots__ = ("armed", "deadline_ns", "generation", "id", "kind", "scope", "task")

    def __init__(
        self, id: int, deadline_ns: int, kind: TimerKind, task: Task, scope: Scope | None, generation: int
    ) -> None:
        self.id = id
        self.deadline_ns = deadline_ns
        self.kind = kind
        self.task = task
        self.scope = scope
        self.generation = generation
        self.armed = True


class Timers:
    """The heap of armed timers.

    An entry is one number that holds deadline and timer id. It has the order of the pair, compares in one step, and
    the collector need not visit it. No two timers share an id, so the generation never decides.

    Invariant: len(self) is the number of armed timers; dead entries never outnumber them by COMPACT_MIN.
    """

    __slots__ = ("_by_id", "_heap", "_next_id", "observer")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._by_id: dict[int, Timer] = {}
        self._next_id = 1
        self.observer: Callable[[str, Task | None, Any], None] | None = None  # see `law.dispatch`

    def __len__(self) -> int:
        return len(self._by_id)

    def arm(self, deadline_ns: int, kind: TimerKind, task: Task, scope: Scope | None = None) -> Timer:
        if deadline_ns > TIME_END_NS:
            deadline_ns = TIME_END_NS
        timer = Timer(self._next_id, deadline_ns, kind, task, scope, task.generation)
        self._next_id += 1
        self._by_id[timer.id] = timer
        heapq.heappush(self._heap, deadline_ns << 64 | timer.id)
        if self.observer is not None:
            self.observer("timer_armed", task, timer)
        return timer

    def disarm(self, timer: Timer) -> None:
        """Idempotent: a timer that fired or was disarmed before stays as it is."""
        if timer.armed:
            self._drop(timer)
            if self.observer is not None:
                self.observer("timer_disarmed", timer.task, timer)

    def find(self, id: int, generation: int) -> Timer | None:
        """The armed timer with this id and generation, or None if it is no longer armed."""
        timer = self._by_id.get(id)
        return timer if timer is not None and timer.generation == generation else None

    def next_deadline_ns(self) -> int | None:
        while self._heap and self._heap[0] & MASK64 not in self._by_id:
            heapq.heappop(self._heap)
        return self._heap[0] >> 64 if self._heap else None

    def next(self) -> Timer | None:
        """The timer that is due first."""
        return None if self.next_deadline_ns() is None else self._by_id[self._heap[0] & MASK64]

    def pop_due(self, now_ns: int) -> Timer | None:
        """Disarm and return the next due timer; None if no timer is due."""
        deadline_ns = self.next_deadline_ns()
        if deadline_ns is None or deadline_ns > now_ns:
            return None
        timer = self._by_id[heapq.heappop(self._heap) & MASK64]
        self._drop(timer)
        return timer

    def _drop(self, timer: Timer) -> None:
        timer.armed = False
        del self._by_id[timer.id]
        dead = len(self._heap) - len(self._by_id)
        if dead > len(self._by_id) + COMPACT_MIN:
            self._heap = [entry for entry in self._heap if entry & MASK64 in self._by_id]
            heapq.heapify(self._heap)
