"""Fork bombs: a task that spawns as fast as it can, in width, in depth, or into nurseries that others handed to it.

The `spawns` and `ops` of its purse, or the `max_tasks` of its capability, stop each of them; spawning is paid before it
happens, so the number of tasks that ever lived is known beforehand. An honest task next to the bomb waits for at most
one round of the queue for each of its polls, and the round is as long as the bomb's purse is deep.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, bound_ready, checked, honest, over

import bursar
from bursar import Budget, CapabilityDenied, CapSpawn, NurseryClosed, Runtime, SpawnBudgetExceeded

SPAWNS = 200


async def wide(n: bursar.Nursery) -> int:
    """Spawn until somebody says no."""
    count = 0
    with suppress(SpawnBudgetExceeded):
        while True:
            n.spawn(idle)
            count += 1
    return count


async def idle() -> None:
    await bursar.checkpoint()


async def wide_bomb() -> int:
    async with bursar.nursery() as n:
        return await wide(n)


async def deep_bomb(depth: int = 0) -> int:
    """Each task opens a nursery and spawns two more of itself."""
    try:
        async with bursar.nursery() as n:
            n.spawn(deep_bomb, depth + 1)
            n.spawn(deep_bomb, depth + 1)
    except* (SpawnBudgetExceeded, bursar.BudgetExceeded):
        pass
    return depth


async def handle_bomb(nurseries: list) -> None:
    """Spawn copies of itself into every nursery it knows, and make its own known to all."""
    with suppress(SpawnBudgetExceeded, NurseryClosed, CapabilityDenied):
        while True:
            for n in list(nurseries):
                n.spawn(handle_bomb, nurseries)
                await bursar.checkpoint()


def beside(bomb, *args, budget: Budget, **runtime) -> tuple[Runtime, Watch]:
    """Run a bomb in a nursery with a budget, and an honest task outside it."""
    rt = checked(Runtime(clock="virtual", **runtime))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            work = n.spawn(honest, name="honest")
            try:
                async with bursar.nursery(budget=budget, name="jail") as jail:
                    await jail.spawn(bomb, *args, name="bomb").wait()
            except* bursar.BudgetExceeded:
                pass
        assert work.result == "honest work done"

    rt.run(main)
    over(rt)
    return rt, watch


@pytest.mark.parametrize("workers", [1, 4])
def test_a_bomb_in_width_is_stopped_by_its_spawns(workers):
    rt, watch = beside(wide_bomb, budget=Budget(spawns=SPAWNS), workers=workers)
    assert rt.kernel.spawned == 2 + SPAWNS  # main, honest, and exactly what the jail could pay
    assert watch.runnable_max <= SPAWNS + 3
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, SPAWNS + 2)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_bomb_in_depth_is_stopped_by_its_spawns(workers):
    rt, watch = beside(deep_bomb, budget=Budget(spawns=SPAWNS), workers=workers)
    assert rt.kernel.spawned <= 2 + SPAWNS
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max, workers)


def test_a_bomb_in_depth_is_stopped_by_its_operations():
    rt, watch = beside(deep_bomb, budget=Budget(ops=500))
    assert rt.kernel.spawned <= 2 + 500
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


def test_a_bomb_through_passed_handles_spends_the_purse_of_the_handle():
    """Who holds the handle may spawn into it; what it spawns is paid by that nursery's purse, and ends with it."""
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            work = n.spawn(honest, name="honest")
            async with bursar.nursery(budget=Budget(spawns=50)) as a, bursar.nursery(budget=Budget(spawns=30)) as b:
                a.spawn(handle_bomb, [a, b])
                await work
                await bursar.sleep(1)
        assert work.result == "honest work done"

    rt.run(main)
    over(rt)
    assert rt.kernel.spawned == 2 + 50 + 30
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 82)


def test_max_tasks_bounds_how_many_live_at_once_however_they_are_nested():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    live_max = 0

    async def bomb():
        nonlocal live_max
        live_max = max(live_max, len(rt.kernel.tasks))
        try:
            async with bursar.nursery() as n:
                for _ in range(3):
                    n.spawn(bomb)
        except* CapabilityDenied:
            pass

    async def main():
        few = (await bursar.capabilities())[CapSpawn].attenuate(max_tasks=10)
        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            n.spawn(bomb, capabilities=[few], budget=Budget(spawns=1000))

    rt.run(main)
    over(rt)
    assert live_max <= 3 + 10
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


def test_a_child_without_the_capability_cannot_spawn_at_all():
    async def bomb(n):
        with pytest.raises(CapabilityDenied):
            n.spawn(bomb, n)
        with pytest.raises(CapabilityDenied):
            async with bursar.nursery():
                pass

    rt = checked(Runtime(clock="virtual"))

    async def main():
        async with bursar.nursery() as n:
            await n.spawn(bomb, n, capabilities=[])

    rt.run(main)
    over(rt)
    assert rt.kernel.spawned == 2


def test_a_sovereign_child_has_no_spawns_unless_they_are_granted():
    async def bomb():
        with pytest.raises(ExceptionGroup) as caught:
            async with bursar.nursery() as n:
                n.spawn(idle)
        assert caught.group_contains(SpawnBudgetExceeded)
        return "refused"

    async def main():
        cap = (await bursar.capabilities())[CapSpawn]
        async with bursar.nursery() as n:
            task = n.spawn(bomb, capabilities=[cap])
        return task.result

    rt = checked(
        Runtime(clock="virtual", profile="sovereign", budget=Budget(ops=1000, spawns=10), capabilities=[CapSpawn()])
    )
    assert rt.run(main) == "refused"
    over(rt)
