"""A task that yields for ever, or works without yielding: it gets its turns and no more.

A yield goes to the back of the queue, and a task that only charges gives way when its turn of `yield_interval` ops is
over, so n spinners delay an honest task by one round of n for each of its polls. A finite purse ends the spinner.
"""

from __future__ import annotations

import pytest
from support.drive import HONEST_POLLS, Watch, bound_ready, checked, honest, over

import bursar
from bursar import Budget, BudgetExceeded, Runtime


async def spin() -> None:
    while True:
        await bursar.checkpoint()


async def sleep_nothing() -> None:
    while True:
        await bursar.sleep(0)


async def grind() -> None:
    while True:
        await bursar.charge(ops=10)


async def hog() -> None:
    while True:
        await bursar.now()


@pytest.mark.parametrize("spinner", [spin, sleep_nothing, grind, hog])
@pytest.mark.parametrize("count", [1, 50])
def test_an_honest_task_gets_its_turn_in_every_round(spinner, count):
    rt = checked(Runtime(clock="virtual", yield_interval=100))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            for _ in range(count):
                n.spawn(spinner)
            await n.spawn(honest, name="honest")
            n.cancel()

    rt.run(main)
    over(rt)
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, count + 1)


@pytest.mark.parametrize("workers", [2, 4])
def test_with_several_workers_the_round_is_shared(workers):
    """Whoever steals the honest task, each of its polls waits for at most all others once, and a round of workers."""
    rt = checked(Runtime(clock="virtual", workers=workers))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            for _ in range(40):
                n.spawn(spin)
            await n.spawn(honest, name="honest")
            n.cancel()

    rt.run(main)
    over(rt)
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 41) * workers


@pytest.mark.parametrize("spinner", [spin, sleep_nothing, grind, hog])
def test_a_finite_purse_ends_it(spinner):
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            n.spawn(spinner, budget=Budget(ops=1000))
            n.spawn(honest, name="honest")

    with pytest.raises(ExceptionGroup) as caught:
        rt.run(main)
    assert caught.group_contains(BudgetExceeded)
    over(rt)
    assert rt.kernel.decisions <= 1000 + HONEST_POLLS + 10
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 2)


def test_a_purse_for_the_whole_program_ends_the_program():
    async def main():
        async with bursar.nursery() as n:
            for _ in range(10):
                n.spawn(spin)

    rt = checked(Runtime(clock="virtual", budget=Budget(ops=5000)))
    with pytest.raises((BudgetExceeded, ExceptionGroup)):
        rt.run(main)
    over(rt)
    assert rt.kernel.root.pools[0].spent <= 5000
