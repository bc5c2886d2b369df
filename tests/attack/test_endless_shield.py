"""A task that hides behind a shield and refuses to stop.

A shield keeps cancellation out for as long as its block lasts; it does not keep the bill out. A finite purse ends the
block, a run in which nothing else can happen cuts it off, and work elsewhere is not delayed by it.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over

import bursar
from bursar import Budget, Cleanup, Deadlock, OutcomeKind, Runtime

CLEANUP = Cleanup(ops=200, seconds=2.0)
GRANT = 1000


async def spins() -> None:
    async with bursar.shield():
        while True:
            await bursar.checkpoint()


async def hides_again_and_again() -> None:
    while True:
        with suppress(BaseException):
            async with bursar.shield(), bursar.shield():
                await bursar.checkpoint()


async def swallows_the_bill() -> None:
    async with bursar.shield():
        while True:
            with suppress(bursar.BudgetExceeded):
                await bursar.charge(ops=20)


@pytest.mark.parametrize("evil", [spins, swallows_the_bill])
def test_its_budget_ends_it(evil):
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n, bursar.nursery(cancel_on_failure=False) as jail:
            jail.spawn(evil, name="evil", budget=Budget(ops=GRANT))
            await bursar.checkpoint()
            n.spawn(honest, name="honest")
            jail.cancel()

    with suppress(ExceptionGroup):
        rt.run(main)
    over(rt)
    spent = next(t for t in watch.records if t.name == "evil").spent[0]
    assert spent <= GRANT + CLEANUP.ops
    assert watch.took("honest") <= bound(HONEST_POLLS, 3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_task_that_hides_anew_each_time_is_told_in_between():
    """Between two shields there is an await: the cancellation arrives there, and then the allowance runs out."""
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n, bursar.nursery() as jail:
            task = jail.spawn(hides_again_and_again, name="evil")
            await bursar.checkpoint()
            n.spawn(honest, name="honest")
            jail.cancel()
        return task.outcome.kind

    assert rt.run(main) is OutcomeKind.CANCELLED
    over(rt)
    assert watch.took("honest") <= bound(HONEST_POLLS, 3)


def test_one_that_waits_for_ever_behind_its_shield_is_cut_off_when_all_else_is_still():
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))

    async def evil():
        async with bursar.shield():
            await bursar.Event().wait()

    async def main():
        async with bursar.nursery() as n:
            for _ in range(10):
                n.spawn(evil)
            await bursar.checkpoint()
            n.cancel()

    with pytest.raises(Deadlock):
        rt.run(main)
    over(rt)
    assert rt.kernel.counters["cleanup_cut"] >= 1


def test_a_held_task_behind_a_shield_does_not_hang_its_parent():
    """On hold it cannot run, so there is nothing to shield: cancelling its nursery must end it while others go on."""
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))

    async def family():
        async with bursar.nursery(on_exhausted="hold") as n:
            n.spawn(spins, budget=Budget(ops=20))
            await bursar.sleep(1)
            n.cancel()
        return await bursar.now()

    async def elsewhere():
        for _ in range(100):
            await bursar.sleep(1)

    async def main():
        async with bursar.nursery() as n:
            other = n.spawn(elsewhere)
            ended = await n.spawn(family)
            other.cancel()
            return ended

    assert rt.run(main) <= 1 + 2 * CLEANUP.seconds
    over(rt)
