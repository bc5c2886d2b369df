"""Blockers: what a task at a gate waits for. They come from the gate's own checks, so they are always true.

A `Blocker` is one thing that must change before the task can start. `ops/explain.py` makes the explanation of a task,
which lists the blockers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from bursar.law.admission.authority import Priority
from bursar.law.admission.resources import in_words
from bursar.law.admission.ticket import Ticket, TicketState
from bursar.text import counted

if TYPE_CHECKING:
    from bursar.law.admission.gate import Gate
    from bursar.law.task import Task

NAMED_MAX: Final = 8
LOOKED_AT_MAX: Final = 1000  # how many tasks an explanation looks at: people read it, and need only a few names

What = Literal["task", "slot", "resource", "reservation", "priority", "order", "pause", "time"]

# Ends the sentence "the task …" where nothing blocks it. WAITING and QUEUED always have a blocker.
_UNBLOCKED: Final = {
    TicketState.STOPPING: "was asked to stop before it was admitted",
    TicketState.LENT: "is admitted, and lends its slot while it waits for its children",
    TicketState.RETURNING: "asks for the slot that it lent",
    TicketState.DONE: "has ended",
}


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that a task waits for, and the tasks that have it. `str()` gives the text.

    `what` is `"task"` (a dependency), `"slot"`, `"resource"`, `"reservation"`, `"priority"` (tasks of a higher priority
    are ahead), `"order"` (tasks of the same priority are ahead), `"pause"` or `"time"` (the delay of a retry).
    """

    what: What
    text: str  # ends the sentence "the task …"
    tasks: tuple[str, ...] = ()  # the first few tasks that hold it up
    more: bool = False  # whether there are others
    resource: str = ""
    needed: int = 0
    free: int = 0
    since: float = 0.0  # from when on it waits for this, in seconds of the run's clock

    def __str__(self) -> str:
        if not self.tasks:
            return self.text
        return f"{self.text}: {', '.join(map(repr, self.tasks))}{' and more' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class Admission:
    """The state of a task at its gate."""

    state: str
    priority: int
    effective: int  # the priority that counts now
    queue: int | None  # how many tickets are in its queue; None: it is in no queue
    queue_name: str  # the name of the priority by which it is queued, "HIGH" or "70"; empty: it is in no queue
    ahead_higher: int  # how many tasks of a higher effective priority are ahead
    ahead_equal: int  # how many tasks of the same effective priority are ahead
    place: int | None  # its place in the queue, from 1
    waited: float  # seconds since it asked, or until it was admitted
    starved: float  # seconds since it was first overtaken by a higher priority
    attempt: int
    blockers: tuple[Blocker, ...]

    def __str__(self) -> str:
        blocked_by = "; ".join(map(str, self.blockers)) or _UNBLOCKED.get(
            TicketState[self.state.upper()], "is admitted"
        )
        place = f" (place {self.place:,} of {self.queue:,}, priority {self.queue_name}" if self.place else ""
        if place and self.effective != self.priority:
            place += f", by now {self.effective}"
        starved = f", starved for {self.starved:g} s" if place and self.starved else ""
        return blocked_by + (place + starved + ")" if place else "")


def named(tasks: Iterable[Task]) -> tuple[tuple[str, ...], bool]:
    """The first few names, and whether there are more."""
    names = tuple(task.name for task in itertools.islice(tasks, NAMED_MAX + 1))
    return names[:NAMED_MAX], len(names) > NAMED_MAX


def admission_of(ticket: Ticket, tasks: Iterable[Task], now_ns: int) -> Admission:
    """The state of a ticket. `tasks` are all live tasks; its dependencies are found among them."""
    gate = ticket.gate
    queued = ticket.state is TicketState.QUEUED
    ahead = gate.queues.ahead(ticket, now_ns) if queued else []
    effective = gate.queues.effective(ticket, now_ns) if queued else ticket.priority
    higher = [other for other in ahead if gate.queues.effective(other, now_ns) > effective]
    waited = (
        now_ns - ticket.entered_ns if ticket.state in (TicketState.WAITING, TicketState.QUEUED) else ticket.waited_ns
    )
    return Admission(
        ticket.state.name.lower(),
        ticket.priority,
        effective,
        len(gate.queues) if queued else None,
        _name_of(ticket.priority) if queued else "",
        len(higher),
        len(ahead) - len(higher),
        len(ahead) + 1 if queued else None,
        waited / 1e9,
        (gate.queues.starved_ns(ticket, now_ns) if queued else ticket.starved_ns) / 1e9,
        ticket.attempt,
        tuple(
            replace(blocker, since=_since_ns(ticket, blocker) / 1e9)
            for blocker in _blockers(gate, ticket, ahead, len(higher), tasks, now_ns)
        ),
    )


def _name_of(priority: int) -> str:
    """The name of a priority, or its number if it has none."""
    return next((named.name for named in Priority if named == priority), str(priority))


