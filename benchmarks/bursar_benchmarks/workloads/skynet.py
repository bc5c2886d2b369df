"""Skynet: a tree of tasks with ten children per node. The leaves return their numbers and the nodes return the sums.

Measured: the whole run, per leaf (for each leaf there is also a ninth of a node). Every node opens a nursery, spawns
ten children, waits for them and adds their results. Tasks of trio and anyio have no results, so there the children
append to a list of their parent, as programs for trio and anyio do. Not measured: deep trees, failures. On the floor,
the last of ten children makes its parent runnable again, and there is nothing else of a nursery. The floor runs the
newest coroutine first, so that few are alive at once.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.loops import on_loops, runner_of

ARITY = 10


def checked(total: int, size: int) -> int:
    """How many leaves there were, if the sum says so."""
    return size if total == size * (size - 1) // 2 else -1


def bursar_(size: int, meter: Meter) -> int:
    async def node(first: int, leaves: int) -> int:
        if leaves == 1:
            return first
        below = leaves // ARITY
        async with bursar.nursery() as nursery:
            children = [nursery.spawn(node, first + i * below, below) for i in range(ARITY)]
        return sum(child.result for child in children)

    meter.start()
    total = bursar.run(node, 0, size)
    meter.stop()
    return checked(total, size)


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
    run = runner_of(loop)
    total = 0

    async def node(first: int, leaves: int) -> int:
        if leaves == 1:
            return first
        below = leaves // ARITY
        async with asyncio.TaskGroup() as group:
            children = [group.create_task(node(first + i * below, below)) for i in range(ARITY)]
        return sum(child.result() for child in children)

    async def main() -> None:
        nonlocal total
        total = await node(0, size)

    meter.start()
    run(main())
    meter.stop()
    return checked(total, size)


def gather(size: int, meter: Meter) -> int:
    run = runner_of("asyncio")
    total = 0

    async def node(first: int, leaves: int) -> int:
        if leaves == 1:
            return first
        below = leaves // ARITY
        return sum(await asyncio.gather(*(node(first + i * below, below) for i in range(ARITY))))

    async def main() -> None:
        nonlocal total
        total = await node(0, size)

    meter.start()
    run(main())
    meter.stop()
    return checked(total, size)


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")

    async def node(first: int, leaves: int, results: list[int]) -> None:
        if leaves == 1:
            results.append(first)
            return
        below = leaves // ARITY
        sums: list[int] = []
        async with trio.open_nursery() as nursery:
            for i in range(ARITY):
                nursery.start_soon(node, first + i * below, below, sums)
        results.append(sum(sums))

    results: list[int] = []
    meter.start()
    trio.run(node, 0, size, results)
    meter.stop()
    return checked(sum(results), size)


def anyio_(size: int, meter: Meter) -> int:
    anyio = load("anyio")

    async def node(first: int, leaves: int, results: list[int]) -> None:
        if leaves == 1:
            results.append(first)
            return
        below = leaves // ARITY
        sums: list[int] = []
        async with anyio.create_task_group() as group:
            for i in range(ARITY):
                group.start_soon(node, first + i * below, below, sums)
        results.append(sum(sums))

    results: list[int] = []
    meter.start()
    anyio.run(node, 0, size, results)
    meter.stop()
    return checked(sum(results), size)


def gevent_(size: int, meter: Meter) -> int:
    gevent = load("gevent")

    def node(first: int, leaves: int) -> int:
        if leaves == 1:
            return first
        below = leaves // ARITY
        children = [gevent.spawn(node, first + i * below, below) for i in range(ARITY)]
        gevent.joinall(children, raise_error=True)
        return sum(child.value for child in children)

    meter.start()
    total = node(0, size)
    meter.stop()
    return checked(total, size)


class Join:
    """What the floor has for a nursery: how many children are to come, their sum, and who waits for it."""

    __slots__ = ("left", "total", "waiter")

    def __init__(self, left: int) -> None:
        self.left = left
        self.total = 0
        self.waiter: Coroutine[Join, None, None] | None = None


@types.coroutine
def park(join: Join) -> Generator[Join, None, None]:
    """Wait until the children of `join` are done."""
    yield join


def floor(size: int, meter: Meter) -> int:
    ready: list[Coroutine[Any, None, None]] = []

    async def node(first: int, leaves: int, above: Join) -> None:
        total = first
        if leaves > 1:
            below = leaves // ARITY
            join = Join(ARITY)
            for i in range(ARITY):
                ready.append(node(first + i * below, below, join))
            await park(join)
            total = join.total
        above.total += total
        above.left -= 1
        if not above.left and above.waiter is not None:
            ready.append(above.waiter)

    meter.start()
    root = Join(1)
    ready.append(node(0, size, root))
    while ready:
        coro = ready.pop()
        try:
            coro.send(None).waiter = coro
        except StopIteration:
            continue
    meter.stop()
    return checked(root.total, size)


PEERS = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "gather": gather,
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}

CASES = [Case("skynet", "us/leaf", 1e6, 1_000_000, 10_000, 100, PEERS, repeats_max=3)]
