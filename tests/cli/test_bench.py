"""`bursar bench`: what it prints, what it writes, what it refuses, and what it shows after Ctrl-C."""

import json
import signal
import subprocess
from xml.etree import ElementTree

import pytest
from support.time_limits import WAIT_S

from bursar_benchmarks import cases, harness
from bursar_benchmarks.report import SCHEMA

PRESENT = [peer for peer in harness.PEERS if harness.installed(peer)]
ROW = {"case", "peer", "unit", "size", "status", "best", "median", "ratio", "detail", "samples", "stages"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return folder / "rows.json", folder / "bars.svg"


@pytest.fixture
def measured(bursar, files):
    """One short run of one workload, for several tests."""
    rows, bars = files
    if not bars.exists():
        answer = bursar("bench", "yields", "--repeats", 1, "--json", rows, "--plot", bars)
        assert answer.returncode == 0, answer.stderr
        (rows.parent / "printed").write_text(answer.stdout, encoding="utf-8")
        (rows.parent / "told").write_text(answer.stderr, encoding="utf-8")
    return rows.parent


def test_the_table_names_the_machine_the_workloads_and_the_peers(measured):
    printed = (measured / "printed").read_text(encoding="utf-8")
    for fact in ("cpu", "cores", "memory", "os", "python", "kernel"):
        assert fact in printed
    assert "yield, 2 tasks" in printed
    assert "yield, 1,000 tasks" in printed
    heading = next(line for line in printed.splitlines() if line.strip().startswith("workload"))
    assert heading.split() == ["workload", "unit", *(peer for peer in PRESENT if peer != "gather")]


def test_a_selection_runs_nothing_else(measured):
    told = (measured / "told").read_text(encoding="utf-8").splitlines()
    assert told == ["[1/2] yield, 2 tasks", "[2/2] yield, 1,000 tasks"]


def test_the_file_has_a_row_for_every_workload_and_peer(measured):
    written = json.loads((measured / "rows.json").read_text(encoding="utf-8"))
    assert written["schema"] == SCHEMA
    assert written["complete"] is True
    assert written["machine"]["bursar"].endswith("kernel")
    names = [case.name for case in cases.WORKLOADS["yields"]]
    assert [(row["case"], row["peer"]) for row in written["rows"]] == [(n, p) for n in names for p in harness.PEERS]
    for row in written["rows"]:
        assert set(row) == ROW
        assert row["status"] == ("n/a" if row["peer"] == "gather" else "ok" if row["peer"] in PRESENT else "absent")
        assert len(row["samples"]) == (row["status"] == "ok")


def test_the_picture_has_a_bar_for_every_row_that_was_measured(measured):
    root = ElementTree.parse(measured / "bars.svg").getroot()
    bars = [shape for shape in root.iter("{http://www.w3.org/2000/svg}rect") if shape.get("class") == "bar"]
    rows = json.loads((measured / "rows.json").read_text(encoding="utf-8"))["rows"]
    assert len(bars) == sum(row["status"] == "ok" for row in rows)


def test_a_workload_that_is_not_there_is_refused(bursar):
    answer = bursar("bench", "yield")
    assert answer.returncode == 2
    assert answer.stderr == "bursar: there is no workload 'yield'; choose from yields\n"
    assert answer.stdout == ""


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(bursar, tmp_path, option):
    answer = bursar("bench", "yields", option, tmp_path / "nowhere" / "file")
    assert answer.returncode == 2
    assert "cannot be written" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="needs signals")
def test_ctrl_c_shows_what_was_measured_so_far(script, environment, tmp_path):
    """The signal comes while the second workload runs. How many samples it still takes depends on the machine."""
    rows = tmp_path / "rows.json"
    names = ["yields", "channel", "cancel", "spawn_join", "timers"]
    command = [script, "bench", *names, "--repeats", "1", "--json", rows]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        for line in running.stderr:
            if line.startswith("[2/"):  # so the first workload has ended
                running.send_signal(signal.SIGINT)
                break
        printed, told = running.communicate(timeout=WAIT_S)
    assert running.returncode == 130
    assert "stopping after this sample" in told
    assert "interrupted" in told
    assert "yield, 2 tasks" in printed
    written = json.loads(rows.read_text(encoding="utf-8"))
    assert written["complete"] is False
    found = list(dict.fromkeys(row["case"] for row in written["rows"]))
    asked = [case.name for case, _ in cases.chosen(names, quick=True)]
    assert 0 < len(found) < len(asked)
    assert found == asked[: len(found)]
