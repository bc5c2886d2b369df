"""Parked tasks: what one waiting task occupies, with all that holds it, when 100,000 wait.

Measured: growth of the resident set of a fresh process between "the runtime is up" and "all are parked",
divided by the tasks. So allocator slack, frames, waiter queues and handles held by the nursery are all in.
Not measured: the event itself (there is one), memory that comes later (results, traces), and what the
system keeps outside the resident set.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

from benchmarks.floor import Coro, finish, switch
from benchmarks.harness import Case, Meter


def resident_bytes() -> int:
    """What this process occupies now; where the system does not say, the most it ever did."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def bursar(size: int, meter: Meter) -> int:
    import bursar

    count = 0
    release = bursar.Event()

    async def work() -> None:
        nonlocal count
        count += 1
        await release.wait()

    async def main() -> None:
        gc.collect()
        before = resident_bytes()
        async with bursar.nursery() as nursery:
            for _ in range(size):
                nursery.spawn(work)
            while count < size:
                await bursar.checkpoint()
            meter.put(resident_bytes() - before)
            release.set()

    bursar.run(main)
    return count


def asyncio_(size: int, meter: Meter) -> int:
    count = 0

    async def work(release: asyncio.Event) -> None:
        nonlocal count
        count += 1
        await release.wait()

    async def main() -> None:
        release = asyncio.Event()
        gc.collect()
        before = resident_bytes()
        async with asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(work(release))
            while count < size:
                await asyncio.sleep(0)
            meter.put(resident_bytes() - before)
            release.set()

    asyncio.run(main())
    return count


def trio_(size: int, meter: Meter) -> int:
    import trio

    count = 0
    release = trio.Event()

    async def work() -> None:
        nonlocal count
        count += 1
        await release.wait()

    async def main() -> None:
        gc.collect()
        before = resident_bytes()
        async with trio.open_nursery() as nursery:
            for _ in range(size):
                nursery.start_soon(work)
            while count < size:
                await trio.lowlevel.checkpoint()
            meter.put(resident_bytes() - before)
            release.set()

    trio.run(main)
    return count


def floor(size: int, meter: Meter) -> int:
    count = 0

    async def work() -> None:
        nonlocal count
        count += 1
        await switch()

    gc.collect()
    before = resident_bytes()
    parked: list[Coro] = []
    for _ in range(size):
        parked.append(work())
        parked[-1].send(None)
    meter.put(resident_bytes() - before)
    for coro in parked:
        finish(coro)
    return count


PEERS = {"bursar": bursar, "asyncio": asyncio_, "trio": trio_, "floor": floor}

CASES = [Case("parked task", "bytes/task", 1.0, 100_000, 20_000, 100, PEERS, isolated=True)]
