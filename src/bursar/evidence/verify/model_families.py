"""The model, continued: nurseries, cancellation, obligations and budgets.

The law leaves some checks to its callers: which task may request a cancellation, which purse may recharge a task. Each
`on_…` makes these checks, and then calls the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from bursar.errors import BudgetExceeded
from bursar.evidence.verify.model_tasks import FAILURES, Model
from bursar.law import cancel
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason
from bursar.law.costs import CHANNEL, Cost
from bursar.law.nursery import Nursery, NurseryState
from bursar.law.obligation import Settled
from bursar.law.pool import measures
from bursar.law.task import Task
from bursar.trace.catalogue import CANCEL_KINDS, NONE
from bursar.trace.events import TraceRecord

WAKES_OF_OTHERS: Final = frozenset(  # what a waiting task causes when it gets what another one gave back
    {"task_woken", "stale_wake", "obligation_made"}
)


class Families(Model):
    """The model with ownership and economy."""

    # ---- ownership

    def _owned(self, owner: int, id: int) -> Nursery:
        """The nursery. Its owner must be the running task; for the root nursery, no task may be left."""
        nursery = self._nurseries.get(id)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {id}")
        if nursery.owner is not self.current or (nursery is self.root and self.tasks):
            raise self.records.wrong(f"only its owner ends the block of {nursery.name}")
        return nursery

    def on_nursery_opened(self, id: int, region: int, *granted: int) -> None:
        self._number(region)
        self._billed()
        name = cast("TraceRecord", self.records.next).decoded_text
        nursery = self.open_nursery(self._acting(id), budget=self._budget(granted))
        nursery.name = name
        nursery.cancel_on_failure = False  # the program chose: if the nursery cancels, the trace has an act
        self._nurseries[region] = nursery

    def on_nursery_closing(self, id: int, region: int) -> None:
        self.close_nursery(self._owned(id, region))

    def on_nursery_sealed(self, id: int, region: int) -> None:
        nursery = self._nurseries.get(region)
        if nursery is None or nursery is self.root or nursery.state is not NurseryState.OPEN:
            raise self.records.wrong(f"there is no open nursery {region} of a task")
        self.seal_nursery(nursery)

    def on_nursery_closed(self, id: int, region: int, state: int) -> None:
        nursery = self._owned(id, region)
        if nursery.scope is not None and not nursery.scope.exiting:
            raise self.records.wrong(f"the block of {nursery.name} has not ended")
        self.end_nursery(nursery)
        del self._nurseries[region]
        self._holding.pop(region, None)

    def on_nursery_cancelling(self, id: int, region: int, cause: int, by: int) -> None:
        """The act of a request whose `cancel_requested` is missing: the scope was cancelled before, or is shielded."""
        nursery = self._nurseries.get(region)
        if nursery is None:
            raise self.records.wrong(f"there is no nursery {region}")
        cancel.request_nursery(self, nursery, self._reason(cause, by, nursery))

    def on_cancel_requested(self, id: int, cause: int, by: int, depth: int) -> None:
        scopes = list(cancel.outward(self._live(id)))
        if depth >= len(scopes):
            raise self.records.wrong(f"task {id} has {len(scopes) - 1} open cancel scopes")
        scope = scopes[len(scopes) - 1 - depth]
        reason = self._reason(cause, by, scope.body_of)
        if scope.body_of is not None:
            cancel.request_nursery(self, scope.body_of, reason)
        else:
            cancel.request(self, scope, reason)

    def _reason(self, cause: int, by: int, nursery: Nursery | None) -> CancelReason:
        """The recorded reason, if its cause could arise here. Timeouts and budgets are consequences, never acts."""
        kind = CANCEL_KINDS[cause] if cause < len(CANCEL_KINDS) else None
        runs = NONE if self.current is None else self.current.id
        ended = self._ended
        match kind:
            case CancelKind.USER:
                fits = by == runs
            case CancelKind.PARENT:
                fits = by == runs != NONE and nursery is not None and nursery.owner is self.current
            case CancelKind.SIBLING if by == NONE:
                fits = nursery is not None and nursery.owner is self.current
            case CancelKind.SIBLING:
                failed = ended is not None and ended.outcome is not None and ended.outcome.kind in FAILURES
                fits = failed and ended is not None and ended.id == by and ended.nursery is nursery
            case CancelKind.SHUTDOWN:
                fits = by == runs == NONE
            case _:
                fits = False
        if not fits or kind is None:
            raise self.records.wrong(
                "no task and no host could have made this request, with this cause and by this task"
            )
        text = cast("TraceRecord", self.records.next).decoded_text
        return CancelReason(kind, text, None if by == NONE else by)

    def on_cancel_delivered(self, id: int, *_: int) -> None:
        cancel.deliver(self, self._acting(id))

    def on_cleanup_cut(self, id: int) -> None:
        """The task has no cleanup ops left, or no task can ever run again."""
        task = self._live(id)
        overran = task is self.current and task.cleanup_left >= 0
        stuck = self.current is None and not self.runnable and task.nursery is self.root
        if not overran and not stuck:
            raise self.records.wrong("the task is not in its cleanup, or does not run")
        cancel.cut(self, task, "")

    def on_obligation_made(self, id: int, obligation: int, settled: int) -> None:
        self._number(obligation)
        what = cast("TraceRecord", self.records.next).decoded_text
        self.promise(self._live(id), what, "", self._given_back)

    def on_obligation_settled(self, id: int, number: int, settled: int) -> None:
        if settled == Settled.LEAKED:
            self.on_task_done(id)
            return
        obligation = (self._live(id).obligations or {}).get(number)
        if obligation is None or settled == Settled.OPEN:
            raise self.records.wrong(f"task {id} has no open obligation {number}, or this record does not settle it")
        obligation.settle(Settled(settled))

    def _given_back(self) -> None:
        """A task that waits for what the obligation held gets it now."""
        while self.records.next is not None and self.records.next.name in WAKES_OF_OTHERS:
            record = self.records.next
            getattr(self, "on_" + record.name)(*record.numbers)

    # ---- economy

    def _cost(self, amounts: Sequence[int]) -> Cost:
        if min(amounts) < 0:
            raise self.records.wrong("a cost is never negative")
        five = tuple((component, amount) for component, amount in enumerate(amounts) if amount)
        return (*five, *self.named.items())

    def on_charged(self, id: int, *amounts: int) -> None:
        task, cost = self._acting(id), self._cost(amounts)
        if not cost:
            raise self.records.wrong("a cost of zero is never charged")
        self._pay_due(task)
        if task.cpu_due:
            raise self.records.wrong(f"task {id} has processor time to pay: the law would have exhausted it")
        if cost != CHANNEL:  # the `_nowait` methods of channels charge without an await
            self._awaits(task)
            if task.turn_left <= 0:
                raise self.records.wrong(f"the law would have ended the turn of task {id}")
        self.charge_now(task, cost)
        self.paid = cost

    def on_settled(self, id: int, *difference: int) -> None:
        """A charge for a task whose function runs elsewhere. It takes at most what is left, and refunds at most what
        was spent."""
        task = self._live(id)
        if task.wait is None or task.wait.interruptible:
            raise self.records.wrong(f"task {id} has no function on a thread or in native code that could spend this")
        for pool, amount, spent in zip(task.pools, difference, task.spent, strict=True):
            if (pool.left is not None and pool.left < amount) or spent + amount < 0:
                raise self.records.wrong(f"task {id} has less than this left, or has spent less than this")
        self.charge_difference(task, difference)

    def on_task_exhausted(self, id: int, component: int, *amounts: int) -> None:
        task = self._acting(id)
        self._awaits(task)
        self._pay_due(task)
        self.bill(task, self._cost(amounts))

    def on_cpu_charged(self, id: int, used_ns: int) -> None:
        task = self._live(id)
        elsewhere = task.wait is not None and not task.wait.interruptible
        if used_ns < 0 or not measures(task.pools) or (task is not self.current and not elsewhere):
            raise self.records.wrong(f"the processor time of task {id} is not measured, or no code of it ran")
        self.charge_cpu(task, used_ns)

    def _pay_due(self, task: Task) -> None:
        """A task that was recharged pays what is due before its request is billed again."""
        if task.cpu_due and task.cleanup_left < 0:
            self.pay_cpu_due(task)

    def on_minted(self, id: int, *amounts: int) -> None:
        if self.current is None:
            raise self.records.wrong("no task runs that could hold a CapBudget")
        self._billed()
        task, amount = self._live(id), self._budget(amounts)
        self._require_countable(task, amount)
        self._mint(task, amount)

    def on_recharged(self, id: int, *amounts: int) -> None:
        """By the owner of the nursery, out of the nursery's purse; if that is too small, out of the owner's pools."""
        task = self._live(id)
        owner = task.nursery.owner
        if owner is None or owner is not self.current:
            raise self.records.wrong(f"only the owner of {task.nursery.name} recharges out of its purse")
        amount = self._budget(amounts)
        try:
            self.recharge(task, task.nursery.pools, amount)
        except BudgetExceeded:
            self.recharge(task, owner.pools, amount)

    # ---- records that change no state

    def _by_running_task(self, id: int) -> None:
        self._acting(id)
        self.records.advance()

    on_result_lost = _by_running_task
    on_asyncgen_failed = _by_running_task
    on_cleanup_failed = _by_running_task
    on_cleanup_ignored = _by_running_task
    on_connection_lost = _by_running_task

    def on_cancel_swallowed(self, id: int) -> None:
        if self._acting(id).phase is not CancelPhase.DRAINING or id in self.returned:
            raise self.records.wrong("the task did not get Cancelled, or this was reported before")
        self.returned.add(id)
        self.records.advance()
