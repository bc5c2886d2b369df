"""Queues: who waits for permission, in which order, and who has been overtaken.

Tasks with the same priority and the same demand form a *class*, first come first served: all of a class age alike, so
its first is always its most urgent, and only the first of each class need be looked at. Choosing costs O(classes),
however many wait.

    effective priority = priority + floor(wait / interval) * boost        (boost 0: strict)
    order: higher effective priority, then who has waited longer

"Waited longer" is a number that the gate gives to whoever enters a queue; two are never equal.

A task is *starved* from the moment when one that entered with a higher priority was let in while it waited.

Who waits, `Row` and `Rows`, is C in the native kernel (`native/python/law/admission/queues.c`); the order is here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.law.admission.resources import Demand
    from bursar.law.admission.ticket import Permit


class Row:
    """Those of one class who wait, first come first served; never empty."""

    __slots__ = ("members", "overtaken", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.overtaken: list[tuple[int, int]] = []  # up to which place, and when
        self.members: OrderedDict[Permit, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Permit]:
        return iter(self.members)

    @property
    def first(self) -> Permit:
        return next(iter(self.members))

    @property
    def last(self) -> Permit:
        return next(reversed(self.members))


class Rows:
    """All who have everything but permission, by their classes."""

    __slots__ = ("boost", "classes", "entered", "interval_ns", "length")

    def __init__(self, interval_ns: int, boost: int) -> None:
        self.interval_ns = interval_ns
        self.boost = boost  # per interval of waiting; 0: strict
        self.classes: dict[tuple[int, Demand], Row] = {}
        self.entered = 0  # how many ever did
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def enter(self, permit: Permit) -> bool:
        """Take it in. Whether it is the first of its class."""
        self.entered += 1
        self.length += 1
        permit.place = self.entered
        key = permit.priority, permit.demand
        row = self.classes.get(key)
        first = row is None
        if row is None:
            row = self.classes[key] = Row(permit.priority)
        row.members[permit] = None
        return first

    def leave(self, permit: Permit) -> None:
        key = permit.priority, permit.demand
        row = self.classes[key]
        del row.members[permit]
        self.length -= 1
        if not row.members:
            del self.classes[key]

    # ---- starvation

    def let_in(self, permit: Permit, now_ns: int) -> None:
        """Somebody is let in: those of lower priority that wait have been overtaken."""
        for row in self.classes.values():
            if row.priority < permit.priority:
                times = row.overtaken
                if not times or times[-1][0] < row.last.place:  # else all who wait were overtaken before
                    times.append((self.entered, now_ns))

    def starved_ns(self, permit: Permit, now_ns: int) -> int:
        """For how long it has been waiting since it was first overtaken."""
        times = self.classes[permit.priority, permit.demand].overtaken
        first = bisect_left(times, (permit.place,))
        return now_ns - times[first][1] if first < len(times) else 0


def _strict_rank(permit: Permit) -> tuple[int, int]:
    """`Queues.rank` without aging: the same at any time."""
    return -permit.priority, permit.place


class QueueOrder(Rows if TYPE_CHECKING else object):
    """The order of those who wait. `backend` puts it on top of the `Rows` in C."""

    def __iter__(self) -> Iterator[Permit]:
        for row in self.classes.values():
            yield from row

    def lengths(self) -> dict[int, int]:
        """How many wait, by priority, highest first."""
        counts = Counter[int]()
        for row in self.classes.values():
            counts[row.priority] += len(row)
        return dict(sorted(counts.items(), reverse=True))

    def effective(self, permit: Permit, now_ns: int) -> int:
        """The priority that counts."""
        if not self.boost:
            return permit.priority
        return permit.priority + (now_ns - permit.ready_ns) // self.interval_ns * self.boost

    def rank(self, permit: Permit, now_ns: int) -> tuple[int, int]:
        """Smaller goes first."""
        return -self.effective(permit, now_ns), permit.place

    def firsts(self, now_ns: int) -> list[Permit]:
        """The first of each class, in order."""
        firsts = [row.first for row in self.classes.values()]
        if len(firsts) > 1:
            firsts.sort(key=(lambda permit: self.rank(permit, now_ns)) if self.boost else _strict_rank)
        return firsts

    def last(self, now_ns: int) -> Permit:
        """Who would be let in after all others."""
        return max((row.last for row in self.classes.values()), key=lambda permit: self.rank(permit, now_ns))

    def ahead(self, permit: Permit, now_ns: int) -> list[Permit]:
        """Who goes before it, in order. Looks at everybody: for explanations only."""
        mine = self.rank(permit, now_ns)
        ranked = [(self.rank(other, now_ns), other) for other in self]
        return [other for rank, other in sorted(ranked, key=lambda pair: pair[0]) if rank < mine]


class Queues(QueueOrder, Rows):
    """Those who wait, in their order."""
