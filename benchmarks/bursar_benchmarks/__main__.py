"""`python -m bursar_benchmarks [--quick] [--json FILE] [--plot FILE] [names...]`: run the workloads, print their costs.

Without names all workloads run, which takes more than an hour (`scale` goes to a million tasks); `--quick` takes three
minutes. The table of `bursar bench` comes first. Then come the workloads that need a checkout: `record`, `memory`,
`dag`, `echo` and `scale`. Exit status 0 says that the run is complete, not that the figures are good.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from bursar.cli import EXIT_INTERRUPTED
from bursar_benchmarks import cases, dag, echo, harness, memory, record, scale
from bursar_benchmarks.harness import Row
from bursar_benchmarks.interrupt import interruptible
from bursar_benchmarks.plot import write_svg
from bursar_benchmarks.report import machine, write_json
from bursar_benchmarks.table import heading, show

WIDTH_PIPED = 130


def measure_scale(*, quick: bool) -> list[Row]:
    """The workloads over four sizes (two if quick)."""
    sizes = scale.SIZES_QUICK if quick else scale.SIZES
    repeats = scale.REPEATS_QUICK if quick else scale.REPEATS
    rows: list[Row] = []
    for case in scale.CASES:
        tell(case.name)
        rows += scale.measure(case, sizes=sizes, repeats=repeats)
    return rows


def measure_record(*, quick: bool) -> list[Row]:
    """What recording costs. The peers are the ways to record."""
    tell("record")
    return record.measure(quick=quick, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


def measure_memory(*, quick: bool) -> list[Row]:
    """What metering costs: without it, and with it."""
    tell("memory")
    return memory.measure(quick=quick, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


def measure_echo(*, quick: bool) -> list[Row]:
    """The network workload. It has its own peers and its own clock."""
    tell("echo")
    requests = echo.REQUESTS_QUICK if quick else echo.REQUESTS
    return echo.measure(requests=requests, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


def measure_dag(*, quick: bool) -> list[Row]:
    """Graphs of tasks. The peers are other schedulers of graphs."""
    tell("dag")
    return dag.measure(quick=quick, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


CHECKOUT: Mapping[str, tuple[Callable[..., list[Row]], Callable[[Sequence[Row]], str]]] = {
    "record": (measure_record, record.render),
    "memory": (measure_memory, memory.render),
    "dag": (measure_dag, dag.render),
    "echo": (measure_echo, echo.render),
    "scale": (measure_scale, scale.render),
}
NAMES = (*cases.WORKLOADS, *CHECKOUT)


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def measure_all(names: Sequence[str], rows: list[Row], console: Console, *, quick: bool) -> None:
    """Measure and print. `rows` grows as it goes, so that an interrupted run keeps what it has."""
    chosen = cases.chosen([name for name in names if name in cases.WORKLOADS], quick=quick)
    try:
        with interruptible(tell) as between:
            repeats = harness.REPEATS_QUICK if quick else harness.REPEATS
            for found in cases.run(chosen, repeats=repeats, tell=tell, between=between):
                rows += found
    finally:
        if rows:
            show(console, rows)
    for name, (measure, render) in CHECKOUT.items():
        if name in names:
            found = measure(quick=quick)
            print(f"\n{render(found)}", flush=True)
            rows += found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bursar_benchmarks", description="Bursar and its peers, side by side.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats: a look only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and every sample")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the rows as an SVG file")
    options = parser.parse_args(argv)
    names: list[str] = options.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(NAMES)}")

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_PIPED)
    facts = machine()
    console.print(heading(facts))
    rows: list[Row] = []
    complete = False
    try:
        measure_all(names, rows, console, quick=options.quick)
        complete = True
    except KeyboardInterrupt:
        tell("interrupted")
    if options.json is not None:
        write_json(options.json, facts, rows, complete=complete)
    if options.plot is not None:
        write_svg(options.plot, rows, facts)
    return 0 if complete else EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
