"""What all fuzzers share: how many seeds a campaign tries, and how two processes are compared.

A fuzzer is a script that takes FIRST and LAST, tries these seeds, and prints one JSON object: what became of each seed.
Its test runs SHORT seeds in `make test`. A slow test runs LONG seeds in `make test-fuzz`. A seed that fails is named:
run the script with that seed alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

SHORT: Final = 60
LONG: Final = 5_000
CAMPAIGN_S: Final = 3_000  # only a hang takes so long


def start(script: Path, first: int, last: int, **environment: str) -> subprocess.Popen[str]:
    """A process that tries the seeds from `first` to `last` - 1."""
    command = [sys.executable, str(script), str(first), str(last)]
    return subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What became of each seed."""
    out, err = process.communicate(timeout=CAMPAIGN_S)
    assert process.returncode == 0, f"{process.args} ended with {process.returncode}: {err[-3_000:]}"
    return json.loads(out)


def compare(script: Path, first: int, last: int, variants: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Try the seeds in one process for each variant, a set of environment variables. All must find the same."""
    running = {name: start(script, first, last, **environment) for name, environment in variants.items()}
    found = {name: finish(process) for name, process in running.items()}
    reference = next(iter(found.values()))
    assert len(reference) == last - first
    different = {
        seed: {name: results[seed] for name, results in found.items()}
        for seed in reference
        if any(results[seed] != reference[seed] for results in found.values())
    }
    for seed, results in list(different.items())[:3]:
        print(f"seed {seed}: {results}")
    assert not different, f"{script.name}: seeds with different results: {list(different)[:10]}"
    return reference
