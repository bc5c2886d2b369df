"""Pools: the accounts that hold what is left of a budget.

A `Pool` is an account for one component. Every task and every nursery refers to five pools. For each component that its
budget states, a task has its own pool, filled from the pool of its nursery. For the other components it shares the
nursery's pool. Therefore

- nesting cannot create budget: a pool is filled only from its parent (or under a `CapBudget`, which is counted);
- a charge is one subtraction, however deep the nursery is, because tasks share pools;
- no task hoards: a task that shares a purse takes from it only what it spends, when it spends it.

The tests check these invariants after every step, and the code asserts them where they could break:

BUDGET-1  granted = left + spent + lent                       (for every pool that is not open)
BUDGET-2  lent = Σ (granted − minted) over its open sub-pools
BUDGET-3  left ≥ 0, and a charge is paid whole or not at all
BUDGET-4  a closed pool has given everything back
BUDGET-5  what is refunded was spent before

Rejected: giving each task a share of a finite purse in advance. Ten idle children would hold the whole purse, and the
eleventh would fail although the purse could have paid for it. Such shares would also make tasks take turns; the *turn*
does this instead: `Ledger.bill` ends it after `yield_interval` ops.
"""

from __future__ import annotations

from typing import Final

from bursar.law.budget import UNITS_MAX, UNSTATED, Budget
from bursar.law.costs import Cost

PAID: Final = -1  # what `pay` returns when no component is short


class Pool:
    """One account for one component. `left` is None in an open pool, which has no limit."""

    __slots__ = ("granted", "left", "lent", "minted", "parent", "spent")

    def __init__(self, left: int | None, parent: Pool | None = None) -> None:
        self.left = left
        self.parent = parent
        self.granted = left or 0
        self.minted = 0  # the part of `granted` that came from a CapBudget, not from the parent
        self.spent = 0
        self.lent = 0

    def lend(self, amount: int) -> Pool:
        """Make a sub-pool with `amount` in it. This pool must have that amount."""
        pool = Pool(0, self)
        self.fill(pool, amount)
        return pool

    def fill(self, pool: Pool, amount: int) -> None:
        """Move `amount` down into a sub-pool."""
        assert pool.parent is self, "BUDGET-2"
        if self.left is not None:
            assert self.left >= amount, "BUDGET-3"
            self.left -= amount
        self.lent += amount
        pool.granted += amount
        pool.left = (pool.left or 0) + amount

    def mint(self, amount: int) -> None:
        """Add an amount that comes from no parent: a recharge under a `CapBudget`."""
        if self.left is not None:
            self.left += amount
            self.granted += amount
            self.minted += amount

    def close(self) -> None:
        """Give everything back to the parent. Sub-pools must have been closed before.

        An amount that the parent cannot count (above UNITS_MAX) counts as spent in the parent.
        """
        parent = self.parent
        assert parent is not None, "only a sub-pool is closed"
        assert self.lent == 0, "BUDGET-4"
        left = self.left or 0
        assert self.granted == left + self.spent, "BUDGET-1"
        parent.lent -= self.granted - self.minted
        parent.spent += self.spent
        if parent.left is not None:
            kept = min(left, max(UNITS_MAX - parent.left, 0))
            parent.left += kept
            parent.spent += left - kept
            parent.granted += self.minted
            parent.minted += self.minted
        self.granted = self.minted = self.spent = self.left = 0


Pools = tuple[Pool, Pool, Pool, Pool, Pool]


def root_pools(budget: Budget) -> Pools:
    """The purse of a root nursery."""
    a, b, c, d, e = budget.as_tuple()
    return (Pool(a), Pool(b), Pool(c), Pool(d), Pool(e))


def affordable(pools: Pools, budget: Budget) -> Budget:
    """The part of `budget` that `pools` can set aside: the minimum, component by component."""
    if budget == UNSTATED:
        return budget
    return Budget(
        *(
            wish if wish is None or pool.left is None else min(wish, pool.left)
            for wish, pool in zip(budget.as_tuple(), pools, strict=True)
        )
    )


def derive(pools: Pools, budget: Budget) -> Pools:
    """The pools of a new task or nursery: its own where `budget` states a number, shared elsewhere."""
    if budget == UNSTATED:
        return pools
    a, b, c, d, e = (
        pool if amount is None else pool.lend(amount) for pool, amount in zip(pools, budget.as_tuple(), strict=True)
    )
    return (a, b, c, d, e)


def close(pools: Pools, parents: Pools) -> None:
    """Close those of `pools` that are not shared with `parents`."""
    if pools is parents:
        return
    for pool, parent in zip(pools, parents, strict=True):
        if pool is not parent:
            pool.close()


def pay(pools: Pools, cost: Cost) -> int:
    """Charge a cost, whole or not at all (BUDGET-3). Returns PAID, or the component that falls short."""
    for component, amount in cost:
        left = pools[component].left
        if left is not None and left < amount:
            return component
    for component, amount in cost:
        pool = pools[component]
        if pool.left is not None:
            pool.spent += amount
            pool.left -= amount
        else:
            pool.spent = min(pool.spent + amount, UNITS_MAX)  # the count of an open pool saturates
    return PAID


def refund(pool: Pool, amount: int) -> None:
    """Refund `amount` that was spent in `pool`, for something that was given back since (BUDGET-5).

    If the pool is closed, its parent has what it spent (BUDGET-4), so the refund goes to the first open pool above.
    """
    while pool.spent < amount and pool.parent is not None:
        pool = pool.parent
    if pool.left is not None:
        assert pool.spent >= amount, "BUDGET-5"
        amount = min(amount, max(UNITS_MAX - pool.left, 0))  # the rest stays spent
        pool.left += amount
    pool.spent = max(pool.spent - amount, 0)  # the count of an open pool may have saturated


def top_up(pools: Pools, sources: Pools, amounts: Budget) -> int:
    """Move `amounts` into `pools` from the pools above them, up to and including `sources`.

    Moves the whole amount or nothing. Returns PAID, or the first component that the sources cannot give. A component
    that is shared all the way up counts as short, because there is no pool to move it from.
    """
    wishes = [(c, n) for c, n in enumerate(amounts.as_tuple()) if n]
    for component, amount in wishes:
        if not _reaches(pools[component], sources[component], amount):
            return component
    for component, amount in wishes:
        _pull(pools[component], sources[component], amount)
    return PAID


def _reaches(pool: Pool, source: Pool, amount: int) -> bool:
    """Whether the pools above `pool`, up to `source`, hold `amount` together."""
    if pool.left is None:
        return True
    found = 0
    while pool is not source:
        assert pool.parent is not None, "a source is above its pool"
        pool = pool.parent
        if pool.left is None:
            return True
        found += pool.left
    return found >= amount


def _pull(pool: Pool, source: Pool, amount: int) -> None:
    """Move `amount` down to `pool`. Each level takes from above only what it lacks itself."""
    steps: list[tuple[Pool, Pool, int]] = []
    lower, lacking = pool, amount
    while lacking and lower is not source and lower.left is not None:
        upper = lower.parent
        assert upper is not None, "a source is above its pool"
        steps.append((upper, lower, lacking))
        lacking = 0 if upper.left is None else max(0, lacking - upper.left)
        lower = upper
    for upper, below, missing in reversed(steps):
        upper.fill(below, missing)


def left(pools: Pools) -> Budget:
    """What is left in the pools, as a statement."""
    return Budget(*(pool.left for pool in pools))
