"""Clocks that misbehave: they jump back, stand still, leap ahead for an hour, report timers that are no more.

Time in the law never goes back. A jump ahead makes everything due at once, in the order of the deadlines; a late
report of a timer is a record. Ready work is dispatched all the same.
"""

from __future__ import annotations

from random import Random

import pytest
from support.drive import HONEST_POLLS, Watch, bound, checked, honest, over
from support.hosts import VirtualHost

import bursar
from bursar import Runtime

NS = 1_000_000_000


class Clock(VirtualHost):
    """A host that shows the times it is given, whatever they are, and then behaves."""

    def __init__(self, times):
        super().__init__()
        self.times = iter(times)

    def now_ns(self):
        now = next(self.times, None)
        if now is not None:
            return now
        self._now_ns += 1000
        return self._now_ns


def run_with(times, sleeps):
    rt = checked(Runtime(host=Clock(times)))
    watch = Watch(rt)
    woken: list = []
    seen: list = []

    async def sleeper(s):
        await bursar.sleep_until(s)
        woken.append(s)
        seen.append(await bursar.now())

    async def main():
        async with bursar.nursery() as n:
            for s in sleeps:
                n.spawn(sleeper, s)
            n.spawn(honest, name="honest")

    rt.run(main)
    over(rt)
    assert sorted(woken) == sorted(sleeps)
    assert seen == sorted(seen), "the clock went back"
    assert all(now >= s for now, s in zip(seen, woken, strict=True)), "woken too early"
    assert watch.took("honest") <= bound(HONEST_POLLS, len(sleeps) + 1)
    return woken


def test_a_clock_that_jumps_back_is_not_followed():
    times = [0, 5 * NS, 1 * NS, 0, -(10**18), 6 * NS, 2 * NS]
    run_with(times, [1, 2, 3, 7, 8])


def test_a_clock_that_stands_still_does_not_stop_ready_work():
    run_with([0] * 500, [0.5, 1.0])


def test_an_hour_of_sleep_of_the_host_wakes_all_in_the_order_of_their_deadlines():
    woken = run_with([0] * 20 + [3600 * NS], [30, 10, 20, 10, 3599, 1])
    assert woken == [1, 10, 10, 20, 30, 3599]


@pytest.mark.parametrize("seed", range(20))
def test_any_clock_at_all(seed):
    random = Random(seed)
    times = [random.randint(-10, 20) * NS for _ in range(60)]
    run_with(times, [random.randint(0, 30) / 2 for _ in range(30)])


def test_timeouts_and_cleanups_survive_a_jump_back():
    rt = checked(Runtime(host=Clock([0, 10 * NS, 0, 0, 3 * NS, 1 * NS])))

    async def main():
        with pytest.raises(TimeoutError):
            await too_slow()
        return await bursar.now()

    async def too_slow():
        async with bursar.timeout(5):
            try:
                await bursar.sleep(100)
            finally:
                await bursar.sleep(0.5)

    assert rt.run(main) >= 5
    over(rt)


def test_a_timer_that_is_reported_late_or_twice_is_a_record():
    rt = checked(Runtime(clock="virtual"))

    async def main():
        me = (await bursar.current_task())._inside(rt.kernel)
        async with bursar.timeout(5):
            timer = me.inner.timer
        for _ in range(100):
            assert not rt.kernel.timer_fired(timer.id, timer.generation)
        assert not rt.kernel.timer_fired(timer.id, timer.generation + 1)
        assert not rt.kernel.timer_fired(-1, 0)

    rt.run(main)
    over(rt)
    assert rt.kernel.counters["stale_timer"] == 102
