"""Standing still: pause and resume, and the loan of a task that waits for its own children.

A task that does not run stands at once. One that runs on a thread stands at its next checkpoint; if that does not
come within the gate's `pause_timeout` the task is cancelled, and whoever asked is told. A task that stands gives back
its slot and its CPU, and keeps the rest: its memory is still in use. What it waits for goes on being counted
meanwhile, and a wake is kept for it. Going on means asking for what was given back; who asks again comes before all
who ask for the first time. Who is asked to stop does not wait: it takes what it gave back, free or not, and goes on.

A task that ends its block and waits for children at the same gate lends them its place in the same way: else the two
would wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from bursar.backend import Permit, Wait
from bursar.errors import ScopeMisuse
from bursar.law.admission import graph
from bursar.law.admission.ticket import PermitState
from bursar.law.budget import FREE, Cost
from bursar.law.state import State
from bursar.law.timers import TimerKind, to_ns
from bursar.request import SUSPENDED, Entry, Operation, Request

if TYPE_CHECKING:
    from bursar.law.dispatch import Dispatch
    from bursar.law.kernel import Kernel
    from bursar.law.nursery import Nursery
    from bursar.law.task import Task


def pause(kernel: Dispatch, permit: Permit, timeout_ns: int | None = None, at_checkpoint: bool | None = None) -> None:
    """Have a task stand still. Asking again changes nothing, nor does asking one that is over or told to stop.

    `at_checkpoint`: whether it runs on a thread, if its wait does not say so.
    """
    task = permit.task
    if permit.paused or task.outcome is not None or task.requested or task.cleanup_left >= 0:
        return
    if task.state is State.RUNNING:
        raise ScopeMisuse(f"task {task.name!r} cannot pause itself: it would not be there to go on; await an Event")
    gate = permit.gate
    stands = cast("Kernel", kernel).is_paused(task)  # it was told to go on, and has not got its place back yet
    ask_pause = None if stands else getattr(task.wait, "ask_pause", None)
    later = ask_pause is not None if at_checkpoint is None else at_checkpoint
    permit.paused = True
    gate.totals.paused += 1
    if not later:
        kernel.note("pause_requested", task, None)
        _stand(kernel, permit)
        return
    permit.patience_ns = to_ns(gate.authority.pause_timeout, "pause_timeout") if timeout_ns is None else timeout_ns
    kernel.note("pause_requested", task, permit.patience_ns)
    permit.pausing = []
    permit.timer = kernel.timers.arm(kernel.now_ns + permit.patience_ns, TimerKind.PERMIT, task)
    if ask_pause is not None:
        ask_pause(kernel)


def reached(kernel: Dispatch, task: Task) -> None:
    """The thread of a task that was asked to pause stands at a checkpoint."""
    permit = cast("Permit | None", task.permit)
    if permit is None or permit.pausing is None:  # it was told to go on, or to stop, meanwhile
        resume_thread(kernel, task)
        return
    kernel.note("pause_reached", task)
    _stand(kernel, permit)


def resume_thread(kernel: Dispatch, task: Task) -> None:
    resume = getattr(task.wait, "ask_resume", None)
    if resume is not None:
        resume(kernel)


def _stand(kernel: Dispatch, permit: Permit) -> None:
    gate = permit.gate
    if permit.state is not PermitState.WAITS:  # else it is the time of a retry, which goes on
        gate.stop_timer(kernel, permit)
    if permit.state is PermitState.QUEUED:
        gate.leave_queue(permit)
    elif permit.state is PermitState.HELD:
        gate.stand_aside(permit)
    elif permit.state is PermitState.RETURNS:
        gate.step_back(permit)
    law = cast("Kernel", kernel)
    if not law.is_paused(permit.task):
        law.pause(permit.task)
    permit.note(kernel.now_ns, "is paused")
    gate.tell_pausing(kernel, permit, True)
    gate.settle(kernel)


def resume(kernel: Dispatch, permit: Permit) -> None:
    """Let a task go on that was paused. Any other goes on as it is."""
    task, gate, law = permit.task, permit.gate, cast("Kernel", kernel)
    if not permit.paused:
        return
    permit.paused = False
    kernel.note("resume_requested", task)
    if permit.pausing is not None:  # it does not stand yet
        gate.stop_timer(kernel, permit)
        gate.tell_pausing(kernel, permit, False)
        resume_thread(kernel, task)
    elif permit.state is PermitState.WAITS:
        law.resume(task, False)
        gate.enter_queue(kernel, permit)
    elif permit.state is PermitState.ASIDE and not permit.joins:
        gate.ask_again(kernel, permit)
        if task.cancel_pending:  # a block of it was asked to stop while it stood
            gate.hurried(kernel, permit)
    else:
        law.resume(task, True)


class Pausing(Operation[bool]):
    """Awaited: whether the task stands. It may have ended first."""

    __slots__ = ("_permit", "_task")

    def __init__(self, permit: Permit, task: Task) -> None:
        self._permit = permit
        self._task = task

    def why(self) -> str:
        return f"waits for task {self._task.name!r} to come to a checkpoint"

    def ready(self, kernel: Any, task: Any) -> bool:
        if self._permit.late is not None:
            raise self._permit.late
        return self._permit.pausing is None

    def take(self, kernel: Any, task: Any) -> bool:
        return kernel.is_paused(self._task)

    def enlist(self, kernel: Any, entry: Entry) -> None:
        if self._permit.pausing is not None:
            self._permit.pausing.append(entry)

    def delist(self, kernel: Any, entry: Entry) -> None:
        if self._permit.pausing is not None and entry in self._permit.pausing:
            self._permit.pausing.remove(entry)

    def blockers(self) -> tuple[Any, ...]:
        return (self._task,)


# ---- lending


def give_way(kernel: Kernel, owner: Task, nursery: Nursery) -> Permit | None:
    """A task ends its block: while it waits for its children its place at their gate is theirs. None: it has none."""
    permit = cast("Permit | None", owner.permit)
    if permit is None or permit.gate is not (nursery.gate or kernel.gate) or not nursery.children:
        return None
    if permit.state is not PermitState.HELD or not permit.gate.resources.usable_while_still(permit.demand):
        return None
    kernel.note("permit_lent", owner)
    permit.joins = True
    permit.gate.stand_aside(permit)
    permit.gate.settle(kernel)
    return permit


async def take_back(kernel: Kernel, permit: Permit) -> None:
    """Its children have ended: it goes on when it has its place again; not if all is torn down from outside."""
    if permit.state is PermitState.OVER or kernel.current is not permit.task:
        return
    ask(kernel, permit)
    if permit.state is PermitState.RETURNS:
        await _Regain(permit)


def ask(kernel: Kernel, permit: Permit) -> None:
    """It asks for the place that it lent, or takes it: who is asked to stop, or cleans up, does not wait for it."""
    task = permit.task
    kernel.note("permit_asked", task)
    permit.joins = False
    if task.cancel_pending or task.cleanup_left >= 0 or task.cut:
        permit.gate.reclaim(kernel, permit)
    else:
        permit.gate.ask_again(kernel, permit)


class _Regain(Request[None]):
    """Free: what cannot be paid must not keep a block from ending."""

    __slots__ = ("_permit",)
    cost: ClassVar[Cost] = FREE

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    def perform(self, kernel: Any, task: Any) -> Any:
        permit = self._permit
        if permit.state is PermitState.HELD:  # by now: its turn was over when it asked
            return None
        permit.regain = wait = _Regaining(task)
        kernel.blocked(task, wait)
        return SUSPENDED


class _Regaining(Wait):
    __slots__ = ()

    @property
    def reason(self) -> str:
        return "has its children behind it and waits for its place at the gate"


# ---- what a handle does


def permit_of(kernel: Kernel, record: Task) -> Permit:
    """The permit of a task; one that never had to ask gets one now that says so."""
    permit = cast("Permit | None", record.permit)
    if permit is None:
        permit = Permit(kernel.gate, 0, (), state=PermitState.HELD)
        if record.outcome is not None:
            permit.task = record
            _, permit.cause = graph.settle(permit, record.outcome)
            permit.over()
            return permit
        permit.task = record
        record.permit = permit
        kernel.gate.held[permit] = None
    return permit


def pause_task(kernel: Kernel, record: Task, timeout: float | None) -> Pausing:
    permit = permit_of(kernel, record)
    if permit.state is not PermitState.OVER:
        pause(kernel, permit, None if timeout is None else to_ns(timeout, "pause(timeout)"))
    return Pausing(permit, record)


def resume_task(kernel: Kernel, record: Task) -> None:
    if record.permit is not None:
        resume(kernel, permit_of(kernel, record))


def drop_task(kernel: Kernel, record: Task, detail: str) -> None:
    permit = permit_of(kernel, record)
    if permit.state not in (PermitState.WAITS, PermitState.QUEUED) or record.state not in (State.PENDING, State.PAUSED):
        raise ScopeMisuse(
            f"task {record.name!r} is {record.state.name} and does not wait for permission: only what has "
            "not started is dropped; cancel it"
        )
    by = kernel.current
    permit.gate.drop(kernel, permit, "explicit", detail or "by hand", by.id if by is not None else None)
