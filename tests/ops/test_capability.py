"""What a task holds in its own right: showing, passing on, narrowing and revoking capabilities."""

import pytest
from support.law import UNITS_MAX

import bursar
from bursar import Budget, CapBudget, nursery, sleep


async def give_nothing():
    pass


async def spend(**amounts):
    await bursar.charge(**amounts)
    return (await bursar.current_task()).spent


def test_a_task_sees_what_it_holds_as_a_copy(run):
    async def main():
        held = await bursar.capabilities()
        held.clear()
        return sorted(kind.__name__ for kind in await bursar.capabilities())

    assert run(main) == ["CapChannel", "CapClock", "CapEntropy", "CapExecutor", "CapIO", "CapSpawn", "CapTimer"]


def test_a_narrower_capability_can_be_passed_on_and_taken_back(run):
    async def child():
        await sleep(1)
        async with nursery() as n:
            n.spawn(spend)
            with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=1\) is used up"):
                n.spawn(spend)
        await sleep(5)
        with pytest.raises(bursar.CapabilityRevoked, match="CapSpawn has been revoked"):
            async with nursery():
                pass

    async def main():
        held = await bursar.capabilities()
        narrow = held[bursar.CapSpawn].attenuate(max_tasks=1)
        async with nursery() as n:
            n.spawn(child, capabilities=[narrow, held[bursar.CapTimer]])
            await sleep(3)
            await bursar.revoke(narrow)

    run(main)


def test_only_who_derived_a_capability_may_revoke_it(run):
    async def child(cap):
        with pytest.raises(bursar.CapabilityDenied, match="did not derive"):
            await bursar.revoke(cap)

    async def main():
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=5)
        async with nursery() as n:
            await n.spawn(child, narrow)
        with pytest.raises(bursar.CapabilityDenied, match="did not derive"):
            await bursar.revoke((await bursar.capabilities())[bursar.CapSpawn])

    run(main)


def test_a_capability_is_never_widened(run):
    async def main():
        held = (await bursar.capabilities())[bursar.CapSpawn]
        narrow = held.attenuate(max_tasks=5)
        with pytest.raises(bursar.CapabilityDenied, match="wider"):
            narrow.attenuate(max_tasks=6)
        with pytest.raises(bursar.CapabilityDenied, match="wider"):
            narrow.attenuate(max_tasks=None)
        with pytest.raises(TypeError, match="has no colour"):
            narrow.attenuate(colour="red")

    run(main)


def test_what_was_given_without_the_right_to_pass_it_on_stays(run):
    async def child():
        async with nursery() as n:
            with pytest.raises(bursar.CapabilityDenied, match="without delegable=True"):
                n.spawn(spend, capabilities=[(await bursar.capabilities())[bursar.CapSpawn]])

    async def main():
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=5)
        async with nursery() as n:
            n.spawn(child, capabilities=[narrow])

    run(main)


def test_the_limit_on_a_tasks_budget_is_the_capabilitys(run):
    async def main():
        async with nursery() as n:
            return n.spawn(spend).budget.ops, n.spawn(spend, budget=Budget(ops=5)).budget.ops

    caps = [bursar.CapSpawn(task_budget=Budget(ops=10))]
    assert run(main, capabilities=caps) == (10, 5)


# ---- one spawn after the other: what held for the last one need not hold for the next


def test_a_spawn_is_refused_as_soon_as_the_capability_is_revoked(run):
    async def child(told):
        async with nursery() as n:
            for _ in range(3):
                n.spawn(spend)
            await told.wait()
            with pytest.raises(bursar.CapabilityRevoked, match="CapSpawn has been revoked"):
                n.spawn(spend)
            assert len(n.tasks) == 0

    async def main():
        mine = (await bursar.capabilities())[bursar.CapSpawn].attenuate(delegable=True)
        told = bursar.Event()
        async with nursery() as n:
            n.spawn(child, told, capabilities=[mine])
            await sleep(1)
            await bursar.revoke(mine)
            told.set()

    run(main)
    assert run.runtime.statistics().spawned == 5


