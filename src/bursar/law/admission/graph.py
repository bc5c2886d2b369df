"""The graph of dependencies: which task follows which.

A task with dependencies counts those that have not succeeded yet. A task that succeeds counts down its direct
successors, and touches no other task. A task that does not succeed cancels its successors. The reason names the task
that failed first. The cancelled successors then cancel their own successors in the same way.

A task that is tried again passes its successors on to the next attempt. The next attempt follows the failed one, so two
attempts never hold a slot at once.

GRAPH-1  an edge is made only when the successor is spawned, so tasks alone form no cycle; a task may not follow the
    owner of its own nursery, which waits for it, nor a task that follows the owner: such a spawn is refused
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from bursar.errors import BadDependency
from bursar.law.admission.ticket import Ticket, TicketState
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, OutcomeKind

if TYPE_CHECKING:
    from bursar.law.nursery import Nursery
    from bursar.law.task import Task


def require_no_cycle(name: str, nursery: Nursery, after: Iterable[Task]) -> None:
    """GRAPH-1: raise if a task in `after` waits for the nursery. Walks through the tasks that follow the owner."""
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
        ticket = cast("Ticket | None", task.ticket)
        for successor in (ticket.successors or ()) if ticket is not None else ():
            if successor.task not in waiting:
                waiting[successor.task] = None
                found.append(successor.task)


def last_attempt(ticket: Ticket) -> Ticket:
    """The newest attempt at the task: its outcome counts."""
    while ticket.next is not None:
        ticket = ticket.next
    return ticket


def try_again(ticket: Ticket, again: Ticket) -> None:
    """The task failed, and `again` is its next attempt: pass the successors on."""
    ticket.next, ticket.next_task, ticket.excused = again, again.task, True
    again.attempt, again.unmet = ticket.attempt + 1, 1


def follow(ticket: Ticket, others: Iterable[Ticket]) -> CancelReason | None:
    """Enter the edges from `others`, the last attempts, to `ticket`. Returns a reason if one of them has already
    failed, so that the task can never start."""
    failed_cause: CancelReason | None = None
    for other in others:
        if other.state is not TicketState.DONE:
            other.precede(ticket)
            ticket.unmet += 1
        elif other.cause is not None:
            failed_cause = failed_cause or other.cause
    ticket.dependency_count = ticket.unmet
    return failed_cause


def why_not(ticket: Ticket, outcome: Outcome) -> CancelReason:
    """The reason with which the successors of a task with this outcome are cancelled. It names the first cause."""
    task = ticket.task
    reason = outcome.reason
    if outcome.kind is OutcomeKind.CANCELLED and reason is not None and reason.kind is CancelKind.DEPENDENCY:
        return reason
    return CancelReason(CancelKind.DEPENDENCY, f"task {task.name!r}, which it was to follow, {outcome}", task.id)


def release_successors(ticket: Ticket, outcome: Outcome) -> tuple[list[Ticket], CancelReason | None]:
    """The task has ended. Returns its direct successors that have no dependency left; or, if it did not succeed, all
    of them with the reason to cancel them."""
    successors, ticket.successors = ticket.successors, None
    again = ticket.next
    if again is not None:
        again.unmet -= 1
        if again.state is TicketState.DONE:  # the next attempt never started
            ticket.cause = again.cause
            return list(successors or ()), ticket.cause
        if successors:
            again.successors = (again.successors or []) + successors
        return [again] if again.state is TicketState.WAITING else [], None
    if outcome.kind is OutcomeKind.OK:
        if successors is None:
            return [], None
        free: list[Ticket] = []
        for successor in successors:
            successor.unmet -= 1
            if not successor.unmet and successor.state is TicketState.WAITING:
                free.append(successor)
        return free, None
    ticket.cause = why_not(ticket, outcome)
    return [successor for successor in successors or () if successor.state is not TicketState.DONE], ticket.cause


def in_arguments(args: tuple[Any, ...], handle: type, deep: bool) -> list[Any]:
    """The handles among the arguments. `deep`: also those inside a list, tuple, set or dict that is an argument."""
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
