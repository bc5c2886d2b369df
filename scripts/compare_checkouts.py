"""Compare this checkout with another one on every row of the quick benchmark: instructions and CPU time.

    python scripts/compare_checkouts.py ../other [--rows yield] [--repeats 5] [--no-callgrind]

Each sample is a process of its own, and the two checkouts take turns, so that a noisy minute reaches both. CPU
time is the median of the samples. Instructions are counted by `valgrind --tool=callgrind`: a process with two runs
less a process with one, so that starting up does not count. Both checkouts must be installed (`make lint` does it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
CHILDREN = (("bursar_benchmarks.child", "bursar_benchmarks.cases"), ("bursar.bench.child", "bursar.bench.cases"))
NOT_COUNTED = ("native", "submit")  # several threads: callgrind runs them one at a time, in an order of its own


class Checkout:
    """An installed checkout."""

    def __init__(self, folder: Path) -> None:
        self.python = str(folder / ".venv" / "bin" / "python")
        for self.child, self.home in CHILDREN:
            if (
                subprocess.run([self.python, "-c", f"import {self.home}"], capture_output=True, check=False).returncode
                == 0
            ):
                return
        raise SystemExit(f"{folder}: no benchmarks are installed there; run `make lint` in it")

    def rows(self) -> dict[str, tuple[str, int]]:
        """Every case of the quick benchmark that Bursar takes part in: its workload and its size."""
        text = (
            f"import json; from {self.home} import WORKLOADS as w; "
            "ours = [(k, c) for k, v in w.items() for c in v if c.quick and 'bursar' in c.peers]; "
            "print(json.dumps({c.name: (k, c.quick) for k, c in ours}))"
        )
        return json.loads(subprocess.check_output([self.python, "-c", text], text=True))

    def sample(self, row: str, size: int, runs: int, *before: str) -> float:
        command = [*before, self.python, "-m", self.child, self.home, row, "bursar", str(size), str(runs)]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.python}: {row}: {done.stderr.strip()[-400:]}")
        answer = json.loads(done.stdout.rsplit("\n", 2)[-2])
        if answer.get("error"):
            raise SystemExit(f"{self.python}: {row}: {answer['error']}")
        return next(value for key, value in answer.items() if isinstance(value, float))

    def instructions(self, row: str, size: int) -> int:
        return self._counted(row, size, 2) - self._counted(row, size, 1)

    def _counted(self, row: str, size: int, runs: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "callgrind.out"
            self.sample(row, size, runs, "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}")
            return sum(
                int(n) for n in re.findall(r"^(?:summary|totals): (\d+)", out.read_text("utf-8"), re.MULTILINE)[:1]
            )


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("other", type=Path)
    options.add_argument("--rows", default="", help="only rows with this text in their name")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--no-callgrind", action="store_true")
    asked = options.parse_args()
    ours, theirs = Checkout(ROOT), Checkout(asked.other.resolve())
    print(
        f"{'row':34} {'CPU, median':>12} {'CPU, best':>10} {'instructions':>13}   this checkout over the other",
        flush=True,
    )
    for row, (workload, size) in ours.rows().items():
        if asked.rows not in row:
            continue
        taken = [(ours.sample(row, size, 1), theirs.sample(row, size, 1)) for _ in range(asked.repeats)]
        mine, other = zip(*taken, strict=True)
        counted = ""
        if not asked.no_callgrind and workload not in NOT_COUNTED:
            small = max(size // 10, 1)
            counted = f"{ours.instructions(row, small) / theirs.instructions(row, small) - 1:+13.2%}"
        print(
            f"{row:34} {median(mine) / median(other) - 1:+12.1%} {min(mine) / min(other) - 1:+10.1%} {counted}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
