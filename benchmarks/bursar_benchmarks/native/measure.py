"""Runs the programs: one process of every peer in turn, several times, and collects their figures.

Every round of every process is a sample. Peers are interleaved, so that a noisy minute disturbs all of them. The best
and the median are kept. A sample counts the CPU time of the process, all threads together, unless the case says
otherwise: on a shared machine, wall time depends on other processes.

MEASURE-1  A program that fails, prints nothing, or hangs, is a row that says so.
MEASURE-2  A peer without a program of the workload, or that is not installed, is a row that says so.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from bursar_benchmarks.harness import Row
from bursar_benchmarks.native.build import Built, source
from bursar_benchmarks.native.cases import PEERS, Case

TIMEOUT_S = 300.0
WORD = re.compile(r"(\w+)=(-?[\d.]+)")


class Failed(Exception):
    """A program gave no figure: why."""


def parse(text: str, key: str) -> list[float]:
    """The values of `key` in a program's lines."""
    return [float(value) for line in text.splitlines() for word, value in WORD.findall(line) if word == key]


def run(program: Path, workers: int, size: int, rounds: int, key: str) -> list[float]:
    """One process; a figure per round."""
    command = (str(program), str(workers), str(size), str(rounds))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}")
    values = parse(done.stdout, key)
    if not values:
        raise Failed(f"no {key} in what it printed")
    return values


def sample(case: Case, program: Path, size: int) -> list[float]:
    """One process of a case, or one with each number of workers."""
    values = run(program, case.workers, size, case.rounds, case.key)
    if not case.over_one:
        return values
    return [min(values) / min(run(program, 1, size, case.rounds, case.key))]


def measure(
    case: Case, built: Built, *, size: int, repeats: int, between: Callable[[str], None] = lambda peer: None
) -> list[Row]:
    """All peers of one case, interleaved. `between` is called before every process."""
    taken: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for _ in range(repeats):
        for peer in PEERS:
            program = built.programs.get((peer, case.source))
            if program is None or peer in failed or (case.over_one and peer == "boost"):
                continue
            between(peer)
            try:
                taken.setdefault(peer, []).extend(sample(case, program, size))
            except Failed as error:
                failed[peer] = str(error)
    baseline = min(taken.get("bursar", ()), default=0.0)
    return [row(case, size, peer, built, taken.get(peer, []), failed.get(peer), baseline) for peer in PEERS]


def row(case: Case, size: int, peer: str, built: Built, values: list[float], error: str | None, baseline: float) -> Row:
    """What is known of one peer in one case."""
    if error is not None:
        return Row(case.name, peer, case.unit, size, "failed", detail=error)
    if peer in built.missing and source(peer, case.source).exists():
        return Row(case.name, peer, case.unit, size, "absent", detail=built.missing[peer])
    if not values:
        return Row(case.name, peer, case.unit, size, "n/a", detail="has no such thing")
    best = min(values)
    return Row(
        case=case.name,
        peer=peer,
        unit=case.unit,
        size=size,
        status="ok",
        best=best,
        median=median(values),
        ratio=best / baseline if baseline else None,
        samples=tuple(values),
    )


def best_of(rows: list[Row]) -> Mapping[str, float]:
    """The best figure of each peer of one case."""
    return {row.peer: row.best for row in rows if row.best is not None}
