"""`python -m benchmarks [--quick] [--json FILE] [names...]`: run the workloads and print what they cost.

Without names all are run, which takes most of an hour (`scale` goes to a million tasks); `--quick` takes two
minutes. The exit status says that the run is complete, not that the figures are good.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import echo, harness, record, report, scale
from benchmarks.cases import WORKLOADS
from benchmarks.harness import Row

NAMES = (*WORKLOADS, "record", "echo", "scale")


def measure_side_by_side(names: Sequence[str], *, quick: bool) -> list[Row]:
    """The workloads that have all peers in one line."""
    repeats = harness.REPEATS_QUICK if quick else harness.REPEATS
    rows: list[Row] = []
    for name in names:
        for case in WORKLOADS[name]:
            print(f"... {case.name}", file=sys.stderr, flush=True)
            rows += harness.measure(case, size=case.quick if quick else case.size, repeats=repeats)
    return rows


def measure_scale(*, quick: bool) -> list[Row]:
    """The workloads over four sizes (two if quick)."""
    sizes = scale.SIZES_QUICK if quick else scale.SIZES
    repeats = scale.REPEATS_QUICK if quick else scale.REPEATS
    rows: list[Row] = []
    for case in scale.CASES:
        print(f"... {case.name}", file=sys.stderr, flush=True)
        rows += scale.measure(case, sizes=sizes, repeats=repeats)
    return rows


def measure_record(*, quick: bool) -> list[Row]:
    """What recording costs, whose peers are the ways of doing it."""
    print("... record", file=sys.stderr, flush=True)
    return record.measure(quick=quick, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


def measure_echo(*, quick: bool) -> list[Row]:
    """The network workload, which has peers and a clock of its own."""
    print("... echo", file=sys.stderr, flush=True)
    requests = echo.REQUESTS_QUICK if quick else echo.REQUESTS
    return echo.measure(requests=requests, repeats=harness.REPEATS_QUICK if quick else harness.REPEATS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Bursar and its peers, side by side.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats: a look only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and every sample")
    options = parser.parse_args(argv)
    names: list[str] = options.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(NAMES)}")

    facts = report.machine()
    print(report.heading(facts), flush=True)
    rows = measure_side_by_side([name for name in names if name in WORKLOADS], quick=options.quick)
    if rows:
        print(f"\n{report.table(rows)}", flush=True)
    if "record" in names:
        recorded = measure_record(quick=options.quick)
        print(f"\n{record.render(recorded)}", flush=True)
        rows += recorded
    if "echo" in names:
        echoed = measure_echo(quick=options.quick)
        print(f"\n{echo.render(echoed)}", flush=True)
        rows += echoed
    if "scale" in names:
        scaled = measure_scale(quick=options.quick)
        print(f"\n{scale.render(scaled)}", flush=True)
        rows += scaled
    if options.json is not None:
        report.write_json(options.json, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
