"""Pause and resume; and lending, while a task waits for its own children.

A task that does not run is paused at once. A function on a thread pauses at its next checkpoint. If it reaches none
within the gate's `pause_timeout`, its task is cancelled, and the await of the pause raises `PauseTimeout`. A paused
task gives back its slot and its CPU, and keeps the rest, because its memory is still in use. A paused task still waits
for what it waited for, and a wake is kept for it.

To continue, a resumed task asks for what it gave back. It comes before all tasks that ask for the first time. A task
that is asked to stop does not wait: it takes back what it gave, free or not, and continues.

A task at the end of a nursery block that waits for children at the same gate lends its slot to them in the same way.
Otherwise the task and its children could wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from bursar.backend import Ticket, Wait
from bursar.errors import ScopeMisuse
from bursar.law.admission import graph
from bursar.law.admission.ticket import TicketState
from bursar.law.costs import FREE, Cost
from bursar.law.state import State
from bursar.law.timers import TimerKind, to_ns
from bursar.request import SUSPENDED, Entry, Operation, Request

if TYPE_CHECKING:
    from bursar.law.dispatch import Dispatch
    from bursar.law.kernel import Kernel
    from bursar.law.nursery import Nursery
    from bursar.law.task import Task


def pause(kernel: Dispatch, ticket: Ticket, timeout_ns: int | None = None, at_checkpoint: bool | None = None) -> None:
    """Pause a task. A second call changes nothing. A task that has ended or is asked to stop is not paused.

    `at_checkpoint`: whether it pauses at a checkpoint of its thread, if its wait does not say so.
    """
    task = ticket.task
    if ticket.paused or task.outcome is not None or task.requested or task.cleanup_left >= 0:
        return
    if task.state is State.RUNNING:
        raise ScopeMisuse(f"task {task.name!r} cannot pause itself, because it could not resume itself; await an Event")
    gate = ticket.gate
    paused = cast("Kernel", kernel).is_paused(task)  # it was resumed, and has not got its slot back yet
    ask_pause = None if paused else getattr(task.wait, "ask_pause", None)
    later = ask_pause is not None if at_checkpoint is None else at_checkpoint
    ticket.paused = True
    gate.totals.paused += 1
    if not later:
        kernel.note("pause_requested", task, None)
        _pause_now(kernel, ticket)
        return
    ticket.patience_ns = to_ns(gate.authority.pause_timeout, "pause_timeout") if timeout_ns is None else timeout_ns
    kernel.note("pause_requested", task, ticket.patience_ns)
    ticket.pausing = []
    ticket.timer = kernel.timers.arm(kernel.now_ns + ticket.patience_ns, TimerKind.PERMIT, task)
    if ask_pause is not None:
        ask_pause(kernel)


def reached(kernel: Dispatch, task: Task) -> None:
    """The thread of a task that was asked to pause has reached a checkpoint."""
    ticket = cast("Ticket | None", task.ticket)
    if ticket is None or ticket.pausing is None:  # it was resumed, or asked to stop, in the meantime
        resume_thread(kernel, task)
        return
    kernel.note("pause_reached", task)
    _pause_now(kernel, ticket)


def resume_thread(kernel: Dispatch, task: Task) -> None:
    resume = getattr(task.wait, "ask_resume", None)
    if resume is not None:
        resume(kernel)


def _pause_now(kernel: Dispatch, ticket: Ticket) -> None:
    gate = ticket.gate
    if ticket.state is not TicketState.WAITING:  # the timer of a WAITING ticket is that of a retry, and runs on
        gate.stop_timer(kernel, ticket)
    if ticket.state is TicketState.QUEUED:
        gate.leave_queue(ticket)
    elif ticket.state is TicketState.ADMITTED:
        gate.lend_resources(ticket)
    elif ticket.state is TicketState.RETURNING:
        gate.withdraw_return(ticket)
    law = cast("Kernel", kernel)
    if not law.is_paused(ticket.task):
        law.pause(ticket.task)
    ticket.note(kernel.now_ns, "is paused")
    gate.answer_pause_waiters(kernel, ticket, True)
    gate.admit_waiting(kernel)


def resume(kernel: Dispatch, ticket: Ticket) -> None:
    """Resume a paused task. A task that is not paused is not changed."""
    task, gate, law = ticket.task, ticket.gate, cast("Kernel", kernel)
    if not ticket.paused:
        return
    ticket.paused = False
    kernel.note("resume_requested", task)
    if ticket.pausing is not None:  # it is not paused yet
        gate.stop_timer(kernel, ticket)
        gate.answer_pause_waiters(kernel, ticket, False)
        resume_thread(kernel, task)
    elif ticket.state is TicketState.WAITING:
        law.resume(task, False)
        gate.enter_queue(kernel, ticket)
    elif ticket.state is TicketState.LENT and not ticket.waits_for_children:
        gate.ask_again(kernel, ticket)
        if task.cancel_pending:  # a block in it was asked to stop while it was paused
            gate.scope_cancelled(kernel, ticket)
    else:
        law.resume(task, True)


class Pausing(Operation[bool]):
    """Awaited: True when the task is paused, False if it ended first."""

    __slots__ = ("_task", "_ticket")

    def __init__(self, ticket: Ticket, task: Task) -> None:
        self._ticket = ticket
        self._task = task
        self.mark_used()  # the pause was asked for already; the program may await its end, and need not

    def why(self) -> str:
        return f"waits for task {self._task.name!r} to come to a checkpoint"

    def ready(self, kernel: Any, task: Any) -> bool:
        if self._ticket.late is not None:
            raise self._ticket.late
        return self._ticket.pausing is None

    def take(self, kernel: Any, task: Any) -> bool:
        return kernel.is_paused(self._task)

    def enlist(self, kernel: Any, entry: Entry) -> None:
        if self._ticket.pausing is not None:
            self._ticket.pausing.append(entry)

    def delist(self, kernel: Any, entry: Entry) -> None:
        if self._ticket.pausing is not None and entry in self._ticket.pausing:
            self._ticket.pausing.remove(entry)

    def blockers(self) -> tuple[Any, ...]:
        return (self._task,)


# ---- lending


def give_way(kernel: Kernel, owner: Task, nursery: Nursery) -> Ticket | None:
    """Lend the slot of a task that waits for the children of its block at the same gate. Returns None if it has
    none."""
    ticket = cast("Ticket | None", owner.ticket)
    if ticket is None or ticket.gate is not (nursery.gate or kernel.gate) or not nursery.children:
        return None
    if ticket.state is not TicketState.ADMITTED or not ticket.gate.resources.lendable(ticket.demand):
        return None
    kernel.note("permit_lent", owner)
    ticket.waits_for_children = True
    ticket.gate.lend_resources(ticket)
    ticket.gate.admit_waiting(kernel)
    return ticket


async def take_back(kernel: Kernel, ticket: Ticket) -> None:
    """The children have ended: wait until the task has its slot again. Do not wait if the run is torn down."""
    if ticket.state is TicketState.DONE or kernel.current is not ticket.task:
        return
    ask(kernel, ticket)
    if ticket.state is TicketState.RETURNING:
        await _Regain(ticket)


def ask(kernel: Kernel, ticket: Ticket) -> None:
    """Ask for the slot that the task lent. A task that is asked to stop or cleans up takes it without waiting."""
    task = ticket.task
    kernel.note("permit_asked", task)
    ticket.waits_for_children = False
    if task.cancel_pending or task.cleanup_left >= 0 or task.cut:
        ticket.gate.reclaim(kernel, ticket)
    else:
        ticket.gate.ask_again(kernel, ticket)


class _Regain(Request[None]):
    """Wait for the lent slot. It is free, so that an empty budget cannot keep a block from ending."""

    __slots__ = ("_ticket",)
    cost: ClassVar[Cost] = FREE

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def perform(self, kernel: Any, task: Any) -> Any:
        ticket = self._ticket
        if ticket.state is TicketState.ADMITTED:  # it was admitted after it asked, when its turn was over
            return None
        ticket.regain = wait = _Regaining(task)
        kernel.blocked(task, wait)
        return SUSPENDED


class _Regaining(Wait):
    __slots__ = ()

    @property
    def reason(self) -> str:
        return "has its children behind it and waits for its place at the gate"


# ---- what a handle does


def ticket_of(kernel: Kernel, record: Task) -> Ticket:
    """The ticket of a task. A task that needed no admission gets an ADMITTED ticket now."""
    ticket = cast("Ticket | None", record.ticket)
    if ticket is None:
        ticket = Ticket(kernel.gate, 0, (), state=TicketState.ADMITTED)
        if record.outcome is not None:
            ticket.task = record
            _, ticket.cause = graph.release_successors(ticket, record.outcome)
            ticket.over()
            return ticket
        ticket.task = record
        record.ticket = ticket
        kernel.gate.held[ticket] = None
    return ticket


def pause_task(kernel: Kernel, record: Task, timeout: float | None) -> Pausing:
    ticket = ticket_of(kernel, record)
    if ticket.state is not TicketState.DONE:
        pause(kernel, ticket, None if timeout is None else to_ns(timeout, "pause(timeout)"))
    return Pausing(ticket, record)


def resume_task(kernel: Kernel, record: Task) -> None:
    if record.ticket is not None:
        resume(kernel, ticket_of(kernel, record))


def drop_task(kernel: Kernel, record: Task, detail: str) -> None:
    ticket = ticket_of(kernel, record)
    if ticket.state not in (TicketState.WAITING, TicketState.QUEUED) or record.state not in (
        State.PENDING,
        State.PAUSED,
    ):
        raise ScopeMisuse(
            f"task {record.name!r} is {record.state.name} and does not wait for permission: only a task that has "
            "not started can be dropped; cancel it"
        )
    by = kernel.current
    ticket.gate.drop(kernel, ticket, "explicit", detail or "by hand", by.id if by is not None else None)
