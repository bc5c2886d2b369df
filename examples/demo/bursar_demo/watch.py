"""The watcher: the kernel's observer during one run, which notes what ran, what waited, how long and why.

It reads the law's records and changes none. A view sets `on_decision`, which may sleep on the real clock: that delays
the run and cannot change the schedule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bursar import BudgetExceeded, CancelKind, Outcome, OutcomeKind, Runtime, State
from bursar.backend import Task
from bursar.ops.explain import why

FIRST_OF: Final = "waits for the first of: "  # how the reason of a select begins


@dataclass
class Kind:
    """All tasks of one kind: those whose names differ only in a number."""

    spawned: int = 0
    ended: Counter[OutcomeKind] = field(default_factory=Counter[OutcomeKind])
    cut: int = 0
    decisions: int = 0
    ops: int = 0
    waits: dict[str, Waited] = field(default_factory=dict[str, "Waited"])  # by reason


@dataclass
class Waited:
    """The waits of one kind of tasks for one reason."""

    count: int = 0
    longest_ns: int = 0


class End(NamedTuple):
    """How a task ended, and whose child it was."""

    name: str
    parent: int
    outcome: Outcome


class News(NamedTuple):
    """An event that gets a line in the view."""

    seconds: float
    who: str
    what: str
    colour: str


class Watch:
    """The observer of one run, in place as soon as it is made."""

    def __init__(self, runtime: Runtime, tasks: int) -> None:
        self.runtime = runtime
        self.kernel = runtime.kernel
        self.tasks = tasks
        self.kinds: dict[str, Kind] = {}
        self.ends: dict[int, End] = {}
        self.news: list[News] = []
        self.on_decision: Callable[[], None] | None = None
        self._waiting: dict[int, tuple[int, str]] = {}  # task id → since when, and why
        self._polled: Task | None = None
        self.kernel.observe(self)

    def __call__(self, event: str, task: Task | None, detail: Any) -> None:
        self._look_back()
        if task is None:
            return
        kind = self.kinds.setdefault(kind_of(task), Kind())
        match event:
            case "task_spawned":
                kind.spawned += 1
            case "scheduler_step_decision":
                kind.decisions += 1
                self._polled = task
                self._resumed(task, kind)
            case "task_done":
                self._done(task, kind)
            case "budget_exceeded":
                self._tell(task.name, f"is out of {detail} and must stop", "red")
            case "budget_held":
                self._tell(task.name, f"is out of {detail} and waits for a recharge", "cyan")
            case "recharged":
                self._tell(task.name, f"is recharged: {detail}", "cyan")
            case "cancel_requested" if detail.kind in (CancelKind.TIMEOUT, CancelKind.USER):
                self._tell(task.name, f"is asked to stop ({detail})", "yellow")
                if task.nursery is self.kernel.root:  # Ctrl-C: the rest is not shown
                    self.on_decision = None
            case "cleanup_cut":
                kind.cut += 1
                self._tell(task.name, f"is cut off: {detail}", "magenta")
            case _:
                pass
        if event == "scheduler_step_decision" and self.on_decision is not None:
            self.on_decision()

    def _look_back(self) -> None:
        """The task polled last: if its poll is over and it waits, note since when and what for.

        Nothing can have ended the wait yet: every way to end one begins with an event.
        """
        task = self._polled
        if task is None or task.state is State.RUNNING:
            return
        self._polled = None
        held = task.state is State.EXHAUSTED and task.nursery.hold
        if task.state is State.BLOCKED or held:
            self._waiting[task.id] = (task.since_ns, reason_of(task))

    def _resumed(self, task: Task, kind: Kind) -> None:
        since_ns, reason = self._waiting.pop(task.id, (0, ""))
        if not reason:
            return
        wait = kind.waits.setdefault(alike(reason), Waited())
        wait.count += 1
        wait.longest_ns = max(wait.longest_ns, self.kernel.now_ns - since_ns)

    def _done(self, task: Task, kind: Kind) -> None:
        outcome = task.outcome
        assert outcome is not None, "a task that is done has an outcome"
        kind.ended[outcome.kind] += 1
        kind.ops += task.spent[0]
        owner = task.nursery.owner
        self.ends[task.id] = End(task.name, owner.id if owner is not None else 0, outcome)
        if outcome.kind is OutcomeKind.FAILED and not isinstance(outcome.error, BudgetExceeded):
            self._tell(task.name, f"failed ({outcome.error}) and is restarted", "red")
        done = kind.ended[OutcomeKind.OK]
        quarter = done * 4 // self.tasks > (done - 1) * 4 // self.tasks
        if kind_of(task) == "fetch" and outcome.kind is OutcomeKind.OK and quarter:
            self._tell("fetch", f"{done:,} of {self.tasks:,} pages", "green")

    def _tell(self, who: str, what: str, colour: str) -> None:
        self.news.append(News(self.seconds, who, what, colour))

    @property
    def seconds(self) -> float:
        return self.kernel.now_ns / 1e9


def kind_of(task: Task) -> str:
    return task.name.partition(" ")[0]


def reason_of(task: Task) -> str:
    """Why a task waits. For a select, only what it waits for."""
    return why(task).removeprefix(FIRST_OF)


def alike(reason: str) -> str:
    """A reason without the parts that differ from task to task, so that equal reasons can be counted."""
    reason = reason.partition(";")[0]
    reason = re.sub(r" held by '.*'| for [\d.]+ s$", "", reason)
    reason = re.sub(r"[\d,]+ tasks? of nursery '(\S+).*'$", r"nursery '\1'", reason)
    return re.sub(r"nursery .* to recharge it$", "a recharge", reason)
