"""Shows the present state of a run: the task tree and the wait graph. `ops/explain.py` explains each task in them.

All of it is read from the law's records; nothing is collected while a program runs. Every walk is a loop, not a
recursion, and visits each task once, so that a tree with a hundred thousand levels can be printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.backend import Kernel, Nursery, Task
from bursar.law.admission.blockers import remedies
from bursar.ops.explain import NAMED_MAX, Explanation, blockers_of, explain, spent_in_words, why

INDENT_MAX: Final = 40  # levels that are drawn; deeper ones are marked by number


@dataclass(frozen=True, slots=True)
class SnapshotRow:
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
    rows: tuple[SnapshotRow, ...]

    @property
    def tasks(self) -> tuple[Explanation, ...]:
        """The explanations of all tasks."""
        return tuple(row.task for row in self.rows if row.task is not None)

    def __str__(self) -> str:
        head = f"bursar: {len(self.tasks)} tasks at {self.seconds:g} s after {self.decisions:,} decisions"
        return "\n".join([head, *(_draw(row) for row in self.rows)])


def _draw(row: SnapshotRow) -> str:
    indent = "  " * min(row.depth, INDENT_MAX) + (f"(level {row.depth}) " if row.depth > INDENT_MAX else "")
    if row.task is None:
        return f"{indent}{row.nursery}"
    task = row.task
    line = f"{indent}- {task.name} ({task.id}) {task.state.name}: {task.reason}"
    line += f" [{task.seconds:g} s; spent {spent_in_words(task.spent)}]"
    return line + (f" — asked to stop ({task.cancelling})" if task.cancelling else "")


def take(kernel: Kernel, now_ns: int) -> Snapshot:
    """The whole tree, at this time of the run."""
    rows = tuple(_walk(kernel, now_ns))
    return Snapshot(now_ns / 1e9, kernel.decisions, rows)


def _walk(kernel: Kernel, now_ns: int) -> Iterator[SnapshotRow]:
    stack: list[tuple[int, Nursery | Task]] = [(0, kernel.root)]
    while stack:
        depth, item = stack.pop()
        if isinstance(item, Task):
            yield SnapshotRow(depth, "", explain(kernel, item, now_ns))
            below: list[Nursery | Task] = list((item.owned or {}).values())
        else:
            yield SnapshotRow(
                depth, f"{item.name}: {item.state.name}, {len(item.children)} live of {item.spawned}", None
            )
            below = list(item.children.values())
        stack.extend((depth + 1, child) for child in reversed(below))


def wait_graph(kernel: Kernel) -> str:
    """The text of a deadlock report: one line per task, which says what the task waits for."""
    lines: list[str] = []
    for task in kernel.tasks.values():
        explained = explain(kernel, task, kernel.now_ns) if task.ticket is not None else None
        line = f"  task {task.name!r} ({task.id}) {why(task) if explained is None else explained.reason}"
        blockers, more = blockers_of(task) if explained is None else (explained.blockers, explained.more_blockers)
        if blockers:
            named = ", ".join(repr(name) for name in blockers)
            line += f"  ← {named}{' and more' if more else ''}"
        lines.append(line)
    advice = itertools.islice(remedies(kernel.tasks.values()), NAMED_MAX)
    return "\n".join([*lines, *(f"  remedy: {remedy}" for remedy in advice)])
