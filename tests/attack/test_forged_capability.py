"""Forging authority through the public face: capabilities that were made up, widened, borrowed, kept after their end.

Constructing a capability describes one; only a runtime mints. A derived one is never wider, counts against all its
ancestors, is passed on only where that was allowed, and dies with what it came from. A task never gets, by any road
(a nursery's handle, a forgotten generator, a supervisor), what the task that took the road did not hold.
(In-process Python is no sandbox: who writes to private fields can do anything, and that is not tested here.)
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle

import pytest
from support.drive import checked, over
from support.law import DEPTH_MAX

import bursar
from bursar import (
    Budget,
    CapabilityDenied,
    CapabilityForged,
    CapabilityRevoked,
    CapBudget,
    CapChannel,
    CapClock,
    CapEntropy,
    CapSpawn,
    CapTimer,
    Runtime,
)


async def nothing() -> None:
    pass


async def draws() -> int:
    return await bursar.entropy()


def as_child(attack, *args, keep=(CapSpawn,), profile="service", narrow=None, delegable=False, **runtime):
    """Run an attack as a child that holds only what `keep` names; its value, or what it raised."""
    rt = checked(Runtime(clock="virtual", profile=profile, **runtime))

    async def main():
        held = await bursar.capabilities()
        passed = [held[kind].attenuate(delegable=delegable, **(narrow or {}).get(kind, {})) for kind in keep]
        async with bursar.nursery() as n:
            return await n.spawn(attack, n, *args, capabilities=passed)

    value = rt.run(main)
    over(rt)
    return value


def test_a_described_capability_opens_nothing():
    async def evil(n):
        for made_up in (CapSpawn(), CapEntropy(), CapBudget(Budget(ops=10**9)), CapSpawn(delegable=True)):
            with pytest.raises(CapabilityDenied):
                n.spawn(draws, capabilities=[made_up])
            with pytest.raises(CapabilityForged):
                made_up.attenuate()
            assert not made_up.minted
        with pytest.raises(CapabilityDenied):
            await bursar.entropy()
        return "nothing"

    assert as_child(evil) == "nothing"


@pytest.mark.parametrize("thing", ["CapEntropy", 1, None, CapEntropy, object()])
def test_what_is_no_capability_is_none(thing):
    async def evil(n):
        with pytest.raises((CapabilityDenied, TypeError)):
            n.spawn(draws, capabilities=[thing])
        return "nothing"

    assert as_child(evil) == "nothing"


def test_another_runtime_mints_for_itself_only():
    mine = Runtime(clock="virtual").grant(CapEntropy())

    async def evil(n):
        with pytest.raises(CapabilityDenied):
            n.spawn(draws, capabilities=[mine])
        with pytest.raises(CapabilityDenied):
            n.spawn(draws, capabilities=[mine.attenuate()])
        return "nothing"

    assert as_child(evil) == "nothing"


def test_copies_and_replacements_are_not_wider_than_the_original():
    narrow = {CapSpawn: {"max_tasks": 1, "task_budget": Budget(ops=10)}}

    async def evil(n):
        held = (await bursar.capabilities())[CapSpawn]
        wide = dataclasses.replace(held, max_tasks=None, task_budget=None)
        assert not wide.minted
        with pytest.raises(CapabilityDenied):
            n.spawn(nothing, capabilities=[wide])
        for twin in (copy.copy(held), held):
            assert twin.max_tasks == 1
        with pytest.raises(Exception):  # noqa: B017, PT011 (a runtime is behind it: no matter how it fails)
            pickle.dumps(held)
        with pytest.raises(dataclasses.FrozenInstanceError):
            held.max_tasks = None
        return "nothing"

    assert as_child(evil, narrow=narrow) == "nothing"


@pytest.mark.parametrize(
    "wider",
    [
        {"max_tasks": None},
        {"max_tasks": 3},
        {"task_budget": None},
        {"task_budget": Budget()},
        {"task_budget": Budget(ops=11)},
    ],
)
def test_attenuation_never_widens(wider):
    narrow = {CapSpawn: {"max_tasks": 2, "task_budget": Budget(ops=10)}}

    async def evil(n):
        held = (await bursar.capabilities())[CapSpawn]
        with pytest.raises(CapabilityDenied):
            held.attenuate(**wider)
        with pytest.raises(TypeError):
            held.attenuate(seal=held._seal)
        for _ in range(DEPTH_MAX - held._seal.depth):
            held = held.attenuate()
        with pytest.raises(CapabilityDenied):
            held.attenuate()
        return "nothing"

    assert as_child(evil, narrow=narrow) == "nothing"


def test_what_was_given_without_delegation_stays_where_it_is():
    async def evil(n):
        held = (await bursar.capabilities())[CapEntropy]
        for passed in (held, held.attenuate(), held.attenuate(delegable=True)):
            with pytest.raises(CapabilityDenied, match="delegable"):
                n.spawn(draws, capabilities=[passed])
        return "nothing"

    assert as_child(evil, keep=(CapSpawn, CapEntropy)) == "nothing"


def test_one_may_not_pass_on_what_another_holds():
    stolen = []

    async def rich(n):
        stolen.append((await bursar.capabilities())[CapEntropy])

    async def evil(n):
        with pytest.raises(CapabilityDenied):
            n.spawn(draws, capabilities=[stolen[0]])
        with pytest.raises(CapabilityDenied):
            n.spawn(draws, capabilities=[stolen[0].attenuate()])
        return "nothing"

    rt = checked(Runtime(clock="virtual"))

    async def main():
        held = await bursar.capabilities()
        async with bursar.nursery() as n:
            await n.spawn(rich, n)
            return await n.spawn(evil, n, capabilities=[held[CapSpawn]])

    assert rt.run(main) == "nothing"
    over(rt)


def test_revoking_reaches_everything_that_was_derived():
    rt = checked(Runtime(clock="virtual"))
    root = rt.grant(CapEntropy())

    async def evil(mine):
        await bursar.entropy()
        rt.revoke(root)
        with pytest.raises(CapabilityRevoked):
            await bursar.entropy()
        with pytest.raises(CapabilityRevoked):
            mine.attenuate()
        return "nothing"

    rt.kernel.root.capabilities[CapEntropy] = root

    async def main():
        held = (await bursar.capabilities())[CapEntropy]
        for _ in range(10):
            held = held.attenuate(delegable=True)
        async with bursar.nursery() as n:
            return await n.spawn(evil, held, capabilities=[held])

    assert rt.run(main) == "nothing"
    over(rt)


def test_only_the_deriver_may_revoke():
    async def evil(n, target):
        with pytest.raises(CapabilityDenied):
            await bursar.revoke(target)
        return "nothing"

    rt = checked(Runtime(clock="virtual"))

    async def main():
        held = await bursar.capabilities()
        async with bursar.nursery() as n:
            await n.spawn(evil, n, held[CapClock])
        await bursar.now()

    rt.run(main)
    over(rt)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda: bursar.sleep(1), CapTimer),
        (lambda: bursar.now(), CapClock),
        (lambda: bursar.entropy(), CapEntropy),
        (lambda: bursar.channel(1)[0].send(1), CapChannel),
        (lambda: bursar.recharge(Budget(ops=1)), CapBudget),
    ],
)
def test_every_use_is_checked(use, kind):
    async def evil(n):
        with pytest.raises(CapabilityDenied, match=kind.__name__):
            await use()
        return "nothing"

    assert as_child(evil, keep=()) == "nothing"


def test_a_timeout_needs_the_timer_too():
    async def evil(n):
        with pytest.raises(CapabilityDenied, match="CapTimer"):
            async with bursar.timeout(1):
                pass
        with pytest.raises(CapabilityDenied, match="CapTimer"):
            await bursar.select(bursar.sleep(1))
        return "nothing"

    assert as_child(evil, keep=()) == "nothing"


def test_a_nursery_handle_does_not_lend_its_owners_capabilities():
    """A child that may only spawn is handed its parent's nursery: what it spawns there holds no more than it does."""

    async def evil(n):
        await n.spawn(draws)

    with pytest.raises(ExceptionGroup) as caught:
        as_child(evil)
    assert caught.group_contains(CapabilityDenied)


