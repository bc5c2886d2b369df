"""Measures a scheduler from outside: runs a command several times under it, and writes the results as JSON.

    python scripts/bench_m3.py --scheduler threadpool --runs 10 --out threadpool.json
    python scripts/bench_m3.py --scheduler simple --runs 10 --out simple.json --report simple.md

The command gets the name of the scheduler in its environment (`BURSAR_SCHEDULER`). By default it is
`scripts/story.py`, a graph of real work that goes through Bursar's gate. The command itself reports how long its tasks
waited, and how often the first task in the queue did not fit: lines `queue_wait_ms=…` and `resource_budget_hits=…` on
its standard output.

Exit status: 0 if a run succeeded, 1 if none did, 2 if there was nothing to run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STORY = Path(__file__).with_name("story.py")
SAID = re.compile(r"^(queue_wait_ms|resource_budget_hits)=([0-9.]+)$", re.MULTILINE)
RUN_S_MAX = 600  # a run that takes longer has failed


def percentile(samples: list[float], share: float) -> float | None:
    """The value below which that share of the samples lies; between two of them, in proportion."""
    if not samples:
        return None
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean(samples: list[float]) -> float | None:
    return sum(samples) / len(samples) if samples else None


def run_once(command: list[str], scheduler: str) -> dict[str, Any]:
    """One run, and what it said of itself."""
    environment = {key: value for key, value in os.environ.items() if key != "STV_SCHEDULER"}
    began = time.perf_counter()
    try:
        ended = subprocess.run(
            command,
            env=environment | {"BURSAR_SCHEDULER": scheduler},
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )
        status, said, complaint = ended.returncode, dict(SAID.findall(ended.stdout)), ended.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        status, said, complaint = -1, {}, f"{error}\n"
    if status:
        print(f"{shlex.join(command)} ended with {status}\n{complaint}", end="", file=sys.stderr)
    return {
        "ok": status == 0,
        "returncode": status,
        "elapsed_sec": time.perf_counter() - began,
        "queue_wait_ms": float(said["queue_wait_ms"]) if "queue_wait_ms" in said else None,
        "budget_hits": int(float(said.get("resource_budget_hits", 0))),
    }


def summary(scheduler: str, command: list[str], scenes: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """All runs together. Only those that succeeded are measured."""
    good = [run for run in runs if run["ok"]]
    latency = [run["elapsed_sec"] for run in good]
    throughput = [scenes / elapsed for elapsed in latency]
    waits = [run["queue_wait_ms"] for run in good if run["queue_wait_ms"] is not None]
    return {
        "generated_at": datetime.now(UTC).isoformat(),
        "scheduler": scheduler,
        "command": command,
        "runs": len(runs),
        "success": len(good),
        "failure": len(runs) - len(good),
        "success_rate": len(good) / len(runs),
        "latency_sec": {
            "p50": percentile(latency, 0.50),
            "p95": percentile(latency, 0.95),
            "mean": mean(latency),
            "samples": latency,
        },
        "throughput_scenes_per_sec": {"mean": mean(throughput), "samples": throughput},
        "queue_wait_ms": {"available": bool(waits), "avg": mean(waits), "samples": waits},
        "resource_budget_hits": {"total": sum(run["budget_hits"] for run in good)},
        "raw_runs": runs,
    }


def report(found: dict[str, Any]) -> str:
    """The same for people."""

    def shown(value: float | None, unit: str = "") -> str:
        return "–" if value is None else f"{value:.4f}{unit}"

    latency, waits = found["latency_sec"], found["queue_wait_ms"]
    rows = [
        ("runs", f"{found['success']} of {found['runs']} succeeded"),
        ("latency, median", shown(latency["p50"], " s")),
        ("latency, 95 %", shown(latency["p95"], " s")),
        ("latency, mean", shown(latency["mean"], " s")),
        ("scenes per second", shown(found["throughput_scenes_per_sec"]["mean"])),
        ("wait for permission, mean", shown(waits["avg"], " ms")),
        ("did not fit", str(found["resource_budget_hits"]["total"])),
    ]
    lines = [f"# {found['scheduler']}", "", f"`{shlex.join(found['command'])}`, {found['generated_at']}", ""]
    return "\n".join([*lines, "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", choices=("simple", "threadpool"), required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    parser.add_argument("--command", help="what to run instead of the story; one line, as for a shell")
    parser.add_argument("--scene-count", type=int, default=4)
    parser.add_argument("--report", type=Path, help="where a page in Markdown goes")
    asked = parser.parse_args(arguments)
    if asked.runs <= 0:
        print(f"--runs {asked.runs}: must be 1 or more", file=sys.stderr)
        return 2
    default = [sys.executable, str(STORY), "--scene-count", str(asked.scene_count)]
    command = shlex.split(asked.command) if asked.command else default
    runs = [run_once(command, asked.scheduler) for _ in range(asked.runs)]
    found = summary(asked.scheduler, command, asked.scene_count, runs)
    asked.out.write_text(json.dumps(found, indent=2) + "\n")
    if asked.report is not None:
        asked.report.write_text(report(found))
    return 0 if found["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
