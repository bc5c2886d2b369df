"""Timers: sleepers that all wait at the same time on the real clock.

Measured: CPU time of the whole run per sleeper: spawn, arm, fire, end. Idle waiting costs no CPU time and so does not
count; a busy loop would count. Each task sleeps `LEAD_S` and up to a microsecond per sleeper more. The deadlines come
in scattered order, so that a structure that is good only at ascending deadlines has no advantage. If a peer needs
longer than the sleep to start all sleepers, the first timers fire while it still starts the last. Not measured: how
late a timer fires, and timers that are cancelled.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from functools import partial

import bursar
from bursar_benchmarks.harness import Case, Meter, Run, load
from bursar_benchmarks.workloads.floor import Coro, finish, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of

LEAD_S = 0.2
ARM_S = 60e-6
"""Longer than any peer needs to start one sleeper."""
SPREAD_S = 1e-6
"""Closer than any peer can fire them: with larger gaps a small run would pay for one idle wait per timer."""
SCATTER = 7919
"""A prime, so that its multiples modulo the size visit the whole spread in no simple order."""


def delay_s(index: int, size: int, lead_s: float) -> float:
    """How long sleeper `index` of `size` sleeps."""
    return lead_s + SPREAD_S * (index * SCATTER % size)


def bursar_(size: int, meter: Meter, *, lead_s: float) -> int:
    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await bursar.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with bursar.nursery() as nursery:
            for index in range(size):
                nursery.spawn(work, delay_s(index, size, lead_s))
            meter.lap("spawn")
            await bursar.checkpoint()
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    bursar.run(main)
    meter.stop("end")
    return woken


def asyncio_(size: int, meter: Meter, *, loop: str, lead_s: float) -> int:
    run = runner_of(loop)
    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await asyncio.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with asyncio.TaskGroup() as group:
            for index in range(size):
                group.create_task(work(delay_s(index, size, lead_s)))
            meter.lap("spawn")
            await asyncio.sleep(0)
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    run(main())
    meter.stop("end")
    return woken


def trio_(size: int, meter: Meter, *, lead_s: float) -> int:
    trio = load("trio")
    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await trio.sleep(seconds)
        woken += 1

    async def main() -> None:
        meter.lap("start")
        async with trio.open_nursery() as nursery:
            for index in range(size):
                nursery.start_soon(work, delay_s(index, size, lead_s))
            meter.lap("spawn")
            await trio.lowlevel.checkpoint()
            meter.lap("arm")
        meter.lap("fire")

    meter.start()
    trio.run(main)
    meter.stop("end")
    return woken


def anyio_(size: int, meter: Meter, *, lead_s: float) -> int:
    anyio = load("anyio")
    woken = 0

    async def work(seconds: float) -> None:
        nonlocal woken
        await anyio.sleep(seconds)
        woken += 1

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for index in range(size):
                group.start_soon(work, delay_s(index, size, lead_s))

    meter.start()
    anyio.run(main)
    meter.stop()
    return woken


def gevent_(size: int, meter: Meter, *, lead_s: float) -> int:
    gevent = load("gevent")
    woken = 0

    def work(seconds: float) -> None:
        nonlocal woken
        gevent.sleep(seconds)
        woken += 1

    meter.start()
    greenlets = [gevent.spawn(work, delay_s(index, size, lead_s)) for index in range(size)]
    gevent.joinall(greenlets, raise_error=True)
    meter.stop()
    return woken


def floor(size: int, meter: Meter, *, lead_s: float) -> int:
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
        heapq.heappush(heap, (time.monotonic() + delay_s(index, size, lead_s), index, coro))
    meter.lap("arm")
    while heap:
        due, _, coro = heapq.heappop(heap)
        if (ahead := due - time.monotonic()) > 0:
            time.sleep(ahead)
        finish(coro)
    meter.stop("fire")
    return woken


PEERS: dict[str, Callable[..., int]] = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}


def _briefly(size: int, meter: Meter, *, peer: str) -> int:
    return PEERS[peer](size, meter, lead_s=min(LEAD_S, ARM_S * size))  # a tiny run need not wait for long


def _all_armed(size: int, meter: Meter, *, peer: str) -> int:
    return PEERS[peer](size, meter, lead_s=ARM_S * size)


BRIEFLY: dict[str, Run] = {peer: partial(_briefly, peer=peer) for peer in PEERS}
ALL_ARMED: dict[str, Run] = {peer: partial(_all_armed, peer=peer) for peer in PEERS}
"""The same with all timers armed before the first fires, however many there are."""

CASES = [Case("timers", "us/sleeper", 1e6, 100_000, 5_000, 50, BRIEFLY)]
