"""The gate: decides which PENDING task may start. Part of the law: no clock, no I/O, no thread, no randomness.

The gate acts after every change that could admit a task: a task asks, ends, or is paused. It then admits tasks one
after the other, always the first in the order that fits, until no task fits.

A task that comes first but does not fit is passed over, so that one scarce resource does not hold up tasks that do not
need it. Once the task has waited for `reserve_after`, it holds a *reservation*: no later task may take what it needs.
The running tasks drain, and the task starts at the latest when the last of them has ended. Paused tasks may never end.
So a task that would not fit even after all running tasks have drained reserves nothing.

GATE-1  no task is admitted or resumed beyond `max_concurrent` or a hard limit (RESOURCES-1); a soft limit may be
    exceeded only by a task that takes the resource alone (RESOURCES-2). One exception: a lent ticket whose task is
    asked to stop takes back what it lent at once, free or not, because the task must not wait for others. What it
    takes counts, so no task is admitted until there is room again
GATE-2  after every change, no task waits that may be admitted
GATE-3  entered = waiting + queued + held + lent + over

Rejected: a score for every waiting task. It gives the same order, but every decision costs O(waiting tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from bursar.errors import PauseTimeout
from bursar.law.admission import graph
from bursar.law.admission.aging import effective_priority
from bursar.law.admission.drops import note_drop
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
    """How many tasks asked, how many were admitted, and how long they waited."""

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
        self.passed_over = 0  # how often the first task did not fit
        self.wait_ns = 0
        self.wait_max_ns = 0
        self.starved = 0  # tasks that were overtaken before they were admitted
        self.starved_ns = 0
        self.starved_max_ns = 0


class TotalCounts(GateTotalsCore if TYPE_CHECKING else object):
    """The counts that only Python keeps. `GateTotalsCore` has the others, and is C in the native kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = {"queue": 0, "wait": 0, "explicit": 0}
        self.retried = 0
        self.paused = 0

    def count_wait(self, waited_ns: int, starved_ns: int) -> None:
        """A task was admitted or dropped after this wait for permission."""
        self.wait_ns += waited_ns
        self.wait_max_ns = max(self.wait_max_ns, waited_ns)
        if starved_ns:
            self.starved += 1
            self.starved_ns += starved_ns
            self.starved_max_ns = max(self.starved_max_ns, starved_ns)


class GateTotals(TotalCounts, GateTotalsCore):
    """Counts of what all gates of a runtime have done."""


class GateCore:
    """The part of a gate that changes when any task asks, is admitted or ends. C has this part too."""

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
        self.held: dict[Ticket, None] = {}  # the tickets that take resources, oldest first
        self.returning: dict[Ticket, None] = {}  # the RETURNING tickets, oldest first
        self.waiting: int = 0  # how many are WAITING or STOPPING
        self.reserved: Ticket | None = None  # the ticket that held the reservation at the last pass
        self.reserve_after_ns = reserve_after_ns
        self.drops = drops  # whether a limit of the queue may drop tickets
        self.admitting = False
        self.again = False  # something changed during the pass: make another one
        self.last_pass_ns = 0  # the time of the last pass of `admit_waiting`


