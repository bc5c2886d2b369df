"""Graphs of tasks that do nothing: the cost of one task, and the cost of a choice when many tasks wait.

There are three graphs. *layered*: layers of a thousand tasks, each after three random tasks of the layer before.
*chain*: each task after the one before. *fan*: all tasks after the first, and the last after all. Bursar runs them in
two ways, both through the gate, with priorities, slots and evidence ready: `thread` runs plain functions on the worker
pool, `coroutine` runs `async def` functions. The peers run the same functions. `futures` is a ThreadPoolExecutor driven
by graphlib.TopologicalSorter. `asyncio` is a hand-written driver that counts dependencies. `dask` is its threaded
scheduler, `distributed` is one process with threads, `ray` is a local cluster.

Measured: CPU time of the process per task, from before the first submission until the last task has ended. For `ray`,
which works in other processes, the wall time is measured. Making the graph does not count, nor does starting and
stopping a cluster. Bursar's part ends when the program has read every result, as dask's does. Tasks pass no values.

`choice`: many ready tasks of twelve classes wait for one slot. Measured is the whole cost of admitting and ending one
task. It would grow with the number of waiting tasks if the gate looked at all of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from graphlib import TopologicalSorter
from importlib.util import find_spec
from statistics import median
from typing import Any

from bursar_benchmarks import harness
from bursar_benchmarks.grid import grid
from bursar_benchmarks.harness import Case, Meter, Row, load
from bursar_benchmarks.report import cell

WORKERS = 8
LAYER = 1000
PEERS = {
    "thread": None,
    "coroutine": None,
    "futures": None,
    "asyncio": None,
    "dask": "dask",
    "distributed": "distributed",
    "ray": "ray",
}
GRAPHS = ("layered", "chain", "fan")
SIZES = {"thread": 100_000, "coroutine": 100_000, "futures": 100_000, "asyncio": 100_000}
SLOW = {"dask": 20_000, "distributed": 3_000, "ray": 1_000}  # they cost so much that fewer say the same
READY = (1_000, 10_000, 100_000)

Graph = list[list[int]]


def layered(size: int) -> Graph:
    numbers = random.Random(7)
    after: Graph = []
    for i in range(size):
        first = i // LAYER * LAYER - LAYER
        after.append([] if first < 0 else numbers.sample(range(first, first + LAYER), 3))
    return after


def chain(size: int) -> Graph:
    return [[i - 1] if i else [] for i in range(size)]


def fan(size: int) -> Graph:
    return [[], *([0] for _ in range(size - 2)), list(range(1, size - 1))]


MAKE: dict[str, Callable[[int], Graph]] = {"layered": layered, "chain": chain, "fan": fan}


def nothing() -> None:
    """The work."""


async def nothing_async() -> None:
    """The same."""


def bursar_(size: int, meter: Meter, *, graph: str, fn: Callable[[], Any]) -> int:
    import bursar

    after = MAKE[graph](size)
    done = 0

    async def main() -> None:
        nonlocal done
        async with bursar.nursery() as nursery:
            spawn = nursery.spawn
            tasks: list[Any] = []
            for earlier in after:
                tasks.append(spawn(fn, after=[tasks[i] for i in earlier]))
        done = sum(task.result is None for task in tasks)

    authority = bursar.Authority(resources={"cpu": WORKERS})
    meter.start()
    bursar.run(main, admission=authority)
    meter.stop()
    return done


def futures(size: int, meter: Meter, *, graph: str) -> int:
    after = MAKE[graph](size)
    done = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        meter.start()
        sorter = TopologicalSorter(dict(enumerate(after)))
        sorter.prepare()
        running: dict[Future[None], int] = {}
        while sorter.is_active():
            for node in sorter.get_ready():
                running[pool.submit(nothing)] = node
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                sorter.done(running.pop(future))
                done += 1
        meter.stop()
    return done


def asyncio_(size: int, meter: Meter, *, graph: str) -> int:
    after = MAKE[graph](size)
    done = 0

    async def main() -> None:
        successors: list[list[int]] = [[] for _ in after]
        unmet = [len(earlier) for earlier in after]
        for node, earlier in enumerate(after):
            for before in earlier:
                successors[before].append(node)

        async def run(node: int) -> None:
            nonlocal done
            await nothing_async()
            done += 1
            for later in successors[node]:
                unmet[later] -= 1
                if not unmet[later]:
                    group.create_task(run(later))

        async with asyncio.TaskGroup() as group:
            for node, n in enumerate(list(unmet)):
                if not n:
                    group.create_task(run(node))

    meter.start()
    asyncio.run(main())
    meter.stop()
    return done


def _tasks_for_dask(after: Graph) -> dict[str, Any]:
    def work(*_: Any) -> None:
        """The work: dask hands over what came before."""

    return {f"n{node}": (work, *(f"n{before}" for before in earlier)) for node, earlier in enumerate(after)}


def dask_(size: int, meter: Meter, *, graph: str) -> int:
    threaded = load("dask.threaded")
    tasks = _tasks_for_dask(MAKE[graph](size))
    meter.start()
    threaded.get(tasks, list(tasks), num_workers=WORKERS)
    meter.stop()
    return size


def distributed_(size: int, meter: Meter, *, graph: str) -> int:
    distributed = load("distributed")
    tasks = _tasks_for_dask(MAKE[graph](size))
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=WORKERS, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        meter.start()
        client.get(tasks, list(tasks))
        meter.stop()
    return size


def ray_(size: int, meter: Meter, *, graph: str) -> int:
    import time

    ray = load("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)

    @ray.remote
    def work(*_: Any) -> None:
        """The work."""

    made: list[Any] = []
    start = time.monotonic()
    for earlier in MAKE[graph](size):
        made.append(work.remote(*(made[before] for before in earlier)))
    ray.get(made)
    meter.put(time.monotonic() - start)
    return size


RUNS: dict[str, Callable[..., int]] = {
    "thread": partial(bursar_, fn=nothing),
    "coroutine": partial(bursar_, fn=nothing_async),
    "futures": futures,
    "asyncio": asyncio_,
    "dask": dask_,
    "distributed": distributed_,
    "ray": ray_,
}


def choice(size: int, meter: Meter) -> int:
    """`size` tasks wait for one slot; measured from when all wait until none does."""
    import bursar

    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def main() -> None:
        authority = bursar.Authority(max_concurrent=1, resources={"ram": 1000})
        async with bursar.nursery(admission=authority) as nursery:
            gate = bursar.Event()
            nursery.spawn(gate.wait, priority=1000)
            for i in range(size):
                nursery.spawn(work, priority=i % 4, needs={"ram": i % 3})
            await bursar.checkpoint()
            meter.start()
            gate.set()
        meter.stop()

    bursar.run(main)
    return done


def measure(*, quick: bool, repeats: int) -> list[Row]:
    """One row per graph and way, then one per number of tasks that wait."""
    rows: list[Row] = []
    for graph in GRAPHS:
        present = [peer for peer, package in PEERS.items() if package is None or find_spec(package) is not None]
        case = Case(f"{graph} graph", "µs/task", 1e6, 0, 0, 0, {p: partial(RUNS[p], graph=graph) for p in PEERS})
        sizes = {
            peer: (SLOW | SIZES)[peer] // (10 if quick else 1) // (2 if peer == "distributed" else 1) for peer in PEERS
        }
        for peer in present:
            harness.attempt(case, peer, 50)
        taken = harness.interleave(present, repeats, lambda peer, c=case, s=sizes: harness.attempt(c, peer, s[peer]))
        costs = {peer: [one.cost for one in taken[peer] if one.error is None] for peer in present}
        base = min(costs["thread"])
        for peer in PEERS:
            found = costs.get(peer) or []
            status = "ok" if found else "absent" if peer not in present else "failed"
            rows.append(
                Row(
                    case.name,
                    peer,
                    case.unit,
                    sizes[peer],
                    status,
                    min(found, default=None),
                    median(found) if found else None,
                    min(found) / base if found else None,
                    taken[peer][-1].error or "" if peer in taken else "not installed",
                    tuple(found),
                )
            )
    case = Case("choice", "µs/task", 1e6, 0, 0, 0, {"bursar": choice})
    sizes = READY[:2] if quick else READY
    harness.attempt(case, "bursar", 100)
    ready = harness.interleave(sizes, repeats, lambda n: harness.attempt(case, "bursar", n))
    first = min(one.cost for one in ready[sizes[0]])
    for n in sizes:
        found = [one.cost for one in ready[n]]
        rows.append(
            Row(
                "choice",
                f"{n:,} wait",
                case.unit,
                n,
                "ok",
                min(found),
                median(found),
                min(found) / first,
                "",
                tuple(found),
            )
        )
    return rows


def render(rows: Sequence[Row]) -> str:
    """Graphs down, ways across; then the choice."""
    found = {(row.case, row.peer): row for row in rows}
    lines = [["graph", "unit", *PEERS]]
    for case in dict.fromkeys(row.case for row in rows if row.case != "choice"):
        lines.append([case, "µs/task", *(cell(found[case, peer]) for peer in PEERS)])
    told = f"{grid(lines)}\n\nbest (median) ×ratio: over Bursar's plain functions (thread)"
    waits = [row for row in rows if row.case == "choice"]
    lines = [["choice", *(row.peer for row in waits)], ["µs/task", *(cell(row) for row in waits)]]
    return f"{told}\n\n{grid(lines)}\n\nratio: over the smallest number that waits"
