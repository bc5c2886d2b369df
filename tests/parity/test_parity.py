"""The five scenarios on every host, each beside the virtual one: equal outcomes, phases, obligations, fingerprints.

The last tests show that a difference is found, that what it leaves behind is complete, and that the command in it
makes the failure happen again.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from parity import artifacts, compare, fixture, running
from parity.scenarios import SCENARIOS
from support.hosts import BURST_MAX
from support.time_limits import WAIT_S

ROOT = Path(__file__).parents[2]
CLOCKS = ("", ", virtual clock")
NEEDED = {  # what each scenario must bring about, or it shows nothing
    "cancel_pressure": {"cancel_delivered": 200, "obligation_settled": 25, "scheduler_host_handoff": 3},
    "timer_race": {"timer_fired": 4, "timer_disarmed": 3, "stale_wake": 2, "cancel_delivered": 3},
    "wake_storm": {"outside": 3 * BURST_MAX, "stale_wake": 20, "obligation_settled": 20, "scheduler_host_handoff": 2},
    "yield_heavy": {"scheduler_step_decision": 1500, "scheduler_host_handoff": 5},
    "denied_callback": {"capability_denied": 8, "outside": 2, "timer_armed": 1},
}

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)
both_clocks = pytest.mark.parametrize("clock", CLOCKS, ids=["real", "virtual"])


@every_scenario
def test_a_scenario_brings_about_what_it_is_for(scenario):
    log = compare.run_here(scenario, "virtual")["log"]
    counted = {name: sum(event["event"] == name for event in log) for name in NEEDED[scenario]}
    assert all(counted[name] >= least for name, least in NEEDED[scenario].items()), counted
    assert all(event.keys() >= fixture.MANDATORY for event in log)


def test_wakes_are_merged_within_a_batch_and_stale_after_it():
    log = compare.run_here("wake_storm", "virtual")["log"]
    notices = [event["notice"] for event in log if event["event"] == "task_woken"]
    assert notices.count("merged") >= 100, "duplicates of one batch are merged"


@both_clocks
@every_scenario
def test_native(scenario, clock):
    assert not compare.compare(scenario, f"native{clock}")


@both_clocks
@every_scenario
def test_asyncio(scenario, clock):
    assert not compare.compare(scenario, f"asyncio{clock}")


@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")
@both_clocks
@every_scenario
def test_uvloop(scenario, clock):
    assert not compare.compare(scenario, f"uvloop{clock}")


@both_clocks
@every_scenario
def test_node(scenario, clock, inside_node):
    assert not compare.compare(scenario, f"node{clock}", inside_node)


@pytest.mark.browser
@both_clocks
@every_scenario
def test_chromium(scenario, clock, inside_chromium):
    assert not compare.compare(scenario, f"chromium{clock}", inside_chromium)


# ---- differences


@pytest.mark.parametrize("field", compare.COMPARED)
def test_each_compared_part_counts(field):
    left = compare.run_here("timer_race", "virtual")
    assert compare.different(left, left) == []
    assert compare.different(left, {**left, field: "something else"}) == [field]


def test_a_difference_leaves_everything_behind_and_its_command_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path / "first"))
    told = compare.compare("host_sensitive", "native")
    assert "decision_fingerprint" in told[0]
    (folder,) = (tmp_path / "first").iterdir()
    about = json.loads((folder / "failure.json").read_text())
    assert (about["fixture"], about["scenario"], about["seed"]) == (
        "parity.host_sensitive.native",
        "host_sensitive",
        16,
    )
    logs = [(folder / f"{side}.jsonl").read_text().splitlines() for side in ("virtual", "native")]
    assert all(json.loads(log[0])["event"] == "task_spawned" for log in logs)
    assert len(logs[0]) > len(logs[1])
    assert "they part at number" in (folder / "difference.txt").read_text()

    again = repeat(folder / "reproduce.sh", tmp_path / "second")
    assert again.returncode == 1
    assert "FAIL host_sensitive on native" in again.stdout
    (second,) = (tmp_path / "second").iterdir()
    assert (second / "difference.txt").read_text() == (folder / "difference.txt").read_text()


def repeat(script: Path, directory: Path) -> subprocess.CompletedProcess:
    """Paste a command into a shell, at the root of the checkout."""
    command = script.read_text().replace(".venv/bin/python", sys.executable)  # the tests may run in another one
    environment = {**os.environ, artifacts.VARIABLE: str(directory)}
    return subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WAIT_S
    )


def test_the_command_compares_all_scenarios(capsys):
    assert compare.main(["all", "native, virtual clock"]) == 0
    passed = [f"PASS {scenario} on native, virtual clock" for scenario in SCENARIOS]
    assert capsys.readouterr().out.splitlines() == passed


def test_an_unknown_host_is_refused_by_name():
    with pytest.raises(SystemExit, match="no host 'telegraph'; the hosts are: native"):
        compare.run_here("timer_race", "telegraph")


def test_the_first_difference_is_shown_with_what_surrounds_it():
    left, right = list(range(10)), [0, 1, 2, 3, 4, 99]
    told = artifacts.first_difference(left, right, ("a", "b"))
    assert told == [
        "a has 10 events, b has 6; they part at number 5",
        *["  2", "  3", "  4"],
        *["- 5", "- 6", "- 7"],
        "+ 99",
    ]
    assert artifacts.first_difference([1], [1, 2], ("a", "b"))[-2:] == ["- (the end)", "+ 2"]
    assert artifacts.first_difference(left, left, ("a", "b")) == []


def test_the_short_fingerprint_is_the_one_of_the_events():
    for case in ("program 3", "program 8", "wake_storm"):
        whole = compare.run_here(case, "virtual")
        decisions, events, *_ = running.brief(case, None)
        assert (decisions, events) == (whole["decision_fingerprint"], whole["event_fingerprint"])
