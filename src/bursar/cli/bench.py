"""`bursar bench`: Bursar beside its peers on this machine, in under two minutes.

What is run and how it is measured lives in `benchmarks/`; here is only what is asked for and what is shown. Ctrl-C
shows what was measured so far. The exit code says that the run is complete, not that the figures are good. The cases
are imported late: they bring asyncio, for which no other command should wait.
"""

from __future__ import annotations

import difflib
import os
import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from bursar.cli import EXIT_INTERRUPTED, complain, refuse
from bursar.errors import BursarError
from bursar_benchmarks import NAMES

if TYPE_CHECKING:
    from bursar_benchmarks import harness

WIDTH_PIPED: Final = 130  # columns where there is no terminal to ask


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help=f"Of {', '.join(NAMES)}; all if none is named."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Large sizes and more samples: most of an hour.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, max=100, help="Samples of each.", show_default=False)] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every sample there.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw bars there, as SVG.", show_default=False)
    ] = None,
) -> None:
    """Measure Bursar beside asyncio, uvloop, rloop, trio, anyio and gevent, as far as they are installed."""
    from bursar_benchmarks.plot import write_svg
    from bursar_benchmarks.report import machine, write_json
    from bursar_benchmarks.table import heading, show

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
        complain("interrupted: these are not all of the workloads")
        raise SystemExit(EXIT_INTERRUPTED)


def measured(names: list[str], repeats: int | None, *, quick: bool) -> tuple[list[harness.Row], bool]:
    """The rows, and whether they are all that was asked for."""
    from bursar_benchmarks import cases, harness
    from bursar_benchmarks.interrupt import interruptible

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
    """The names, each once, or a refusal that names the nearest ones."""
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=3) or NAMES
            refuse(f"there is no workload {name!r}; there is {', '.join(near)}")
    return list(dict.fromkeys(names))


def require_writable(file: Path) -> None:
    """Find out now, and not after two minutes."""
    try:
        file.open("a").close()
    except OSError as error:
        refuse(f"{file}: cannot be written: {error.strerror or error}")


def tell(words: str) -> None:
    """Progress goes where it is not in the way. No live display: its thread would be measured too."""
    print(words, file=sys.stderr, flush=True)


def make_console() -> Console:
    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=WIDTH_PIPED if wide else None)
