"""Depth: 1000 nurseries, each opened by a task of the nursery above it, then one cancel at the top.

Measured per level, in two stages: building the tower, and from the cancel until the outermost nursery has ended. Not
measured: failures that travel upwards. A peer that cannot reach the depth is shown as failed, with its error. At this
depth trio and anyio exceed Python's recursion limit, so every sample has its own process. gevent takes no part, because
killing a greenlet does not kill the greenlets that it has spawned. The floor takes no part, because a bare loop owns no
tree.
"""

from __future__ import annotations

import asyncio

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.loops import on_loops, runner_of

TIMEOUT_S = 6
"""A peer that reaches the depth needs a fraction of a second. anyio once took forty seconds until it failed."""


def bursar_(size: int, meter: Meter) -> int:
    ended = 0
    bottom = bursar.Event()

    async def level(below: int) -> None:
        nonlocal ended
        try:
            async with bursar.nursery() as nursery:
                if below:
                    nursery.spawn(level, below - 1)
                else:
                    bottom.set()
                    await bursar.Event().wait()
        finally:
            ended += 1

    async def main() -> None:
        meter.start()
        async with bursar.nursery() as nursery:
            nursery.spawn(level, size - 1)
            await bottom.wait()
            meter.lap("build")
            nursery.cancel()
        meter.stop("cancel")

    bursar.run(main)
    return ended


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
    ended = 0

    async def level(below: int, bottom: asyncio.Event) -> None:
        nonlocal ended
        try:
            async with asyncio.TaskGroup() as group:
                if below:
                    group.create_task(level(below - 1, bottom))
                else:
                    bottom.set()
                    await asyncio.Event().wait()
        finally:
            ended += 1

    async def main() -> None:
        bottom = asyncio.Event()
        meter.start()
        async with asyncio.TaskGroup() as group:
            top = group.create_task(level(size - 1, bottom))
            await bottom.wait()
            meter.lap("build")
            top.cancel()
        meter.stop("cancel")

    runner_of(loop)(main())
    return ended


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")
    ended = 0
    bottom = trio.Event()

    async def level(below: int) -> None:
        nonlocal ended
        try:
            async with trio.open_nursery() as nursery:
                if below:
                    nursery.start_soon(level, below - 1)
                else:
                    bottom.set()
                    await trio.Event().wait()
        finally:
            ended += 1

    async def main() -> None:
        meter.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(level, size - 1)
            await bottom.wait()
            meter.lap("build")
            nursery.cancel_scope.cancel()
        meter.stop("cancel")

    trio.run(main)
    return ended


def anyio_(size: int, meter: Meter) -> int:
    anyio = load("anyio")
    ended = 0

    async def level(below: int, bottom: asyncio.Event) -> None:
        nonlocal ended
        try:
            async with anyio.create_task_group() as group:
                if below:
                    group.start_soon(level, below - 1, bottom)
                else:
                    bottom.set()
                    await anyio.Event().wait()
        finally:
            ended += 1

    async def main() -> None:
        bottom = anyio.Event()
        meter.start()
        async with anyio.create_task_group() as group:
            group.start_soon(level, size - 1, bottom)
            await bottom.wait()
            meter.lap("build")
            group.cancel_scope.cancel()
        meter.stop("cancel")

    anyio.run(main)
    return ended


PEERS = {"bursar": bursar_, **on_loops(asyncio_), "trio": trio_, "anyio": anyio_}

CASES = [
    Case(
        f"nested nurseries, {stage}",
        "us/level",
        1e6,
        1_000,
        quick,
        20,
        PEERS,
        isolated=True,
        stage=stage,
        timeout_s=TIMEOUT_S,
    )
    for stage, quick in (("build", None), ("cancel", 1_000))
]
