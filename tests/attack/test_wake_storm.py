"""Wake storms: one task woken a thousand times, a thousand tasks woken at once, wakes that come too late.

Many wakes of one wait make one entry in one queue, so a storm is as long as the number of tasks that it wakes, not as
the number of wakes; a late wake is a record and nothing else. Who is woken together stands in line like all.
"""

from __future__ import annotations

import pytest
from support.drive import HONEST_POLLS, Watch, bound_ready, checked, honest, over

import bursar
from bursar import Runtime, State
from bursar.law.wake import Notice

CROWD = 300


@pytest.mark.parametrize("workers", [1, 4])
def test_a_crowd_that_is_woken_at_once_stands_in_line(workers):
    rt = checked(Runtime(clock="virtual", workers=workers))
    watch = Watch(rt)
    rounds = 5

    async def waiter(bells):
        for bell in bells:
            await bell.wait()

    async def main():
        bells = [bursar.Event() for _ in range(rounds)]
        async with bursar.nursery() as n:
            for _ in range(CROWD):
                n.spawn(waiter, bells)
            await bursar.sleep(1)
            n.spawn(honest, name="honest")
            for bell in bells:
                for _ in range(100):
                    bell.set()
                await bursar.checkpoint()

    rt.run(main)
    over(rt)
    assert watch.runnable_max <= CROWD + 2
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, CROWD + 1) * workers


def test_a_thousand_wakes_of_one_task_are_one_entry():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        bell = bursar.Event()

        async def sleeper():
            await bell.wait()
            for _ in range(3):
                await bursar.checkpoint()

        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            task = n.spawn(sleeper, name="sleeper")
            await bursar.checkpoint()
            record = task._inside(rt.kernel)
            assert task.state is State.BLOCKED
            bell.set()
            before = rt.kernel.runnable
            for _ in range(1000):
                assert rt.kernel.wake(record, record.generation) is Notice.MERGED
            assert rt.kernel.runnable == before
        for _ in range(1000):
            assert rt.kernel.wake(record, record.generation) is Notice.STALE

    rt.run(main)
    over(rt)
    assert watch.polls["sleeper"] == 1 + 1 + 3
    assert rt.kernel.counters["wakes_merged"] == 1000
    assert rt.kernel.counters["stale_wake"] == 1000
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 2)


def test_a_wake_of_a_running_task_that_then_runs_dry_leaves_no_trace():
    """It ends up on hold, woken or not: only a recharge brings it back."""
    rt = checked(Runtime(clock="virtual"))

    async def evil():
        me = (await bursar.current_task())._inside(rt.kernel)
        while True:
            rt.kernel.wake(me, me.generation)
            await bursar.charge(ops=10)

    async def main():
        async with bursar.nursery(on_exhausted="hold") as n:
            task = n.spawn(evil, budget=bursar.Budget(ops=25))
            await n.wait_exhausted()
            assert task.state is State.EXHAUSTED
            n.recharge(task, bursar.Budget(ops=10))
            await n.wait_exhausted()
            n.cancel()

    rt.run(main)
    over(rt)


def test_a_lock_that_everybody_wants_is_handed_over_in_order():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    order = []

    async def wants(lock, i):
        async with lock:
            order.append(i)
            await bursar.checkpoint()

    async def main():
        lock = bursar.Lock()
        async with bursar.nursery() as n:
            for i in range(CROWD):
                n.spawn(wants, lock, i)
            n.spawn(honest, name="honest")

    rt.run(main)
    over(rt)
    assert order == list(range(CROWD))
    assert watch.took("honest") <= CROWD + bound_ready(HONEST_POLLS, 3)


def test_ping_pong_does_not_starve_those_who_are_not_in_the_game():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def player(send, receive):
        while True:
            await send.send(0)
            await receive.receive()

    async def main():
        (a, b), (c, d) = bursar.channel(1), bursar.channel(1)
        async with bursar.nursery() as n:
            for _ in range(10):
                n.spawn(player, a, d)
                n.spawn(player, c, b)
            await n.spawn(honest, name="honest")
            n.cancel()

    rt.run(main)
    over(rt)
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 21)


def test_a_crowd_around_a_semaphore_is_printed_in_steps_of_its_size(monkeypatch):
    """Every waiter waits for every holder; the tree must not take waiters times holders to draw."""
    crowd, asked = 1000, 0
    holders = bursar.Semaphore._holder_tasks

    def counted(semaphore):
        nonlocal asked
        for holder in holders(semaphore):
            asked += 1
            yield holder

    monkeypatch.setattr(bursar.Semaphore, "_holder_tasks", counted)
    rt = Runtime(clock="virtual")

    async def holds(semaphore):
        async with semaphore:
            await bursar.sleep(100)

    async def main():
        semaphore = bursar.Semaphore(crowd)
        async with bursar.nursery() as n:
            for _ in range(2 * crowd):
                n.spawn(holds, semaphore)
            await bursar.sleep(1)
            assert len(str(rt.snapshot())) < 1000 * crowd
            n.cancel()

    rt.run(main)
    over(rt)
    assert 0 < asked <= 10 * crowd
