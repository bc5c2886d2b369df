"""Explains one task: why the task is in its state, which tasks it waits for, and its state at its gate.

An explanation is read from the law's records at that moment. `law/admission/blockers.py` has the part about a gate.
The command `bursar explain` (`cli/explain.py`) is another thing: it reads the journal of a workflow.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from bursar.backend import Kernel, Task, Ticket
from bursar.law.admission.blockers import Admission, admission_of
from bursar.law.budget import COMPONENTS, OPS, Budget
from bursar.law.cancel import CancelPhase, outward
from bursar.law.ledger import short_name
from bursar.law.state import State

NAMED_MAX: Final = 8  # how many blockers a sentence names before it says "and more"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one task does not run. `str()` gives one line.

    Attributes:
        id: The number of the task.
        name: Its name.
        state: Its `State`.
        reason: The reason in words.
        blockers: Names of the tasks that can end the wait, where known; at most eight.
        more_blockers: Whether there are more.
        seconds: For how long it has been in this state.
        spent: What it has spent.
        cancelling: Why it was asked to stop, or empty.
        admission: Its state at its gate, now or last: `state`, `priority`, `effective` (the priority that counts
            now), its `place` in a `queue` of so many tasks, `queue_name`, how many tasks of higher and of the same
            priority are ahead (`ahead_higher`, `ahead_equal`), `waited` and `starved` seconds, `attempt`, and its
            `blockers`, each with `what`, `text`, `tasks`, `resource`, `needed`, `free` and `since`. None if it never
            had to ask.
    """

    id: int
    name: str
    state: State
    reason: str
    blockers: tuple[str, ...]  # the first few tasks that it waits for
    more_blockers: bool  # whether there are others
    seconds: float  # in this state
    spent: Budget
    cancelling: str  # why it is asked to stop; empty if it is not
    admission: Admission | None = None  # its state at its gate; None: it needed no admission

    def __str__(self) -> str:
        line = f"task {self.name!r} ({self.id}) is {self.state.name}: {self.reason}"
        line += f" [{self.seconds:g} s; spent {spent_in_words(self.spent)}]"
        if self.cancelling:
            line += f" — asked to stop ({self.cancelling})"
        return line


def why(task: Task) -> str:
    """Why a task is in its state, as the end of the sentence "the task …"."""
    match task.state:
        case State.BLOCKED:  # a signal may print a dump between two lines, before `wait` is set
            return task.wait.reason if task.wait is not None else "is about to wait"
        case State.READY:
            return f"waits for its turn in the {task.lane.name.lower() if task.lane is not None else '?'} lane"
        case State.RUNNING:
            return "runs"
        case State.EXHAUSTED:
            return f"ran out of {short_name(task)} and waits for {task.nursery.name} to recharge it"
        case State.DONE:
            return str(task.outcome)
        case State.PENDING | State.PAUSED:
            return "waits for permission" if task.state is State.PENDING else "is paused"


def blockers_of(task: Task) -> tuple[tuple[str, ...], bool]:
    """The names of the first few tasks that a task waits for, and whether there are more.

    It never lists all of them: if n tasks wait for n tasks, the lists would have n² names.
    """
    blockers = task.wait.blockers() if task.wait is not None else ()
    named = tuple(blocker.name for blocker in itertools.islice(blockers, NAMED_MAX + 1))
    return named[:NAMED_MAX], len(named) > NAMED_MAX


def _at_gate(kernel: Kernel, task: Task, now_ns: int) -> Admission | None:
    ticket = task.ticket
    return admission_of(ticket, kernel.tasks.values(), now_ns) if isinstance(ticket, Ticket) else None


def _spent(task: Task) -> Budget:
    """What a task has spent, with the ops that its function on a thread has used and the loop has not billed yet."""
    ops, *others = task.spent
    return Budget(ops + getattr(task.wait, "unbilled_ops", 0), *others, **(task.named_spent or {}))


def explain(kernel: Kernel, task: Task, now_ns: int) -> Explanation:
    """The explanation of one task, at this time of the run."""
    blockers, more = blockers_of(task)
    gate, reason = _at_gate(kernel, task, now_ns), why(task)
    if gate is not None and gate.blockers:
        reason = str(gate) if task.state is not State.BLOCKED else f"{reason}; {gate}"
        held_up = [(blocker.tasks, blocker.more) for blocker in gate.blockers if blocker.tasks]
        if held_up and not blockers:
            blockers, more = held_up[0]
    asked = [
        str(scope.reason) for scope in outward(task) if scope.phase in (CancelPhase.REQUESTED, CancelPhase.DRAINING)
    ]
    seconds = (now_ns - task.since_ns) / 1e9
    return Explanation(
        task.id,
        task.name,
        State.PAUSED if kernel.is_paused(task) else task.state,
        reason,
        blockers,
        more,
        seconds,
        _spent(task),
        asked[-1] if asked else "",
        gate,
    )


def spent_in_words(budget: Budget) -> str:
    """The components that were spent, with their amounts."""
    amounts = [f"{amount:,} {name}" for name, amount in budget.limits() if amount]
    return ", ".join(amounts) or f"0 {COMPONENTS[OPS]}"
