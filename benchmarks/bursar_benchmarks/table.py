"""The rows as a table for a human reader: cases down, peers across.

A peer without any figure has no column. The notes below the table say which peers are missing, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bursar_benchmarks.harness import BASELINE, PEERS, Row
from bursar_benchmarks.report import notes, number, ratio


def heading(facts: Mapping[str, str]) -> Table:
    """The machine data, one line each."""
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        grid.add_row(Text(name, style="bold"), Text(fact))
    return grid


def table(rows: Sequence[Row]) -> Table:
    """In each cell: the best, its ratio to Bursar's, the median."""
    shown = [peer for peer in PEERS if any(row.peer == peer and row.status in ("ok", "failed") for row in rows)]
    drawn = Table(box=SIMPLE_HEAD, padding=(0, 1, 1, 0), collapse_padding=False)
    drawn.add_column("workload")
    drawn.add_column("unit", style="dim")
    for peer in shown:
        drawn.add_column(peer, justify="right", no_wrap=True)
    found = {(row.case, row.size, row.peer): row for row in rows}
    for case, size, unit in dict.fromkeys((row.case, row.size, row.unit) for row in rows):
        cells = [found[case, size, peer] for peer in shown]
        drawn.add_row(case, f"{unit}\n{size:,}", *map(cell, cells))
    return drawn


def show(console: Console, rows: Sequence[Row]) -> None:
    """Print the table and its notes."""
    console.print(table(rows))
    console.print("\n".join(notes(rows)), markup=False)  # its brackets are meant


def cell(row: Row) -> Text:
    """One peer in one case."""
    if row.best is None or row.median is None:
        return Text(row.status if row.status != "n/a" else "–", style="dim")
    middle = Text(median := f"({number(row.median)})", style="dim")
    if row.peer == BASELINE:
        return Text.assemble((number(row.best), "bold"), "\n\n", middle)
    if row.ratio is None:
        return Text.assemble(number(row.best), "\n\n", (median, "dim"))
    style = "green" if row.ratio > 1 else "red"
    return Text.assemble(number(row.best), "\n", (ratio(row.ratio), style), "\n", middle)