@pytest.mark.parametrize("profile", ["service", "cluster"])
def test_a_forgotten_generator_is_closed_with_the_authority_of_its_task(profile):
    """The `finally` of a generator that was dropped half way runs later, elsewhere, but on nobody else's authority."""
    loot = []

    async def numbers():
        try:
            yield 1
        finally:
            loot.append(await bursar.entropy())

    async def evil(n):
        generator = numbers()
        await anext(generator)
        del generator
        gc.collect()
        await bursar.checkpoint()
        return "nothing"

    assert as_child(evil, keep=(), profile=profile) == "nothing"
    assert not loot


def test_a_forgotten_generator_is_closed_on_the_budget_of_its_task():
    spent = []

    async def numbers():
        try:
            yield 1
        finally:
            await bursar.charge(ops=5000)
            spent.append(5000)

    async def evil():
        generator = numbers()
        await anext(generator)
        del generator
        await bursar.checkpoint()

    rt = checked(Runtime(clock="virtual", cleanup=bursar.Cleanup(ops=100, seconds=1)))

    async def main():
        async with bursar.nursery() as n:
            n.spawn(evil, budget=Budget(ops=20))

    rt.run(main)
    assert not spent


def test_an_empty_capability_to_recharge_does_not_open_the_purse():
    """`nursery.recharge` by one who is not the owner: its `CapBudget` must allow the amount, or nothing is moved."""

    async def evil(n):
        me = await bursar.current_task()
        before = me.budget.ops
        with pytest.raises(CapabilityDenied):
            n.recharge(me, Budget(ops=500))
        assert me.budget.ops <= before
        return "nothing"

    rt = checked(Runtime(clock="virtual", profile="cluster"))

    async def main():
        empty = (await bursar.capabilities())[CapBudget].attenuate(limits=Budget.none())
        async with bursar.nursery(budget=Budget(ops=1000)) as n:
            return await n.spawn(evil, n, budget=Budget(ops=50), capabilities=[empty])

    assert rt.run(main) == "nothing"
    over(rt)


def test_a_revoked_capability_to_recharge_does_not_open_the_purse():
    async def evil(n, rt, cap):
        rt.revoke(cap)
        me = await bursar.current_task()
        with pytest.raises(CapabilityDenied):
            n.recharge(me, Budget(ops=500))
        return "nothing"

    rt = checked(Runtime(clock="virtual", profile="cluster"))

    async def main():
        cap = (await bursar.capabilities())[CapBudget].attenuate()
        async with bursar.nursery(budget=Budget(ops=1000)) as n:
            return await n.spawn(evil, n, rt, cap, budget=Budget(ops=50), capabilities=[cap])

    assert rt.run(main) == "nothing"
    over(rt)
