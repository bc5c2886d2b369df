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
from bursar.law.admission.ticket import Permit, PermitState, Short, move
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, State
from bursar.law.timers import TimerKind, to_ns

if TYPE_CHECKING:
    from bursar.law.admission.authority import Authority
    from bursar.law.dispatch import Dispatch
    from bursar.law.kernel import Kernel

_WAITS, _QUEUED, _STOPS, _HELD, _ASIDE, _RETURNS, _OVER = PermitState


class Flow:
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


class TotalCounts(Flow if TYPE_CHECKING else object):
    """What all gates of a runtime have done, beside the `Flow` that is C in the native kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = {"queue": 0, "wait": 0, "explicit": 0}
        self.retried = 0
        self.paused = 0


class Totals(TotalCounts, Flow):
    """What all gates of a runtime have done."""


class Turnstile:
    """What every task changes that asks, is let in and ends: all that C must know of a gate to do the same."""

    __slots__ = (
        "again",
        "drops",
        "held",
        "queues",
        "reserve_after_ns",
        "reserved",
        "resources",
        "returning",
        "settled_ns",
        "settling",
        "totals",
        "waiting",
    )

    def __init__(
        self, totals: Totals, queues: Queues, resources: Resources, reserve_after_ns: int, drops: bool
    ) -> None:
        self.totals = totals
        self.queues = queues
        self.resources = resources
        self.held: dict[Permit, None] = {}  # who takes something, oldest first
        self.returning: dict[Permit, None] = {}  # who was admitted, gave back, and asks again
        self.waiting: int = 0  # in state WAITS or STOPS
        self.reserved: Permit | None = None  # who holds the reservation, when it was looked last
        self.reserve_after_ns = reserve_after_ns
        self.drops = drops  # whoever cannot be let in may be dropped for it
        self.settling = False
        self.again = False  # something has changed meanwhile
        self.settled_ns = 0  # when it was settled last


class GateRules(Turnstile if TYPE_CHECKING else object):
    """How a gate decides. `backend` puts these rules on top of the `Turnstile` in C."""

    queues_class: ClassVar[type[Queues]] = Queues
    totals_class: ClassVar[type[Totals]] = Totals

    def __init__(self, number: int, authority: Authority, totals: Totals | None = None) -> None:
        resources = Resources(authority.max_concurrent, authority.limits)
        queues = self.queues_class(authority.interval_ns, authority.boost)
        drops = authority.max_queue is not None or authority.max_wait is not None
        super().__init__(totals or self.totals_class(), queues, resources, authority.reserve_after_ns, drops)
        self.number = number
        self.authority = authority
        self._max_queue = authority.max_queue
        self._max_wait_ns = None if authority.max_wait is None else to_ns(authority.max_wait, "Authority.max_wait")
        self._fresh: list[Permit] = []  # queued since it was settled last, if that must be timed

    # ---- asking

    def enter(self, kernel: Dispatch, permit: Permit, after: Sequence[Permit] = (), delay_ns: int = 0) -> None:
        """A PENDING task asks, for the first time. Nothing here can fail."""
        self.totals.entered += 1
        self.waiting += 1
        permit.entered_ns = kernel.now_ns
        doom = graph.follow(permit, after) if after else None
        if kernel.observer is not None:
            follows = [other.task.id for other in after if other.state is not _OVER]
            kernel.observer("task_submitted", permit.task, (permit, self.written(permit, delay_ns, doom, follows)))
        if delay_ns:
            permit.note(kernel.now_ns, f"waits {delay_ns / 1e9:g} s before attempt {permit.attempt}")
            permit.timer = kernel.timers.arm(kernel.now_ns + delay_ns, TimerKind.PERMIT, permit.task)
        elif doom is not None:
            cast("Kernel", kernel).cancel_request(permit.task, doom)
        elif not permit.unmet and self._ready(kernel, permit):
            self.settle(kernel)

    def _ready(self, kernel: Dispatch, permit: Permit) -> bool:
        """It has everything but permission. If nobody else waits and it fits, it has that too: it would come next.

        Returns whether the gate must be settled. Not so if it waits behind others of its class: they were not let in
        when it was settled last, and nothing has become free since.
        """
        permit.ready_ns = kernel.now_ns
        if self.queues or self.returning or not self.resources.fits(permit.demand):
            first = self.queues.enter(permit)  # before all else: for want of memory it may not
            self.waiting -= 1
            move(permit, _QUEUED)
            if self._max_wait_ns is not None:
                self._fresh.append(permit)
            return first or self.drops or self.settling or self.reserved is not None
        self._hold(permit, None)
        self.waiting -= 1
        self._admit(kernel, permit, permit.priority)
        return False

    def _hold(self, permit: Permit, queues: Queues | None) -> None:
        """It has what it asked for, and is in the queue no more. All of that, or for want of memory nothing."""
        self.held[permit] = None
        try:
            self.resources.take(permit.demand)
        except BaseException:
            del self.held[permit]
            raise
        try:
            if queues is not None:
                queues.leave(permit)
        except BaseException:
            del self.held[permit]
            self.resources.give_back(permit.demand)
            raise
        move(permit, _HELD)

    def _admit(self, kernel: Dispatch, permit: Permit, effective: int) -> None:
        self.totals.admitted += 1
        cast("Kernel", kernel).admit(permit.task, permit.priority, effective)

    def _limit_queue(self, kernel: Dispatch) -> None:
        """Those who could not be let in at once: too many are dropped, the others wait for so long and no longer."""
        while self._max_queue is not None and len(self.queues) > self._max_queue:
            last = self.queues.last(kernel.now_ns)
            self.drop(kernel, last, "queue", f"more than {self._max_queue:,} were waiting")
        fresh, self._fresh = self._fresh, []
        for permit in fresh:
            if permit.state is _QUEUED and permit.timer is None:
                assert self._max_wait_ns is not None, "only then somebody is fresh"
                deadline_ns = permit.ready_ns + self._max_wait_ns
                permit.timer = kernel.timers.arm(deadline_ns, TimerKind.PERMIT, permit.task)

    # ---- deciding

    def settle(self, kernel: Dispatch) -> None:
        """Let in whoever may be let in (GATE-2)."""
        if not self.queues and not self.returning:
            return
        if self.settling:
            self.again = True  # a task ended, or asked, because of what is under way
            return
        self.settling = True
        self.settled_ns = kernel.now_ns
        try:
            self.again = True
            while self.again:
                self.again = False
                while (permit := self._next(kernel.now_ns)) is not None:
                    self._let_in(kernel, permit)
                self._limit_queue(kernel)
        finally:
            self.settling = False

    def _next(self, now_ns: int) -> Permit | None:
        """Who is let in now."""
        resources = self.resources
        reserved: Demand | None = None
        self.reserved = None
        for permit in self.returning:  # they were admitted before: in order, and before all others
            if resources.fits(permit.lent):
                return permit
            self.reserved, reserved = permit, permit.lent
            break
        if not self.queues:
            return None
        for permit in self.queues.firsts(now_ns):
            demand = permit.demand
            if resources.fits(demand):
                if reserved is None or not resources.spoils(demand, reserved):
                    return permit
            elif reserved is None and now_ns - permit.ready_ns >= self.reserve_after_ns and resources.drains(demand):
                self.reserved, reserved = permit, demand
            self._pass_over(permit, now_ns)
        return None

    def _pass_over(self, permit: Permit, now_ns: int) -> None:
        """The first of its class may not start; what for is written down once."""
        self.totals.passed_over += 1
        if permit.reasons is None or type(permit.reasons[-1]) is not Short:
            self._note_short(permit, now_ns)

    def _note_short(self, permit: Permit, now_ns: int) -> None:
        """Write down what it is short of: in numbers, for hardly anybody asks."""
        demand = permit.lent if permit.state is _RETURNS else permit.demand
        reserved = self.reserved
        kept_for = reserved.task.name if reserved is not None and reserved is not permit else ""
        permit.keep(Short(now_ns, self.resources, demand, tuple(self.resources.taken), kept_for))

    def _let_in(self, kernel: Dispatch, permit: Permit) -> None:
        now_ns = kernel.now_ns
        if permit.state is _RETURNS:
            self.resources.take(permit.lent)
            del self.returning[permit]
            permit.lent = ()
            move(permit, _HELD)
            kernel.note("permit_granted", permit.task)
            self._go_on(kernel, permit)
            return
        queues, totals = self.queues, self.totals
        effective = queues.effective(permit, now_ns)
        permit.waited_ns = waited = now_ns - permit.ready_ns
        permit.starved_ns = starved = queues.starved_ns(permit, now_ns) if waited else 0
        queues.let_in(permit, now_ns)
        self._hold(permit, queues)
        if waited:
            totals.wait_ns += waited
            totals.wait_max_ns = max(totals.wait_max_ns, waited)
        if starved:
            totals.starved += 1
            totals.starved_ns += starved
            totals.starved_max_ns = max(totals.starved_max_ns, starved)
        self.stop_timer(kernel, permit)
        self._admit(kernel, permit, effective)

    # ---- ends

    def ended(self, kernel: Dispatch, permit: Permit, outcome: Outcome) -> None:
        """The task is DONE: what it took is free, and who was to follow it may, or cannot be."""
        if permit.timer is not None:
            self.stop_timer(kernel, permit)
        match permit.state:
            case PermitState.HELD:
                self.resources.give_back(permit.demand)
                del self.held[permit]
            case PermitState.WAITS | PermitState.STOPS:
                self.waiting -= 1
            case PermitState.QUEUED:
                self._gives_up(kernel, permit)
            case PermitState.ASIDE | PermitState.RETURNS:
                kept = permit.kept()
                if permit.state is _ASIDE:
                    self.resources.keep(kept, -1)
                self.resources.give_back(kept)
                permit.lent = ()
                self.returning.pop(permit, None)
                del self.held[permit]
            case PermitState.OVER:
                return
        if self.reserved is permit:
            self.reserved = None
        if permit.pausing is not None:
            self.tell_pausing(kernel, permit, False)
        successors, cause = graph.settle(permit, outcome)
        permit.over()
        if cause is not None:
            for successor in successors:
                cast("Kernel", kernel).cancel_request(successor.task, cause)
        elif successors:
            self._free(kernel, successors)
        self.settle(kernel)

    def _free(self, kernel: Dispatch, permits: list[Permit]) -> None:
        """They have nothing left to wait for but permission, all at once, perhaps at several gates."""
        if len(permits) > 1:
            permits.sort(key=lambda permit: -permit.priority)  # as a queue has them
        for permit in permits:
            if permit.task.state is State.PENDING and permit.timer is None:  # else it stands still
                permit.gate._ready(kernel, permit)
        for gate in {id(permit.gate): permit.gate for permit in permits}.values():
            if gate is not self:
                gate.settle(kernel)

    def drop(self, kernel: Dispatch, permit: Permit, cause: str, detail: str, by: int | None = None) -> None:
        """A task that waits never starts. Never silent: it has an outcome, its handle raises, it is on record."""
        self.totals.dropped[cause] += 1
        law, task = cast("Kernel", kernel), permit.task
        permit.note(kernel.now_ns, f"was dropped: {detail}")
        work = task.work
        law.drop(task, CancelReason(CancelKind.DROP, detail, by))
        if work is not None:
            work.close()  # it has not begun; last, for what it was given goes with it, and may call whatever it likes

    def expired(self, kernel: Dispatch, permit: Permit) -> None:
        """Its timer has fired: the time of a retry has come; it has waited too long; it did not stand still in time."""
        permit.timer = None
        if permit.state is _WAITS:
            if not permit.unmet and permit.task.state is State.PENDING:
                self._ready(kernel, permit)
                self.settle(kernel)
        elif permit.state is _QUEUED:
            assert self._max_wait_ns is not None, "only then a timer was set"
            self.drop(kernel, permit, "wait", f"it waited for more than {self._max_wait_ns / 1e9:g} s")
        elif permit.pausing is not None:
            told = f"it did not come to a checkpoint within {permit.patience_ns / 1e9:g} s of being asked to pause"
            permit.late = PauseTimeout(f"task {permit.task.name!r} was cancelled: {told}")
            waits, permit.pausing, permit.paused = permit.pausing, None, False
            cast("Kernel", kernel).cancel_request(permit.task, CancelReason(CancelKind.TIMEOUT, told))
            for wait in waits:
                wait.refuse(kernel, permit.late)

    def stopped(self, kernel: Dispatch, permit: Permit) -> None:
        """The task was asked to stop: it asks for nothing any more, and nobody waits for it to stand."""
        self.stop_timer(kernel, permit)
        permit.paused = False
        self.tell_pausing(kernel, permit, False)
        if permit.state in (_WAITS, _QUEUED):
            if permit.state is _QUEUED:
                self._gives_up(kernel, permit)
                self.waiting += 1
            move(permit, _STOPS)
            self.settle(kernel)  # what it had reserved
        elif permit.state in (_ASIDE, _RETURNS) and not permit.joins:
            self.reclaim(kernel, permit)

    def hurried(self, kernel: Dispatch, permit: Permit) -> None:
        """A block of the task was asked to stop: if its place is all that it waits for, it goes on with that."""
        if permit.state is _RETURNS:
            self.reclaim(kernel, permit)
            self._go_on(kernel, permit)

    def _gives_up(self, kernel: Dispatch, permit: Permit) -> None:
        """It leaves the queue without having been let in."""
        permit.waited_ns = kernel.now_ns - permit.ready_ns
        permit.starved_ns = self.queues.starved_ns(permit, kernel.now_ns)
        self.queues.leave(permit)

    def stop_timer(self, kernel: Dispatch, permit: Permit) -> None:
        if permit.timer is not None:
            kernel.timers.disarm(permit.timer)
            permit.timer = None

    # ---- standing still (see `ops.pause`)

    def stand_aside(self, permit: Permit) -> None:
        """An admitted task stands still: what it does not use is free. All of that, or for want of memory nothing."""
        lent = self.resources.usable_while_still(permit.demand)
        still = tuple(pair for pair in permit.demand if pair not in lent)
        permit.still, permit.lent, permit.unasked = still, (), False
        self.resources.give_back(lent)
        try:
            self.resources.keep(still, 1)
        except BaseException:
            self.resources.take(lent)
            raise
        permit.lent = lent
        move(permit, _ASIDE)

    def leave_queue(self, permit: Permit) -> None:
        """It stands still before it was admitted."""
        self.queues.leave(permit)
        move(permit, _WAITS)
        self.waiting += 1

    def ask_again(self, kernel: Dispatch, permit: Permit) -> None:
        """It would like to go on: at once, or when what it gave back is free."""
        self.returning[permit] = None
        try:
            self.resources.keep(permit.kept(), -1)
        except BaseException:
            del self.returning[permit]
            raise
        move(permit, _RETURNS)
        self.settle(kernel)
        if permit.state is _RETURNS:
            self._note_short(permit, kernel.now_ns)

    def reclaim(self, kernel: Dispatch, permit: Permit) -> None:
        """It goes on at once, because it is asked to stop: it takes back what it gave, free or not (GATE-1)."""
        if permit.state is _ASIDE:
            self.resources.keep(permit.kept(), -1)
            try:
                self.resources.take(permit.lent)
            except BaseException:
                self.resources.keep(permit.kept(), 1)
                raise
        else:
            self.resources.take(permit.lent)
            del self.returning[permit]
        permit.lent = ()
        permit.unasked = True
        move(permit, _HELD)
        self.settle(kernel)  # what it had reserved
        self._regained(kernel, permit)

    def step_back(self, permit: Permit) -> None:
        """It would not go on any more."""
        self.resources.keep(permit.kept(), 1)
        del self.returning[permit]
        move(permit, _ASIDE)

    def enter_queue(self, kernel: Dispatch, permit: Permit) -> None:
        """It goes on waiting: for permission, if there is nothing else left."""
        if not permit.unmet and permit.timer is None:
            self._ready(kernel, permit)
            self.settle(kernel)

    def _go_on(self, kernel: Dispatch, permit: Permit) -> None:
        """It has back what it gave."""
        law, task = cast("Kernel", kernel), permit.task
        if law.is_paused(task):
            law.resume(task, True)
            resume = getattr(task.wait, "ask_resume", None)
            if resume is not None:
                resume(kernel)
        self._regained(kernel, permit)

    def _regained(self, kernel: Dispatch, permit: Permit) -> None:
        """Its wait is answered, also if it is asked to stop: what its children came to must not be lost to that."""
        regain, permit.regain = permit.regain, None
        if regain is not None:
            regain.answer(kernel, None)

    def tell_pausing(self, kernel: Dispatch, permit: Permit, stands: bool) -> None:
        """Whoever waits for it to stand learns whether it does."""
        waits, permit.pausing = permit.pausing, None
        for wait in waits or ():
            wait.answer(kernel, stands)

    # ---- for evidence

    @staticmethod
    def written(permit: Permit, delay_ns: int, doom: CancelReason | None, after: Iterable[int]) -> bytes:
        """What a task asks for, all that decides."""
        told: dict[str, Any] = {"needs": permit.needs}
        if follows := list(after):
            told["after"] = follows
        if delay_ns:
            told["delay_ns"] = delay_ns
        if doom is not None:
            told["doom"] = doom.by
        return json.dumps(told, separators=(",", ":")).encode()


class Gate(GateRules, Turnstile):
    """One gate. `number` is that of its nursery; 0 is the gate of the runtime."""
