"""Cancel storms: many tasks cancelled at once, the same task cancelled again and again, cancelling in circles.

A request reaches a scope once and is delivered once, so a storm costs what its first request costs. Cancelled tasks go
to the cancel lane, which comes first, but not more than `limit` times in a row: ready work next to the storm waits
at most `wait_max(limit)` decisions for each of its polls.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, LIMIT_MAX, Watch, bound, checked, honest, over
from support.law import CANCEL_STREAK_MAX, wait_max

import bursar
from bursar import Budget, Cancelled, OutcomeKind, Runtime

FAMILY = 300


async def victim() -> None:
    try:
        await bursar.sleep(1000)
    finally:
        await bursar.checkpoint()
        await bursar.checkpoint()


@pytest.mark.parametrize("workers", [1, 4])
def test_honest_work_goes_on_while_a_large_family_is_cancelled(workers):
    rt = checked(Runtime(clock="virtual", workers=workers))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n, bursar.nursery() as doomed:
            for _ in range(FAMILY):
                doomed.spawn(victim)
            await bursar.sleep(1)
            n.spawn(honest, name="honest")
            doomed.cancel()

    rt.run(main)
    over(rt)
    assert watch.streak_max <= LIMIT_MAX
    # on its worker nothing else is ready: each poll waits for cancels and timers only
    assert watch.took("honest") <= HONEST_POLLS * (wait_max(LIMIT_MAX) + 1) * workers
    assert watch.took("honest") <= bound(HONEST_POLLS, 1, workers)


def test_outside_a_drain_the_streak_is_the_short_one():
    """Tasks cancelled one by one, in nurseries that stay open: the limit is not doubled."""
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            doomed = [n.spawn(victim) for _ in range(FAMILY)]
            await bursar.sleep(1)
            n.spawn(honest, name="honest")
            for task in doomed:
                task.cancel()

    rt.run(main)
    over(rt)
    assert watch.streak_max == CANCEL_STREAK_MAX
    assert watch.took("honest") <= HONEST_POLLS * (wait_max(CANCEL_STREAK_MAX) + 1)


def test_a_thousand_requests_are_delivered_once():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    delivered = 0

    async def counts():
        nonlocal delivered
        try:
            await bursar.sleep(1000)
        except Cancelled:
            delivered += 1
            for _ in range(5):
                await bursar.checkpoint()
            raise

    async def storm(targets):
        (target,) = targets
        for _ in range(1000):
            target.cancel("again")
        await bursar.checkpoint()
        for _ in range(1000):
            target.cancel("and again")

    async def main():
        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            target = n.spawn(counts)
            await bursar.checkpoint()
            await bursar.checkpoint()
            for _ in range(20):
                n.spawn(storm, [target])
        assert target.outcome.kind is OutcomeKind.CANCELLED

    rt.run(main)
    over(rt)
    assert delivered == 1
    assert watch.kinds["cancel_requested"] == watch.kinds["cancel_delivered"] == 1
    assert watch.took("honest") <= bound(HONEST_POLLS, 23)


def test_tasks_that_cancel_each_other_all_end():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    everyone: list[bursar.Task] = []

    async def hostile(i):
        with suppress(Cancelled):
            while True:
                for other in everyone:
                    other.cancel(f"by {i}")
                await bursar.checkpoint()
        everyone[(i + 1) % len(everyone)].cancel()
        await bursar.checkpoint()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            everyone.extend(n.spawn(hostile, i) for i in range(100))

    rt.run(main)
    over(rt)
    assert rt.kernel.done[OutcomeKind.CANCELLED] == 100
    assert watch.took("honest") <= bound(HONEST_POLLS, 102)


def test_cancelled_tasks_that_spawn_in_their_cleanup_do_not_go_on_for_ever():
    """Cleanup may open a nursery and spawn; its purse and the time of the cleanup bound what comes of it."""
    rt = checked(Runtime(clock="virtual", cleanup=bursar.Cleanup(ops=200, seconds=1.0)))
    watch = Watch(rt)

    async def hydra():
        try:
            await bursar.sleep(1000)
        finally:
            async with bursar.nursery() as n:
                n.spawn(hydra)
                n.spawn(hydra)

    async def main():
        async with bursar.nursery() as n, bursar.nursery(budget=Budget(spawns=100, ops=5000)) as jail:
            jail.spawn(hydra)
            await bursar.sleep(1)
            n.spawn(honest, name="honest")
            jail.cancel()

    with suppress(ExceptionGroup):
        rt.run(main)
    over(rt)
    assert rt.kernel.spawned <= 102
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)
    assert rt.kernel.now_ns <= 5_000_000_000
