"""The four profiles: what each grants before anybody asked, and what each refuses."""

import pytest

import bursar
from bursar import Budget, CapBudget, CapSpawn, nursery
from bursar.law.profile import PROFILES, find


async def held():
    return set(await bursar.capabilities())


async def give(value):
    return value


def test_there_are_four():
    assert list(PROFILES) == ["core", "service", "cluster", "sovereign"]


def test_core_has_no_scheduler():
    with pytest.raises(bursar.ProfileError, match=r"'core' has no scheduler.*use 'service'"):
        find("core")


def test_an_unknown_one_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'imperial': must be one of core, service, cluster, sovereign"):
        find("imperial")


def test_service_grants_everything_but_the_right_to_recharge_and_children_inherit_it(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(held)
        return await held(), task.result

    mine, childs = run(main)
    assert mine == childs
    assert len(mine) == 7
    assert CapBudget not in mine


def test_cluster_grants_the_main_task_the_right_to_recharge_as_well(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(held)
        return await held() - task.result

    assert run(main, profile="cluster") == {CapBudget}


def test_a_turn_is_shorter_in_cluster():
    assert find("service").yield_interval == 1024
    assert find("cluster").yield_interval == 512


def test_sovereign_grants_nothing_by_itself(run):
    async def main():
        assert await held() == set()
        with pytest.raises(bursar.CapabilityDenied, match=r"may not open a nursery: it holds no CapSpawn"):
            async with nursery():
                pass

    run(main, profile="sovereign", budget=Budget(ops=100, spawns=1))


def test_sovereign_spawns_what_was_granted_and_passes_on_only_what_is_handed_over(run):
    async def main():
        spawn = (await bursar.capabilities())[CapSpawn]
        async with nursery() as n:
            bare = n.spawn(held)
            given = n.spawn(held, capabilities=[spawn])
        return bare.result, given.result

    budget = Budget(ops=1000, spawns=10)
    bare, given = run(main, profile="sovereign", budget=budget, capabilities=[CapSpawn()])
    assert bare == set()
    assert given == {CapSpawn}


def test_sovereign_children_get_no_spawns_unless_granted(run):
    async def parent():
        async with nursery() as n:
            return await n.spawn(give, 1)

    async def main():
        spawn = (await bursar.capabilities())[CapSpawn]
        async with nursery() as n:
            rich = n.spawn(parent, capabilities=[spawn], budget=Budget(ops=100, spawns=1))
            await rich
            main.rich = rich.result
            n.spawn(parent, capabilities=[spawn], name="poor")

    with pytest.raises(ExceptionGroup) as caught:
        run(main, profile="sovereign", budget=Budget(ops=1000, spawns=10), capabilities=[CapSpawn()])
    assert main.rich == 1
    assert caught.value.subgroup(bursar.SpawnBudgetExceeded)


def test_sovereign_must_be_told_its_budget():
    with pytest.raises(ValueError, match=r"'sovereign' grants nothing by itself.*budget=Budget"):
        bursar.Runtime(profile="sovereign")
