"""Metered memory: what a program that allocates pays for `meter_memory=True`.

Measured: CPU time per operation of the same program, without the option and with it, interleaved. Three programs
allocate nearly all the time. The first allocates large blocks from the system's allocator, each of which is entered in
the table of owners. The second allocates small objects, which are counted by the arena. The third is a parser that
makes many of both. Their tasks have a limited memory budget, and wait now and then, as tasks do. The last program
allocates nothing and only waits. It is the worst case: all that it pays is entering and leaving accounts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bursar_benchmarks import ways
from bursar_benchmarks.harness import Case, Meter, Row

WAYS = ("off", "metered")
TASKS = 10
PURSE_BYTES = 1 << 30
BLOCK_BYTES = 8 << 10  # far above what the allocator of small objects takes
STRETCH = 1_000  # allocations between two waits
DOCUMENT = json.dumps([{"name": f"item {i}", "tags": ["a", "b"], "text": "x" * 600, "size": i} for i in range(100)])


def large() -> int:
    kept: list[bytearray] = []
    for _ in range(STRETCH):
        kept.append(bytearray(BLOCK_BYTES))
        if len(kept) == 10:
            kept.clear()
    return STRETCH


def small() -> int:
    kept = [(i, str(i), [i]) for i in range(STRETCH // 3)]
    return 3 * len(kept) + STRETCH % 3


def parse() -> int:
    json.loads(DOCUMENT)
    return STRETCH  # a hundred records of ten objects


def nothing() -> int:
    return 1


def run(size: int, meter: Meter, *, allocate: Callable[[], int], metered: bool) -> int:
    import bursar

    done = 0

    async def work() -> None:
        nonlocal done
        for _ in range(size // TASKS // each):
            done += allocate()
            await bursar.checkpoint()

    async def main() -> None:
        async with bursar.nursery() as nursery:
            for _ in range(TASKS):
                nursery.spawn(work, budget=bursar.Budget(memory=PURSE_BYTES))

    each = allocate()
    meter.start()
    bursar.run(main, meter_memory=metered)
    meter.stop()
    return done


def _case(name: str, allocate: Callable[[], int], size: int, each: int) -> Case:
    peers: dict[str, Any] = {way: partial(run, allocate=allocate, metered=way == "metered") for way in WAYS}
    return Case(f"memory, {name}", "ns/operation", 1e9, size, size // 10, TASKS * each, peers)


CASES = [
    _case("large blocks", large, 2_000_000, STRETCH),
    _case("small objects", small, 10_000_000, STRETCH),
    _case("a parser", parse, 5_000_000, STRETCH),
    _case("no allocation at all", nothing, 100_000, 1),
]


def measure(*, quick: bool, repeats: int) -> list[Row]:
    """One row per program and way."""
    return ways.measure(CASES, WAYS, quick=quick, repeats=repeats)


def render(rows: Sequence[Row]) -> str:
    """Programs down, without and with."""
    return ways.render(rows, WAYS)
