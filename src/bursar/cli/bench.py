"""`bursar bench`: compare Bursar with its peers on this machine, in under two minutes.

The workloads and the measurement are in `benchmarks/`; this file has the options and the output. After Ctrl-C the
command shows what it has measured. The exit code says whether the run is complete, not whether the figures are good.
"""

from __future__ import annotations

import difflib
import os
import sys
from math import inf
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from bursar.cli import EXIT_INTERRUPTED, complain, refuse
from bursar.errors import BursarError
from bursar_benchmarks import NAMES, cases, harness
from bursar_benchmarks.interrupt import interruptible
from bursar_benchmarks.plot import write_svg
from bursar_benchmarks.report import machine, write_json
from bursar_benchmarks.table import heading, show

WIDTH_PIPED: Final = 130  # columns, if the output is no terminal


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD", help=f"{', '.join(NAMES)}; without a name, all."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Large sizes and more samples; takes most of an hour.")] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=100, help="Samples per workload and peer.", show_default=False)
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every sample to this file.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw a bar chart into this SVG file.", show_default=False),
    ] = None,
) -> None:
    """Measure Bursar beside asyncio, uvloop, rloop, trio, anyio and gevent, if they are installed."""
    asked = known(names or list(NAMES))
    for file in filter(None, (json, plot)):
        require_writable(file)
    try:
        facts = machine()
    except BursarError as error:
        refuse(str(error))
    console = make_console()
    console.print(heading(facts))
    rows, complete = measured(asked, repeats, quick=not full)
    if rows:
        show(console, rows)
    if json is not None:
        write_json(json, facts, rows, complete=complete)
    if plot is not None:
        write_svg(plot, rows, facts)
    if not complete:
        complain("interrupted: some workloads were not measured")
        raise SystemExit(EXIT_INTERRUPTED)


def measured(names: list[str], repeats: int | None, *, quick: bool) -> tuple[list[harness.Row], bool]:
    """The rows, and whether the run is complete."""
    rows: list[harness.Row] = []
    chosen = cases.chosen(names, quick=quick)
    patience_s = harness.PATIENCE_QUICK_S if quick and repeats is None else inf
    rounds = repeats or (harness.REPEATS_QUICK if quick else harness.REPEATS)
    try:
        with interruptible(tell) as between:
            for found in cases.run(chosen, repeats=rounds, patience_s=patience_s, tell=tell, between=between):
                rows += found
    except KeyboardInterrupt:
        return rows, False
    return rows, True


def known(names: list[str]) -> list[str]:
    """The names, each once. An unknown name ends the command with a message that has the most similar names."""
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=3) or NAMES
            refuse(f"there is no workload {name!r}; choose from {', '.join(near)}")
    return list(dict.fromkeys(names))


def require_writable(file: Path) -> None:
    """Refuse a file that cannot be written before the measurement, which takes minutes."""
    try:
        file.open("a").close()
    except OSError as error:
        refuse(f"{file}: cannot be written: {error.strerror or error}")


def tell(words: str) -> None:
    """Print progress to stderr. Rejected: a live display; its thread would be measured too."""
    print(words, file=sys.stderr, flush=True)


def make_console() -> Console:
    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=WIDTH_PIPED if wide else None)
