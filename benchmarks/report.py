"""Rows as plain text and as JSON, and the facts about the machine without which no figure means anything.

The table has one line per case and one column per peer: best, median in brackets, and the ratio of the best
to asyncio's.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import PEERS, Row, installed


def machine() -> dict[str, str]:
    """Interpreter, processors, platform, and the version of each peer, or "absent"."""
    facts = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpus": str(os.cpu_count()),
        "platform": platform.platform(),
        "measure": "CPU time; gc enabled, gc.collect() before each sample; peers interleaved",
    }
    for peer in ("bursar", "trio"):
        facts[peer] = _version(peer)
    return facts


def _version(peer: str) -> str:
    if not installed(peer):
        return "absent"
    try:
        return importlib.metadata.version(peer)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(importlib.import_module(peer), "__version__", "from the source tree"))


def number(value: float) -> str:
    """Three significant digits, never in exponent form."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(row: Row) -> str:
    """One peer in one case, short enough for a column."""
    if row.best is None or row.median is None:
        return row.status
    ratio = "" if row.ratio is None else f" x{row.ratio:.2f}"
    return f"{number(row.best)} ({number(row.median)}){ratio}"


def grid(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first line is the heading."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    ruled = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in ruled)


def table(rows: Sequence[Row]) -> str:
    """Cases down, peers across; then a line for each peer that failed, and why."""
    cases = dict.fromkeys((row.case, row.size, row.unit) for row in rows)
    found = {(row.case, row.size, row.peer): row for row in rows}
    lines = [["workload", "size", "unit", *PEERS]]
    for case, size, unit in cases:
        cells = [cell(found[case, size, peer]) if (case, size, peer) in found else "" for peer in PEERS]
        lines.append([case, f"{size:,}", unit, *cells])
    failed = [f"failed: {row.case}, {row.peer}: {row.detail}" for row in rows if row.status == "failed"]
    legend = "best (median) xratio: the ratio is the best over asyncio's best, below 1 is cheaper"
    return "\n".join([grid(lines), "", legend, *failed])


def heading(facts: Mapping[str, str]) -> str:
    """The machine data, one line each."""
    width = max(map(len, facts))
    return "\n".join(f"{name.ljust(width)}  {fact}" for name, fact in facts.items())


def write_json(path: Path, facts: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Everything that is printed, and every single sample."""
    content = {"machine": dict(facts), "argv": sys.argv[1:], "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
