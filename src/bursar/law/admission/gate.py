"""The gate: decides which task may start. Part of the law: no clock, no I/O, no thread, no randomness.

It acts whenever something changes that could let a task in: one asks, one ends, one stands still. Each time it lets in,
one after the other, whoever comes first in the order and fits, until nobody does.

A task that comes first and does not fit is passed over, so that one scarce resource does not hold up those who do not
need it; but once it has waited for `reserve_after` it holds a *reservation*: from then on nobody is let in who comes
after it and would take what it needs. What runs drains, and it starts at the latest when the longest of it has ended.
What stands still may never end: who would still not fit when all that runs has drained reserves nothing.

GATE-1  nobody is let in, nor goes on, beyond `max_concurrent` and the hard limits (RESOURCES-1), or, but alone, a soft
    one (RESOURCES-2). Who is asked to stop must not wait for others: if it stands still it takes its place back at
    once, free or not. That counts like any other, so until there is room again nobody is let in
GATE-2  after every change, nobody who may be let in waits
GATE-3  entered = waiting + queued + held + aside + over

Rejected: a score over every waiting task. It is the same order, and costs what waits, every time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from bursar.errors import PauseTimeout
from bursar.law.admission import graph
from bursar.law.admission.queues import Queues
from bursar.law.admission.resources import Demand, Resources
from bursar.law.admission.ticket import ShortageRecord, Ticket, TicketState, move
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, State
from bursar.law.timers import TimerKind, to_ns

if TYPE_CHECKING:
    from bursar.law.admission.authority import Authority
    from bursar.law.dispatch import Dispatch
    from bursar.law.kernel import Kernel

_WAITING, _QUEUED, _STOPPING, _ADMITTED, _LENT, _RETURNING, _DONE = TicketState


class GateTotalsCore:
    """How many asked, how many were let in, and how long that took."""

    __slots__ = (
        "admitted",
        "entered",
        "passed_over",
        "starved",
        "starved_max_ns",
        "starved_ns",
        "wait_max_ns",
        "wait_ns",
    )

    def __init__(self) -> None:
        self.entered = 0
        self.admitted = 0
        self.passed_over = 0  # times that one which came first did not fit
        self.wait_ns = 0
        self.wait_max_ns = 0
        self.starved = 0  # tasks that were overtaken before they were admitted
        self.starved_ns = 0
        self.starved_max_ns = 0


class TotalCounts(GateTotalsCore if TYPE_CHECKING else object):
    """What all gates of a runtime have done, beside the `GateTotalsCore` that is C in the native kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = {"queue": 0, "wait": 0, "explicit": 0}
        self.retried = 0
        self.paused = 0


class GateTotals(TotalCounts, GateTotalsCore):
    """What all gates of a runtime have done."""


class GateCore:
    """What every task changes that asks, is let in and ends: all that C must know of a gate to do the same."""

    __slots__ = (
        "admitting",
        "again",
        "drops",
        "held",
        "last_pass_ns",
        "queues",
        "reserve_after_ns",
        "reserved",
        "resources",
        "returning",
        "totals",
        "waiting",
    )

    def __init__(
        self, totals: GateTotals, queues: Queues, resources: Resources, reserve_after_ns: int, drops: bool
    ) -> None:
        self.totals = totals
        self.queues = queues
        self.resources = resources
        self.held: dict[Ticket, None] = {}  # who takes something, oldest first
        self.returning: dict[Ticket, None] = {}  # who was admitted, gave back, and asks again
        self.waiting: int = 0  # in state WAITS or STOPS
        self.reserved: Ticket | None = None  # who holds the reservation, when it was looked last
        self.reserve_after_ns = reserve_after_ns
        self.drops = drops  # whoever cannot be let in may be dropped for it
        self.admitting = False
        self.again = False  # something has changed meanwhile
        self.last_pass_ns = 0  # when it was settled last


