"""Timer floods: very many timers that are due at one instant, timers that are armed and disarmed without end.

Timers that expire together are dispatched in the order of their keys, but ready work gets its turn after at most
`TIMED_STREAK_MAX` of them. Disarmed timers leave the heap, so that timeouts that never expire cost nothing later.
"""

from __future__ import annotations

import pytest
from support.drive import HONEST_POLLS, Watch, honest, over
from support.hosts import VirtualHost
from support.law import COMPACT_MIN, TIMED_STREAK_MAX, check

import bursar
from bursar import Runtime


def flood(count: int, workers: int) -> tuple[Runtime, Watch, list[int]]:
    rt = Runtime(clock="virtual", workers=workers)
    watch = Watch(rt)
    woken: list[int] = []

    async def sleeper(i):
        await bursar.sleep_until(10)
        woken.append(i)

    async def main():
        async with bursar.nursery() as n:
            for i in range(count):
                n.spawn(sleeper, i)
            await bursar.sleep_until(9.999)
            await bursar.sleep_until(10)
            check(rt.kernel)
            await n.spawn(honest, name="honest")
            check(rt.kernel)

    rt.run(main)
    over(rt)
    return rt, watch, woken


def assert_fair(count: int, workers: int) -> None:
    rt, watch, woken = flood(count, workers)
    assert len(woken) == count
    if workers == 1:
        assert woken == list(range(count)), "timers of one instant go by their keys"
    # nothing else is ready: each poll of the honest task waits for one burst of timers on each worker
    assert watch.took("honest") <= HONEST_POLLS * (TIMED_STREAK_MAX + 2) * workers
    assert rt.kernel.now_ns == 10_000_000_000


@pytest.mark.parametrize("workers", [1, 4])
def test_a_hundred_thousand_timers_at_one_instant(workers):
    assert_fair(100_000 if workers == 1 else 20_000, workers)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_timers_at_one_instant():
    assert_fair(1_000_000, 1)


def test_timeouts_that_never_expire_leave_the_heap():
    rt = Runtime(clock="virtual")
    watch = Watch(rt)
    heap_max = 0

    async def churn():
        nonlocal heap_max
        for _ in range(2000):
            async with bursar.timeout(1000):
                await bursar.checkpoint()
            timers = rt.kernel.timers
            heap_max = max(heap_max, len(getattr(timers, "_heap", timers)))  # in C an entry leaves at once

    async def main():
        async with bursar.nursery() as n:
            for _ in range(5):
                n.spawn(churn)
            n.spawn(honest, name="honest")

    rt.run(main)
    over(rt)
    assert heap_max <= 2 * 5 + COMPACT_MIN + 1
    assert rt.kernel.now_ns == 0
    assert watch.took("honest") <= HONEST_POLLS * 7


def test_a_stream_of_due_timers_does_not_starve_ready_work():
    """Tasks that sleep for no time at all, and for the shortest one, while the clock moves with every look at it."""

    class Rushing(VirtualHost):
        """A host whose clock moves on by a microsecond each time somebody looks."""

        def now_ns(self):
            self._now_ns += 1000
            return self._now_ns

    rt = Runtime(host=Rushing())
    watch = Watch(rt)

    async def buzz():
        while True:
            await bursar.sleep(1e-9)

    async def main():
        async with bursar.nursery() as n:
            for _ in range(200):
                n.spawn(buzz)
            await n.spawn(honest, name="honest")
            n.cancel()

    rt.run(main)
    over(rt)
    # 200 sleepers were ready once, when they began; from then on they are timed
    assert watch.took("honest") <= 201 * (TIMED_STREAK_MAX + 1) + HONEST_POLLS * 2 * (TIMED_STREAK_MAX + 1)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e300, "1", None])
def test_a_span_that_makes_no_sense_is_refused(seconds):
    async def main():
        await bursar.sleep(seconds)

    with pytest.raises((ValueError, TypeError)):
        Runtime(clock="virtual").run(main)
