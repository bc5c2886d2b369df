"""`Ticket`: what admission knows of one task, from the moment when it asks until nobody holds the task any more.

    WAITS ◄──all it waits for is there, or it stands still──► QUEUED ──admitted──► HELD ──its end──► OVER
      │                                                         │                  │  ▲               ▲
      └────────────────────► STOPS ◄────────────────────────────┘            aside │  │ granted, or   │
                               │                                                   ▼  │ is to stop    │
                               └─────────────────── its end                ASIDE ◄──► RETURNS         │
                                                        └─────────────────────────────────────────────┘

WAITS: for tasks that it is to follow, for the time of a retry, or to be resumed. STOPS: it was asked to stop before it
was admitted, and is about to end. ASIDE: admitted, and stands still (paused, or waiting for children of its own at the
same gate); what it does not use meanwhile is given back, so it must ask for that again: RETURNS. From either it is HELD
at once, without asking, when its task is asked to stop.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from bursar.errors import IllegalTransition, PauseTimeout
from bursar.law.admission.resources import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bursar.law.admission.gate import Gate
    from bursar.law.admission.resources import Demand, Resources
    from bursar.law.admission.retry import Retry
    from bursar.law.cancel import CancelReason
    from bursar.law.dispatch import Dispatch
    from bursar.law.state import Outcome
    from bursar.law.task import Task
    from bursar.law.timers import Timer
    from bursar.law.wake import Wait

HISTORY_MAX: Final = 32  # the newest reasons that a task has waited for; older ones are forgotten


class TicketState(IntEnum):
    """Where a ticket stands."""

    WAITING = 0
    QUEUED = 1
    STOPPING = 2
    ADMITTED = 3
    LENT = 4
    RETURNING = 5
    DONE = 6


_WAITING, _QUEUED, _STOPPING, _ADMITTED, _LENT, _RETURNING, _DONE = TicketState

TRANSITIONS: Final[dict[TicketState, frozenset[TicketState]]] = {
    _WAITING: frozenset({_QUEUED, _ADMITTED, _STOPPING, _DONE}),  # HELD at once: nobody waits, and it fits
    _QUEUED: frozenset({_ADMITTED, _WAITING, _STOPPING, _DONE}),  # back to WAITS: paused before it was admitted
    _STOPPING: frozenset({_DONE}),
    _ADMITTED: frozenset({_LENT, _DONE}),
    _LENT: frozenset({_RETURNING, _ADMITTED, _DONE}),  # HELD at once: its task is asked to stop
    _RETURNING: frozenset({_ADMITTED, _LENT, _DONE}),  # back to ASIDE: paused before it was its turn
    _DONE: frozenset(),
}

# The same table as bit masks, indexed by state: what the hot path reads.
_LEGAL = tuple(sum(1 << to for to in TRANSITIONS[state]) for state in TicketState)


def move(ticket: Ticket, to: TicketState) -> None:
    """Change the state of a ticket, if the table allows it."""
    if not _LEGAL[ticket.state] >> to & 1:
        raise IllegalTransition(f"{ticket!r} cannot become {to.name}")
    ticket.state = to


class WaitReason(NamedTuple):
    """From when on a task waited, and for what."""

    since: float  # seconds
    reason: str


class ShortageRecord(NamedTuple):
    """From when on a task waited for permission, and what it was short of then, in numbers. What it is short of later
    is not written down: that would be a look at everybody who waits whenever anybody ends."""

    since_ns: int
    resources: Resources
    demand: Demand
    taken: tuple[int, ...]  # then
    kept_for: str  # the task that holds a reservation, if another one does

    def told(self) -> WaitReason:
        short = self.resources.shortages(self.demand, self.taken)
        what = ", ".join(str(one) for one in short)
        if not short and self.kept_for:
            what = f"what is reserved for task {self.kept_for!r}"
        return WaitReason(self.since_ns / 1e9, f"waits for permission{what and f', at first short of {what}'}")


class Ticket:
    """See the module's first paragraph. What few tickets need has its default in the class and costs others nothing.

    In C the fields that every ticket uses are C; one that has none of the others is *plain*, and C may act on it.
    """

    excused = False  # another attempt follows its failure
    # dependencies
    dependency_count = 0  # how many it was to follow
    unmet = 0
    successors: list[Ticket] | None = None
    cause: CancelReason | None = None  # why those after it cannot be
    # waiting
    ready_ns = 0  # when it had everything but permission
    place = 0  # among all that ever were in a queue
    waited_ns = 0  # until it was admitted
    starved_ns = 0
    timer: Timer | None = None  # of the state that it is in
    reasons: list[WaitReason | ShortageRecord] | None = None
    # standing still
    paused = False  # was asked to, or does
    lent: Demand = ()  # what it gave back meanwhile,
    still: Demand = ()  # and what it keeps then
    pausing: list[Wait] | None = None  # who waits for it to stand; None: it was not asked, or stands
    patience_ns = 0  # how long they do
    late: PauseTimeout | None = None  # it was cancelled for that
    waits_for_children = False  # gave back because it waits for children at the same gate
    regain: Wait | None = None  # how it waits to have that back
    reclaimed = False  # took back what it gave without being let in: it was asked to stop
    # attempts
    retry: Retry | None = None
    call: Callable[[Ticket, Exception], None] | None = None  # makes another attempt, if there is to be one
    attempt = 1
    retry_of: Task | None = None
    next: Ticket | None = None  # the attempt after this one,
    next_task: Task | None = None  # and its task

    def __init__(
        self,
        gate: Gate,
        priority: int,
        demand: Demand,
        needs: Mapping[str, int] = NOTHING,
        state: TicketState = TicketState.WAITING,
    ) -> None:
        self.gate: Gate = gate
        self.priority = priority
        self.demand = demand
        self.needs = needs
        self.state = state
        self.task: Task = None  # pyright: ignore[reportAttributeAccessIssue]  (its own, from the spawn to the end)
        self.entered_ns = 0  # when it asked

    def precede(self, other: Ticket) -> None:
        """That one follows it."""
        if self.successors is None:
            self.successors = []
        self.successors.append(other)

    def note(self, now_ns: int, reason: str) -> None:
        """Write down what it waits for from now on."""
        self.keep(WaitReason(now_ns / 1e9, reason))

    def keep(self, past: WaitReason | ShortageRecord) -> None:
        reasons = self.reasons
        if reasons is None:
            self.reasons = [past]  # at once: without memory there is none, rather than an empty one
            return
        reasons.append(past)
        if len(reasons) > HISTORY_MAX:
            del reasons[0]

    @property
    def history(self) -> list[WaitReason]:
        """What it has waited for, oldest first."""
        first: list[WaitReason] = []
        if self.dependency_count:
            tasks = f"{self.dependency_count:,} task{'s' if self.dependency_count > 1 else ''}"
            first = [WaitReason(self.entered_ns / 1e9, f"waits for {tasks} that it follows")]
        later = [past.told() if isinstance(past, ShortageRecord) else past for past in self.reasons or ()]
        if self.waited_ns and (not later or later[0].since > self.ready_ns / 1e9):
            first.append(WaitReason(self.ready_ns / 1e9, "comes after others in the queue"))
        return first + later

    def kept(self) -> Demand:
        """What it takes of its demand while it stands still."""
        return self.still if self.lent else self.demand

    def over(self) -> None:
        """Its task is over and holds it; it need not hold the task, nor its gate."""
        move(self, _DONE)
        if self.call is not None:
            self.call = None
        if self.paused:
            self.paused = False
        self.task = None  # pyright: ignore[reportAttributeAccessIssue]
        self.gate = None  # pyright: ignore[reportAttributeAccessIssue]

    # ---- for the law (`law.permission.Ticket`)

    def stopped(self, kernel: Dispatch) -> None:
        self.gate.stopped(kernel, self)

    def scope_cancelled(self, kernel: Dispatch) -> None:
        self.gate.scope_cancelled(kernel, self)

    def failed(self, error: Exception) -> None:
        if self.call is not None:
            self.call(self, error)

    def ended(self, kernel: Dispatch, outcome: Outcome) -> None:
        self.gate.ended(kernel, self, outcome)

    def expired(self, kernel: Dispatch, timer: Timer) -> None:
        self.gate.expired(kernel, self)

    def __repr__(self) -> str:
        return f"<permit of {self.task!r} {self.state.name}>"
