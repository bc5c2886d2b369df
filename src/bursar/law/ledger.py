"""The ledger: bills tasks, handles tasks that cannot pay, and recharges them.

This is the middle layer of the kernel. A task is billed for every request before the request is performed. A bill is
paid whole; or nothing is paid, and one of three things follows:

    the turn is over            EXHAUSTED, gets another turn, READY at the back of the queue (the fairness tick)
    memory, spawns are short    the task gets an exception at its await point, and may recharge or fail
    ops and all the others      EXHAUSTED; its nursery's policy decides: end with `BudgetExceeded`, or hold

A task on hold waits for `recharge` by its nursery's owner, by a supervisor or by a holder of `CapBudget`. A task that
cleans up may use credit for its ops, up to the cleanup allowance. A task that overruns its allowance is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from bursar.errors import BudgetExceeded, MemoryBudgetExceeded, SpawnBudgetExceeded
from bursar.law import cancel
from bursar.law import pool as purse
from bursar.law.budget import (
    COMPONENTS,
    CPU_NS,
    MEMORY,
    NAMED,
    OPS,
    SPAWNS,
    UNITS_MAX,
    Budget,
    require_plain,
    similar_name,
)
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason
from bursar.law.capability import CapBudget, require
from bursar.law.cleanup import begin_cleanup
from bursar.law.costs import Component, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.pool import PAID, Pools
from bursar.law.state import State, move
from bursar.law.task import Task
from bursar.law.wake import WakeState


class Bill(Enum):
    """The result of billing a task."""

    PAID = "paid"
    SUSPENDED = "suspended"  # the poll is over: the task is EXHAUSTED, or on its way back to the queue
    CUT = "cut"  # the task overran its cleanup and must be closed


def short_name(task: Task) -> str:
    """The name of what the EXHAUSTED task could not pay. Its error has the name of a named counter."""
    if task.short_of == NAMED and isinstance(task.error, BudgetExceeded):
        return task.error.component
    return COMPONENTS[task.short_of]


class Ledger(Dispatch):
    """Dispatch, plus budgets."""

    cleanup_ops: int
    cleanup_ns: int
    inherit: bool

    def bill(self, task: Task, cost: Cost) -> Bill | BudgetExceeded | ValueError:
        """Charge the RUNNING task for a request. The driver raises a returned error at the task's await."""
        if cost and isinstance(cost[-1][0], str) and (refused := self._refuse_names(task, cost)) is not None:
            return refused
        if task.cpu_due:
            self._exhaust(task, CPU_NS, ((CPU_NS, task.cpu_due),))
            return Bill.SUSPENDED
        if task.turn_left <= 0:
            self.counters["turns_over"] += 1
            self._exhausted(task, PAID, cost)
            self._ready(task)
            return Bill.SUSPENDED
        cleaning = task.cleanup_left >= 0
        short = self._pay_cleanup(task, cost) if cleaning else purse.pay(task.pools, cost)
        if short == PAID:
            self._record_whole(task, cost)
            if cost and self.observer is not None:
                self._note_counters(task, cost)
                self.observer("charged", task, cost)
            return Bill.PAID
        if cleaning and short == OPS:
            cancel.cut(self, task, f"cleanup took more than {self.cleanup_ops:,} ops")
            return Bill.CUT
        if cleaning or short in (MEMORY, SPAWNS):
            return self.shortage(task, short, cost)
        self._exhaust(task, short, cost)
        return Bill.SUSPENDED

    def _refuse_names(self, task: Task, cost: Cost) -> BudgetExceeded | ValueError | None:
        """The error for a counter that no budget states, if it is probably misspelt, or if this run grants nothing
        without a statement. Otherwise a misspelt counter would never be billed."""
        stated = purse.named_of(task.pools)
        for name, _ in cost:
            if isinstance(name, int) or name in stated:
                continue
            if meant := similar_name(name, stated):
                return ValueError(
                    f"task {task.name!r} ({task.id}) charges {name!r}, which no budget states, and {meant!r} is "
                    f"limited; did you mean {meant!r}? If not, state a limit for {name!r} as well"
                )
            if not self.inherit:
                return BudgetExceeded(
                    f"task {task.name!r} ({task.id}) was not granted {name!r}: profile 'sovereign' grants nothing by "
                    f"itself; state it in a budget above the task",
                    task=task.name,
                    component=name,
                )
        return None

    def charge_now(self, task: Task, cost: Cost) -> None:
        """Charge the RUNNING task for something that does not wait. Raises if the task cannot pay at once."""
        short = self._pay_cleanup(task, cost) if task.cleanup_left >= 0 else purse.pay(task.pools, cost)
        if short != PAID:
            raise self.shortage(task, short, cost)
        self._record_whole(task, cost)
        if self.observer is not None:
            self._note_counters(task, cost)
            self.observer("charged", task, cost)

    def charge_memory_growth(self, task: Task, growth: int) -> int:
        """Charge a live task for the growth of its memory, as far as its pool can pay; or refund a shrinkage.

        Returns what was charged. No event records this: the memory use of a program depends on its host, so a verifier
        could not derive it.
        """
        pool = task.pools[MEMORY]
        if growth < 0:
            purse.refund(pool, -growth)
            self._record_refund(task, MEMORY, -growth)
            return growth
        cost = ((MEMORY, growth if pool.left is None else min(growth, pool.left)),)
        short = purse.pay(task.pools, cost)
        assert short == PAID, "BUDGET-3"
        self._record_spent(task, cost)
        return cost[0][1]

    def charge_cpu(self, task: Task, used_ns: int) -> None:
        """Charge a live task for processor time that its code has used, as far as its pool can pay. The rest is due."""
        self.note("cpu_charged", task, used_ns)
        self._pay_cpu(task, task.cpu_due + used_ns)

    def pay_cpu_due(self, task: Task) -> None:
        """Pay what is due of processor time, as far as the pool of the task can, before its request is billed again."""
        self._pay_cpu(task, task.cpu_due)

    def _pay_cpu(self, task: Task, due: int) -> None:
        """What stays due exhausts the task at its next request. A task that cleans up owes nothing."""
        pool = purse.pool_of(task.pools, CPU_NS)
        assert pool is not None, "only a task whose budget states it is measured"
        paid = due if pool.left is None else min(due, pool.left)
        cost = ((CPU_NS, paid),)
        short = purse.pay(task.pools, cost)
        assert short == PAID, "BUDGET-3"
        self._record_whole(task, cost)
        task.cpu_due = due - paid if task.cleanup_left < 0 else 0
        if task.cpu_due:
            task.turn_left = 0  # in C, a bill during the turn does not look at what is due

    def charge_difference(self, task: Task, difference: Sequence[int]) -> None:
        """Charge a live task, by component, for what it spends where it cannot be billed, in advance or afterwards.

        A number below 0 is refunded. The pools of the task must be able to pay.
        """
        for component, amount in enumerate(difference):
            if amount < 0:
                purse.refund(task.pools[component], -amount)
                self._record_refund(task, component, -amount)
            elif amount:
                cost = ((component, amount),)
                short = purse.pay(task.pools, cost)
                assert short == PAID, "BUDGET-3"
                self._record_spent(task, cost)
        if any(difference):
            self.note("settled", task, difference)

    def _note_counters(self, task: Task | None, amounts: Cost) -> None:
        """Report the amounts of named counters. The event comes before the one to which they belong."""
        named = [row for row in amounts if isinstance(row[0], str)]
        if named:
            self.note("named_amounts", task, named)

    def _record_whole(self, task: Task, cost: Cost) -> None:
        """Write down what was paid, named counters as well."""
        if not cost or isinstance(cost[-1][0], int):
            self._record_spent(task, cost)
            return
        self._record_spent(task, tuple(row for row in cost if isinstance(row[0], int)))
        spent = {**(task.named_spent or {})}
        for name, amount in cost:
            if isinstance(name, str):
                spent[name] = min(spent.get(name, 0) + amount, UNITS_MAX)
        task.named_spent = spent

    def _record_refund(self, task: Task, component: int, amount: int) -> None:
        """Write down what was refunded. A saturated record becomes inexact."""
        task.spent[component] = max(task.spent[component] - amount, 0)

    def _record_spent(self, task: Task, cost: Cost) -> None:
        """Write down what was paid. The record saturates; the pools do not."""
        spent = task.spent
        for component, amount in cost:
            assert isinstance(component, int), "a named counter is in `named_spent`"
            total = spent[component] + amount
            spent[component] = total if total < UNITS_MAX else UNITS_MAX
            if component == OPS:
                task.turn_left -= amount

    def _pay_cleanup(self, task: Task, cost: Cost) -> Component:
        """Charge a task that cleans up. It pays as usual; ops that it cannot pay go on its credit.

        The credit is as large as the allowance, and lasts for the whole life of the task. Otherwise a task that is
        cancelled again and again would get free ops each time.
        """
        ops = sum(amount for component, amount in cost if component == OPS)
        if ops > task.cleanup_left:
            return OPS
        short = purse.pay(task.pools, cost)
        debtor = task.credit_of or task
        if short == OPS and debtor.credit_used + ops <= self.cleanup_ops:
            short = purse.pay(task.pools, tuple(row for row in cost if row[0] != OPS))
            debtor.credit_used += ops if short == PAID else 0
        if short == PAID:
            task.cleanup_left -= ops
        return short

    def _exhausted(self, task: Task, component: Component, cost: Cost) -> None:
        """Make the task EXHAUSTED. Nothing was charged or performed, so a wake that came during the poll is dropped."""
        self._poll_over(task)
        move(task, State.EXHAUSTED)
        task.wake = WakeState.IDLE
        self._discard_answer(task)
        task.short_of = component if isinstance(component, int) else NAMED
        task.since_ns = self.now_ns
        self._note_counters(task, cost)
        self.note("task_exhausted", task, (task.short_of, cost))

    def _exhaust(self, task: Task, component: Component, cost: Cost) -> None:
        """The task cannot pay. Hold it if its nursery says so; otherwise raise the error in it, once, so that it can
        clean up."""
        self.counters["exhausted"] += 1
        self._exhausted(task, component, cost)
        task.error = self.shortage(task, component, cost)
        nursery = task.nursery
        if not nursery.hold or nursery.reason is not None or task.requested:
            self._end_exhausted(task)
            return
        self.note("budget_held", task, short_name(task))
        nursery.exhausted[task.id] = task
        waiter, nursery.exhausted_waiter = nursery.exhausted_waiter, None
        if waiter is not None:
            waiter.answer(self, task)

    def _end_exhausted(self, task: Task) -> None:
        """No recharge will come for the EXHAUSTED task: raise the error in it, once, so that it can clean up."""
        self.note("budget_exceeded", task, short_name(task))
        task.unpaid_request = None
        cancel.move(task, CancelPhase.DRAINING)
        task.reason = CancelReason(CancelKind.BUDGET, str(task.error))
        begin_cleanup(self, task)
        self._ready(task)

    def shortage(self, task: Task, component: Component, cost: Cost) -> BudgetExceeded:
        """The error for a component that the task cannot pay."""
        pool = purse.pool_of(task.pools, component)
        needed, left = dict(cost)[component], pool.left if pool is not None else 0
        if task.cleanup_left >= 0 and component == OPS:
            left = task.cleanup_left
        if isinstance(component, int):
            name, spent = COMPONENTS[component], task.spent[component]
            kind = {MEMORY: MemoryBudgetExceeded, SPAWNS: SpawnBudgetExceeded}.get(component, BudgetExceeded)
        else:
            name, spent, kind = component, (task.named_spent or {}).get(component, 0), BudgetExceeded
        return kind(
            f"task {task.name!r} ({task.id}) is out of {name}: it needs {needed:,}, has {left:,} "
            f"left and has spent {spent:,}; give it a larger budget or recharge it",
            task=task.name,
            component=name,
        )

    # ---- recharging

    def recharge(self, task: Task, sources: Pools, amount: Budget) -> None:
        """Move `amount` into a task's pools, from the pools above them up to and including `sources`."""
        self._require_countable(task, amount)
        short = purse.top_up(task.pools, sources, amount)
        if short != PAID:
            name = COMPONENTS[short] if isinstance(short, int) else short
            raise BudgetExceeded(
                f"task {task.name!r} cannot be recharged: the nurseries above it are short of {name}",
                task=task.name,
                component=name,
            )
        self._recharged(task, amount)

    def recharge_by_capability(self, holder: Task, task: Task, amount: Budget) -> None:
        """Put new budget into a task's pools, within the limits of the holder's `CapBudget`."""
        self._require_countable(task, amount)
        cap = require(holder, holder.capabilities, CapBudget, f"recharge task {task.name!r}")
        self.registry.draw(holder, cap, amount)
        self._mint(task, amount)

    def _mint(self, task: Task, amount: Budget) -> None:
        self._note_counters(task, amount.named)
        self.note("minted", task, amount)
        for pool, units in purse.counted(task.pools, amount):
            pool.mint(units)
        self._recharged(task, amount)

    def _require_countable(self, task: Task, amount: Budget) -> None:
        require_plain(amount)
        if task.outcome is not None:
            raise ValueError(f"task {task.name!r} has ended and cannot be recharged")
        for pool, units in purse.counted(task.pools, amount):
            if pool.left is not None and pool.left + units > UNITS_MAX:
                raise ValueError(
                    f"task {task.name!r} cannot be recharged by {amount}: "
                    f"its budget would exceed {UNITS_MAX}; recharge by less"
                )

    def _recharged(self, task: Task, amount: Budget) -> None:
        """Make a task that was on hold READY, and queue it. It repeats the request that it could not pay."""
        self.counters["recharged"] += 1
        self._note_counters(task, amount.named)
        self.note("recharged", task, amount)
        if task.nursery.exhausted.pop(task.id, None) is not None:
            task.error = None
            self._ready(task)
