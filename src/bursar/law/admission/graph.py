"""The graph of who follows whom.

A task that is to follow others counts how many of them have not succeeded yet. A success counts down its direct
successors and looks at nobody else. Anything but a success cancels them, with a reason that names the task where it
began; they are ended by that in turn, and so their own successors.

A task that is tried again passes its successors on to the next attempt, which follows it: two attempts never hold a
place at once.

GRAPH-1  an edge is made only when its later end is spawned, so there is no cycle among tasks; that somebody follows the
    owner of its own nursery, which waits for it, or one that follows the owner, is the one way round, and is refused
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from bursar.errors import BadDependency
from bursar.law.admission.ticket import Permit, PermitState
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, OutcomeKind

if TYPE_CHECKING:
    from bursar.law.nursery import Nursery
    from bursar.law.task import Task


def require_no_cycle(name: str, nursery: Nursery, after: Iterable[Task]) -> None:
    """GRAPH-1: refuse to follow a task that waits for the nursery. Looks at whoever follows the owner."""
    wanted = {task.id for task in after}
    waiting: dict[Task, None] = {}
    owner = nursery.owner
    while owner is not None:
        waiting[owner] = None
        owner = owner.nursery.owner
    found = list(waiting)
    while found:
        task = found.pop()
        if task.id in wanted:
            raise BadDependency(
                f"task {name!r} cannot follow task {task.name!r}, which waits for it: the block of {nursery.name}, or "
                "one around it, ends only after its tasks. Spawn it where both are siblings"
            )
        permit = cast("Permit | None", task.permit)
        for successor in (permit.successors or ()) if permit is not None else ():
            if successor.task not in waiting:
                waiting[successor.task] = None
                found.append(successor.task)


def last_attempt(permit: Permit) -> Permit:
    """The attempt that counts."""
    while permit.next is not None:
        permit = permit.next
    return permit


def try_again(permit: Permit, again: Permit) -> None:
    """The task fails, and this is the next attempt."""
    permit.next, permit.next_task, permit.excused = again, again.task, True
    again.attempt, again.unmet = permit.attempt + 1, 1


def follow(permit: Permit, others: Iterable[Permit]) -> CancelReason | None:
    """Enter the edges from `others`, the last attempts, to `permit`. Returns why it cannot be, if one of them has
    failed already."""
    doom: CancelReason | None = None
    for other in others:
        if other.state is not PermitState.OVER:
            other.precede(permit)
            permit.unmet += 1
        elif other.cause is not None:
            doom = doom or other.cause
    permit.followed = permit.unmet
    return doom


def why_not(permit: Permit, outcome: Outcome) -> CancelReason:
    """Why nobody can follow a task that ended like this: the cause where it began."""
    task = permit.task
    reason = outcome.reason
    if outcome.kind is OutcomeKind.CANCELLED and reason is not None and reason.kind is CancelKind.DEPENDENCY:
        return reason
    return CancelReason(CancelKind.DEPENDENCY, f"task {task.name!r}, which it was to follow, {outcome}", task.id)


def settle(permit: Permit, outcome: Outcome) -> tuple[list[Permit], CancelReason | None]:
    """The task is over. Its direct successors that have nothing left to wait for; or all of them, and why they cannot
    be."""
    successors, permit.successors = permit.successors, None
    again = permit.next
    if again is not None:
        again.unmet -= 1
        if again.state is PermitState.OVER:  # it was not even tried
            permit.cause = again.cause
            return list(successors or ()), permit.cause
        if successors:
            again.successors = (again.successors or []) + successors
        return [again] if again.state is PermitState.WAITS else [], None
    if outcome.kind is OutcomeKind.OK:
        if successors is None:
            return [], None
        free: list[Permit] = []
        for successor in successors:
            successor.unmet -= 1
            if not successor.unmet and successor.state is PermitState.WAITS:
                free.append(successor)
        return free, None
    permit.cause = why_not(permit, outcome)
    return [successor for successor in successors or () if successor.state is not PermitState.OVER], permit.cause


def in_arguments(args: tuple[Any, ...], handle: type, deep: bool) -> list[Any]:
    """The handles among the arguments; `deep`: also in a list, tuple, set or dict that is one."""
    found: list[Any] = []
    for arg in args:
        if isinstance(arg, handle):
            found.append(arg)
        elif deep and type(arg) in (list, tuple, set, frozenset):
            found.extend(item for item in arg if isinstance(item, handle))
        elif deep and type(arg) is dict:
            found.extend(item for item in cast("dict[Any, Any]", arg).values() if isinstance(item, handle))
    return found


def with_values(args: tuple[Any, ...], handle: type, deep: bool) -> tuple[Any, ...]:
    """The same arguments, with the value of each task in its place."""

    def value(item: Any) -> Any:
        return item.result if isinstance(item, handle) else item

    filled: list[Any] = []
    for arg in args:
        if isinstance(arg, handle):
            filled.append(arg.result)
        elif deep and type(arg) in (list, tuple, set, frozenset):
            filled.append(type(arg)(map(value, arg)))
        elif deep and type(arg) is dict:
            filled.append({key: value(item) for key, item in cast("dict[Any, Any]", arg).items()})
        else:
            filled.append(arg)
    return tuple(filled)
