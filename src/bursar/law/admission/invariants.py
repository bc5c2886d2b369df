"""The numbered invariants of admission, as far as one look at the whole state can check them; and the order, said a
second time, the slow way.

Like `law.invariants`, which does not know of gates: it costs O(everything), runs in tests after every step, and never
in a program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from bursar.law.admission.gate import Gate
from bursar.law.admission.resources import Demand, Resources
from bursar.law.admission.ticket import Permit, PermitState
from bursar.law.kernel import Kernel
from bursar.law.state import State

_ADMITTED = (PermitState.HELD, PermitState.ASIDE, PermitState.RETURNS)
_STATES: dict[PermitState, frozenset[State]] = {
    PermitState.WAITS: frozenset({State.PENDING, State.PAUSED}),
    PermitState.QUEUED: frozenset({State.PENDING}),
    PermitState.STOPS: frozenset({State.READY, State.RUNNING}),
    PermitState.HELD: frozenset({State.READY, State.RUNNING, State.BLOCKED, State.EXHAUSTED}),
    PermitState.ASIDE: frozenset(State) - {State.PENDING, State.DONE},
    PermitState.RETURNS: frozenset(State) - {State.PENDING, State.DONE},
}


def check(kernel: Kernel) -> None:
    """Raise AssertionError if any invariant of a gate does not hold between two calls of the kernel."""
    permits = list(_permits(kernel))
    for gate in gates_of(kernel):
        _lists(gate, [permit for permit in permits if permit.gate is gate])
        _resources(gate)
        left = would_let_in(gate, gate.settled_ns)
        assert left is None, f"GATE-2: {left} may be let in, and waits"
    _graph(permits)
    for permit in permits:
        _standing(kernel, permit)


def gates_of(kernel: Kernel) -> list[Gate]:
    """All gates that are in use."""
    gates: dict[Gate, None] = {kernel.gate: None} if kernel.gate is not None else {}
    for task in kernel.tasks.values():
        gates.update((nursery.gate, None) for nursery in (task.owned or {}).values() if nursery.gate is not None)
    return list(gates)


def _permits(kernel: Kernel) -> Iterator[Permit]:
    for task in kernel.tasks.values():
        permit = cast("Permit | None", task.permit)
        if permit is not None:
            assert permit.task is task, f"{permit} is not that of {task}"
            yield permit


def _lists(gate: Gate, permits: list[Permit]) -> None:
    """GATE-3: every permit is in the one place where its state puts it."""

    def those(*states: PermitState) -> set[Permit]:
        return {permit for permit in permits if permit.state in states}

    assert gate.waiting == len(those(PermitState.WAITS, PermitState.STOPS)), "GATE-3: `waiting` is miscounted"
    assert set(gate.queues) == those(PermitState.QUEUED), "GATE-3: others are queued than those who wait for permission"
    assert len(gate.queues) == sum(gate.queues.lengths().values()), "GATE-3: the queues are miscounted"
    assert set(gate.held) == those(*_ADMITTED), "GATE-3: others are held than those who were admitted"
    assert set(gate.returning) == those(PermitState.RETURNS), "GATE-3: others return than those who ask again"


def _resources(gate: Gate) -> None:
    """RESOURCES-1 to RESOURCES-3, and so GATE-1. Only what a task that is asked to stop took back may be too much."""
    resources = gate.resources
    taken, kept = _sums(permit.kept() for permit in gate.held), Counter[int]()
    rights = [_by_right(resources, permit) for permit in gate.held]
    by_right = _sums(rights)
    for permit in gate.held:
        if permit.state is PermitState.ASIDE:
            kept.update(dict(permit.kept()))
    for name, number in resources.numbers.items():
        assert resources.taken[number] == taken[number], f"RESOURCES-3: {name}"
        assert resources.kept[number] == kept[number], f"RESOURCES-3: {name}, of those who stand still"
        takers = sum(number in dict(right) for right in rights)
        limit, soft = resources.limits[number].amount, resources.limits[number].soft
        within = limit is None or by_right[number] <= limit
        if soft:
            assert within or takers == 1, f"RESOURCES-2: {name}: {taken[number]} of {limit}"
        else:
            assert within, f"RESOURCES-1: {name}: {taken[number]} of {limit}"


def _by_right(resources: Resources, permit: Permit) -> Demand:
    """What it takes that it was let in with."""
    unasked = resources.usable_while_still(permit.demand) if permit.unasked else ()
    return tuple(pair for pair in permit.kept() if pair not in unasked)


def _graph(permits: list[Permit]) -> None:
    """No wake is lost: who waits is waited for by what it counts, or by a timer, or stands still."""
    unmet = Counter(after for permit in permits for after in permit.successors or ())
    unmet.update(permit.next for permit in permits if permit.next is not None)
    for permit in permits:
        if permit.state is PermitState.STOPS:
            continue
        assert permit.unmet == unmet[permit], f"{permit} waits for {permit.unmet}, and {unmet[permit]} know of it"
        if permit.state is PermitState.WAITS:
            stands = permit.task.state is State.PAUSED
            assert permit.unmet or permit.timer is not None or stands, f"GATE-2: {permit} waits for nothing"
        else:
            assert not permit.unmet, f"{permit} was let in before what it follows had ended"


def _standing(kernel: Kernel, permit: Permit) -> None:
    """What a permit says of its task is so."""
    task = permit.task
    assert task.state in _STATES[permit.state], f"{permit} of {task}"
    assert permit.timer is None or permit.timer.armed, f"{permit} counts on a timer that is not armed"
    if permit.paused and permit.pausing is None:
        assert kernel.is_paused(task), f"{task} was paused, and goes on"
    if permit.state in (PermitState.ASIDE, PermitState.RETURNS):
        waits = permit.joins or permit.regain is not None or (task.state is State.READY and not task.cancel_pending)
        assert waits or kernel.is_paused(task), f"GATE-1: {task} works, and has no place"
    if permit.state is PermitState.RETURNS:
        assert not task.cancel_pending, f"GATE-1: {task} is asked to stop, and waits for its place"
    if kernel.is_paused(task) and permit.state is not PermitState.RETURNS:
        assert permit.paused, f"{task} stands still, and nobody paused it"
    if permit.pausing is not None:
        assert permit.paused, f"{permit} is waited for to stand, and was not asked to"
        assert permit.timer is not None, f"{permit} was asked to pause, for ever"


# ---- the order, the slow way


def would_let_in(gate: Gate, now_ns: int) -> Permit | None:
    """Whom the gate would let in, by a look at everybody."""
    return choose(gate, list(gate.returning), list(gate.queues), gate.held, now_ns)


def choose(
    gate: Gate, returning: list[Permit], queued: list[Permit], held: Iterable[Permit], now_ns: int
) -> Permit | None:
    """The rules of `law.admission.gate` and `law.admission.queues`, with a score for every task that waits."""
    resources = gate.resources
    taken = _sums(permit.kept() for permit in held)
    kept = _sums(permit.kept() for permit in held if permit.state is PermitState.ASIDE)
    reserved: Demand | None = None
    for permit in returning[:1]:
        lent = resources.usable_while_still(permit.demand)
        if _fits(resources, lent, taken):
            return permit
        reserved = lent
    for permit in sorted(queued, key=lambda permit: score(gate, permit, now_ns)):
        if _fits(resources, permit.demand, taken):
            if reserved is None or not _spoils(resources, permit.demand, dict(reserved), taken):
                return permit
        elif reserved is None and now_ns - permit.ready_ns >= gate.authority.reserve_after_ns:
            reserved = permit.demand if _fits(resources, permit.demand, kept) else None
    return None


def first(gate: Gate, now_ns: int) -> Permit | None:
    """Who comes first of all that wait; None: nobody waits, or somebody who was admitted before asks again."""
    if gate.returning or not gate.queues:
        return None
    return min(gate.queues, key=lambda permit: score(gate, permit, now_ns))


def may_reserve(gate: Gate, permit: Permit, now_ns: int) -> bool:
    """Whether it has waited so long that nobody may make it wait longer."""
    kept = _sums(other.kept() for other in gate.held if other.state is PermitState.ASIDE)
    return now_ns - permit.ready_ns >= gate.authority.reserve_after_ns and _fits(gate.resources, permit.demand, kept)


def score(gate: Gate, permit: Permit, now_ns: int) -> tuple[int, int]:
    """Smaller goes first."""
    intervals = (now_ns - permit.ready_ns) // gate.authority.interval_ns
    return -(permit.priority + intervals * gate.authority.boost), permit.place


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


def _spoils(resources: Resources, demand: Demand, reserved: dict[int, int], taken: Counter[int]) -> bool:
    return any(
        number in reserved and taken[number] + amount + reserved[number] > resources.limit(number)
        for number, amount in demand
    )
