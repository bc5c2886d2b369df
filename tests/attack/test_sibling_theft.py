"""A child that spends what its sibling was granted: through the purse, a recharge, a handle, a refund.

What was granted by name is set aside when the sibling is spawned and out of anybody's reach until it ends. What was not
is drawn from the common purse, first come, first served; there the thief's own budget, or its capability, is the fence.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over

import bursar
from bursar import Budget, BudgetExceeded, CapabilityDenied, CapSpawn, Runtime

PURSE = 1000
COMMON = Budget(ops=PURSE, spawns=50)
HONEST = Budget(ops=HONEST_POLLS + 5)


async def spend() -> None:
    while True:
        await bursar.charge(ops=10)


def theft(thief, *, thief_budget=None, narrow=None, purse=COMMON):
    """An honest task with a budget by name, and a thief, in one nursery."""
    rt = checked(Runtime(clock="virtual", cleanup=bursar.Cleanup(ops=50, seconds=1)))
    watch = Watch(rt)

    async def main():
        cap = (await bursar.capabilities())[CapSpawn]
        caps = [cap.attenuate(**narrow)] if narrow is not None else None
        async with bursar.nursery(budget=purse, cancel_on_failure=False) as n:
            work = n.spawn(honest, name="honest", budget=HONEST)
            task = n.spawn(thief, n, [work], name="thief", budget=thief_budget, capabilities=caps)
            await task.wait()
            await work.wait()
        return work, task

    tasks = []

    async def outer():
        with suppress(ExceptionGroup):
            tasks.append(await main())

    rt.run(outer)
    over(rt)
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)
    done = next(t for t in watch.records if t.name == "honest")
    assert done.outcome.kind is bursar.OutcomeKind.OK
    assert sum(t.spent[0] for t in watch.records if t.name != "honest") <= PURSE + 50 * len(watch.records)
    return watch


def test_draining_the_purse_does_not_touch_what_was_set_aside():
    async def thief(n, friends):
        await spend()

    theft(thief)


def test_spawning_into_the_common_nursery_does_not_touch_it_either():
    async def thief(n, friends):
        with suppress(bursar.BursarError):
            while True:
                n.spawn(spend, name="accomplice")
                await bursar.checkpoint()

    theft(thief)


def test_asking_for_the_whole_purse_gets_only_what_is_left_of_it():
    async def thief(n, friends):
        got = n.spawn(spend, name="accomplice", budget=Budget(ops=10**9))
        assert got.budget.ops <= PURSE - HONEST.ops
        await got.wait()

    theft(thief)


def test_a_recharge_from_the_siblings_pocket_is_refused():
    async def thief(n, friends):
        me = await bursar.current_task()
        (work,) = friends
        for target in (me, work):
            with pytest.raises(CapabilityDenied):
                n.recharge(target, Budget(ops=5))
        with pytest.raises(CapabilityDenied):
            await bursar.recharge(Budget(ops=5))
        with pytest.raises(CapabilityDenied):
            await bursar.recharge(Budget(ops=5), work)

    watch = theft(thief, thief_budget=Budget(ops=100))
    assert next(t for t in watch.records if t.name == "thief").outcome.kind is bursar.OutcomeKind.OK


def test_the_owner_cannot_recharge_one_child_out_of_another():
    """A recharge comes out of the purse and the owner's own budget, never out of what a sibling holds."""
    rt = checked(Runtime(clock="virtual", budget=Budget(ops=400)))

    async def main():
        async with bursar.nursery(budget=Budget(ops=200)) as n:
            rich = n.spawn(honest, budget=Budget(ops=150))
            poor = n.spawn(honest, budget=Budget(ops=30))
            with pytest.raises(BudgetExceeded):
                n.recharge(poor, Budget(ops=390))
            assert (rich.budget.ops, poor.budget.ops) == (150, 30)

    rt.run(main)
    over(rt)


def test_a_thief_with_a_budget_of_its_own_cannot_empty_the_purse_through_the_handle():
    """With `max_tasks` and `task_budget` in its capability, a handle is worth what the capability says."""

    async def thief(n, friends):
        with suppress(bursar.BursarError):
            while True:
                n.spawn(spend, name="accomplice")
                await bursar.checkpoint()

    watch = theft(thief, narrow={"max_tasks": 2, "task_budget": Budget(ops=20)}, thief_budget=Budget(ops=40))
    accomplices = [t for t in watch.records if t.name == "accomplice"]
    assert all(t.spent[0] <= 20 + 50 for t in accomplices)


def test_a_purse_that_two_share_goes_to_whoever_comes_first_and_is_never_overdrawn():
    rt = checked(Runtime(clock="virtual", budget=Budget(ops=100), cleanup=bursar.Cleanup(ops=10, seconds=1)))

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            for _ in range(5):
                n.spawn(spend)

    with pytest.raises((ExceptionGroup, BudgetExceeded)):
        rt.run(main)
    over(rt)
    assert rt.kernel.root.pools[0].spent <= 100
