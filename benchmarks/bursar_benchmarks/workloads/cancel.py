"""Cancellation: all tasks of one nursery are parked, each on its own event or all on one, and then cancelled.

Measured: from the request until the nursery has ended, with every task's `finally` run. The second case shows the cost
of removing one waiter from a long queue: with a scan, the whole cancel would be quadratic. Not measured: spawning and
parking, shields, cleanup that waits. asyncio's group has no cancel, so the task that holds the group is cancelled, and
the group then cancels all its tasks. gevent has `killall`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import bursar
from bursar_benchmarks.harness import Case, Meter, Run, load
from bursar_benchmarks.workloads.floor import Coro, cut, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def bursar_(size: int, meter: Meter, *, shared: bool) -> int:
    parked = ended = 0
    one = bursar.Event()

    async def work() -> None:
        nonlocal parked, ended
        parked += 1
        try:
            await (one if shared else bursar.Event()).wait()
        finally:
            ended += 1

    async def main() -> None:
        async with bursar.nursery() as nursery:
            for _ in range(size):
                nursery.spawn(work)
            while parked < size:
                await bursar.checkpoint()
            meter.start()
            nursery.cancel()
            meter.lap("request")
        meter.stop("drain")

    bursar.run(main)
    return ended


def asyncio_(size: int, meter: Meter, *, shared: bool, loop: str) -> int:
    parked = ended = 0

    async def work(one: asyncio.Event) -> None:
        nonlocal parked, ended
        parked += 1
        try:
            await (one if shared else asyncio.Event()).wait()
        finally:
            ended += 1

    async def hold_group() -> None:
        one = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(work(one))
            await asyncio.Event().wait()

    async def main() -> None:
        holder = asyncio.create_task(hold_group())
        while parked < size:
            await asyncio.sleep(0)
        meter.start()
        holder.cancel()
        meter.lap("request")
        with suppress(asyncio.CancelledError):
            await holder
        meter.stop("drain")

    runner_of(loop)(main())
    return ended


def trio_(size: int, meter: Meter, *, shared: bool) -> int:
    trio = load("trio")
    parked = ended = 0
    one = trio.Event()

    async def work() -> None:
        nonlocal parked, ended
        parked += 1
        try:
            await (one if shared else trio.Event()).wait()
        finally:
            ended += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(size):
                nursery.start_soon(work)
            while parked < size:
                await trio.lowlevel.checkpoint()
            meter.start()
            nursery.cancel_scope.cancel()
            meter.lap("request")
        meter.stop("drain")

    trio.run(main)
    return ended


def anyio_(size: int, meter: Meter, *, shared: bool) -> int:
    anyio, lowlevel = load("anyio"), load("anyio.lowlevel")
    parked = ended = 0

    async def work(one: asyncio.Event) -> None:
        nonlocal parked, ended
        parked += 1
        try:
            await (one if shared else anyio.Event()).wait()
        finally:
            ended += 1

    async def main() -> None:
        one = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(size):
                group.start_soon(work, one)
            while parked < size:
                await lowlevel.checkpoint()
            meter.start()
            group.cancel_scope.cancel()
            meter.lap("request")
        meter.stop("drain")

    anyio.run(main)
    return ended


def gevent_(size: int, meter: Meter, *, shared: bool) -> int:
    gevent, event = load("gevent"), load("gevent.event")
    parked = ended = 0
    one = event.Event()

    def work() -> None:
        nonlocal parked, ended
        parked += 1
        try:
            (one if shared else event.Event()).wait()
        finally:
            ended += 1

    greenlets = [gevent.spawn(work) for _ in range(size)]
    while parked < size:
        gevent.sleep(0)
    meter.start()
    gevent.killall(greenlets)
    meter.stop("drain")
    return ended


def floor(size: int, meter: Meter, *, shared: bool) -> int:
    del shared  # the floor has no events: a parked coroutine is only not resumed
    ended = 0

    async def work() -> None:
        nonlocal ended
        try:
            await switch()
        finally:
            ended += 1

    parked: list[Coro] = [work() for _ in range(size)]
    for coro in parked:
        coro.send(None)
    meter.start()
    for coro in parked:
        cut(coro)
    meter.stop("drain")
    return ended


PEERS: dict[str, Callable[..., int]] = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}
OWN_EVENT: dict[str, Run] = {peer: partial(run, shared=False) for peer, run in PEERS.items()}
ONE_EVENT: dict[str, Run] = {peer: partial(run, shared=True) for peer, run in PEERS.items()}

CASES = [
    Case("cancel, an event each", "us/task", 1e6, 100_000, 20_000, 50, OWN_EVENT),
    Case("cancel, all on ONE event", "us/task", 1e6, 10_000, 4_000, 50, ONE_EVENT),
]