def _since_ns(ticket: Ticket, blocker: Blocker) -> int:
    if blocker.what == "pause" or ticket.state is TicketState.RETURNING:
        return ticket.task.since_ns
    return ticket.ready_ns if ticket.state is TicketState.QUEUED else ticket.entered_ns


def _blockers(
    gate: Gate, ticket: Ticket, ahead: list[Ticket], higher: int, tasks: Iterable[Task], now_ns: int
) -> Iterator[Blocker]:
    """What the ticket waits for. The first `higher` tickets of `ahead` have a higher priority, the others the same."""
    if ticket.paused:
        asked = ticket.pausing is not None
        yield Blocker("pause", "was asked to pause and has not come to a checkpoint yet" if asked else "is paused")
    match ticket.state:
        case TicketState.WAITING:
            if ticket.unmet:
                names, more = named(task for task in tasks if _precedes(task, ticket))
                yield Blocker("task", f"waits for {counted(ticket.unmet, 'task')}", names, more)
            if ticket.timer is not None:
                seconds = (ticket.timer.deadline_ns - now_ns) / 1e9
                yield Blocker("time", f"waits {seconds:g} s more before attempt {ticket.attempt}")
        case TicketState.QUEUED:
            yield from _short(gate, ticket)
            first = next(iter(gate.queues.firsts(now_ns)), None)
            if ahead and first is not ticket:
                if higher:
                    names, more = named(other.task for other in ahead[:higher])
                    yield Blocker("priority", f"comes after {higher:,} of higher priority", names, more)
                if equal := len(ahead) - higher:
                    names, more = named(other.task for other in ahead[higher:])
                    yield Blocker("order", f"comes after {equal:,} of the same priority", names, more)
        case TicketState.RETURNING:
            yield from _short(gate, ticket)
        case _:
            pass


def _short(gate: Gate, ticket: Ticket) -> Iterator[Blocker]:
    """What the ticket is short of, by the gate's own check."""
    demand = ticket.lent if ticket.state is TicketState.RETURNING else ticket.demand
    short = gate.resources.shortages(demand)
    for resource, needed, limit, taken in short:
        number = gate.resources.numbers[resource]
        names, more = named(other.task for other in gate.held if number in dict(other.kept()))
        text = f"needs {in_words(needed)} of {resource}, of which {in_words(taken)} of {in_words(limit)} are taken by"
        what: What = "slot" if resource == "slot" else "resource"
        if what == "slot":
            text = f"needs one of {limit:,} slots, all taken by"
        yield Blocker(what, text, names, more, resource, needed, max(limit - taken, 0))
    reserved = gate.reserved
    if not short and reserved is not None and reserved is not ticket:
        yield Blocker("reservation", "must leave what it needs to", (reserved.task.name,))


def remedies(tasks: Iterable[Task]) -> Iterator[str]:
    """For a deadlock: names each task that keeps resources which the task that it waits for needs, with advice."""
    for task in tasks:
        ticket = cast("Ticket | None", task.ticket)
        if ticket is not None and ticket.state in (TicketState.QUEUED, TicketState.RETURNING):
            for blocker in _short(ticket.gate, ticket):
                yield from _kept_from(ticket, blocker)


def _kept_from(ticket: Ticket, short: Blocker) -> Iterator[str]:
    resources, task = ticket.gate.resources, ticket.task
    number = resources.numbers.get(short.resource)
    if number is None:
        return  # a reservation blocks it, not a task that took something
    above = set(_outward(task))
    for holder in ticket.gate.held:
        keeps = dict(holder.kept()).get(number)
        if not keeps or (holder.task not in above and above.isdisjoint(_awaited(holder.task))):
            continue
        yield _advice(holder.task.name, keeps, task.name, short, resources.taken[number] + short.needed)


def _advice(holder: str, keeps: int, task: str, short: Blocker, enough: int) -> str:
    if short.what == "slot":
        return (
            f"task {holder!r} has one of the slots while it waits for task {task!r}, which needs one: wait for it at "
            f"the end of a nursery's block, where a place is lent, or state Authority(max_concurrent={enough})"
        )
    return (
        f"task {holder!r} keeps {in_words(keeps)} of {short.resource} while it waits for task {task!r}, which needs "
        f"{in_words(short.needed)}: let {holder!r} need less and a child of its own the rest, give its children a "
        f"gate of their own, or state more, Authority(resources={{{short.resource!r}: {enough}}})"
    )


def _outward(task: Task) -> Iterator[Task]:
    """The task, then the owners of the nurseries around it, which wait for it."""
    owner: Task | None = task
    while owner is not None:
        yield owner
        owner = owner.nursery.owner


def _awaited(task: Task) -> Iterable[Task]:
    return itertools.islice(task.wait.blockers(), LOOKED_AT_MAX) if task.wait is not None else ()


def _precedes(task: Task, ticket: Ticket) -> bool:
    other = cast("Ticket | None", task.ticket)
    return other is not None and (other.next is ticket or ticket in (other.successors or ()))
