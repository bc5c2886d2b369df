"""`Ticket`: what a gate knows of one task, from its spawn to its end.

    WAITING ◄──nothing left to wait for, or paused──► QUEUED ──admitted──► ADMITTED ──its end──► DONE
      │                                                 │                    │  ▲                 ▲
      └──────────────────► STOPPING ◄───────────────────┘               lent │  │ granted, or     │
                              │                                              ▼  │ is to stop      │
                              └──────────────────── its end             LENT ◄──► RETURNING       │
                                                       └──────────────────────────────────────────┘

WAITING: for dependencies, for the time of a retry, or for a resume. STOPPING: the task was asked to stop before it was
admitted, and is about to end. LENT: the task was admitted and is now paused, or waits for its children at the same
gate. The ticket gave back its slot and its CPU. RETURNING: the ticket asks for them again. If the task of a LENT or
RETURNING ticket is asked to stop, the ticket is ADMITTED at once, without asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bursar.errors import IllegalTransition, PauseTimeout
from bursar.law.admission.resources import NOTHING
from bursar.text import NamedInt

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

HISTORY_MAX: Final = 32  # how many of the newest wait reasons a ticket keeps


class TicketState(NamedInt):
    """The state of a ticket."""

    WAITING = 0
    QUEUED = 1
    STOPPING = 2
    ADMITTED = 3
    LENT = 4
    RETURNING = 5
    DONE = 6


_WAITING, _QUEUED, _STOPPING, _ADMITTED, _LENT, _RETURNING, _DONE = TicketState

TRANSITIONS: Final[dict[TicketState, frozenset[TicketState]]] = {
    _WAITING: frozenset({_QUEUED, _ADMITTED, _STOPPING, _DONE}),  # ADMITTED at once: no other ticket waits, and it fits
    _QUEUED: frozenset({_ADMITTED, _WAITING, _STOPPING, _DONE}),  # back to WAITING: paused before it was admitted
    _STOPPING: frozenset({_DONE}),
    _ADMITTED: frozenset({_LENT, _DONE}),
    _LENT: frozenset({_RETURNING, _ADMITTED, _DONE}),  # ADMITTED at once: its task is asked to stop
    _RETURNING: frozenset({_ADMITTED, _LENT, _DONE}),  # back to LENT: paused before its turn came
    _DONE: frozenset(),
}

# The same table as bit masks, indexed by state, for the hot path.
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
    """From when on a task waited for permission, and what it was short of at that moment, in numbers.

    Later shortages are not recorded: that would need a look at every waiting task whenever one ends.
    """

    since_ns: int
    resources: Resources
    demand: Demand
    taken: tuple[int, ...]  # what was taken at that moment
    kept_for: str  # the other task that held a reservation, if there was one

    def as_wait_reason(self) -> WaitReason:
        short = self.resources.shortages(self.demand, self.taken)
        what = ", ".join(str(one) for one in short)
        if not short and self.kept_for:
            what = f"what is reserved for task {self.kept_for!r}"
        return WaitReason(self.since_ns / 1e9, f"waits for permission{what and f', because it lacked {what}'}")


class Ticket:
    """The ticket of one task. The fields that few tickets need have their defaults in the class, and so take no space.

    In C, the fields that every ticket uses are C. A ticket without any of the other fields is *plain*: C may act on it.
    """

    excused = False  # another attempt follows its failure
    # dependencies
    dependency_count = 0  # how many tasks it must follow
    unmet = 0
    successors: list[Ticket] | None = None
    cause: CancelReason | None = None  # why its successors cannot run
    # waiting
    ready_ns = 0  # from when on it waited for permission only
    place = 0  # its number among all tickets that ever entered the queues
    waited_ns = 0  # how long it waited for permission
    starved_ns = 0
    timer: Timer | None = None  # the timer of its current state
    reasons: list[WaitReason | ShortageRecord] | None = None
    # pausing
    paused = False  # is paused, or was asked to pause
    lent: Demand = ()  # what it gave back while it is LENT
    still: Demand = ()  # what it keeps while it is LENT
    pausing: list[Wait] | None = None  # the waits for its pause; None: it was not asked, or is paused
    patience_ns = 0  # how long it may take to pause
    late: PauseTimeout | None = None  # the error, if it did not pause in time and was cancelled
    waits_for_children = False  # it is LENT because its task waits for children at the same gate
    regain: Wait | None = None  # the wait of its task for what it lent
    reclaimed = False  # it took back what it lent without asking, because its task was asked to stop
    unread = False  # it was dropped, and no code has read that
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
        """Note that the ticket `other` follows this one."""
        if self.successors is None:
            self.successors = []
        self.successors.append(other)

    def note(self, now_ns: int, reason: str) -> None:
        """Note what the ticket waits for from now on."""
        self.keep(WaitReason(now_ns / 1e9, reason))

    def keep(self, past: WaitReason | ShortageRecord) -> None:
        reasons = self.reasons
        if reasons is None:
            self.reasons = [past]  # in one step: if memory runs out there is no list, rather than an empty one
            return
        reasons.append(past)
        if len(reasons) > HISTORY_MAX:
            del reasons[0]

    @property
    def history(self) -> list[WaitReason]:
        """The wait reasons of the ticket, oldest first."""
        first: list[WaitReason] = []
        if self.dependency_count:
            tasks = f"{self.dependency_count:,} task{'s' if self.dependency_count > 1 else ''}"
            first = [WaitReason(self.entered_ns / 1e9, f"waits for {tasks} that it depends on")]
        later = [past.as_wait_reason() if isinstance(past, ShortageRecord) else past for past in self.reasons or ()]
        if self.waited_ns and (not later or later[0].since > self.ready_ns / 1e9):
            first.append(WaitReason(self.ready_ns / 1e9, "comes after others in the queue"))
        return first + later

    def kept(self) -> Demand:
        """The part of its demand that the ticket keeps while it is LENT."""
        return self.still if self.lent else self.demand

    def over(self) -> None:
        """The task has ended and holds the ticket. The ticket drops its references to the task and to the gate."""
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
        return f"<ticket of {self.task!r} {self.state.name}>"
