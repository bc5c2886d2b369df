"""`Permit`: what admission knows of one task, from the moment when it asks until nobody holds the task any more.

    WAITS ◄──all it waits for is there, or it stands still──► QUEUED ──admitted──► HELD ──its end──► OVER
      │                                                         │                  │  ▲               ▲
      └────────────────────► STOPS ◄────────────────────────────┘            aside │  │ granted       │
                               │                                                   ▼  │               │
                               └─────────────────── its end                ASIDE ◄──► RETURNS         │
                                                        └─────────────────────────────────────────────┘

WAITS: for tasks that it is to follow, for the time of a retry, or to be resumed. STOPS: it was asked to stop before it
was admitted, and is about to end. ASIDE: admitted, and stands still (paused, or waiting for children of its own at the
same gate); what it does not use meanwhile is given back, so it must ask for that again: RETURNS.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from bursar.errors import IllegalTransition, PauseTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from bursar.admission.gate import Gate
    from bursar.admission.resources import Demand
    from bursar.admission.retry import Retry
    from bursar.law.cancel import CancelReason
    from bursar.law.dispatch import Dispatch
    from bursar.law.state import Outcome
    from bursar.law.task import Task
    from bursar.law.timers import Timer
    from bursar.law.wake import Wait

HISTORY_MAX: Final = 32  # the newest reasons that a task has waited for; older ones are forgotten


class PermitState(Enum):
    """Where a permit stands."""

    WAITS = "waits"
    QUEUED = "queued"
    STOPS = "stops"
    HELD = "held"
    ASIDE = "aside"
    RETURNS = "returns"
    OVER = "over"


_WAITS, _QUEUED, _STOPS, _HELD, _ASIDE, _RETURNS, _OVER = PermitState

TRANSITIONS: Final[dict[PermitState, frozenset[PermitState]]] = {
    _WAITS: frozenset({_QUEUED, _STOPS, _OVER}),
    _QUEUED: frozenset({_HELD, _WAITS, _STOPS, _OVER}),  # back to WAITS: paused before it was admitted
    _STOPS: frozenset({_OVER}),
    _HELD: frozenset({_ASIDE, _OVER}),
    _ASIDE: frozenset({_RETURNS, _OVER}),
    _RETURNS: frozenset({_HELD, _ASIDE, _OVER}),  # back to ASIDE: paused before it was its turn
    _OVER: frozenset(),
}


def move(permit: Permit, to: PermitState) -> None:
    """Change the state of a permit, if the table allows it."""
    if to not in TRANSITIONS[permit.state]:
        raise IllegalTransition(f"{permit!r} cannot become {to.name}")
    permit.state = to


class Past(NamedTuple):
    """From when on a task waited, and for what."""

    since: float  # seconds
    reason: str


class Permit:
    """See the module's first paragraph."""

    __slots__ = (
        "attempt",
        "call",
        "cause",
        "demand",
        "entered_ns",
        "excused",
        "gate",
        "history",
        "joins",
        "late",
        "lent",
        "needs",
        "next",
        "next_task",
        "patience_ns",
        "paused",
        "pausing",
        "place",
        "priority",
        "ready_ns",
        "regain",
        "retry",
        "retry_of",
        "starved_ns",
        "state",
        "successors",
        "task",
        "timer",
        "unmet",
        "waited_ns",
    )

    def __init__(self, gate: Gate, priority: int, demand: Demand, state: PermitState = PermitState.WAITS) -> None:
        self.gate = gate
        self.task: Task = None  # pyright: ignore[reportAttributeAccessIssue]  (its own, from the spawn to the end)
        self.priority = priority
        self.demand = demand
        self.needs: dict[str, int] = {}
        self.state = state
        self.excused = False  # another attempt follows its failure
        # dependencies
        self.unmet = 0
        self.successors: dict[Permit, None] | None = None
        self.cause: CancelReason | None = None  # why those after it cannot be
        # waiting
        self.entered_ns = 0  # when it asked
        self.ready_ns = 0  # when it had everything but permission
        self.place = 0  # among all that ever had
        self.waited_ns = 0  # until it was admitted
        self.starved_ns = 0
        self.timer: Timer | None = None  # of the state that it is in
        self.history: deque[Past] | None = None
        # standing still
        self.paused = False  # was asked to, or does
        self.lent: Demand = ()  # what it gave back meanwhile
        self.pausing: list[Wait] | None = None  # who waits for it to stand; None: it was not asked, or stands
        self.patience_ns = 0  # how long they do
        self.late: PauseTimeout | None = None  # it was cancelled for that
        self.joins = False  # gave back because it waits for children at the same gate
        self.regain: Wait | None = None  # how it waits to have that back
        # attempts
        self.retry: Retry | None = None
        self.call: Callable[[Permit, Exception], None] | None = None  # makes another attempt, if there is to be one
        self.attempt = 1
        self.retry_of: Task | None = None
        self.next: Permit | None = None  # the attempt after this one,
        self.next_task: Task | None = None  # and its task

    def note(self, now_ns: int, reason: str) -> None:
        """Write down what it waits for from now on."""
        if self.history is None:
            self.history = deque(maxlen=HISTORY_MAX)
        self.history.append(Past(now_ns / 1e9, reason))

    def kept(self) -> Demand:
        """What it takes of its demand while it stands still."""
        return tuple(pair for pair in self.demand if pair not in self.lent)

    def over(self) -> None:
        """Its task is over and holds it; it need not hold the task."""
        move(self, _OVER)
        self.call = self.regain = None
        self.paused = False
        self.task = None  # pyright: ignore[reportAttributeAccessIssue]

    # ---- for the law (`law.permission.Permit`)

    def stopped(self, kernel: Dispatch) -> None:
        self.gate.stopped(kernel, self)

    def failed(self, error: Exception) -> None:
        if self.call is not None:
            self.call(self, error)

    def ended(self, kernel: Dispatch, outcome: Outcome) -> None:
        self.gate.ended(kernel, self, outcome)

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        self.gate.expired(kernel, self)

    def __repr__(self) -> str:
        return f"<permit of {self.task!r} {self.state.value}>"
