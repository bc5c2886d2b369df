"""The states of a task, its outcomes, and the one table of legal transitions.

                         ┌────────── yield ───────────┐
                         ▼                            │
    PENDING ──► READY ──► RUNNING ──► BLOCKED ──► READY
       │          │          ├──────► EXHAUSTED ─► READY        (recharged, and queued)
       │          │          ├──────► PAUSED ────► READY | PENDING
       ▼          ▼          ▼
      DONE       DONE       DONE        and from BLOCKED, EXHAUSTED, PAUSED when cancelled or cut off

`move` is the only function that changes a task's state, and `TRANSITIONS` the only place that says which
changes exist. A DONE task has an `Outcome`; `ENDINGS` says which outcomes each state may end in.

Rejected: a state per outcome (Completed, Cancelled, …). It doubles the table. It also mixes two things that are
independent: how a task was scheduled and how it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bursar.errors import IllegalTransition
from bursar.text import NamedInt, brief, type_name

if TYPE_CHECKING:
    from bursar.law.cancel import CancelReason
    from bursar.law.task import Task


class State(NamedInt):
    """Where a task is in its life, from its spawn to its end.

    `PENDING`: waits for permission. `READY`: in a queue. `RUNNING`: runs. `BLOCKED`: waits. `EXHAUSTED`: cannot pay.
    `PAUSED`: is paused. `DONE`: has ended.
    """

    PENDING = 0  # waits for permission (admission)
    READY = 1  # has exactly one entry in exactly one lane
    RUNNING = 2  # is being polled
    BLOCKED = 3  # waits; `task.wait` says for what
    EXHAUSTED = 4  # could not pay; nothing was charged
    PAUSED = 5  # was paused
    DONE = 6  # has an outcome, holds nothing


class OutcomeKind(NamedInt):
    """How a task ended, ordered by severity for reports that name the worst ending.

    `OK`: returned. `FAILED`: raised an `Exception`. `CANCELLED`: was cancelled. `PANICKED`: raised another
    `BaseException`. `DROPPED`: never started; it does not count in a nursery's result.
    """

    OK = 0
    DROPPED = 1
    FAILED = 2
    CANCELLED = 3
    PANICKED = 4


_PENDING, _READY, _RUNNING, _BLOCKED, _EXHAUSTED, _PAUSED, _DONE = State

TRANSITIONS: dict[State, frozenset[State]] = {
    _PENDING: frozenset({_READY, _PAUSED, _DONE}),
    _READY: frozenset({_RUNNING, _PAUSED, _DONE}),
    _RUNNING: frozenset({_READY, _BLOCKED, _EXHAUSTED, _PAUSED, _DONE}),
    _BLOCKED: frozenset({_READY, _PAUSED, _DONE}),
    _EXHAUSTED: frozenset({_READY, _PAUSED, _DONE}),
    _PAUSED: frozenset({_READY, _PENDING, _DONE}),
    _DONE: frozenset(),
}

# The same table as bit masks, indexed by state, for the hot path.
_LEGAL = tuple(sum(1 << to for to in TRANSITIONS[state]) for state in State)

_ENDED_FROM_OUTSIDE = frozenset({OutcomeKind.CANCELLED, OutcomeKind.FAILED})

ENDINGS: dict[State, frozenset[OutcomeKind]] = {
    _PENDING: frozenset({OutcomeKind.DROPPED, OutcomeKind.CANCELLED}),
    _READY: frozenset({OutcomeKind.CANCELLED}),  # cancelled before its first poll
    _RUNNING: frozenset(OutcomeKind) - {OutcomeKind.DROPPED},
    _BLOCKED: _ENDED_FROM_OUTSIDE,
    _EXHAUSTED: _ENDED_FROM_OUTSIDE,
    _PAUSED: _ENDED_FROM_OUTSIDE,
    _DONE: frozenset(),
}


class _KeepsTraceback:
    """A slot that is not a field: it is not compared or pickled, and C does not fill it."""

    __slots__ = ("_traceback",)


@dataclass(frozen=True, slots=True)
class Outcome(_KeepsTraceback):
    """How a task ended. One of `value`, `error` and `reason` is set, by `kind`.

    Attributes:
        kind: An `OutcomeKind`.
        value: What it returned.
        error: What it raised.
        reason: A `CancelReason`, if it was cancelled or dropped.
    """

    kind: OutcomeKind
    value: Any = None
    error: BaseException | None = None
    reason: CancelReason | None = None

    @property
    def traceback(self) -> TracebackType | None:
        """Where the task raised `error`, or None. Each `raise` of the error adds frames to the error's own traceback,
        but not to this one."""
        return getattr(self, "_traceback", None)

    def __str__(self) -> str:
        match self.kind:
            case OutcomeKind.OK:
                return "ok"
            case OutcomeKind.FAILED | OutcomeKind.PANICKED:
                return f"{self.kind.name.lower()}: {type_name(self.error)}: {brief(self.error)}"
            case _:
                return f"{self.kind.name.lower()}: {self.reason}"

    def __repr__(self) -> str:
        match self.kind:
            case OutcomeKind.OK:
                return f"Outcome({self.kind}, value={brief(self.value, repr)})"
            case OutcomeKind.FAILED | OutcomeKind.PANICKED:
                return f"Outcome({self.kind}, error={brief(self.error, repr)})"
            case _:
                return f"Outcome({self.kind}, reason={self.reason!r})"


def raised(kind: OutcomeKind, error: BaseException, traceback: TracebackType | None) -> Outcome:
    """The outcome of a task that raised `error`. Keeps the traceback."""
    outcome = Outcome(kind, error=error)
    object.__setattr__(outcome, "_traceback", traceback)
    return outcome


def severer(a: OutcomeKind, b: OutcomeKind) -> OutcomeKind:
    """The worse of two endings, for reports: ok < dropped < failed < cancelled < panicked."""
    return max(a, b)


def move(task: Task, to: State) -> None:
    """Change the state of a task, if the table allows it."""
    if not _LEGAL[task.state] >> to & 1:
        raise IllegalTransition(f"task {task.name!r} ({task.id}) cannot go from {task.state.name} to {to.name}")
    task.state = to


def end(task: Task, outcome: Outcome) -> None:
    """Move a task to DONE with an outcome that its state may end in."""
    if outcome.kind not in ENDINGS[task.state]:
        raise IllegalTransition(
            f"task {task.name!r} ({task.id}) cannot end {outcome.kind.name} while {task.state.name}"
        )
    move(task, State.DONE)
    task.outcome = outcome
