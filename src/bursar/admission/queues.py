"""Queues: who waits for permission, in which order, and who has been overtaken.

Tasks with the same priority and the same demand form a *class*, first come first served: all of a class age alike, so
its first is always its most urgent, and only the first of each class need be looked at. Choosing costs O(classes),
however many wait.

    effective priority = priority + floor(wait / interval) * boost        (boost 0: strict)
    order: higher effective priority, then who has waited longer

"Waited longer" is a number that the gate gives to whoever enters a queue; two are never equal.

A task is *starved* from the moment when one that entered with a higher priority was let in while it waited.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.admission.permit import Permit
    from bursar.admission.resources import Demand

Class = OrderedDict["Permit", None]


def _strict_rank(permit: Permit) -> tuple[int, int]:
    """`Queues.rank` without aging: the same at any time."""
    return -permit.priority, permit.place


class Queues:
    """All who have everything but permission."""

    def __init__(self, interval_ns: int, boost: int) -> None:
        self._interval_ns = interval_ns
        self._boost = boost
        self._classes: dict[tuple[int, Demand], Class] = {}
        self._overtaken: dict[int, list[tuple[int, int]]] = {}  # priority → up to which place, and when
        self._newest: dict[int, int] = {}  # priority → the place of the last one that entered
        self._levels: dict[int, int] = {}  # priority → how many wait
        self._entered = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Permit]:
        for members in self._classes.values():
            yield from members

    def lengths(self) -> dict[int, int]:
        """How many wait, by priority, highest first."""
        return dict(sorted(self._levels.items(), reverse=True))

    def enter(self, permit: Permit) -> bool:
        """Take it in. Whether it is the first of its class."""
        self._entered += 1
        permit.place = self._entered
        key = permit.priority, permit.demand
        members = self._classes.get(key)
        first = members is None
        if members is None:
            members = self._classes[key] = OrderedDict()
        members[permit] = None
        self._levels[permit.priority] = self._levels.get(permit.priority, 0) + 1
        self._newest[permit.priority] = permit.place
        self._length += 1
        return first

    def leave(self, permit: Permit) -> None:
        key = permit.priority, permit.demand
        members = self._classes[key]
        del members[permit]
        if not members:
            del self._classes[key]
        self._length -= 1
        level = self._levels[permit.priority] - 1
        if level:
            self._levels[permit.priority] = level
        else:
            del self._levels[permit.priority]
            del self._newest[permit.priority]
            self._overtaken.pop(permit.priority, None)

    # ---- order

    def effective(self, permit: Permit, now_ns: int) -> int:
        """The priority that counts."""
        if not self._boost:
            return permit.priority
        return permit.priority + (now_ns - permit.ready_ns) // self._interval_ns * self._boost

    def rank(self, permit: Permit, now_ns: int) -> tuple[int, int]:
        """Smaller goes first."""
        return -self.effective(permit, now_ns), permit.place

    def firsts(self, now_ns: int) -> list[Permit]:
        """The first of each class, in order."""
        firsts = [next(iter(members)) for members in self._classes.values()]
        if len(firsts) > 1:
            firsts.sort(key=(lambda permit: self.rank(permit, now_ns)) if self._boost else _strict_rank)
        return firsts

    def last(self, now_ns: int) -> Permit:
        """Who would be let in after all others."""
        return max((next(reversed(members)) for members in self._classes.values()), key=lambda p: self.rank(p, now_ns))

    def ahead(self, permit: Permit, now_ns: int) -> list[Permit]:
        """Who goes before it, in order. Looks at everybody: for explanations only."""
        mine = self.rank(permit, now_ns)
        ranked = [(self.rank(other, now_ns), other) for other in self]
        return [other for rank, other in sorted(ranked, key=lambda pair: pair[0]) if rank < mine]

    # ---- starvation

    def let_in(self, permit: Permit, now_ns: int) -> None:
        """Somebody was let in: those of lower priority that wait have been overtaken."""
        for level in self._levels:
            if level < permit.priority:
                times = self._overtaken.setdefault(level, [])
                if not times or times[-1][0] < self._newest[level]:  # else all who wait were overtaken before
                    times.append((self._entered, now_ns))

    def starved_ns(self, permit: Permit, now_ns: int) -> int:
        """For how long it has been waiting since it was first overtaken."""
        times = self._overtaken.get(permit.priority)
        if not times:
            return 0
        first = bisect_left(times, (permit.place,))
        return now_ns - times[first][1] if first < len(times) else 0
