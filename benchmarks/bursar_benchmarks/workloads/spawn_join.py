"""Spawn and join: tasks that do nothing but count themselves, in nurseries of 10, of 1000, and all in one.

Measured: the whole run, from before the runtime is made until it has returned. This includes making a task, its one
turn, its end, the join of the nursery, and the start and stop of the runtime, spread over all tasks. Not measured:
tasks that wait, results that are passed on, failures, memory. For gevent, the nearest to a nursery is a list of
greenlets and `joinall`; its hub lives as long as the process and is not started again. `gather` is asyncio without a
group: it cancels nothing if one task fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import bursar
from bursar_benchmarks.harness import Case, Meter, Run, load
from bursar_benchmarks.workloads.floor import Coro, drive
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def bursar_(size: int, meter: Meter, *, batch: int | None = None) -> int:
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def one_nursery(count: int) -> None:
        async with bursar.nursery() as nursery:
            for _ in range(count):
                nursery.spawn(work)
            if batch is None:
                meter.lap("spawn")

    async def main() -> None:
        meter.lap("start")
        for _ in range(size // (batch or size)):
            await one_nursery(batch or size)
        meter.lap("join" if batch is None else "batches")

    meter.start()
    bursar.run(main)
    meter.stop("end")
    return done


def asyncio_(size: int, meter: Meter, *, loop: str, batch: int | None = None) -> int:
    run = runner_of(loop)
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def one_group(count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(work())
            if batch is None:
                meter.lap("spawn")

    async def main() -> None:
        meter.lap("start")
        for _ in range(size // (batch or size)):
            await one_group(batch or size)
        meter.lap("join" if batch is None else "batches")

    meter.start()
    run(main())
    meter.stop("end")
    return done


def gather(size: int, meter: Meter, *, batch: int | None = None) -> int:
    run = runner_of("asyncio")
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def main() -> None:
        for _ in range(size // (batch or size)):
            await asyncio.gather(*(work() for _ in range(batch or size)))

    meter.start()
    run(main())
    meter.stop()
    return done


def trio_(size: int, meter: Meter, *, batch: int | None = None) -> int:
    trio = load("trio")
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def one_nursery(count: int) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(work)
            if batch is None:
                meter.lap("spawn")

    async def main() -> None:
        meter.lap("start")
        for _ in range(size // (batch or size)):
            await one_nursery(batch or size)
        meter.lap("join" if batch is None else "batches")

    meter.start()
    trio.run(main)
    meter.stop("end")
    return done


def anyio_(size: int, meter: Meter, *, batch: int | None = None) -> int:
    anyio = load("anyio")
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def main() -> None:
        for _ in range(size // (batch or size)):
            async with anyio.create_task_group() as group:
                for _ in range(batch or size):
                    group.start_soon(work)

    meter.start()
    anyio.run(main)
    meter.stop()
    return done


def gevent_(size: int, meter: Meter, *, batch: int | None = None) -> int:
    gevent = load("gevent")
    done = 0

    def work() -> None:
        nonlocal done
        done += 1

    meter.start()
    for _ in range(size // (batch or size)):
        gevent.joinall([gevent.spawn(work) for _ in range(batch or size)], raise_error=True)
    meter.stop()
    return done


def floor(size: int, meter: Meter, *, batch: int | None = None) -> int:
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    meter.start()
    for _ in range(size // (batch or size)):
        ready: deque[Coro] = deque()
        for _ in range(batch or size):
            ready.append(work())
        if batch is None:
            meter.lap("spawn")
        drive(ready)
    meter.stop("join" if batch is None else "batches")
    return done


PEERS: dict[str, Callable[..., int]] = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "gather": gather,
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}


def _batches(batch: int) -> dict[str, Run]:
    return {peer: partial(run, batch=batch) for peer, run in PEERS.items()}


ONE_BATCH = Case("spawn-join, one batch", "us/task", 1e6, 200_000, 10_000, 100, PEERS)

CASES = [
    Case("spawn-join, batches of 10", "us/task", 1e6, 50_000, 20_000, 100, _batches(10)),
    Case("spawn-join, batches of 1000", "us/task", 1e6, 100_000, 10_000, 2_000, _batches(1_000)),
    ONE_BATCH,
]
