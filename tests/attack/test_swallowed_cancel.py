"""A task that swallows its cancellation and goes on, as long as it can.

After delivery it lives on the cleanup allowance, so many operations and so much time; overrunning either, it is closed
without being asked, and if it resists even that it is abandoned and reported. Its nursery ends, its siblings go on.
"""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over

import bursar
from bursar import Budget, Cancelled, Cleanup, OutcomeKind, Runtime

CLEANUP = Cleanup(ops=300, seconds=2.0)


async def spins() -> None:
    while True:
        try:
            while True:
                await bursar.checkpoint()
        except Cancelled:
            pass


async def sleeps() -> None:
    while True:
        with suppress(Cancelled):
            await bursar.sleep(1000)


async def charges() -> None:
    while True:
        try:
            while True:
                await bursar.charge(ops=1)
        except Cancelled:
            pass


async def waits() -> None:
    while True:
        with suppress(Cancelled):
            await bursar.Event().wait()


async def locks() -> None:
    lock = bursar.Lock()
    while True:
        try:
            async with lock:
                await bursar.sleep(0.1)
        except Cancelled:
            pass


async def nests() -> None:
    while True:
        try:
            async with bursar.nursery() as n:
                n.spawn(sleeps)
                n.spawn(waits)
                await bursar.sleep(1000)
        except Cancelled:
            pass


SWALLOWERS = [spins, sleeps, charges, waits, locks, nests]


@pytest.mark.parametrize("evil", SWALLOWERS)
@pytest.mark.parametrize("count", [1, 20])
def test_it_is_cut_off_and_its_nursery_ends(evil, count):
    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP, yield_interval=50))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n:
            async with bursar.nursery() as jail:
                tasks = [jail.spawn(evil) for _ in range(count)]
                await bursar.checkpoint()
                await bursar.checkpoint()
                n.spawn(honest, name="honest")
                jail.cancel()
            return await bursar.now(), tasks

    seconds, tasks = rt.run(main)
    over(rt)
    assert seconds <= 2 * CLEANUP.seconds
    assert {task.outcome.kind for task in tasks} == {OutcomeKind.CANCELLED}
    assert rt.kernel.counters["cleanup_cut"] >= count
    assert all(task.spent.ops <= CLEANUP.ops + 100 for task in tasks)
    assert watch.took("honest") <= bound(HONEST_POLLS, watch.runnable_max)


def test_a_task_that_swallows_and_returns_is_cancelled_all_the_same():
    async def evil():
        try:
            await bursar.sleep(1000)
        except Cancelled:
            return "I did not hear anything"

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(evil)
            await bursar.sleep(1)
            n.cancel()
        return task.outcome.kind

    rt = checked(Runtime(clock="virtual"))
    assert rt.run(main) is OutcomeKind.CANCELLED
    assert [r.kind for r in rt.reports] == ["cancel_swallowed"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_task_that_resists_being_closed_is_abandoned_and_reported():
    async def evil():
        while True:
            with suppress(BaseException):
                await bursar.checkpoint()

    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery() as n, bursar.nursery() as jail:
            jail.spawn(evil)
            await bursar.checkpoint()
            n.spawn(honest, name="honest")
            jail.cancel()

    rt.run(main)
    over(rt)
    assert "cleanup_ignored" in [r.kind for r in rt.reports]
    assert watch.took("honest") <= bound(HONEST_POLLS, 3)
    gc.collect()


def test_swallowing_the_end_of_the_budget_does_not_help_either():
    async def evil():
        while True:
            try:
                while True:
                    await bursar.charge(ops=10)
            except bursar.BudgetExceeded:
                pass

    rt = checked(Runtime(clock="virtual", cleanup=CLEANUP))
    watch = Watch(rt)

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            n.spawn(honest, name="honest")
            n.spawn(evil, name="evil", budget=Budget(ops=500))

    with pytest.raises(ExceptionGroup) as caught:
        rt.run(main)
    assert caught.group_contains(bursar.BudgetExceeded)
    over(rt)
    assert next(t for t in watch.records if t.name == "evil").spent[0] <= 500 + CLEANUP.ops
    assert watch.took("honest") <= bound(HONEST_POLLS, 2)


def test_well_behaved_code_that_is_cut_off_is_not_blamed():
    """A cut inside `timeout` around `nursery` closes both blocks; neither of them may complain about the other."""
    rt = checked(Runtime(clock="virtual", cleanup=Cleanup(ops=100, seconds=1.0)))

    async def slow_to_stop():
        try:
            await bursar.sleep(1000)
        finally:
            await bursar.sleep(1000)

    async def outer():
        async with bursar.timeout(500), bursar.nursery() as n:
            n.spawn(slow_to_stop)
            await slow_to_stop()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(outer)
            await bursar.sleep(1)
            n.cancel()

    rt.run(main)
    over(rt)
    assert not [r for r in rt.reports if r.kind == "cleanup_failed"], rt.reports
