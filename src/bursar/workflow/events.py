"""What a run of a workflow tells: events, as they happen, and where each step stands, for whoever looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bursar.workflow.journal import Waited
from bursar.workflow.model import Step

if TYPE_CHECKING:
    from bursar.ops.task import Task
    from bursar.workflow.execute import Execution


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a step, or (`task` is empty) to the run. `at` is in seconds since the run began."""

    at: float
    kind: str  # see docs/reference/workflow-file.md
    task: str = ""
    attempt: int = 0
    detail: str = ""
    seconds: float = 0.0
    value: Any = None


class Listener(Protocol):
    """Who watches a run. Called in its thread, so it should be quick. Once it has raised, it hears no more."""

    def on_event(self, event: Event) -> None:
        """Something happened."""
        ...

    def tick(self, run: Execution) -> None:
        """Time to look again, a few times a second."""
        ...


@dataclass(slots=True)
class StepRun:
    """Where one step stands."""

    step: Step
    state: str = "pending"
    attempt: int = 0
    waited: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    error: str = ""
    value: Any = None
    earlier: bool = False
    task: Task[Any] | None = None
    history: list[Waited] = field(default_factory=list[Waited])

    @property
    def reason(self) -> str:
        """What it waits for at this moment, in the words of the gate; "" if it does not wait."""
        return self.task.explain().reason if self.task is not None and self.state == "pending" else ""

    @property
    def progress(self) -> float:
        """How far it says that it is, between 0 and 1."""
        return (self.task.progress or 0.0) if self.task is not None and self.state == "running" else 0.0
