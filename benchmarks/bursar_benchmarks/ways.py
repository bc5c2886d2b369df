"""Runs the same program in several ways: shows what an option of the runtime costs.

A way is a name, and the first way is the baseline. Samples are interleaved, as for peers. The table has the programs
down and the ways across.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bursar_benchmarks import harness
from bursar_benchmarks.grid import grid
from bursar_benchmarks.harness import Case, Row
from bursar_benchmarks.report import cell


def measure(cases: Sequence[Case], ways: Sequence[str], *, quick: bool, repeats: int) -> list[Row]:
    """One row per program and way; the ratio is the best sample over the best of the first way."""
    rows: list[Row] = []
    for case in cases:
        size = case.quick if quick and case.quick is not None else case.size
        taken = harness.interleave(ways, repeats, lambda way, case=case, size=size: harness.sample(case, way, size))
        costs = {way: tuple(one.cost for one in taken[way]) for way in ways}
        rows += [
            Row(
                case=case.name,
                peer=way,
                unit=case.unit,
                size=size,
                status="ok",
                best=min(costs[way]),
                median=median(costs[way]),
                ratio=min(costs[way]) / min(costs[ways[0]]),
                samples=costs[way],
            )
            for way in ways
        ]
    return rows


def render(rows: Sequence[Row], ways: Sequence[str]) -> str:
    """Programs down, ways across."""
    found = {(row.case, row.peer): row for row in rows}
    lines = [["workload", "size", "unit", *ways]]
    for case in dict.fromkeys(row.case for row in rows):
        first = found[case, ways[0]]
        lines.append([case, f"{first.size:,}", first.unit, *(cell(found[case, way]) for way in ways)])
    return f"{grid(lines)}\n\nbest (median) ×ratio: the ratio is the best over that of the way {ways[0]!r}"
