"""Pools: the accounts that hold what is left of a budget.

A `Pool` is an account for one component. Every task and every nursery refers to five pools. For each component that its
budget states, a task has its own pool, filled from the pool of its nursery. For the other components it shares the
nursery's pool. Therefore

- nesting cannot create budget: a pool is filled only from its parent (or under a `CapBudget`, which is counted);
- a charge is one subtraction, however deep the nursery is, because tasks share pools;
- no task hoards: a task that shares a purse takes from it only what it spends, when it spends it.

Where a budget states named counters, the five pools are a `NamedPools`, which has a pool for each name as well. It
passes the names on to all that is derived from it. A counter without a pool is unlimited and costs nothing here.

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

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from bursar.law.budget import CPU_NS, UNITS_MAX, UNSTATED, Budget
from bursar.law.costs import Component, Cost

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


class NamedPools(tuple[Pool, Pool, Pool, Pool, Pool]):
    """Five pools, and a pool for each named counter that this budget or one above it states."""

    named: Mapping[str, Pool]


_NO_NAMES: Final[Mapping[str, Pool]] = MappingProxyType({})


def named_of(pools: Pools) -> Mapping[str, Pool]:
    """The pools of the named counters."""
    return pools.named if isinstance(pools, NamedPools) else _NO_NAMES


def pool_of(pools: Pools, component: Component) -> Pool | None:
    """The pool that pays for a component. None: a named counter without a limit."""
    return pools[component] if isinstance(component, int) else named_of(pools).get(component)


def measures(pools: Pools) -> bool:
    """Whether the processor time of a task with these pools is measured: a budget above it or its own states it."""
    return isinstance(pools, NamedPools) and CPU_NS in pools.named


def name_pools(five: Pools, parents: Pools | None, budget: Budget) -> Pools:
    """Add to five derived pools the named pools of `parents`, and own ones where `budget` states a name.

    A name that no budget above states is lent by an open pool, so every pool below a root pool has a parent.
    """
    inherited = named_of(parents) if parents is not None else _NO_NAMES
    if not inherited and not budget.named:
        return five
    own = {name: (inherited.get(name) or Pool(None)).lend(limit) for name, limit in budget.named}
    pools = NamedPools(five)
    pools.named = {**inherited, **own}
    return pools


def root_pools(budget: Budget) -> Pools:
    """The purse of a root nursery."""
    a, b, c, d, e = budget.as_tuple()
    return name_pools((Pool(a), Pool(b), Pool(c), Pool(d), Pool(e)), None, budget)


def affordable(pools: Pools, budget: Budget) -> Budget:
    """The part of `budget` that `pools` can set aside: the minimum, component by component."""
    if budget == UNSTATED:
        return budget
    return Budget(
        *(
            wish if wish is None or pool.left is None else min(wish, pool.left)
            for wish, pool in zip(budget.as_tuple(), pools, strict=True)
        ),
        **{name: _affordable_named(pools, name, wish) for name, wish in budget.named},
    )


def _affordable_named(pools: Pools, name: str, wish: int) -> int:
    pool = pool_of(pools, name)
    return wish if pool is None or pool.left is None else min(wish, pool.left)


def derive(pools: Pools, budget: Budget) -> Pools:
    """The pools of a new task or nursery: its own where `budget` states a number, shared elsewhere."""
    if budget == UNSTATED:
        return pools
    a, b, c, d, e = (
        pool if amount is None else pool.lend(amount) for pool, amount in zip(pools, budget.as_tuple(), strict=True)
    )
    return name_pools((a, b, c, d, e), pools, budget)


def close(pools: Pools, parents: Pools) -> None:
    """Close those of `pools` that are not shared with `parents`."""
    if pools is parents:
        return
    for pool, parent in zip(pools, parents, strict=True):
        if pool is not parent:
            pool.close()
    close_named(pools, parents)


def close_named(pools: Pools, parents: Pools) -> None:
    """Close those of the named pools that are not shared with `parents`."""
    above = named_of(parents)
    for name, pool in named_of(pools).items():
        if pool is not above.get(name):
            pool.close()


def pay(pools: Pools, cost: Cost) -> Component:
    """Charge a cost, whole or not at all (BUDGET-3). Returns PAID, or the component that falls short."""
    for component, amount in cost:
        pool = pools[component] if isinstance(component, int) else pool_of(pools, component)
        if pool is not None and pool.left is not None and pool.left < amount:
            return component
    for component, amount in cost:
        pool = pools[component] if isinstance(component, int) else pool_of(pools, component)
        if pool is None:
            continue
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


def top_up(pools: Pools, sources: Pools, amounts: Budget) -> Component:
    """Move `amounts` into `pools` from the pools above them, up to and including `sources`.

    Moves the whole amount or nothing. Returns PAID, or the first component that the sources cannot give. A component
    that is shared all the way up counts as short, because there is no pool to move it from.
    """
    wishes: list[tuple[Component, int]] = [(c, n) for c, n in enumerate(amounts.as_tuple()) if n]
    wishes += [(name, n) for name, n in amounts.named if n and pool_of(pools, name) is not None]
    moves = [(c, pool_of(pools, c), pool_of(sources, c), n) for c, n in wishes]
    for component, pool, source, amount in moves:
        if pool is not None and not _reaches(pool, source, amount):
            return component
    for _, pool, source, amount in moves:
        if pool is not None:
            _pull(pool, source, amount)
    return PAID


def _reaches(pool: Pool, source: Pool | None, amount: int) -> bool:
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


def _pull(pool: Pool, source: Pool | None, amount: int) -> None:
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
    return Budget(*(pool.left for pool in pools), **{name: pool.left for name, pool in named_of(pools).items()})


def own_left(pools: Pools, parents: Pools) -> Budget:
    """What is left in the pools that are not shared with `parents`, as a statement."""
    above = named_of(parents)
    return Budget(
        *(pool.left if pool is not parent else None for pool, parent in zip(pools, parents, strict=True)),
        **{name: pool.left for name, pool in named_of(pools).items() if pool is not above.get(name)},
    )


def counted(pools: Pools, amounts: Budget) -> Iterator[tuple[Pool, int]]:
    """The pools that hold the components of `amounts`, each with its amount."""
    for pool, amount in zip(pools, amounts.as_tuple(), strict=True):
        yield pool, amount or 0
    for name, amount in amounts.named:
        pool = pool_of(pools, name)
        if pool is not None:
            yield pool, amount
