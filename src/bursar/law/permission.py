"""Permission: what admission may do to a task. The rules by which it decides are not here (`law.admission`).

The layer of the kernel between money and families. A task that has to ask is spawned PENDING and holds a *ticket*,
through which its gate hears of its end and of its timers. The gate lets it start (`admit`), or never (`drop`). Anybody
who may can have any task stand still (`pause`) and go on (`resume`):

    PENDING, READY, EXHAUSTED   become PAUSED, and leave the lane that they were in
    BLOCKED                     stays so, for it still waits; but a wake is only noted, as while a task runs

A task that is asked to stop as a whole stops, wherever it stands. If only a block of it is (a timeout, a nursery that
it owns), one that stands still hears of it when it goes on: it is no way to set it going. But one that was resumed
already, and waits for its place, waits no more.

Every admission and every drop is a link of the chain, like a dispatch.

Rejected: a PAUSED state that remembers what was under it. A task that waits is in the lists of whatever it waits for,
and those would have to know that it is paused; this way nobody has to.
"""

from __future__ import annotations

from typing import Final, Protocol

from bursar.law.cancel import CancelReason, deliverable
from bursar.law.chain import link
from bursar.law.dispatch import Dispatch
from bursar.law.ledger import Ledger
from bursar.law.state import Outcome, OutcomeKind, State, move
from bursar.law.task import Task
from bursar.law.timers import Timer
from bursar.law.wake import WakeState

ADMIT: Final = 6  # in the place of a lane in the chain, after the last of them
DROP: Final = 7


class Ticket(Protocol):
    """What admission knows of one task, as far as the law asks."""

    excused: bool  # another attempt follows its failure, which therefore counts for nothing

    def stopped(self, kernel: Dispatch) -> None:
        """The task as a whole is asked to stop, or cut off."""
        ...

    def scope_cancelled(self, kernel: Dispatch) -> None:
        """A block of the task is asked to stop. It is resumed for that if it is to go on, and waits for its turn."""
        ...

    def failed(self, error: Exception) -> None:
        """The task fails with this, and is about to end."""
        ...

    def ended(self, kernel: Dispatch, outcome: Outcome) -> None:
        """The task is DONE."""
        ...

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        """A timer of kind PERMIT has fired."""
        ...


class Permission(Ledger):
    """The ledger, plus who may start and who stands still."""

    def admit(self, task: Task, priority: int, effective: int) -> None:
        """A PENDING task may start."""
        assert task.state is State.PENDING, "only who waits for permission is admitted"
        self._link(task, ADMIT)
        self.note("task_admitted", task, (priority, effective))
        self._ready(task)

    def drop(self, task: Task, reason: CancelReason) -> None:
        """A PENDING task never starts, nor does one that was paused while it was PENDING."""
        if task.state is State.PAUSED:
            move(task, State.PENDING)
        assert task.state is State.PENDING, "only who waits for permission is dropped"
        self._link(task, DROP)
        self.note("task_dropped", task, reason)
        self.finish(task, Outcome(OutcomeKind.DROPPED, reason=reason))

    def finish(self, task: Task, outcome: Outcome) -> bool:
        raise NotImplementedError

    def _link(self, task: Task, what: int) -> None:
        self.chain = link(self.chain, task.id, task.nursery.id, what, 0, 0, 0, task.generation)

    def pause(self, task: Task) -> None:
        """A task that does not run stands still from here on."""
        self.note("task_paused", task)
        match task.state:
            case State.BLOCKED:
                task.wake = WakeState.RUNNING
                return
            case State.READY:
                self._unqueue(task)
                task.wake = WakeState.IDLE
            case State.EXHAUSTED:
                task.nursery.exhausted.pop(task.id, None)
                task.error = None  # it asks again for what it could not pay
            case _:
                pass
        move(task, State.PAUSED)
        task.since_ns = self.now_ns

    def interrupt(self, task: Task) -> None:
        if task.ticket is not None:
            if task.cut or deliverable(task) is task:
                task.ticket.stopped(self)
            else:
                stands = self.is_paused(task)
                task.ticket.scope_cancelled(self)
                if stands:
                    return
        super().interrupt(task)

    def is_paused(self, task: Task) -> bool:
        return task.state is State.PAUSED or (task.state is State.BLOCKED and task.wake is not WakeState.IDLE)

    def resume(self, task: Task, admitted: bool) -> None:
        """A paused task goes on; one that was not admitted yet goes on waiting for permission."""
        assert self.is_paused(task), "only who stands still goes on"
        self.note("task_resumed", task)
        if task.state is State.BLOCKED:
            self._unpause(task)
            if task.cancel_pending:
                self.interrupt(task)
        elif admitted:
            self._ready(task)
        else:
            move(task, State.PENDING)
            task.since_ns = self.now_ns
