"""Depth: 1000 nurseries, each opened by the task that the one above it spawned, then one cancel at the top.

Measured: two stages, per level: building the tower, and from the cancel until the outermost nursery has
ended. Not measured: failures that travel upwards. A peer that cannot do the depth is shown as failed with
its own error: at this depth trio runs into Python's recursion limit, which is why every sample has a
process to itself. There is no floor: a bare loop owns no tree.
"""

from __future__ import annotations

import asyncio

from benchmarks.harness import Case, Meter


def bursar(size: int, meter: Meter) -> int:
    import bursar

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


def asyncio_(size: int, meter: Meter) -> int:
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

    asyncio.run(main())
    return ended


def trio_(size: int, meter: Meter) -> int:
    import trio

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


PEERS = {"bursar": bursar, "asyncio": asyncio_, "trio": trio_}

CASES = [
    Case(f"nested nurseries, {stage}", "us/level", 1e6, 1_000, 1_000, 20, PEERS, isolated=True, stage=stage)
    for stage in ("build", "cancel")
]
