"""Recording: what a run costs that is not recorded, that is kept in memory, and that goes to a file.

Measured: CPU time per operation of the same program, three ways, interleaved; the ratio is over the run that is not
recorded. `off` is `bursar.run(main)`: what it pays for the possibility is in every other figure of these benchmarks.
`memory` keeps the newest 10,000 events; `file` is on the disk of the temporary folder, digest included. The two
programs are the extremes: yields do nothing but be scheduled, so there recording weighs most; a task that is spawned
and joined tells more events, and does more. Not measured: reading a trace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ways
from bursar.bench.harness import Case, Meter, Row

WAYS = ("off", "memory", "file")
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


def _measured(bursar: Any, main: Callable[[], Any], meter: Meter, record: Callable[[Path], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        meter.start()
        bursar.run(main, record=record(Path(folder)))
        meter.stop()


def _nothing(folder: Path) -> None:
    return None


def _memory(folder: Path) -> Any:
    from bursar.evidence.trace import Memory

    return Memory(10_000)


def _file(folder: Path) -> Path:
    return folder / "run.trace"


RECORDS = dict(zip(WAYS, (_nothing, _memory, _file), strict=True))
CASES = [
    Case(
        f"record, {name}", f"ns/{name}", 1e9, 100_000, 10_000, 1_000, {w: partial(run, record=RECORDS[w]) for w in WAYS}
    )
    for name, run in (("yield", yields), ("spawn", spawns))
]


def measure(*, quick: bool, repeats: int) -> list[Row]:
    """One row per program and way."""
    return ways.measure(CASES, WAYS, quick=quick, repeats=repeats)


def render(rows: Sequence[Row]) -> str:
    """Programs down, ways across."""
    return ways.render(rows, WAYS)
