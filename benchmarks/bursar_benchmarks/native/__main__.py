"""`python -m bursar_benchmarks.native [CASE…] [--quick] [--repeats N] [--json FILE]`: the native engine and its peers.

Builds the programs that this machine can build, runs them, and prints a table. The table says which goals were reached,
and shows the targets of the first documents about Bursar. Exit status 0 says that the run is complete, not that the
figures are good.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bursar_benchmarks.grid import grid
from bursar_benchmarks.harness import Row
from bursar_benchmarks.native.build import HERE, Built, build
from bursar_benchmarks.native.cases import CASES, PEERS, TITLES, Case, find
from bursar_benchmarks.native.measure import best_of, measure
from bursar_benchmarks.report import cell, cpu_model, memory, write_json

REPEATS = 9
REPEATS_QUICK = 3
FOLDER = HERE.parents[2] / "build" / "bench-native"


def version(*command: str) -> str:
    """The first line of what a command says about itself."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "absent"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def machine(built: Built) -> dict[str, str]:
    """The facts without which no figure means anything."""
    facts = {
        "cpu": cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": memory(),
        "os": platform.platform(),
        "cc": version("cc", "--version"),
        "go": version("go", "version"),
        "measure": "CPU time of the process; peers interleaved, a process each; best and median of all rounds",
    }
    return facts | {f"{peer} is left out": reason for peer, reason in built.missing.items()}


def verdicts(case: Case, rows: list[Row]) -> list[str]:
    """Each goal of a case, and whether it was reached."""
    words = {True: "reached", False: "NOT reached", None: "not known"}
    best = best_of(rows)
    return [f"{goal}: {words[goal.reached(best)]}" for goal in case.goals]


def render(found: Mapping[str, list[Row]]) -> str:
    """The table of everything that was measured."""
    lines = [["workload", "unit", *TITLES.values(), "goals", "first target"]]
    for name, rows in found.items():
        case = find(name)
        cells = {row.peer: cell(row) if row.status != "n/a" else "–" for row in rows}
        goals = "; ".join(verdicts(case, rows))
        lines.append([case.title, case.unit, *(cells[peer] for peer in PEERS), goals, case.seed])
    return grid(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m bursar_benchmarks.native", description="The native engine and its peers."
    )
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"of: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repeats: a look only")
    parser.add_argument("--repeats", type=int, help="processes of each peer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single sample there")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to build")
    options = parser.parse_args(argv)
    try:
        cases = [find(name) for name in options.names] or list(CASES)
    except KeyError as error:
        parser.error(f"no such case: {error.args[0]}; there are {', '.join(case.name for case in CASES)}")
    print("building ...", file=sys.stderr, flush=True)
    built = build(options.folder, [case.source for case in cases])
    facts = machine(built)
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    repeats = options.repeats or (REPEATS_QUICK if options.quick else REPEATS)
    found: dict[str, list[Row]] = {}
    for case in cases:
        print(f"... {case.name}", file=sys.stderr, flush=True)
        found[case.name] = measure(case, built, size=case.quick if options.quick else case.size, repeats=repeats)
    print(f"\n{render(found)}\n\nbest (median) ×ratio to Bursar's best; above ×1: more expensive than Bursar")
    rows = [row for rows in found.values() for row in rows]
    for row in rows:
        if row.status == "failed":
            print(f"failed: {TITLES[row.peer]} at {row.case}: {row.detail}")
    if options.json is not None:
        write_json(options.json, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
