"""Yields: tasks that give their turn away and get it back, 2 of them, 1000, or (for `scale`) any number.

Measured: from the first turn of the first task until the nursery has ended. So the spawning is not counted, but the
last turn of each task is. Bursar charges each yield to the task's budget and adds the decision to the chain, as
always. Not measured: waiting for anything. Each peer uses its cheapest yield that any program may use:
`asyncio.sleep(0)`, `trio.lowlevel.checkpoint()`, `anyio.lowlevel.checkpoint()`, `gevent.sleep(0)`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import bursar
from bursar_benchmarks.harness import Case, Meter, Run, load
from bursar_benchmarks.workloads.floor import Coro, drive, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def bursar_(size: int, meter: Meter, *, tasks: int) -> int:
    turns = size // tasks
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(turns):
            await bursar.checkpoint()
        done += turns

    async def main() -> None:
        async with bursar.nursery() as nursery:
            for _ in range(tasks):
                nursery.spawn(work)
            meter.start()
        meter.stop("yield")

    bursar.run(main)
    return done


def asyncio_(size: int, meter: Meter, *, loop: str, tasks: int) -> int:
    turns = size // tasks
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(turns):
            await asyncio.sleep(0)
        done += turns

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(work())
            meter.start()
        meter.stop("yield")

    runner_of(loop)(main())
    return done


def trio_(size: int, meter: Meter, *, tasks: int) -> int:
    trio = load("trio")
    turns = size // tasks
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        done += turns

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(work)
            meter.start()
        meter.stop("yield")

    trio.run(main)
    return done


def anyio_(size: int, meter: Meter, *, tasks: int) -> int:
    anyio = load("anyio")
    lowlevel = load("anyio.lowlevel")
    turns = size // tasks
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(turns):
            await lowlevel.checkpoint()
        done += turns

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(work)
            meter.start()
        meter.stop("yield")

    anyio.run(main)
    return done


def gevent_(size: int, meter: Meter, *, tasks: int) -> int:
    gevent = load("gevent")
    turns = size // tasks
    done = 0

    def work() -> None:
        nonlocal done
        for _ in range(turns):
            gevent.sleep(0)
        done += turns

    greenlets = [gevent.spawn(work) for _ in range(tasks)]
    meter.start()
    gevent.joinall(greenlets, raise_error=True)
    meter.stop("yield")
    return done


def floor(size: int, meter: Meter, *, tasks: int) -> int:
    turns = size // tasks
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(turns):
            await switch()
        done += turns

    ready: deque[Coro] = deque(work() for _ in range(tasks))
    meter.start()
    drive(ready)
    meter.stop("yield")
    return done


PEERS: dict[str, Callable[..., int]] = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}
YIELDS_EACH = 5

CASES = [
    Case(
        f"yield, {tasks:,} tasks",
        "ns/yield",
        1e9,
        200_000,
        100_000,
        2_000,
        {peer: partial(run, tasks=tasks) for peer, run in PEERS.items()},
    )
    for tasks in (2, 1_000)
]


def _five_each(size: int, meter: Meter, *, peer: str) -> int:
    return PEERS[peer](size * YIELDS_EACH, meter, tasks=size) // YIELDS_EACH


FIVE_EACH: dict[str, Run] = {peer: partial(_five_each, peer=peer) for peer in PEERS}
"""As many tasks as the size says, each with five yields; an operation is a task, not a yield."""