class GateRules(GateCore if TYPE_CHECKING else object):
    """The rules by which a gate decides. `backend` puts them on top of the `GateCore` in C."""

    queues_class: ClassVar[type[Queues]] = Queues
    totals_class: ClassVar[type[GateTotals]] = GateTotals

    def __init__(self, number: int, authority: Authority, totals: GateTotals | None = None) -> None:
        resources = Resources(authority.max_concurrent, authority._limits)
        queues = self.queues_class(authority._interval_ns, authority._boost)
        drops = authority.max_queue is not None or authority.max_wait is not None
        super().__init__(totals or self.totals_class(), queues, resources, authority._reserve_after_ns, drops)
        self.number = number
        self.authority = authority
        self._max_queue = authority.max_queue
        self._max_wait_ns = None if authority.max_wait is None else to_ns(authority.max_wait, "Authority.max_wait")
        self._fresh: list[Ticket] = []  # queued since the last pass; kept only if `max_wait` limits their wait

    # ---- asking

    def enter(self, kernel: Dispatch, ticket: Ticket, after: Sequence[Ticket] = (), delay_ns: int = 0) -> None:
        """A PENDING task asks for the first time. Nothing here can fail."""
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
        """The ticket waits for permission only. If no other ticket waits and it fits, admit it: it would be next.

        Returns whether the gate must make a pass (`admit_waiting`). No pass is needed if the ticket is behind others of
        its class: they were not admitted in the last pass, and nothing has become free since.
        """
        ticket.ready_ns = kernel.now_ns
        if self.queues or self.returning or not self.resources.fits(ticket.demand):
            first = self.queues.enter(ticket)  # first, because it may run out of memory
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
        """Give the ticket its demand and take it out of the queue. Does nothing if it runs out of memory."""
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
        """Apply the limits of the queue to the tickets that could not be admitted at once: drop those beyond
        `max_queue`, and set the timers of the others for `max_wait`."""
        while self._max_queue is not None and len(self.queues) > self._max_queue:
            last = self.queues.last(kernel.now_ns)
            self.drop(kernel, last, "queue", f"more than {self._max_queue:,} were waiting")
        fresh, self._fresh = self._fresh, []
        for ticket in fresh:
            if ticket.state is _QUEUED and ticket.timer is None:
                assert self._max_wait_ns is not None, "tickets are fresh only with a max_wait"
                deadline_ns = ticket.ready_ns + self._max_wait_ns
                ticket.timer = kernel.timers.arm(deadline_ns, TimerKind.PERMIT, ticket.task)

    # ---- deciding

    def admit_waiting(self, kernel: Dispatch) -> None:
        """Admit every ticket that may be admitted (GATE-2)."""
        if not self.queues and not self.returning:
            return
        if self.admitting:
            self.again = True  # the pass that is under way made a task end or ask
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
        """The ticket to admit now, or None."""
        resources = self.resources
        reserved: Demand | None = None
        self.reserved = None
        for ticket in self.returning:  # these were admitted before, so they come before all others
            if resources.fits(ticket.lent):
                return ticket
            self.reserved, reserved = ticket, ticket.lent
            break
        if not self.queues:
            return None
        for ticket in self.queues.firsts(now_ns):
            demand = ticket.demand
            if resources.fits(demand):
                if reserved is None or not resources.breaks_reservation(demand, reserved):
                    return ticket
            elif reserved is None and now_ns - ticket.ready_ns >= self.reserve_after_ns and resources.drains(demand):
                self.reserved, reserved = ticket, demand
            self._pass_over(ticket, now_ns)
        return None

    def _pass_over(self, ticket: Ticket, now_ns: int) -> None:
        """The first ticket of a class may not start. Note its shortage, once."""
        self.totals.passed_over += 1
        if ticket.reasons is None or type(ticket.reasons[-1]) is not ShortageRecord:
            self._note_shortage(ticket, now_ns)

    def _note_shortage(self, ticket: Ticket, now_ns: int) -> None:
        """Note what the ticket is short of. Keep only numbers, because the text is rarely needed."""
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
        ticket.waited_ns = waited = now_ns - ticket.ready_ns
        effective = effective_priority(ticket.priority, waited, queues.interval_ns, queues.boost)
        ticket.starved_ns = starved = queues.starved_ns(ticket, now_ns) if waited else 0
        queues.let_in(ticket, now_ns)
        self._hold(ticket, queues)
        if waited:
            totals.count_wait(waited, starved)
        self.stop_timer(kernel, ticket)
        self._admit(kernel, ticket, effective)

    # ---- ends

    def ended(self, kernel: Dispatch, ticket: Ticket, outcome: Outcome) -> None:
        """The task is DONE: free what it took, and release its successors, or cancel them."""
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
        """These tickets, perhaps of several gates, now wait for permission only."""
        if len(tickets) > 1:
            tickets.sort(key=lambda ticket: -ticket.priority)  # the highest priority first, as in a queue
        for ticket in tickets:
            if ticket.task.state is State.PENDING and ticket.timer is None:  # not paused, no retry delay
                ticket.gate._ready(kernel, ticket)
        for gate in {id(ticket.gate): ticket.gate for ticket in tickets}.values():
            if gate is not self:
                gate.admit_waiting(kernel)

    def drop(self, kernel: Dispatch, ticket: Ticket, cause: str, detail: str, by: int | None = None) -> None:
        """Drop a task that waits: it never starts. The drop is visible: the task has an outcome, its handle raises,
        there is an event, and the nursery raises it at the end of its block if no code has read it."""
        self.totals.dropped[cause] += 1
        law, task = cast("Kernel", kernel), ticket.task
        if ticket.state is _QUEUED:
            self.totals.count_wait(kernel.now_ns - ticket.ready_ns, self.queues.starved_ns(ticket, kernel.now_ns))
        if cause != "explicit":
            note_drop(task, ticket, detail)
        ticket.note(kernel.now_ns, f"was dropped: {detail}")
        work = task.work
        law.drop(task, CancelReason(CancelKind.DROP, detail, by))
        if work is not None:
            work.close()  # last: it frees the arguments, whose destructors may run any code

    def expired(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The ticket's timer has fired: a retry is due, the ticket waited too long, or the pause took too long."""
        ticket.timer = None
        if ticket.state is _WAITING:
            if not ticket.unmet and ticket.task.state is State.PENDING:
                self._ready(kernel, ticket)
                self.admit_waiting(kernel)
        elif ticket.state is _QUEUED:
            assert self._max_wait_ns is not None, "only a max_wait sets this timer"
            self.drop(kernel, ticket, "wait", f"it waited for more than {self._max_wait_ns / 1e9:g} s")
        elif ticket.pausing is not None:
            detail = f"it did not come to a checkpoint within {ticket.patience_ns / 1e9:g} s of being asked to pause"
            ticket.late = PauseTimeout(f"task {ticket.task.name!r} was cancelled: {detail}")
            waits, ticket.pausing, ticket.paused = ticket.pausing, None, False
            cast("Kernel", kernel).cancel_request(ticket.task, CancelReason(CancelKind.TIMEOUT, detail))
            for wait in waits:
                wait.refuse(kernel, ticket.late)

    def stopped(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The task was asked to stop: it asks for nothing more, and no task waits any more for it to pause."""
        self.stop_timer(kernel, ticket)
        ticket.paused = False
        self.answer_pause_waiters(kernel, ticket, False)
        if ticket.state in (_WAITING, _QUEUED):
            if ticket.state is _QUEUED:
                self._gives_up(kernel, ticket)
                self.waiting += 1
            move(ticket, _STOPPING)
            self.admit_waiting(kernel)  # others may take what it had reserved
        elif ticket.state in (_LENT, _RETURNING) and not ticket.waits_for_children:
            self.reclaim(kernel, ticket)

    def scope_cancelled(self, kernel: Dispatch, ticket: Ticket) -> None:
        """A block in the task was asked to stop. If the ticket asks for what it lent, it takes that back at once, and
        the task continues."""
        if ticket.state is _RETURNING:
            self.reclaim(kernel, ticket)
            self._go_on(kernel, ticket)

    def _gives_up(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The ticket leaves the queue without being admitted."""
        ticket.waited_ns = kernel.now_ns - ticket.ready_ns
        ticket.starved_ns = self.queues.starved_ns(ticket, kernel.now_ns)
        self.queues.leave(ticket)

    def stop_timer(self, kernel: Dispatch, ticket: Ticket) -> None:
        if ticket.timer is not None:
            kernel.timers.disarm(ticket.timer)
            ticket.timer = None

    # ---- pausing and lending (see `ops.pause`)

    def lend_resources(self, ticket: Ticket) -> None:
        """Free what an admitted task does not use while it is paused or waits for its children. Does nothing if it
        runs out of memory."""
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
        """The task was paused before it was admitted."""
        self.queues.leave(ticket)
        move(ticket, _WAITING)
        self.waiting += 1

    def ask_again(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The ticket asks for what it lent: it continues at once, or when that is free again."""
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
        """The task is asked to stop, so its ticket takes back at once what it lent, free or not (GATE-1)."""
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
        self.admit_waiting(kernel)  # others may take what it had reserved
        self._regained(kernel, ticket)

    def withdraw_return(self, ticket: Ticket) -> None:
        """The ticket no longer asks for what it lent: its task was paused again."""
        self.resources.keep(ticket.kept(), 1)
        del self.returning[ticket]
        move(ticket, _LENT)

    def enter_queue(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The pause of a task that was not admitted is over: it waits again, for permission if for nothing else."""
        if not ticket.unmet and ticket.timer is None:
            self._ready(kernel, ticket)
            self.admit_waiting(kernel)

    def _go_on(self, kernel: Dispatch, ticket: Ticket) -> None:
        """The ticket has back what it lent: resume its task if it is paused, and answer its wait if it has one."""
        law, task = cast("Kernel", kernel), ticket.task
        if law.is_paused(task):
            law.resume(task, True)
            resume = getattr(task.wait, "ask_resume", None)
            if resume is not None:
                resume(kernel)
        self._regained(kernel, ticket)

    def _regained(self, kernel: Dispatch, ticket: Ticket) -> None:
        """Answer the wait of the task, even if it is asked to stop: the results of its children must not be lost."""
        regain, ticket.regain = ticket.regain, None
        if regain is not None:
            regain.answer(kernel, None)

    def answer_pause_waiters(self, kernel: Dispatch, ticket: Ticket, paused: bool) -> None:
        """Tell the tasks that wait for the pause whether the task is paused."""
        waits, ticket.pausing = ticket.pausing, None
        for wait in waits or ():
            wait.answer(kernel, paused)

    # ---- for evidence

    @staticmethod
    def written(ticket: Ticket, delay_ns: int, failed_cause: CancelReason | None, after: Iterable[int]) -> bytes:
        """Everything about a task's demand that the decision depends on, as a trace holds it."""
        facts: dict[str, Any] = {"needs": ticket.needs}
        if follows := list(after):
            facts["after"] = follows
        if delay_ns:
            facts["delay_ns"] = delay_ns
        if failed_cause is not None:
            facts["doom"] = failed_cause.by
        import json  # only traces need it

        return json.dumps(facts, separators=(",", ":")).encode()


class Gate(GateRules, GateCore):
    """One gate. `number` is the number of its nursery; 0 is the gate of the runtime."""
