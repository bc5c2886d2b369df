"""Timers: sleepers that all wait at the same time on the real clock.

Measured: CPU time of the whole run per sleeper: spawn, arm, fire, end. Idle waiting costs no CPU time and
so does not count, and a busy loop would. The deadlines are a microsecond apart; the first lies `LEAD_S` per
sleeper ahead, so that (nearly) all timers are armed before the first fires; they come in scattered order,
so a structure that is only good at ascending ones does not shine. Not measured: how late a timer fires, and
timers that are cancelled.
"""

from __future__ import annotations

import asyncio
import heapq
import time

from benchmarks.floor import Coro, finish, switch
from benchmarks.harness import Case, Meter

LEAD_S = 60e-6
SPREAD_S = 1e-6
"""Closer than any peer can fire them: with larger gaps a small run would pay for one idle wait per timer."""
SCATTER = 7919
"""A prime, so that its multiples modulo the size visit the whole spread in no simple order."""


def delay_s(index: int, size: int) -> float:
    """How long sleeper `index` of `size` sleeps."""
    return LEAD_S * size + SPREAD_S * (index * SCATTER % size)


def bursar(size: int, meter: Meter) -> int:
    import bursar

    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await bursar.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with bursar.nursery() as nursery:
            for index in range(size):
                nursery.spawn(work, delay_s(index, size))
            meter.lap("spawn")
            await bursar.checkpoint()
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    bursar.run(main)
    meter.stop("end")
    return woken


def asyncio_(size: int, meter: Meter) -> int:
    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await asyncio.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with asyncio.TaskGroup() as group:
            for index in range(size):
                group.create_task(work(delay_s(index, size)))
            meter.lap("spawn")
            await asyncio.sleep(0)
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    asyncio.run(main())
    meter.stop("end")
    return woken


def trio_(size: int, meter: Meter) -> int:
    import trio

    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await trio.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with trio.open_nursery() as nursery:
            for index in range(size):
                nursery.start_soon(work, delay_s(index, size))
            meter.lap("spawn")
            await trio.lowlevel.checkpoint()
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    trio.run(main)
    meter.stop("end")
    return woken


def floor(size: int, meter: Meter) -> int:
    woken = 0

    async def work() -> None:
        nonlocal woken
        await switch()
        woken += 1

    meter.start()
    parked: list[tuple[int, Coro]] = [(index, work()) for index in range(size)]
    meter.lap("spawn")
    heap: list[tuple[float, int, Coro]] = []
    for index, coro in parked:
        coro.send(None)
        heapq.heappush(heap, (time.monotonic() + delay_s(index, size), index, coro))
    meter.lap("arm")
    while heap:
        due, _, coro = heapq.heappop(heap)
        if (ahead := due - time.monotonic()) > 0:
            time.sleep(ahead)
        finish(coro)
    meter.stop("fire")
    return woken


PEERS = {"bursar": bursar, "asyncio": asyncio_, "trio": trio_, "floor": floor}

CASES = [Case("timers", "us/sleeper", 1e6, 100_000, 10_000, 50, PEERS)]
