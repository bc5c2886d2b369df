"""`scripts/bench_m3.py`: its JSON, its exit status, and that what it measures by default is the scheduler itself."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_m3.py"
KEYS = [
    "generated_at",
    "scheduler",
    "command",
    "runs",
    "success",
    "failure",
    "success_rate",
    "latency_sec",
    "throughput_scenes_per_sec",
    "queue_wait_ms",
    "resource_budget_hits",
    "raw_runs",
]


def load():
    spec = importlib.util.spec_from_file_location("bench_m3", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bench = load()


def call(*arguments, timeout=120):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False
    )


def saying(*lines, status=0):
    """A command that prints lines and ends with a status."""
    program = (
        f"import os, sys; print({chr(10).join(lines)!r}); print(os.environ['BURSAR_SCHEDULER']); sys.exit({status})"
    )
    return f'{sys.executable} -c "{program}"'


@pytest.mark.parametrize("scheduler", ["simple", "threadpool"])
def test_it_runs_the_scheduler_itself(tmp_path, scheduler):
    """Ten tasks: a script, four pictures, four sounds and the film; of the pictures only one fits at a time."""
    out, page = tmp_path / "out.json", tmp_path / "page.md"
    ended = call("--scheduler", scheduler, "--runs", 2, "--out", out, "--scene-count", 4, "--report", page)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(out.read_text())
    assert list(found) == KEYS
    assert (found["scheduler"], found["runs"], found["success"], found["failure"]) == (scheduler, 2, 2, 0)
    assert found["success_rate"] == 1.0
    assert found["command"][1].endswith("story.py")
    assert list(found["latency_sec"]) == ["p50", "p95", "mean", "samples"]
    assert len(found["latency_sec"]["samples"]) == len(found["throughput_scenes_per_sec"]["samples"]) == 2
    assert found["queue_wait_ms"]["available"] is True
    assert found["queue_wait_ms"]["avg"] > 0
    assert found["resource_budget_hits"]["total"] >= 2 * 3
    for run in found["raw_runs"]:
        assert list(run) == ["ok", "returncode", "elapsed_sec", "queue_wait_ms", "budget_hits"]
    assert f"# {scheduler}" in page.read_text()


def test_both_schedulers_make_the_same_film():
    films = set()
    for scheduler in ("simple", "threadpool"):
        ended = subprocess.run(
            [sys.executable, SCRIPT.with_name("story.py"), "--scene-count", "2"],
            env={"BURSAR_SCHEDULER": scheduler, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert f"scheduler={scheduler}" in ended.stdout
        assert "tasks_admitted=6" in ended.stdout
        films.add(ended.stdout.split("film=")[1].split()[0])
    assert len(films) == 1


def test_what_a_command_says_of_itself(tmp_path):
    out = tmp_path / "out.json"
    command = saying("queue_wait_ms=12.5", "resource_budget_hits=3")
    assert call("--scheduler", "simple", "--runs", 3, "--out", out, "--command", command).returncode == 0
    found = json.loads(out.read_text())
    assert found["queue_wait_ms"] == {"available": True, "avg": 12.5, "samples": [12.5] * 3}
    assert found["resource_budget_hits"] == {"total": 9}


def test_a_command_that_says_nothing(tmp_path):
    out = tmp_path / "out.json"
    assert call("--scheduler", "simple", "--runs", 1, "--out", out, "--command", saying("")).returncode == 0
    assert json.loads(out.read_text())["queue_wait_ms"] == {"available": False, "avg": None, "samples": []}


@pytest.mark.parametrize("command", [saying("", status=3), "/no/such/program"])
def test_if_no_run_succeeds_the_status_is_1(tmp_path, command):
    out, page = tmp_path / "out.json", tmp_path / "page.md"
    ended = call("--scheduler", "simple", "--runs", 2, "--out", out, "--command", command, "--report", page)
    assert ended.returncode == 1
    found = json.loads(out.read_text())
    assert (found["success"], found["failure"], found["success_rate"]) == (0, 2, 0.0)
    assert found["latency_sec"] == {"p50": None, "p95": None, "mean": None, "samples": []}
    assert "0 of 2 succeeded" in page.read_text()
    assert command.split()[0] in ended.stderr


@pytest.mark.parametrize("runs", [0, -1])
def test_without_runs_the_status_is_2(tmp_path, runs):
    out = tmp_path / "out.json"
    assert call("--scheduler", "simple", "--runs", runs, "--out", out).returncode == 2
    assert not out.exists()


def test_an_unknown_scheduler_is_refused(tmp_path):
    assert call("--scheduler", "fifo", "--out", tmp_path / "out.json").returncode == 2


@pytest.mark.parametrize(
    ("samples", "share", "value"),
    [
        ([], 0.5, None),
        ([7.0], 0.95, 7.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 0.95, 3.85),
        ([1, 2, 3], 1, 3),
    ],
)
def test_percentiles_lie_between_samples_in_proportion(samples, share, value):
    assert bench.percentile(samples, share) == (value if value is None else pytest.approx(value))
