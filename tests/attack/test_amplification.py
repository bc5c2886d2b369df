"""Amplification: a task that tries to turn a small budget into a large one.

By nesting nurseries, by asking for more than there is, by spawning children with budgets of their own, by recharging
itself, by refunds, and by letting itself be cancelled so as to live on the cleanup allowance. Whatever it tries, what
its whole family spends is at most what it was granted, plus one cleanup allowance for each task that was stopped.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over

import bursar
from bursar import Budget, Cancelled, CapabilityDenied, CapBudget, Cleanup, Runtime

GRANT = 300
JAIL = Budget(ops=GRANT)
CLEANUP = Cleanup(ops=100, seconds=1.0)


def spent_by(family, records) -> int:
    return sum(task.spent[0] for task in records if task.name.startswith(family))


def in_jail(attack, *, budget=JAIL, capabilities=None, **runtime) -> tuple[Runtime, Watch]:
    """Run an attack as a child with a budget, next to an honest task."""
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP, **runtime))
    watch = Watch(rt)

    async def main():
        held = await bursar.capabilities()
        passed = [capabilities(held)] if capabilities is not None else None
        async with bursar.nursery(cancel_on_failure=False) as n:
            work = n.spawn(honest, name="honest")
            jailed = n.spawn(attack, name="evil", budget=budget, capabilities=passed)
            with suppress(bursar.BursarError):
                await jailed.wait()
        assert work.result == "honest work done"

    with suppress(ExceptionGroup):
        rt.run(main)
    over(rt)
    return rt, watch


async def spend_for_ever() -> None:
    while True:
        await bursar.charge(ops=7)
        await bursar.checkpoint()


async def nest(depth: int, wish: Budget) -> None:
    async with bursar.nursery(budget=wish, cancel_on_failure=False) as n:
        n.spawn(spend_for_ever, name="evil spender", budget=wish)
        if depth:
            n.spawn(nest, depth - 1, wish, name=f"evil {depth}", budget=wish)


@pytest.mark.parametrize("wish", [Budget(ops=10**9), Budget(ops=GRANT), Budget()])
def test_nesting_does_not_multiply(wish):
    async def evil():
        await nest(12, wish)

    _, watch = in_jail(evil)
    stopped = sum(1 for task in watch.records if task.name.startswith("evil"))
    assert spent_by("evil", watch.records) <= GRANT + stopped * CLEANUP.ops
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


def test_a_refund_is_what_was_not_spent():
    """Spawn and end a thousand times: what comes back is never more than what went out."""

    async def evil():
        while True:
            async with bursar.nursery(budget=Budget(ops=50)) as n:
                n.spawn(yields_once, name="evil child", budget=Budget(ops=20))

    _, watch = in_jail(evil)
    assert spent_by("evil", watch.records) <= GRANT + CLEANUP.ops


async def yields_once() -> None:
    await bursar.checkpoint()


def test_a_self_recharge_stops_at_the_limit_of_its_capability():
    async def evil():
        with suppress(CapabilityDenied):
            while True:
                await bursar.recharge(Budget(ops=40))
        await spend_for_ever()

    _, watch = in_jail(
        evil, profile="cluster", capabilities=lambda held: held[CapBudget].attenuate(limits=Budget(200, 0, 0, 0, 0))
    )
    assert spent_by("evil", watch.records) <= GRANT + 200 + CLEANUP.ops


def test_a_recharge_without_the_capability_is_refused():
    async def evil():
        with pytest.raises(CapabilityDenied):
            await bursar.recharge(Budget(ops=1))
        me, (n,) = await bursar.current_task(), handles
        with pytest.raises(CapabilityDenied):
            n.recharge(me, Budget(ops=1))
        return "refused"

    handles = []

    async def main():
        async with bursar.nursery() as n:
            handles.append(n)
            return await n.spawn(evil, budget=Budget(ops=50))

    rt = checked(Runtime(clock="virtual"))
    assert rt.run(main) == "refused"
    over(rt)


def by_timeout(work):
    async def evil():
        with suppress(bursar.BudgetExceeded):
            while True:
                with suppress(TimeoutError):
                    async with bursar.timeout(0):
                        try:
                            await bursar.sleep(1)
                        except Cancelled:
                            await bursar.charge(ops=work)
                            raise

    return evil


def by_own_nursery(work):
    async def evil():
        with suppress(bursar.BudgetExceeded):
            while True:
                async with bursar.nursery() as n:
                    n.cancel()
                    try:
                        await bursar.checkpoint()
                    except Cancelled:
                        await bursar.charge(ops=work)
                        raise

    return evil


@pytest.mark.parametrize("trick", [by_timeout, by_own_nursery])
def test_being_cancelled_is_no_source_of_income(trick):
    """A block that a task cancels itself, over and over, must not bring a fresh cleanup allowance each time."""
    _, watch = in_jail(trick(CLEANUP.ops - 10))
    assert spent_by("evil", watch.records) <= GRANT + 2 * CLEANUP.ops
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


def test_a_budget_that_lies_about_itself_is_not_believed():
    """A subclass of `Budget` can answer differently each time it is asked; its word must count once, or not at all."""

    class Liar(Budget):
        asked = 0

        def as_tuple(self):
            type(self).asked += 1
            return (0, 0, 0, 0, 0) if type(self).asked <= 2 else (10**6, 0, 0, 0, 0)

    async def evil():
        with suppress(bursar.BursarError, TypeError):
            await bursar.recharge(Liar())
        await spend_for_ever()

    _, watch = in_jail(
        evil, profile="cluster", capabilities=lambda held: held[CapBudget].attenuate(limits=Budget.none())
    )
    assert spent_by("evil", watch.records) <= GRANT + CLEANUP.ops


def test_a_budget_that_refuses_to_be_clamped_is_clamped():
    class Stubborn(Budget):
        def clamp(self, limit):
            return self

    async def child():
        await bursar.charge(ops=500)

    async def evil():
        async with bursar.nursery() as n:
            with suppress(TypeError):
                n.spawn(child, name="evil child", budget=Stubborn(ops=1000))

    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))
    watch = Watch(rt)

    async def main():
        small = (await bursar.capabilities())[bursar.CapSpawn].attenuate(task_budget=Budget(ops=10))
        async with bursar.nursery() as n:
            n.spawn(evil, capabilities=[small])

    with suppress(ExceptionGroup):
        rt.run(main)
    over(rt)
    assert spent_by("evil child", watch.records) <= 10 + CLEANUP.ops


def test_a_refused_spawn_leaves_nothing_behind_whatever_its_budget_says():
    class Turncoat(Budget):
        asked = 0

        def as_tuple(self):
            type(self).asked += 1
            return (5, None, None, None, None) if type(self).asked <= 1 else (-5, None, None, None, None)

    rt = checked(Runtime(clock="virtual"))

    async def main():
        async with bursar.nursery() as n:
            before = dict(rt.kernel.registry._in_use), rt.kernel.root.pools[2].spent, rt.kernel.spawned
            with suppress(ValueError, TypeError):
                n.spawn(yields_once, budget=Turncoat(ops=5))
                return  # it was believed once and clamped: as good
            assert before == (dict(rt.kernel.registry._in_use), rt.kernel.root.pools[2].spent, rt.kernel.spawned)

    rt.run(main)
    over(rt)
