"""The law in Python and the law in C: the same programs come to the same, event for event, and traces are exchanged.

One process for each kernel runs a whole batch (see `kernels`); this one only compares. Hundreds of generated programs
run watched and unwatched: equal ending, decisions, events with all their fields, statistics and reports. Then each
kernel verifies what the other recorded, strictly, and runs the programs again on the other's traces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from parity import fixture, kernels
from parity.scenarios import SCENARIOS
from support.evidence import EVERYTHING, Trace, diff
from support.kernel import KERNEL_VARIABLE, NativeKernel

pytestmark = pytest.mark.skipif(NativeKernel is None, reason="the native kernel was not built")

SCRIPT = Path(kernels.__file__)
KERNELS = ("python", "native")
COUNT = 300
COUNT_SLOW = 10_000
COUNT_NAMED = 100  # as many of the programs with named counters as `make test` runs
COUNT_NAMED_SLOW = 1000
COUNT_TRACED = 40
EXAMPLES = [f"{kernels.EXAMPLE}{file.stem}" for file in sorted((kernels.ROOT / "examples").glob("*.py"))]
FIXTURES = [f"{kernels.FIXTURE}{id}" for id in fixture.IDS]
PROGRAMS = [f"program {number}" for number in range(COUNT_TRACED)]
NAMED = [f"{kernels.running.NAMED}{number}" for number in range(COUNT_TRACED)]
FLOWS = [f"{kernels.FLOW}{number}" for number in range(COUNT_TRACED)]
CASES = [*SCENARIOS, *FIXTURES, *PROGRAMS, *NAMED, *FLOWS, *EXAMPLES]


def start(kernel: str, *args: str) -> subprocess.Popen[str]:
    """A process that has this kernel."""
    environment = {**os.environ, KERNEL_VARIABLE: kernel}
    command = [sys.executable, str(SCRIPT), *args]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed."""
    out, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    return out


def agree(first: int, last: int, kind: str = kernels.running.PROGRAM) -> list[dict]:
    """What a range of programs came to, the same on both kernels."""
    running = [start(kernel, "brief", kind.strip(), str(first), str(last)) for kernel in KERNELS]
    python, native = (json.loads(finish(process)) for process in running)
    assert len(python) == last - first
    different = [number for number in python if python[number] != native[number]]
    for number in different[:3]:
        parts = [name for name in python[number] if python[number][name] != native[number][name]]
        print(f"program {number}: {[(name, python[number][name], native[number][name]) for name in parts]}")
    assert not different, f"not the same on both kernels: {different[:10]}"
    return list(python.values())


def test_hundreds_of_programs_come_to_the_same():
    found = agree(0, COUNT)
    assert len({brief["events"] for brief in found}) > 0.99 * COUNT, "the programs are all alike"
    assert {brief["ending"].partition(":")[0] for brief in found} > {"Deadlock", "ExceptionGroup", "BaseExceptionGroup"}
    assert all(brief["unwatched"] == [brief[x] for x in ("ending", "fingerprint", "statistics")] for brief in found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_programs_come_to_the_same():
    agree(COUNT, COUNT_SLOW)


def test_programs_with_named_counters_come_to_the_same():
    found = agree(0, COUNT_NAMED, kernels.running.NAMED)
    assert all(brief["unwatched"] == [brief[x] for x in ("ending", "fingerprint", "statistics")] for brief in found)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_programs_with_named_counters_come_to_the_same():
    agree(COUNT_NAMED, COUNT_NAMED_SLOW, kernels.running.NAMED)


# ---- traces


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> dict[str, Path]:
    """Every case recorded on each kernel: kernel → the folder of its traces."""
    folders = {kernel: tmp_path_factory.mktemp(kernel) for kernel in KERNELS}
    for process in [start(kernel, "record", str(folder), *CASES) for kernel, folder in folders.items()]:
        finish(process)
    return folders


@pytest.mark.parametrize(("ours", "theirs"), [KERNELS, KERNELS[::-1]])
def test_a_kernel_verifies_and_replays_the_traces_of_the_other(recorded, ours, theirs):
    headers = [Trace(kernels.trace_of(recorded[theirs], case)).header for case in CASES]
    assert {header["kernel"] for header in headers} == {theirs}
    assert json.loads(finish(start(ours, "check", str(recorded[theirs]), *CASES))) == {}


def test_both_kernels_record_the_same(recorded):
    """But for the kernel's name, and for the examples that run on a real clock."""
    compared = 0
    for case in CASES:
        left, right = (Trace(kernels.trace_of(recorded[kernel], case)) for kernel in KERNELS)
        if case in EXAMPLES and left.header["clock"] == "real":
            continue
        found = diff(left, right, EVERYTHING)
        assert found is not None, "the kernel is named in the header"
        assert (found.header, found.left, found.right) == ({"kernel": KERNELS}, [], []), f"{case}: {found}"
        compared += found.same
    assert compared > 20_000


def test_a_trace_that_does_not_fit_is_told(recorded, tmp_path):
    """That nothing was wrong means something only if wrong is found: one program's trace under another's name."""
    kernels.trace_of(tmp_path, "program 1").write_bytes(kernels.trace_of(recorded["native"], "program 2").read_bytes())
    assert "Divergence" in json.loads(finish(start("python", "check", str(tmp_path), "program 1")))["program 1"]