class GateRules(GateCore if TYPE_CHECKING else object):
    """How a gate decides. `backend` puts these rules on top of the `GateCore` in C."""

    queues_class: ClassVar[type[Queues]] = Queues
    totals_class: ClassVar[type[GateTotals]] = GateTotals

    def __init__(self, number: int, authority: Authority, totals: GateTotals | None = None) -> None:
        resources = Resources(authority.max_concurrent, authority.limits)
        queues = self.queues_class(authority.interval_ns, authority.boost)
        drops = authority.max_queue is not None or authority.max_wait is not None
        super().__init__(totals or self.totals_class(), queues, resources, authority.reserve_after_ns, drops)
        self.number = number
        self.authority = authority
        self._max_queue = authority.max_queue
        self._max_wait_ns = None if authority.max_wait is None else to_ns(authority.max_wait, "Authority.max_wait")
        self._fresh: list[Ticket] = []  # queued since it was settled last, if that must be timed

    # ---- asking

    def enter(self, kernel: Dispatch, ticket: Ticket, after: Sequence[Ticket] = (), delay_ns: int = 0) -> None:
        """A PENDING task asks, for the first time. Nothing here can fail."""
        self.totals.entered += 1
        self.waiting += 1
        ticket.entered_ns = kernel.now_ns
        failed_cause = graph.follow(ticket, after) if after else None
        if kernel.observer is not None:
            follows = [other.task.id for other in after if other.state is not _DONE]
            kernel.observer(
                "task_submitted", ticket.task, (ticket, self.written(ticket, delay_ns, failed_cause, follows))
            )
        if delay_ns:
            ticket.note(kernel.now_ns, f"waits {delay_ns / 1e9:g} s before attempt {ticket.attempt}")
            ticket.timer = kernel.timers.arm(kernel.now_ns + delay_ns, TimerKind.PERMIT, ticket.task)
        elif failed_cause is not None:
            cast("Kernel", kernel).cancel_request(ticket.task, failed_cause)
        elif not ticket.unmet and self._ready(kernel, ticket):
            self.admit_waiting(kernel)

    def _ready(self, kernel: Dispatch, ticket: Ticket) -> bool:
        """It has everything but permission. If nobody else waits and it fits, it has that too: it would come next.

        Returns whether the gate must be settled. Not so if it waits behind others of its class: they were not let in
        when it was settled last, and nothing has become free since.
        """
        ticket.ready_ns = kernel.now_ns
        if self.queues or self.returning or not self.resources.fits(ticket.demand):
            first = self.queues.enter(ticket)  # before all else: for want of memory it may not
            self.waiting -= 1
            move(ticket, _QUEUED)
            if self._max_wait_ns is not None:
                self._fresh.append(ticket)
            return first or self.drops or self.admitting or self.reserved is not None
        self._hold(ticket, None)
        self.waiting -= 1
        self._admit(kernel, ticket, ticket.priority)
        return False

    def _hold(self, ticket: Ticket, queues: Queues | None) -> None:
        """It has what it asked for, and is in the queue no more. All of that, or for want of memory nothing."""
        self.held[ticket] = None
        try:
            self.resources.take(ticket.demand)
        except BaseException:
            del self.held[ticket]
            raise
        try:
            if queues is not None:
                queues.leave(ticket)
        except BaseException:
            del self.held[ticket]
            self.resources.give_back(ticket.demand)
            raise
        move(ticket, _ADMITTED)

    def _admit(self, kernel: Dispatch, ticket: Ticket, effective: int) -> None:
        self.totals.admitted += 1
        cast("Kernel", kernel).admit(ticket.task, ticket.priority, effective)

    def _limit_queue(self, kernel: Dispatch) -> None:
        """Those who could not be let in at once: too many are dropped, the others wait for so long and no longer."""
        while self._max_queue is not None and len(self.queues) > self._max_queue:
            last = self.queues.last(kernel.now_ns)
            self.drop(kernel, last, "queue", f"more than {self._max_queue:,} were waiting")
        fresh, self._fresh = self._fresh, []
        for ticket in fresh:
            if ticket.state is _QUEUED and ticket.timer is None:
                assert self._max_wait_ns is not None, "only then somebody is fresh"
                deadline_ns = ticket.ready_ns + self._max_wait_ns
                ticket.timer = kernel.timers.arm(deadline_ns, TimerKind.PERMIT, ticket.task)

    # ---- deciding

    def admit_waiting(self, kernel: Dispatch) -> None:
        """Let in whoever may be let in (GATE-2)."""
        if not self.queues and not self.returning:
            return
        if self.admitting:
            self.again = True  # a task ended, or asked, because of what is under way
            return
        self.admitting = True
        self.last_pass_ns = kernel.now_ns
        try:
            self.again = True
            while self.again:
                self.again = False
                while (ticket := self._next(kernel.now_ns)) is not None:
                    self._let_in(kernel, ticket)
                self._limit_queue(kernel)
        finally:
            self.admitting = False

    def _next(self, now_ns: int) -> Ticket | None:
        """Who is let in now."""
        resources = self.resources
        reserved: Demand | None = None
        self.reserved = None
        for ticket in self.returning:  # they were admitted before: in order, and before all others
            if resources.fits(ticket.lent):
                return ticket
            self.reserved, reserved = ticket, ticket.lent
            break
        if not self.queues:
            return None
        for ticket in self.queues.firsts(now_ns):
            demand = ticket.demand
            if resources.fits(demand):
                if reserved is None or not resources.spoils(demand, reserved):
                    return ticket
            elif reserved is None and now_ns - ticket.ready_ns >= self.reserve_after_ns and resources.drains(demand):
                self.reserved, reserved = ticket, demand
            self._pass_over(ticket, now_ns)
        return None

    def _pass_over(self, ticket: Ticket, now_ns: int) -> None:
        """The first of its class may not start; what for is written down once."""
        self.totals.passed_over += 1
        if ticket.reasons is None or type(ticket.reasons[-1]) is not ShortageRecord:
            self._note_shortage(ticket, now_ns)

    def _note_shortage(self, ticket: Ticket, now_ns: int) -> None:
        """Write down what it is short of: in numbers, for hardly anybody asks."""
        demand = ticket.lent if ticket.state is _RETURNING else ticket.demand
        reserved = self.reserved
        kept_for = reserved.task.name if reserved is not None and reserved is not ticket else ""
        ticket.keep(ShortageRecord(now_ns, self.resources, demand, tuple(self.resources.taken), kept_for))

    def _let_in(self, kernel: Dispatch, ticket: Ticket) -> None:
        now_ns = kernel.now_ns
        if ticket.state is _RETURNING:
            self.resources.take(ticket.lent)
            del self.returning[ticket]
            ticket.lent = ()
            move(ticket, _ADMITTED)
            kernel.note("permit_granted", ticket.task)
            self._go_on(kernel, ticket)
            return
        queues, totals = self.queues, self.totals
        effective = queues.effective(ticket, now_ns)
        ticket.waited_ns = waited = now_ns - ticket.ready_ns
        ticket.starved_ns = starved = queues.starved_ns(ticket, now_ns) if waited else 0
        queues.let_in(ticket, now_ns)
        self._hold(ticket, queues)
        if waited:
            totals.wait_ns += waited
            totals.wait_max_ns = max(totals.wait_max_ns, waited)
        if starved:
            totals.starved += 1
            totals.starved_ns += starved
            totals.starved_max_ns = max(totals.starved_max_ns, starved)
        self.stop_timer(kernel, ticket)
        self._admit(kernel, ticket, effective)

    # ---- ends

    def ended(self, kernel: Dispatch, ticket: Ticket, outcome: Outcome) -> None:
        """The task is DONE: what it took is free, and who was to follow it may, or cannot be."""
        if ticket.timer is not None:
            self.stop_timer(kernel, ticket)
        match ticket.state:
            case TicketState.ADMITTED:
                self.resources.give_back(ticket.demand)
                del self.held[ticket]
            case TicketState.WAITING | TicketState.STOPPING:
                self.waiting -= 1
            case TicketState.QUEUED:
                self._gives_up(kernel, ticket)
            case TicketState.LENT | TicketState.RETURNING:
                kept = ticket.kept()
                if ticket.state is _LENT:
                    self.resources.keep(kept, -1)
                self.resources.give_back(kept)
                ticket.lent = ()
                self.returning.pop(ticket, None)
                del self.held[ticket]
            case TicketState.DONE:
                return
        if self.reserved is ticket:
            self.reserved = None
        if ticket.pausing is not None:
            self.answer_pause_waiters(kernel, ticket, False)
        successors, cause = graph.release_successors(ticket, outcome)
        ticket.over()
        if cause is not None:
            for successor in successors:
                cast("Kernel", kernel).cancel_request(successor.task, cause)
        elif successors:
            self._free(kernel, successors)
        self.admit_waiting(kernel)

    def _free(self, kernel: Dispatch, tickets: list[Ticket]) -> None:
        """They have nothing left to wait for but permission, all at once, perhaps at several gates."""
        if len(tickets) > 1:
            tickets.sort(key=lambda ticket: -ticket.priority)  # as a queue has them
        for ticket in tickets:
            if ticket.task.state is State.PENDING and ticket.timer is None:  # else it stands still
                ticket.gate._ready(kernel, ticket)
        for gate in {id(ticket.gate): ticket.gate for ticket in tickets}.values():
            if gate is not self:
                gate.admit_waiting(kernel)

    def drop(self, kernel: Dispatch, ticket: Ticket, cause: str, detail: str, by: int | None = None) -> None:
        """A task that waits never starts. Never silent: it has an outcome, its handle raises, it is on record."""
        self.totals.dropped[cause] += 1
        law, task = cast("Kernel", kernel), ticket.task
        ticket.note(kernel.now_ns, f"was dropped: {detail}")
        work = task.work
        law.drop(task, CancelReason(CancelKind.DROP, detail, by))
        if work is not None:
            work.close()  # it has not begun; last, for what it was given goes with it, and may call whatever it likes

    def expired(self, kernel: Dispatch, ticket: Ticket) -> None:
        """Its timer has fired: the time of a retry has come; it has waited too long; it did not stand still in time."""
        ticket.timer = None
        if ticket.state is _WAITING:
            if not ticket.unmet and ticket.task.state is State.PENDING:
                self._ready(kernel, ticket)
                self.admit_waiting(kernel)
        elif ticket.state is _QUEUED:
            assert self._max_wait_ns is not None, "only then a timer was set"
            self.drop(kernel, ticket, "wait", f"it waited for more than {self._max_wait_ns / 1e9:g} s")
        elif ticket.pausing is not None:
            told = f"it did not come to a checkpoint within {ticket.patience_ns / 1e9:g} s of being asked to pause"
            ticket.late = PauseTimeout(f"task {ticket.task.name!r} was cancelled: {told}")
            waits, ticket.pausing, ticket.paused = ticket.pausing, None, False
            cast("Kernel", kernel).cancel_request(ticket.task, CancelReason(CancelKind.TIMEOUT, told))
            for wait in waits:
                wait.refuse(kernel, ticket.late)

    def stopped(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The task was asked to stop: it asks for nothing any more, and nobody waits for it to stand."""
        self.stop_timer(kernel, ticket)
        ticket.paused = False
        self.answer_pause_waiters(kernel, ticket, False)
        if ticket.state in (_WAITING, _QUEUED):
            if ticket.state is _QUEUED:
                self._gives_up(kernel, ticket)
                self.waiting += 1
            move(ticket, _STOPPING)
            self.admit_waiting(kernel)  # what it had reserved
        elif ticket.state in (_LENT, _RETURNING) and not ticket.waits_for_children:
            self.reclaim(kernel, ticket)

    def scope_cancelled(self, kernel: Dispatch, ticket: Ticket) -> None:
        """A block of the task was asked to stop: if its place is all that it waits for, it goes on with that."""
        if ticket.state is _RETURNING:
            self.reclaim(kernel, ticket)
            self._go_on(kernel, ticket)

    def _gives_up(self, kernel: Dispatch, ticket: Ticket) -> None:
        """It leaves the queue without having been let in."""
        ticket.waited_ns = kernel.now_ns - ticket.ready_ns
        ticket.starved_ns = self.queues.starved_ns(ticket, kernel.now_ns)
        self.queues.leave(ticket)

    def stop_timer(self, kernel: Dispatch, ticket: Ticket) -> None:
        if ticket.timer is not None:
            kernel.timers.disarm(ticket.timer)
            ticket.timer = None

    # ---- standing still (see `ops.pause`)

    def lend_resources(self, ticket: Ticket) -> None:
        """An admitted task stands still: what it does not use is free. All of that, or for want of memory nothing."""
        lent = self.resources.lendable(ticket.demand)
        still = tuple(pair for pair in ticket.demand if pair not in lent)
        ticket.still, ticket.lent, ticket.reclaimed = still, (), False
        self.resources.give_back(lent)
        try:
            self.resources.keep(still, 1)
        except BaseException:
            self.resources.take(lent)
            raise
        ticket.lent = lent
        move(ticket, _LENT)

    def leave_queue(self, ticket: Ticket) -> None:
        """It stands still before it was admitted."""
        self.queues.leave(ticket)
        move(ticket, _WAITING)
        self.waiting += 1

    def ask_again(self, kernel: Dispatch, ticket: Ticket) -> None:
        """It would like to go on: at once, or when what it gave back is free."""
        self.returning[ticket] = None
        try:
            self.resources.keep(ticket.kept(), -1)
        except BaseException:
            del self.returning[ticket]
            raise
        move(ticket, _RETURNING)
        self.admit_waiting(kernel)
        if ticket.state is _RETURNING:
            self._note_shortage(ticket, kernel.now_ns)

    def reclaim(self, kernel: Dispatch, ticket: Ticket) -> None:
        """It goes on at once, because it is asked to stop: it takes back what it gave, free or not (GATE-1)."""
        if ticket.state is _LENT:
            self.resources.keep(ticket.kept(), -1)
            try:
                self.resources.take(ticket.lent)
            except BaseException:
                self.resources.keep(ticket.kept(), 1)
                raise
        else:
            self.resources.take(ticket.lent)
            del self.returning[ticket]
        ticket.lent = ()
        ticket.reclaimed = True
        move(ticket, _ADMITTED)
        self.admit_waiting(kernel)  # what it had reserved
        self._regained(kernel, ticket)

    def withdraw_return(self, ticket: Ticket) -> None:
        """It would not go on any more."""
        self.resources.keep(ticket.kept(), 1)
        del self.returning[ticket]
        move(ticket, _LENT)

    def enter_queue(self, kernel: Dispatch, ticket: Ticket) -> None:
        """It goes on waiting: for permission, if there is nothing else left."""
        if not ticket.unmet and ticket.timer is None:
            self._ready(kernel, ticket)
            self.admit_waiting(kernel)

    def _go_on(self, kernel: Dispatch, ticket: Ticket) -> None:
        """It has back what it gave."""
        law, task = cast("Kernel", kernel), ticket.task
        if law.is_paused(task):
            law.resume(task, True)
            resume = getattr(task.wait, "ask_resume", None)
            if resume is not None:
                resume(kernel)
        self._regained(kernel, ticket)

    def _regained(self, kernel: Dispatch, ticket: Ticket) -> None:
        """Its wait is answered, also if it is asked to stop: what its children came to must not be lost to that."""
        regain, ticket.regain = ticket.regain, None
        if regain is not None:
            regain.answer(kernel, None)

    def answer_pause_waiters(self, kernel: Dispatch, ticket: Ticket, stands: bool) -> None:
        """Whoever waits for it to stand learns whether it does."""
        waits, ticket.pausing = ticket.pausing, None
        for wait in waits or ():
            wait.answer(kernel, stands)

    # ---- for evidence

    @staticmethod
    def written(ticket: Ticket, delay_ns: int, failed_cause: CancelReason | None, after: Iterable[int]) -> bytes:
        """What a task asks for, all that decides."""
        told: dict[str, Any] = {"needs": ticket.needs}
        if follows := list(after):
            told["after"] = follows
        if delay_ns:
            told["delay_ns"] = delay_ns
        if failed_cause is not None:
            told["doom"] = failed_cause.by
        return json.dumps(told, separators=(",", ":")).encode()


class Gate(GateRules, GateCore):
    """One gate. `number` is that of its nursery; 0 is the gate of the runtime."""
