"""Recording: what a run costs without a recording, with one in memory, and with one in a file, beside asyncio.

Measured: CPU time per operation of the same program in four ways, interleaved. The ratio is over the run without a
recording. `off` is `bursar.run(main)`. `memory` keeps the newest 10,000 events. `file` writes to the temporary folder,
digest included. `asyncio` cannot record; it shows how much a recording may cost before Bursar costs more than asyncio.
The two programs are extremes. Yields do nothing but switch, so recording weighs most there. A task that is spawned and
joined makes more events, and does more work. Not measured: reading a trace.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bursar_benchmarks import ways
from bursar_benchmarks.harness import Case, Meter, Row

WAYS = ("off", "memory", "file", "asyncio")
TASKS = 100  # that yield, or that live at once


def yields(size: int, meter: Meter, *, record: Callable[[Path], Any]) -> int:
    import bursar

    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(size // TASKS):
            await bursar.checkpoint()
            done += 1

    async def main() -> None:
        async with bursar.nursery() as nursery:
            for _ in range(TASKS):
                nursery.spawn(work)

    _measured(bursar, main, meter, record)
    return done


def spawns(size: int, meter: Meter, *, record: Callable[[Path], Any]) -> int:
    import bursar

    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def main() -> None:
        for _ in range(size // TASKS):
            async with bursar.nursery() as nursery:
                for _ in range(TASKS):
                    nursery.spawn(work)

    _measured(bursar, main, meter, record)
    return done


def asyncio_yields(size: int, meter: Meter) -> int:
    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(size // TASKS):
            await asyncio.sleep(0)
            done += 1

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(work())

    meter.start()
    asyncio.run(main())
    meter.stop()
    return done


def asyncio_spawns(size: int, meter: Meter) -> int:
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def main() -> None:
        for _ in range(size // TASKS):
            async with asyncio.TaskGroup() as group:
                for _ in range(TASKS):
                    group.create_task(work())

    meter.start()
    asyncio.run(main())
    meter.stop()
    return done


def _measured(bursar: Any, main: Callable[[], Any], meter: Meter, record: Callable[[Path], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        meter.start()
        bursar.run(main, record=record(Path(folder)))
        meter.stop()


def _nothing(folder: Path) -> None:
    return None


def _memory(folder: Path) -> Any:
    from bursar.trace.ring import Memory

    return Memory(10_000)


def _file(folder: Path) -> Path:
    return folder / "run.trace"


RECORDS = {"off": _nothing, "memory": _memory, "file": _file}


def _case(name: str, run: Callable[..., int], asyncio_run: Callable[[int, Meter], int]) -> Case:
    peers: dict[str, Any] = {way: partial(run, record=record) for way, record in RECORDS.items()}
    return Case(f"record, {name}", f"ns/{name}", 1e9, 100_000, 10_000, 1_000, peers | {"asyncio": asyncio_run})


CASES = [_case("yield", yields, asyncio_yields), _case("spawn", spawns, asyncio_spawns)]


def measure(*, quick: bool, repeats: int) -> list[Row]:
    """One row per program and way."""
    return ways.measure(CASES, WAYS, quick=quick, repeats=repeats)


def render(rows: Sequence[Row]) -> str:
    """Programs down, ways across."""
    return ways.render(rows, WAYS)
