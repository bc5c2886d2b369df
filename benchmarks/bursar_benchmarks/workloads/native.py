"""Native functions: C functions that do nothing, each as a task outside the loop, a thousand at a time.

The function is the C library's `labs`, loaded by `ctypes`. Bursar runs it as a fiber of its native workers
(`bursar.native`). The peers call it on a thread of a pool, as their documentation says: `asyncio.to_thread` in a task
group, `trio.to_thread.run_sync`, `anyio.to_thread.run_sync`, gevent's `threadpool`. `gather` is `loop.run_in_executor`,
for which asyncio makes no task. The floor calls the function in the loop, by `ctypes`.

Measured: CPU time of all threads, from before the runtime is made until it has returned. Not measured: long functions,
for which the cost of the start does not matter.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Iterator

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.loops import on_loops, runner_of

BATCH = 1_000


def function() -> ctypes._NamedFuncPointer:  # pyright: ignore[reportPrivateUsage]
    """Gives back what it is called with, if that is not negative."""
    return ctypes.CDLL(None).labs


def batches(size: int) -> Iterator[range]:
    """The numbers to call it with."""
    for start in range(0, size, BATCH):
        yield range(1, min(BATCH, size - start) + 1)


def counted(values: range, results: Iterator[int]) -> int:
    """How many of them came back, if all did."""
    return len(values) if sum(results) == sum(values) else 0


def bursar_(size: int, meter: Meter) -> int:
    labs = bursar.native(function())
    done = 0

    async def main() -> None:
        nonlocal done
        for values in batches(size):
            async with bursar.nursery() as nursery:
                tasks = [nursery.spawn(labs, value) for value in values]
            done += counted(values, (task.result for task in tasks))

    meter.start()
    bursar.run(main)
    meter.stop()
    return done


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
    run, labs = runner_of(loop), function()
    done = 0

    async def main() -> None:
        nonlocal done
        for values in batches(size):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asyncio.to_thread(labs, value)) for value in values]
            done += counted(values, (task.result() for task in tasks))

    meter.start()
    run(main())
    meter.stop()
    return done


def gather(size: int, meter: Meter) -> int:
    run, labs = runner_of("asyncio"), function()
    done = 0

    async def main() -> None:
        nonlocal done
        running = asyncio.get_running_loop()
        for values in batches(size):
            results = await asyncio.gather(*(running.run_in_executor(None, labs, value) for value in values))
            done += counted(values, iter(results))

    meter.start()
    run(main())
    meter.stop()
    return done


def trio_(size: int, meter: Meter) -> int:
    trio, labs = load("trio"), function()
    done = 0

    async def main() -> None:
        nonlocal done
        for values in batches(size):
            results: list[int] = []

            async def work(value: int, results: list[int] = results) -> None:
                results.append(await trio.to_thread.run_sync(labs, value))

            async with trio.open_nursery() as nursery:
                for value in values:
                    nursery.start_soon(work, value)
            done += counted(values, iter(results))

    meter.start()
    trio.run(main)
    meter.stop()
    return done


def anyio_(size: int, meter: Meter) -> int:
    anyio, to_thread, labs = load("anyio"), load("anyio.to_thread"), function()
    done = 0

    async def main() -> None:
        nonlocal done
        for values in batches(size):
            results: list[int] = []

            async def work(value: int, results: list[int] = results) -> None:
                results.append(await to_thread.run_sync(labs, value))

            async with anyio.create_task_group() as group:
                for value in values:
                    group.start_soon(work, value)
            done += counted(values, iter(results))

    meter.start()
    anyio.run(main)
    meter.stop()
    return done


def gevent_(size: int, meter: Meter) -> int:
    gevent, labs = load("gevent"), function()
    done = 0
    meter.start()
    pool = gevent.get_hub().threadpool
    for values in batches(size):
        results = [pool.spawn(labs, value) for value in values]
        gevent.wait(results)
        done += counted(values, (result.get() for result in results))
    meter.stop()
    return done


def floor(size: int, meter: Meter) -> int:
    labs = function()
    done = 0
    meter.start()
    for values in batches(size):
        done += counted(values, (labs(value) for value in values))
    meter.stop()
    return done


CASES = [
    Case(
        "C function as a task, batches of 1000",
        "us/task",
        1e6,
        10_000,
        2_000,
        100,
        {
            "bursar": bursar_,
            **on_loops(asyncio_),
            "gather": gather,
            "trio": trio_,
            "anyio": anyio_,
            "gevent": gevent_,
            "floor": floor,
        },
    ),
]
