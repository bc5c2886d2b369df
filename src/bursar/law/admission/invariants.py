"""Checks the numbered invariants of admission on the whole state. The order of admission is written here a second
time, in a slow and simple way.

Like `law.invariants`, which does not check gates, it costs O(everything) and runs only in tests, after every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from bursar.law.admission.gate import Gate
from bursar.law.admission.resources import Demand, Resources
from bursar.law.admission.ticket import Ticket, TicketState
from bursar.law.kernel import Kernel
from bursar.law.state import State

_ADMITTED = (TicketState.ADMITTED, TicketState.LENT, TicketState.RETURNING)
_STATES: dict[TicketState, frozenset[State]] = {
    TicketState.WAITING: frozenset({State.PENDING, State.PAUSED}),
    TicketState.QUEUED: frozenset({State.PENDING}),
    TicketState.STOPPING: frozenset({State.READY, State.RUNNING}),
    TicketState.ADMITTED: frozenset({State.READY, State.RUNNING, State.BLOCKED, State.EXHAUSTED}),
    TicketState.LENT: frozenset(State) - {State.PENDING, State.DONE},
    TicketState.RETURNING: frozenset(State) - {State.PENDING, State.DONE},
}


def check(kernel: Kernel) -> None:
    """Raise AssertionError if any invariant of a gate does not hold between two calls of the kernel."""
    tickets = list(_tickets(kernel))
    for gate in gates_of(kernel):
        _lists(gate, [ticket for ticket in tickets if ticket.gate is gate])
        _resources(gate)
        left = would_let_in(gate, gate.last_pass_ns)
        assert left is None, f"GATE-2: {left} may be admitted, but waits"
    _graph(tickets)
    for ticket in tickets:
        _ticket_and_task(kernel, ticket)


def gates_of(kernel: Kernel) -> list[Gate]:
    """All gates that are in use."""
    gates: dict[Gate, None] = {kernel.gate: None} if kernel.gate is not None else {}
    for task in kernel.tasks.values():
        gates.update((nursery.gate, None) for nursery in (task.owned or {}).values() if nursery.gate is not None)
    return list(gates)


def _tickets(kernel: Kernel) -> Iterator[Ticket]:
    for task in kernel.tasks.values():
        ticket = cast("Ticket | None", task.ticket)
        if ticket is not None:
            assert ticket.task is task, f"{ticket} is not that of {task}"
            yield ticket


def _lists(gate: Gate, tickets: list[Ticket]) -> None:
    """GATE-3: every ticket is in the one place where its state puts it."""

    def those(*states: TicketState) -> set[Ticket]:
        return {ticket for ticket in tickets if ticket.state in states}

    assert gate.waiting == len(those(TicketState.WAITING, TicketState.STOPPING)), "GATE-3: `waiting` is miscounted"
    assert set(gate.queues) == those(TicketState.QUEUED), "GATE-3: the queues and the QUEUED tickets differ"
    assert len(gate.queues) == sum(gate.queues.lengths().values()), "GATE-3: the queues are miscounted"
    assert set(gate.held) == those(*_ADMITTED), "GATE-3: `held` is not exactly the admitted tickets"
    assert set(gate.returning) == those(TicketState.RETURNING), "GATE-3: `returning` differs from the RETURNING ones"


def _resources(gate: Gate) -> None:
    """RESOURCES-1 to RESOURCES-3, and so GATE-1. Only what a stopping task took back may exceed a limit."""
    resources = gate.resources
    taken, kept = _sums(ticket.kept() for ticket in gate.held), Counter[int]()
    rights = [_by_right(resources, ticket) for ticket in gate.held]
    by_right = _sums(rights)
    for ticket in gate.held:
        if ticket.state is TicketState.LENT:
            kept.update(dict(ticket.kept()))
    for name, number in resources.numbers.items():
        assert resources.taken[number] == taken[number], f"RESOURCES-3: {name}"
        assert resources.kept[number] == kept[number], f"RESOURCES-3: {name}, kept by LENT tickets"
        takers = sum(number in dict(right) for right in rights)
        limit, soft = resources.limits[number].amount, resources.limits[number].soft
        within = limit is None or by_right[number] <= limit
        if soft:
            assert within or takers == 1, f"RESOURCES-2: {name}: {taken[number]} of {limit}"
        else:
            assert within, f"RESOURCES-1: {name}: {taken[number]} of {limit}"


def _by_right(resources: Resources, ticket: Ticket) -> Demand:
    """What the ticket took when it was admitted."""
    reclaimed = resources.lendable(ticket.demand) if ticket.reclaimed else ()
    return tuple(pair for pair in ticket.kept() if pair not in reclaimed)


def _graph(tickets: list[Ticket]) -> None:
    """No wake is lost: a WAITING ticket has a dependency that knows of it, or a timer, or is paused."""
    unmet = Counter(after for ticket in tickets for after in ticket.successors or ())
    unmet.update(ticket.next for ticket in tickets if ticket.next is not None)
    for ticket in tickets:
        if ticket.state is TicketState.STOPPING:
            continue
        assert ticket.unmet == unmet[ticket], f"{ticket} waits for {ticket.unmet}, and {unmet[ticket]} know of it"
        if ticket.state is TicketState.WAITING:
            paused = ticket.task.state is State.PAUSED
            assert ticket.unmet or ticket.timer is not None or paused, f"GATE-2: {ticket} waits for nothing"
        else:
            assert not ticket.unmet, f"{ticket} was admitted before its dependencies had ended"


def _ticket_and_task(kernel: Kernel, ticket: Ticket) -> None:
    """The ticket and its task agree."""
    task = ticket.task
    assert task.state in _STATES[ticket.state], f"{ticket} of {task}"
    assert ticket.timer is None or ticket.timer.armed, f"{ticket} counts on a timer that is not armed"
    if ticket.paused and ticket.pausing is None:
        assert kernel.is_paused(task), f"{task} was paused, but continues"
    if ticket.state in (TicketState.LENT, TicketState.RETURNING):
        waits = (
            ticket.waits_for_children
            or ticket.regain is not None
            or (task.state is State.READY and not task.cancel_pending)
        )
        assert waits or kernel.is_paused(task), f"GATE-1: {task} runs without a slot"
    if ticket.state is TicketState.RETURNING:
        assert not task.cancel_pending, f"GATE-1: {task} is asked to stop, but waits for its slot"
    if kernel.is_paused(task) and ticket.state is not TicketState.RETURNING:
        assert ticket.paused, f"{task} is paused, but was not asked to pause"
    if ticket.pausing is not None:
        assert ticket.paused, f"a task waits for the pause of {ticket}, which was not asked to pause"
        assert ticket.timer is not None, f"{ticket} was asked to pause without a timeout"


# ---- the order, the slow way


def would_let_in(gate: Gate, now_ns: int) -> Ticket | None:
    """The ticket that the gate would admit, found by a look at every ticket."""
    return choose(gate, list(gate.returning), list(gate.queues), gate.held, now_ns)


def choose(
    gate: Gate, returning: list[Ticket], queued: list[Ticket], held: Iterable[Ticket], now_ns: int
) -> Ticket | None:
    """The rules of `law.admission.gate` and `law.admission.queues`, with a score for every waiting ticket."""
    resources = gate.resources
    taken = _sums(ticket.kept() for ticket in held)
    kept = _sums(ticket.kept() for ticket in held if ticket.state is TicketState.LENT)
    reserved: Demand | None = None
    for ticket in returning[:1]:
        lent = resources.lendable(ticket.demand)
        if _fits(resources, lent, taken):
            return ticket
        reserved = lent
    for ticket in sorted(queued, key=lambda ticket: score(gate, ticket, now_ns)):
        if _fits(resources, ticket.demand, taken):
            if reserved is None or not _breaks_reservation(resources, ticket.demand, dict(reserved), taken):
                return ticket
        elif reserved is None and now_ns - ticket.ready_ns >= gate.authority._reserve_after_ns:
            reserved = ticket.demand if _fits(resources, ticket.demand, kept) else None
    return None


def first(gate: Gate, now_ns: int) -> Ticket | None:
    """The first of all waiting tickets; None if no ticket waits, or if a RETURNING ticket comes before them."""
    if gate.returning or not gate.queues:
        return None
    return min(gate.queues, key=lambda ticket: score(gate, ticket, now_ns))


def may_reserve(gate: Gate, ticket: Ticket, now_ns: int) -> bool:
    """Whether the ticket has waited long enough to hold a reservation."""
    kept = _sums(other.kept() for other in gate.held if other.state is TicketState.LENT)
    return now_ns - ticket.ready_ns >= gate.authority._reserve_after_ns and _fits(gate.resources, ticket.demand, kept)


def score(gate: Gate, ticket: Ticket, now_ns: int) -> tuple[int, int]:
    """The sort key of a ticket: the smaller one goes first."""
    intervals = (now_ns - ticket.ready_ns) // gate.authority._interval_ns
    return -(ticket.priority + intervals * gate.authority._boost), ticket.place


def _sums(demands: Iterable[Demand]) -> Counter[int]:
    total = Counter[int]()
    for demand in demands:
        total.update(dict(demand))
    return total


def _fits(resources: Resources, demand: Demand, taken: Counter[int]) -> bool:
    return all(
        taken[number] + amount <= resources.limit(number) or (resources.limits[number].soft and not taken[number])
        for number, amount in demand
    )


def _breaks_reservation(resources: Resources, demand: Demand, reserved: dict[int, int], taken: Counter[int]) -> bool:
    return any(
        number in reserved and taken[number] + amount + reserved[number] > resources.limit(number)
        for number, amount in demand
    )
