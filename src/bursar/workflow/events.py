"""What a run of a workflow shows to a listener: events, when they happen, and the state of each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bursar.workflow.journal import Waited
from bursar.workflow.step import Step

if TYPE_CHECKING:
    from bursar.ops.task import Task
    from bursar.workflow.execute import Execution


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a step, or to the run if `task` is empty. `at` is in seconds since the run began."""

    at: float
    kind: str  # see docs/reference/workflow-file.md
    task: str = ""
    attempt: int = 0
    detail: str = ""
    seconds: float = 0.0
    value: Any = None
    traceback: str = ""  # of a Python function that failed


class Listener(Protocol):
    """Gets the events of a run. The run calls it in its own thread, so it must be quick. After it has raised an
    error, it is not called again."""

    def on_event(self, event: Event) -> None:
        """Called for each event."""
        ...

    def tick(self, run: Execution) -> None:
        """Called a few times a second, for a view of the whole run."""
        ...


@dataclass(slots=True)
class StepRun:
    """The state of one step in this run."""

    step: Step
    state: str = "pending"
    attempt: int = 0
    waited: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    error: str = ""
    traceback: str = ""
    value: Any = None
    earlier: bool = False
    task: Task[Any] | None = None
    history: list[Waited] = field(default_factory=list[Waited])

    @property
    def reason(self) -> str:
        """Why the step waits now, in the words of the gate; "" if it does not wait."""
        return self.task.explain().reason if self.task is not None and self.state == "pending" else ""

    @property
    def progress(self) -> float:
        """The progress that the step reports, between 0 and 1."""
        return (self.task.progress or 0.0) if self.task is not None and self.state == "running" else 0.0
