"""Shows the present state of a run: the task tree, the wait graph, the explanation of one task.

All of it is read from the law's records; nothing is collected while a program runs. Every walk is a loop, not a
recursion, and visits each task once, so that a tree with a hundred thousand levels can be printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.backend import Kernel, Nursery, Task, Ticket
from bursar.law.admission import explain as admission
from bursar.law.admission.explain import Admission
from bursar.law.budget import COMPONENTS, OPS, Budget
from bursar.law.cancel import CancelPhase, outward
from bursar.law.state import State

NAMED_MAX: Final = 8  # how many blockers a sentence names before it says "and more"
INDENT_MAX: Final = 40  # levels that are drawn; deeper ones are marked by number


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
            now), its `place` in a `queue`, `waited` and `starved` seconds, `attempt`, and its `blockers`, each with
            `what`, `text`, `tasks`, `resource`, `needed` and `free`. None if it never had to ask.
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
        line += f" [{self.seconds:g} s; spent {_spent(self.spent)}]"
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
            return f"ran out of {COMPONENTS[task.short_of]} and waits for {task.nursery.name} to recharge it"
        case State.DONE:
            return str(task.outcome)
        case State.PENDING | State.PAUSED:
            return "waits for permission" if task.state is State.PENDING else "is paused"


def _blockers(task: Task) -> tuple[tuple[str, ...], bool]:
    """The names of the first few tasks that a task waits for, and whether there are more.

    It never lists all of them: if n tasks wait for n tasks, the lists would have n² names.
    """
    blockers = task.wait.blockers() if task.wait is not None else ()
    named = tuple(blocker.name for blocker in itertools.islice(blockers, NAMED_MAX + 1))
    return named[:NAMED_MAX], len(named) > NAMED_MAX


def _at_gate(kernel: Kernel, task: Task) -> Admission | None:
    ticket = task.ticket
    return admission.explain(ticket, kernel.tasks.values(), kernel.now_ns) if isinstance(ticket, Ticket) else None


def explain(kernel: Kernel, task: Task) -> Explanation:
    """The explanation of one task."""
    blockers, more = _blockers(task)
    gate, reason = _at_gate(kernel, task), why(task)
    if gate is not None and gate.blockers:
        reason = str(gate) if task.state is not State.BLOCKED else f"{reason}; {gate}"
        held_up = [(blocker.tasks, blocker.more) for blocker in gate.blockers if blocker.tasks]
        if held_up and not blockers:
            blockers, more = held_up[0]
    asked = [
        str(scope.reason) for scope in outward(task) if scope.phase in (CancelPhase.REQUESTED, CancelPhase.DRAINING)
    ]
    seconds = (kernel.now_ns - task.since_ns) / 1e9
    return Explanation(
        task.id,
        task.name,
        State.PAUSED if kernel.is_paused(task) else task.state,
        reason,
        blockers,
        more,
        seconds,
        Budget(*task.spent),
        asked[-1] if asked else "",
        gate,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree: a nursery or a task, and its depth."""

    depth: int
    nursery: str  # its title, or "" in the row of a task
    task: Explanation | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree of nurseries and tasks at one moment. `str()` draws it.

    Attributes:
        seconds: The time of the run.
        decisions: The decisions so far.
        rows: Each with its `depth`, and the title of a nursery or the `Explanation` of a task.
    """

    seconds: float
    decisions: int
    rows: tuple[Row, ...]

    @property
    def tasks(self) -> tuple[Explanation, ...]:
        """The explanations of all tasks."""
        return tuple(row.task for row in self.rows if row.task is not None)

    def __str__(self) -> str:
        head = f"bursar: {len(self.tasks)} tasks at {self.seconds:g} s after {self.decisions:,} decisions"
        return "\n".join([head, *(_draw(row) for row in self.rows)])


def _draw(row: Row) -> str:
    indent = "  " * min(row.depth, INDENT_MAX) + (f"(level {row.depth}) " if row.depth > INDENT_MAX else "")
    if row.task is None:
        return f"{indent}{row.nursery}"
    task = row.task
    line = f"{indent}- {task.name} ({task.id}) {task.state.name}: {task.reason}"
    line += f" [{task.seconds:g} s; spent {_spent(task.spent)}]"
    return line + (f" — asked to stop ({task.cancelling})" if task.cancelling else "")


def _spent(budget: Budget) -> str:
    amounts = [f"{v:,} {n}" for n, v in zip(COMPONENTS, budget.as_tuple(), strict=True) if v]
    return ", ".join(amounts) or f"0 {COMPONENTS[OPS]}"


def take(kernel: Kernel) -> Snapshot:
    """The whole tree, now."""
    rows = tuple(_walk(kernel))
    return Snapshot(kernel.now_ns / 1e9, kernel.decisions, rows)


def _walk(kernel: Kernel) -> Iterator[Row]:
    stack: list[tuple[int, Nursery | Task]] = [(0, kernel.root)]
    while stack:
        depth, item = stack.pop()
        if isinstance(item, Task):
            yield Row(depth, "", explain(kernel, item))
            below: list[Nursery | Task] = list((item.owned or {}).values())
        else:
            yield Row(depth, f"{item.name}: {item.state.name}, {len(item.children)} live of {item.spawned}", None)
            below = list(item.children.values())
        stack.extend((depth + 1, child) for child in reversed(below))


def wait_graph(kernel: Kernel) -> str:
    """The text of a deadlock report: one line per task, which says what the task waits for."""
    lines: list[str] = []
    for task in kernel.tasks.values():
        told = explain(kernel, task) if task.ticket is not None else None
        line = f"  task {task.name!r} ({task.id}) {why(task) if told is None else told.reason}"
        blockers, more = _blockers(task) if told is None else (told.blockers, told.more_blockers)
        if blockers:
            named = ", ".join(repr(name) for name in blockers)
            line += f"  ← {named}{' and more' if more else ''}"
        lines.append(line)
    remedies = itertools.islice(admission.remedies(kernel.tasks.values()), NAMED_MAX)
    return "\n".join([*lines, *(f"  remedy: {told}" for told in remedies)])
