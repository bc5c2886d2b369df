"""Parked tasks: how much memory one waiting task occupies, and what it costs to wake it and let it end.

One program gives two figures. Many tasks wait on one event, which is then set.
- *parked*: growth of the resident set of a fresh process between "the runtime is up" and "all are parked", divided by
  the number of tasks. So allocator slack, frames, waiter queues and the nursery's handles are included.
- *wake*: CPU time from setting the event until the nursery has ended: each task gets its turn and ends.

Not measured: the event itself, memory that comes later (results, traces), and memory of the system outside the resident
set.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import bursar
from bursar_benchmarks.harness import Case, Meter, Run, load
from bursar_benchmarks.workloads.floor import Coro, finish, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def resident_bytes() -> int:
    """What this process occupies now; where the system does not say, the most it ever did; 0 where it says nothing."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Gauge(Protocol):
    """What is looked at while the program runs."""

    def begin(self) -> None: ...
    def parked(self) -> None: ...
    def ended(self) -> None: ...


class Space:
    """Bytes between the beginning and all parked."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._before = 0

    def begin(self) -> None:
        gc.collect()
        self._before = resident_bytes()

    def parked(self) -> None:
        self._meter.put(resident_bytes() - self._before)

    def ended(self) -> None:
        pass


class Wake:
    """CPU time between all parked and all ended."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def begin(self) -> None:
        pass

    def parked(self) -> None:
        self._meter.start()

    def ended(self) -> None:
        self._meter.stop("wake")


def bursar_(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge]) -> int:
    count = ended = 0
    gauge = gauge_of(meter)
    release = bursar.Event()

    async def work() -> None:
        nonlocal count, ended
        count += 1
        await release.wait()
        ended += 1

    async def main() -> None:
        gauge.begin()
        async with bursar.nursery() as nursery:
            for _ in range(size):
                nursery.spawn(work)
            while count < size:
                await bursar.checkpoint()
            gauge.parked()
            release.set()
        gauge.ended()

    bursar.run(main)
    return ended


def asyncio_(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge], loop: str) -> int:
    count = ended = 0
    gauge = gauge_of(meter)

    async def work(release: asyncio.Event) -> None:
        nonlocal count, ended
        count += 1
        await release.wait()
        ended += 1

    async def main() -> None:
        release = asyncio.Event()
        gauge.begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(work(release))
            while count < size:
                await asyncio.sleep(0)
            gauge.parked()
            release.set()
        gauge.ended()

    runner_of(loop)(main())
    return ended


def trio_(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge]) -> int:
    trio = load("trio")
    count = ended = 0
    gauge = gauge_of(meter)
    release = trio.Event()

    async def work() -> None:
        nonlocal count, ended
        count += 1
        await release.wait()
        ended += 1

    async def main() -> None:
        gauge.begin()
        async with trio.open_nursery() as nursery:
            for _ in range(size):
                nursery.start_soon(work)
            while count < size:
                await trio.lowlevel.checkpoint()
            gauge.parked()
            release.set()
        gauge.ended()

    trio.run(main)
    return ended


def anyio_(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge]) -> int:
    anyio, lowlevel = load("anyio"), load("anyio.lowlevel")
    count = ended = 0
    gauge = gauge_of(meter)

    async def work(release: asyncio.Event) -> None:
        nonlocal count, ended
        count += 1
        await release.wait()
        ended += 1

    async def main() -> None:
        release = anyio.Event()
        gauge.begin()
        async with anyio.create_task_group() as group:
            for _ in range(size):
                group.start_soon(work, release)
            while count < size:
                await lowlevel.checkpoint()
            gauge.parked()
            release.set()
        gauge.ended()

    anyio.run(main)
    return ended


def gevent_(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge]) -> int:
    gevent = load("gevent")
    count = ended = 0
    gauge = gauge_of(meter)
    release = load("gevent.event").Event()
    gevent.sleep(0)  # the hub is up

    def work() -> None:
        nonlocal count, ended
        count += 1
        release.wait()
        ended += 1

    gauge.begin()
    greenlets = [gevent.spawn(work) for _ in range(size)]
    while count < size:
        gevent.sleep(0)
    gauge.parked()
    release.set()
    gevent.joinall(greenlets, raise_error=True)
    gauge.ended()
    return ended


def floor(size: int, meter: Meter, *, gauge_of: Callable[[Meter], Gauge]) -> int:
    count = ended = 0
    gauge = gauge_of(meter)

    async def work() -> None:
        nonlocal count, ended
        count += 1
        await switch()
        ended += 1

    gauge.begin()
    parked: list[Coro] = []
    for _ in range(size):
        parked.append(work())
        parked[-1].send(None)
    gauge.parked()
    for coro in parked:
        finish(coro)
    parked.clear()
    gauge.ended()
    return ended


PEERS: dict[str, Callable[..., int]] = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}
SPACE: dict[str, Run] = {peer: partial(run, gauge_of=Space) for peer, run in PEERS.items()}
WAKE: dict[str, Run] = {peer: partial(run, gauge_of=Wake) for peer, run in PEERS.items()}

CASES = [
    Case("parked task", "bytes/task", 1.0, 100_000, 20_000, 100, SPACE, isolated=True, repeats_max=1),
    Case("parked task, of a million", "bytes/task", 1.0, 1_000_000, None, 100, SPACE, isolated=True, repeats_max=1),
    Case("wake of a parked task", "us/task", 1e6, 100_000, 10_000, 50, WAKE),
]
