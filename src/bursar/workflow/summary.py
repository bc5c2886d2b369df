"""The report of a run of a workflow: each task, the totals, and the critical path. `str()` prints it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bursar.text import brief
from bursar.workflow.graph import Graph, critical_path

PATH_SHOWN: Final = 12  # steps of the critical path in the summary; `Report.critical_path` has them all
FAILED_SHOWN: Final = 20
ERROR_SHOWN: Final = 300  # characters of an error

ORDER: Final = ("ok", "failed", "cancelled", "dropped", "pending")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_STOPPED: Final = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}  # as in shells: 128 plus the number of the signal


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How one task ended.

    Attributes:
        name: Its name.
        state: `"ok"`, `"failed"`, `"cancelled"`, `"dropped"`, or `"pending"` if the run stopped before the task ended.
        attempts: The number of attempts, over all sessions.
        seconds: The duration of the last attempt.
        waited: How many seconds it waited in this session before it began.
        error: Why it failed, or was cancelled or dropped; otherwise empty.
        result: Its result.
        earlier: Whether an earlier session completed it.
        traceback: The traceback of a Python function that failed; otherwise empty.
    """

    name: str
    state: str
    attempts: int
    seconds: float
    waited: float
    error: str
    result: Any
    earlier: bool
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """How a run of a workflow ended. `str()` prints it.

    Attributes:
        workflow: The name of the workflow.
        tasks: A `TaskReport` for each task, by name.
        graph: The dependencies of the tasks.
        seconds: The duration of this session.
        stopped: The signal that stopped the run, or empty.
        journal: The journal, or None.
        listener_error: The error of the listener, or None. After it, the listener got no more events.
    """

    workflow: str
    tasks: dict[str, TaskReport]
    graph: Graph
    seconds: float
    stopped: str
    journal: Path | None
    listener_error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether every task succeeded."""
        return all(task.state == "ok" for task in self.tasks.values())

    @property
    def exit_code(self) -> int:
        """0 if every task succeeded. Otherwise 128 plus the number of the signal that stopped the run, or 1."""
        if self.ok:
            return EXIT_OK
        return EXIT_STOPPED.get(self.stopped, EXIT_FAILED)

    @property
    def results(self) -> dict[str, Any]:
        """The results of the tasks that succeeded, by name."""
        return {name: task.result for name, task in self.tasks.items() if task.state == "ok"}

    @property
    def counts(self) -> dict[str, int]:
        """The number of tasks by state."""
        found = Counter(task.state for task in self.tasks.values())
        return {state: found[state] for state in ORDER if found[state]}

    @property
    def critical_path(self) -> list[str]:
        """The chain of dependent tasks that took longest. No additional resources can make the run faster than this
        chain."""
        return critical_path(self.graph, {name: task.seconds for name, task in self.tasks.items()})

    @property
    def critical_seconds(self) -> float:
        """The duration of the critical path."""
        return sum(self.tasks[name].seconds for name in self.critical_path)

    @property
    def work_seconds(self) -> float:
        """The duration of all tasks of this session together."""
        return sum(task.seconds for task in self.tasks.values() if not task.earlier)

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {
            "workflow": self.workflow,
            "ok": self.ok,
            "exit_code": self.exit_code,
            "stopped": self.stopped,
            "counts": self.counts,
            "earlier": sum(task.earlier for task in self.tasks.values()),
            "seconds": round(self.seconds, 6),
            "work_seconds": round(self.work_seconds, 6),
            "critical_path": self.critical_path,
            "critical_seconds": round(self.critical_seconds, 6),
            "journal": None if self.journal is None else str(self.journal),
        }

    def __str__(self) -> str:
        return "\n".join([self._head(), *self._path(), *self._bad(), *self._silence(), *self._next()])

    def _head(self) -> str:
        earlier = sum(task.earlier for task in self.tasks.values())
        said = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        before = f" ({earlier} of them in an earlier session)" if earlier else ""
        stopped = f"; stopped by {self.stopped}" if self.stopped else ""
        line = f"{self.workflow}: {said}{before} in {self.seconds:.2f} s{stopped}"
        if self.seconds > 0 and self.work_seconds:
            line += f"; {self.work_seconds:.2f} s of work, {self.work_seconds / self.seconds:.1f} tasks at a time"
        return line

    def _path(self) -> list[str]:
        path = [name for name in self.critical_path if self.tasks[name].seconds > 0]
        if not path:
            return []
        lines = [f"critical path: {self.critical_seconds:.2f} s"]
        for name in path[:PATH_SHOWN]:
            task = self.tasks[name]
            waited = f", after {task.waited:.2f} s of waiting" if task.waited >= 0.01 else ""
            lines.append(f"  {task.seconds:8.2f} s  {name}{', in an earlier session' if task.earlier else waited}")
        if len(path) > PATH_SHOWN:
            lines.append(f"  and {len(path) - PATH_SHOWN} more")
        return lines

    def _bad(self) -> list[str]:
        bad = [task for task in self.tasks.values() if task.state in ("failed", "dropped")]
        lines = [f"{task.name} {task.state}: {task.error[:ERROR_SHOWN]}" for task in bad[:FAILED_SHOWN]]
        return lines + ([f"and {len(bad) - FAILED_SHOWN} more"] if len(bad) > FAILED_SHOWN else [])

    def _silence(self) -> list[str]:
        if self.listener_error is None:
            return []
        return [f"the listener failed and got no more events: {brief(self.listener_error, repr)}"]

    def _next(self) -> list[str]:
        if self.ok or self.journal is None:
            return []
        return [f"to continue: bursar resume {self.journal.stem if self._kept() else self.journal}"]

    def _kept(self) -> bool:
        """Whether `bursar resume` finds the journal by its id."""
        from bursar.workflow.store import folder

        return self.journal is not None and self.journal.parent == folder()