def test_who_spawns_under_a_limit_is_counted_exactly_whoever_else_spawns_there(run):
    async def limited(n):
        n.spawn(spend)
        n.spawn(spend)
        with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=2\) is used up"):
            n.spawn(spend)
        await sleep(1)  # they end, and others take their place
        n.spawn(spend)
        n.spawn(spend)
        with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=2\) is used up"):
            n.spawn(spend)

    async def main():
        held = await bursar.capabilities()
        cap = held[bursar.CapSpawn]
        narrow = cap.attenuate(max_tasks=2)
        async with nursery() as n:
            n.spawn(spend)
            n.spawn(limited, n, capabilities=[narrow, held[bursar.CapTimer]])
            n.spawn(spend)
            await bursar.checkpoint()
            n.spawn(spend)
            assert run.runtime.kernel.registry.in_use(cap) == len(n.tasks) == 4
            assert run.runtime.kernel.registry.in_use(narrow) == 2
            await sleep(5)
            assert run.runtime.kernel.registry.in_use(cap) == 0

    run(main)
    assert run.runtime.statistics().spawned == 9


def test_a_child_holds_what_its_own_nursery_and_its_own_spawner_hand_on(run):
    async def holds():
        return len(await bursar.capabilities())

    async def passes_on(n):
        return [n.spawn(holds) for _ in range(2)]

    async def main():
        held = await bursar.capabilities()
        cap = held[bursar.CapSpawn].attenuate(delegable=True)
        tasks = []
        async with nursery() as wide, nursery(capabilities=[cap, held[bursar.CapTimer]]) as narrow:
            for _ in range(2):
                tasks += [wide.spawn(holds), narrow.spawn(holds), wide.spawn(holds)]
            tasks += await wide.spawn(passes_on, wide, capabilities=[cap])
            tasks += await wide.spawn(passes_on, wide)
        return [task.result for task in tasks]

    assert run(main) == [7, 2, 7, 7, 2, 7, 1, 1, 7, 7]


def test_every_spawn_is_paid_by_the_purse_and_booked_on_the_spawner(run):
    async def main():
        me = await bursar.current_task()
        async with nursery(budget=Budget(ops=10, spawns=3)) as n:
            left = []
            before = me.spent
            for _ in range(3):
                n.spawn(spend)
                left.append((n.budget.ops, n.budget.spawns))
            with pytest.raises(bursar.SpawnBudgetExceeded, match="has no spawns left"):
                n.spawn(spend)
            assert (n.budget.ops, n.budget.spawns, len(n.tasks)) == (7, 0, 3)
            assert (me.spent.ops - before.ops, me.spent.spawns - before.spawns) == (3, 3)
        async with nursery(budget=Budget(ops=3)) as n:
            for _ in range(3):
                n.spawn(give_nothing)
            with pytest.raises(bursar.SpawnBudgetExceeded, match="has 0 ops left"):
                n.spawn(give_nothing)
            assert (n.budget.ops, len(n.tasks)) == (0, 3)
        return left

    assert run(main) == [(9, 2), (8, 1), (7, 0)]


def test_an_open_purse_counts_spawns_as_far_as_can_be_counted():
    async def main():
        async with nursery() as n:
            for _ in range(5):
                n.spawn(give_nothing)

    runtime = bursar.Runtime(clock="virtual")
    pools = runtime.kernel.root.pools
    pools[2].spent = UNITS_MAX - 3
    runtime.run(main)
    assert pools[2].spent == UNITS_MAX


def test_a_capability_that_was_taken_back_opens_no_nursery(run):
    async def child(event):
        for _ in range(2):
            async with nursery() as n:
                n.spawn(give_nothing)
        await event.wait()
        with pytest.raises(bursar.CapabilityRevoked):
            async with nursery():
                pass

    async def main():
        event = bursar.Event()
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate()
        async with nursery() as n:
            n.spawn(child, event, capabilities=[narrow])
            await sleep(1)
            await bursar.revoke(narrow)
            event.set()
        return "goes on"

    assert run(main) == "goes on"


def test_what_is_not_handed_on_is_kept_from_every_nursery(run):
    async def held():
        return CapBudget in await bursar.capabilities()

    async def main():
        kinds = []
        for _ in range(3):
            async with nursery() as n:
                kinds.append(await n.spawn(held))
        return kinds

    assert run(main, capabilities=[bursar.CapSpawn(), CapBudget()]) == [False] * 3
