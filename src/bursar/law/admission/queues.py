"""Queues: the tickets that wait for permission, their order, and which of them were overtaken.

Tickets with the same priority and the same demand form a *wait class*, first come, first served. All tickets of a class
age alike, so its first ticket is always its most urgent one. A choice looks only at the first ticket of each class: it
costs O(classes), however many tickets wait.

    order: higher effective priority (`law/admission/aging.py`), then the ticket that has waited longer

Each ticket that enters gets a `place`, a number that only grows. The ticket with the smaller place has waited longer.

A ticket is *starved* from the moment when a ticket of higher priority is admitted while it waits.

`WaitClass` and `QueuesCore` hold the tickets, and are C in the native kernel
(`native/python/law/admission/queues.c`). `QueueOrder` has the order; C has the same order in `gate_decide.c`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bursar.law.admission.aging import effective_priority

if TYPE_CHECKING:
    from bursar.law.admission.resources import Demand
    from bursar.law.admission.ticket import Ticket


class WaitClass:
    """The waiting tickets of one class, first come, first served; never empty."""

    __slots__ = ("members", "overtaken", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.overtaken: list[tuple[int, int]] = []  # (the last place that was overtaken, when)
        self.members: OrderedDict[Ticket, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self.members)

    @property
    def first(self) -> Ticket:
        return next(iter(self.members))

    @property
    def last(self) -> Ticket:
        return next(reversed(self.members))


class QueuesCore:
    """All tickets that wait for permission only, by class."""

    __slots__ = ("boost", "classes", "entered", "interval_ns", "length")

    def __init__(self, interval_ns: int, boost: int) -> None:
        self.interval_ns = interval_ns
        self.boost = boost  # per interval of waiting; 0: strict
        self.classes: dict[tuple[int, Demand], WaitClass] = {}
        self.entered = 0  # how many tickets ever entered
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def enter(self, ticket: Ticket) -> bool:
        """Add a ticket. Returns whether it is the first of its class."""
        self.entered += 1
        self.length += 1
        ticket.place = self.entered
        key = ticket.priority, ticket.demand
        wait_class = self.classes.get(key)
        first = wait_class is None
        if wait_class is None:
            wait_class = self.classes[key] = WaitClass(ticket.priority)
        wait_class.members[ticket] = None
        return first

    def leave(self, ticket: Ticket) -> None:
        key = ticket.priority, ticket.demand
        wait_class = self.classes[key]
        del wait_class.members[ticket]
        self.length -= 1
        if not wait_class.members:
            del self.classes[key]

    # ---- starvation

    def let_in(self, ticket: Ticket, now_ns: int) -> None:
        """A ticket is admitted: note that the waiting tickets of lower priority were overtaken."""
        for wait_class in self.classes.values():
            if wait_class.priority < ticket.priority:
                times = wait_class.overtaken
                if not times or times[-1][0] < wait_class.last.place:  # otherwise all of them were overtaken before
                    times.append((self.entered, now_ns))

    def starved_ns(self, ticket: Ticket, now_ns: int) -> int:
        """How long the ticket has waited since it was first overtaken."""
        times = self.classes[ticket.priority, ticket.demand].overtaken
        first = bisect_left(times, (ticket.place,))
        return now_ns - times[first][1] if first < len(times) else 0


def _strict_rank(ticket: Ticket) -> tuple[int, int]:
    """`Queues.rank` without aging: the same at any time."""
    return -ticket.priority, ticket.place


class QueueOrder(QueuesCore if TYPE_CHECKING else object):
    """The order of the waiting tickets. `backend` puts it on top of the `QueuesCore` in C."""

    def __iter__(self) -> Iterator[Ticket]:
        for wait_class in self.classes.values():
            yield from wait_class

    def lengths(self) -> dict[int, int]:
        """How many tickets wait, by priority, highest first."""
        counts = Counter[int]()
        for wait_class in self.classes.values():
            counts[wait_class.priority] += len(wait_class)
        return dict(sorted(counts.items(), reverse=True))

    def effective(self, ticket: Ticket, now_ns: int) -> int:
        """The priority that counts now."""
        return effective_priority(ticket.priority, now_ns - ticket.ready_ns, self.interval_ns, self.boost)

    def rank(self, ticket: Ticket, now_ns: int) -> tuple[int, int]:
        """The sort key of a ticket: the smaller one goes first."""
        wait_ns = now_ns - ticket.ready_ns
        return -effective_priority(ticket.priority, wait_ns, self.interval_ns, self.boost), ticket.place

    def firsts(self, now_ns: int) -> list[Ticket]:
        """The first ticket of each class, in order."""
        firsts = [wait_class.first for wait_class in self.classes.values()]
        if len(firsts) > 1:
            firsts.sort(key=(lambda ticket: self.rank(ticket, now_ns)) if self.boost else _strict_rank)
        return firsts

    def last(self, now_ns: int) -> Ticket:
        """The ticket that would be admitted after all others."""
        return max(
            (wait_class.last for wait_class in self.classes.values()), key=lambda ticket: self.rank(ticket, now_ns)
        )

    def ahead(self, ticket: Ticket, now_ns: int) -> list[Ticket]:
        """The tickets that go before this one, in order. It looks at every ticket, so it is for explanations only."""
        mine = self.rank(ticket, now_ns)
        ranked = [(self.rank(other, now_ns), other) for other in self]
        return [other for rank, other in sorted(ranked, key=lambda pair: pair[0]) if rank < mine]


class Queues(QueueOrder, QueuesCore):
    """The waiting tickets, in their order."""
