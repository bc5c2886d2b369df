"""Permission: how the kernel admits, drops, pauses and resumes a task. `law.admission` has the rules that decide.

This is the layer of the kernel between budgets and nurseries. A task that needs admission is spawned PENDING and holds
a *ticket*. Through the ticket its gate learns of its end and of its timers. The gate admits the task (`admit`) or drops
it (`drop`). Any task can be paused (`pause`) and resumed (`resume`):

    PENDING, READY, EXHAUSTED   become PAUSED, and leave their lane
    BLOCKED                     stays BLOCKED, because it still waits; a wake is noted, and queues it after the resume

A cancel request for a whole task also stops a paused task. A cancel request for a block in it (a timeout, a nursery
that the task owns) does not resume a paused task: it is delivered after the resume. But a task that was resumed and
still waits for its slot continues at once.

Every admission and every drop is a link of the chain, like a dispatch.

Rejected: a PAUSED state that remembers the state before it. A waiting task is in the queues of the things that it waits
for. Each of these queues would have to know that the task is paused.
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

ADMIT: Final = 6  # stands for a lane in the chain; the number after the last lane
DROP: Final = 7


class Ticket(Protocol):
    """What admission knows of one task: the part that the kernel uses."""

    excused: bool  # another attempt follows, so the failure does not count

    def stopped(self, kernel: Dispatch) -> None:
        """The whole task is asked to stop, or was cut."""
        ...

    def scope_cancelled(self, kernel: Dispatch) -> None:
        """A block in the task is asked to stop. If the task was resumed and waits for its slot, it continues."""
        ...

    def failed(self, error: Exception) -> None:
        """The task failed with `error` and is about to end."""
        ...

    def ended(self, kernel: Dispatch, outcome: Outcome) -> None:
        """The task is DONE."""
        ...

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        """A timer of kind PERMIT has fired."""
        ...


class Permission(Ledger):
    """The ledger, plus admission and pauses."""

    def admit(self, task: Task, priority: int, effective: int) -> None:
        """A PENDING task may start."""
        assert task.state is State.PENDING, "only a PENDING task is admitted"
        self._link(task, ADMIT)
        self.note("task_admitted", task, (priority, effective))
        self._ready(task)

    def drop(self, task: Task, reason: CancelReason) -> None:
        """End a task that never starts. It is PENDING, or was paused while it was PENDING."""
        if task.state is State.PAUSED:
            move(task, State.PENDING)
        assert task.state is State.PENDING, "only a PENDING task is dropped"
        self._link(task, DROP)
        self.note("task_dropped", task, reason)
        self.finish(task, Outcome(OutcomeKind.DROPPED, reason=reason))

    def finish(self, task: Task, outcome: Outcome) -> bool:
        raise NotImplementedError

    def _link(self, task: Task, what: int) -> None:
        self.chain = link(self.chain, task.id, task.nursery.id, what, 0, 0, 0, task.generation)

    def pause(self, task: Task) -> None:
        """Pause a task that does not run."""
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
                task.error = None  # after the resume, it repeats the request that it could not pay
            case _:
                pass
        move(task, State.PAUSED)
        task.since_ns = self.now_ns

    def interrupt(self, task: Task) -> None:
        if task.ticket is not None:
            if task.cut or deliverable(task) is task:
                task.ticket.stopped(self)
            else:
                paused = self.is_paused(task)
                task.ticket.scope_cancelled(self)
                if paused:
                    return
        super().interrupt(task)

    def is_paused(self, task: Task) -> bool:
        return task.state is State.PAUSED or (task.state is State.BLOCKED and task.wake is not WakeState.IDLE)

    def resume(self, task: Task, admitted: bool) -> None:
        """End the pause of a task. A task that was not admitted yet is PENDING again."""
        assert self.is_paused(task), "only a paused task is resumed"
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
