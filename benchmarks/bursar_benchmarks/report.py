"""The facts about the machine, without which no figure means anything, and all measurements as JSON.

The JSON is one object: `schema` (its name and version), `machine`, `complete` (False: interrupted), and `rows`, one for
each case and peer, with every sample.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bursar.backend import kernel_in_use
from bursar_benchmarks.harness import PEERS, Row, installed

SCHEMA: Final = "bursar-bench/1"
MEASURE: Final = "CPU time; gc enabled, gc.collect() before each sample; peers interleaved"


def machine() -> dict[str, str]:
    """Processor, memory, system, interpreter, Bursar and its kernel, and the version of each peer, or "absent"."""
    facts = {
        "cpu": cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": memory(),
        "os": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "bursar": f"{importlib.metadata.version('bursar')}, {kernel_in_use()} kernel",
        "measure": MEASURE,
    }
    for peer, package in PEERS.items():
        if package is not None:
            facts[peer] = importlib.metadata.version(package) if installed(peer) else "absent"
    return facts


def cpu_model() -> str:
    """The name of the processor, if the system tells it."""
    if sys.platform == "darwin":
        asked = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        return asked.stdout.strip() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory() -> str:
    """How much memory the machine has."""
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def number(value: float) -> str:
    """Three significant digits, never in exponent form."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float) -> str:
    """How many times as expensive; a small ratio has three decimals."""
    return f"×{number(value)}" if value >= 0.1 else f"×{value:.3f}"


def cell(row: Row) -> str:
    """One peer in one case, in one line."""
    if row.best is None or row.median is None:
        return row.status
    return f"{number(row.best)} ({number(row.median)})" + ("" if row.ratio is None else f" {ratio(row.ratio)}")


def notes(rows: Sequence[Row]) -> list[str]:
    """What the table does not show: how to read it, which peers are missing, and which failed at what."""
    said = [
        "best, its ratio to Bursar's best (above ×1: more expensive than Bursar), (median); "
        "CPU time per operation, or bytes; floor is a bare loop without any other feature"
    ]
    if absent := sorted({row.peer for row in rows if row.status == "absent"}):
        said.append(f"not installed, so left out: {', '.join(absent)}; pip install 'bursar[bench]' brings all peers")
    said += [f"failed: {row.peer} at {row.case}: {row.detail}" for row in rows if row.status == "failed"]
    return said


def write_json(path: Path, facts: Mapping[str, str], rows: Sequence[Row], *, complete: bool = True) -> None:
    """Everything that is printed, and every single sample."""
    content = {
        "schema": SCHEMA,
        "machine": dict(facts),
        "argv": sys.argv[1:],
        "complete": complete,
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
