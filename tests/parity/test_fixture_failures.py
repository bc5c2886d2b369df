"""A fixture that fails: it is found out on both kernels and in the browser, what it leaves behind is complete, and the
command in it makes the failure happen again."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from browser.harness import need
from parity import artifacts, fixture
from parity.failures import (
    PLANT_C,
    PLANT_PYTHON,
    doctored,
    paste,
    planted_checkout,
    planted_library,
    run_planted,
)
from support.evidence import file_format
from support.kernel import KERNEL_VARIABLE, NATIVE

_, STREAK, _, _, _, _, LATE, _, _ = fixture.IDS
PREFIX = f"{KERNEL_VARIABLE}={'native' if NATIVE else 'python'} "


def read(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def events(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def limits(log: list[dict]) -> set[int]:
    return {event["cancel_streak_limit"] for event in log if event["event"] == "scheduler_step_decision"}


# ---- a wrong expectation


def test_a_failure_leaves_everything_behind_and_its_command_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path / "first"))
    _, found, told = fixture.check(path := doctored(LATE, tmp_path))
    assert f"- decision_fingerprint {'0' * 16}" in told
    left = read(tmp_path / "first" / LATE)
    assert json.loads(left["failure.json"]) == {
        "contract": file_format.CONTRACT,
        "fixture": LATE,
        "scenario": LATE,
        "seed": 7,
        "command": f"{PREFIX}{fixture.COMMAND} {path}",
    }
    assert events(left["native.jsonl"]) == found.log
    assert len(events(left["expected.jsonl"])) == len(found.expected["key_events"]) - 1
    assert left["difference.txt"].splitlines() == told

    again = paste(left["reproduce.sh"], tmp_path / "second")
    assert again.returncode == 1, again.stderr
    assert again.stdout.splitlines()[-1] == f"FAIL {LATE}"
    assert read(tmp_path / "second" / LATE) == left


def test_a_script_that_stops_early_leaves_its_events_behind(tmp_path, monkeypatch):
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    path = doctored(LATE, tmp_path)
    wrong = fixture.load(path)
    wrong["script"][-2:] = [["ring"]]
    path.write_text(json.dumps(wrong), encoding="utf-8")
    _, _, told = fixture.check(path)
    assert told[0] == 'ScriptError: operation 12, ["ring"]: ring: no alarm is set'
    assert len(events(read(tmp_path / LATE)["native.jsonl"])) > 50


def check_browser_failure(backend, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(artifacts.VARIABLE, str(directory))
    path, name = doctored(LATE, directory), backend.name
    _, found, told = fixture.check(path, backend)
    assert f"- decision_fingerprint {'0' * 16}" in told
    left = read(directory / f"{LATE}.{name}")
    assert left.keys() == {
        *("failure.json", "difference.txt", "reproduce.sh"),
        *("expected.jsonl", "native.jsonl", f"{name}.jsonl"),
    }
    assert events(left["native.jsonl"]) == events(left[f"{name}.jsonl"]) == found.log, "the law did not change"
    assert left["difference.txt"].splitlines() == told
    assert json.loads(left["failure.json"])["command"] == f"{PREFIX}{fixture.COMMAND} --on {name} {path}"


def test_a_failure_under_node_leaves_both_logs(inside_node, tmp_path, monkeypatch):
    check_browser_failure(inside_node, tmp_path, monkeypatch)


@pytest.mark.browser
def test_a_failure_in_chromium_leaves_both_logs(inside_chromium, tmp_path, monkeypatch):
    check_browser_failure(inside_chromium, tmp_path, monkeypatch)


def test_no_answer_from_a_backend_is_a_failure_with_artifacts(tmp_path, monkeypatch):
    class Lost:
        name = "node"

        def run_python(self, source):
            raise EOFError("node ended")

    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    _, _, told = fixture.check(fixture.path_of(LATE), Lost())
    assert told[0] == "EOFError: node ended"
    left = read(tmp_path / f"{LATE}.node")
    assert events(left["native.jsonl"])
    assert left["node.jsonl"] == ""


# ---- a changed law


def planted(kernel: str, directory: Path) -> str:
    """The code that changes the law of this kernel."""
    if kernel == "python":
        return PLANT_PYTHON
    if importlib.util.find_spec("bursar._native") is None or shutil.which("cc") is None:
        pytest.skip("there is no native kernel, or no C compiler")
    return PLANT_C.format(library=str(planted_library(directory)))


@pytest.mark.parametrize("kernel", ["python", "native"])
def test_a_change_of_the_law_fails_the_fixture(kernel, tmp_path):
    ran = run_planted(planted(kernel, tmp_path), kernel, STREAK, tmp_path / "artifacts")
    assert ran.returncode == 1, ran.stderr
    told = ran.stdout.splitlines()
    assert told[-1] == f"FAIL {STREAK}"
    assert '-"16 × cancel: victim (limit 16)"' in told
    assert '+"8 × cancel: victim (limit 8)"' in told
    left = read(tmp_path / "artifacts" / STREAK)
    assert limits(events(left["native.jsonl"])) == {8}
    assert f"{KERNEL_VARIABLE}={kernel} " in left["reproduce.sh"]


def check_changed_law(name: str, directory: Path) -> None:
    """With a changed law/decide.py all nine fail in there, and the command that one of them left fails again."""
    root = planted_checkout(directory)
    ran = paste(f"{fixture.COMMAND} --on {name}", directory / "first", root)
    assert ran.returncode == 1, ran.stderr
    assert [line for line in ran.stdout.splitlines() if line[:4] in ("PASS", "FAIL")] == [
        f"FAIL {id}" for id in fixture.IDS
    ]
    assert {folder.name for folder in (directory / "first").iterdir()} == {f"{id}.{name}" for id in fixture.IDS}
    left = read(directory / "first" / f"{STREAK}.{name}")
    assert limits(events(left[f"{name}.jsonl"])) == {8}
    assert limits(events(left["native.jsonl"])) <= {8, 16}
    assert '+"8 × cancel: victim (limit 8)"' in left["difference.txt"].splitlines()

    again = paste(left["reproduce.sh"], directory / "second", root)
    assert again.returncode == 1, again.stderr
    assert again.stdout.splitlines()[-1] == f"FAIL {STREAK}"
    assert read(directory / "second" / f"{STREAK}.{name}") == left


def test_a_change_of_the_law_fails_under_node_and_its_command_fails_again(tmp_path):
    need("node", "pyodide")
    check_changed_law("node", tmp_path)


@pytest.mark.browser
def test_a_change_of_the_law_fails_in_chromium_and_its_command_fails_again(tmp_path):
    need("pyodide", "playwright", "chromium")
    check_changed_law("chromium", tmp_path)
