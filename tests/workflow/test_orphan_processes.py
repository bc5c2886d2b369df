"""The processes that a killed run left running are found, in any session, and no other processes."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

from support.time_limits import WAIT_S

from bursar.workflow.orphan_processes import VARIABLE, end_leftovers, keys_for_commands, processes_with

KEY = f"test-{os.getpid()}"  # other runs of this test must not find our processes


def test_they_are_found_wherever_they_went():
    """A child in its own session, whose parent has ended."""
    env = os.environ | {VARIABLE: KEY}
    line = "setsid sh -c 'echo started; exec >/dev/null 2>&1; sleep 1000; true' &"
    said = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True)
    assert said.stdout == "started\n"
    assert processes_with(KEY)
    assert end_leftovers(KEY) >= 1
    assert processes_with(KEY) == set()


def test_no_other_process_is_touched():
    env = os.environ | {VARIABLE: KEY + "-other"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=env) as other:
        assert end_leftovers(KEY) == 0
        assert end_leftovers(KEY + "-othe") == 0
        other.stdin.close()
        assert other.wait(WAIT_S) == 0


def test_the_run_itself_is_spared():
    code = f"from bursar.workflow.orphan_processes import end_leftovers\nprint(end_leftovers({KEY!r}))"
    env = os.environ | {VARIABLE: KEY}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert said.stdout == "0\n", said.stderr


def test_a_run_within_a_run_has_the_keys_of_both(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert keys_for_commands("") == ""
    assert keys_for_commands("outer") == "outer"
    monkeypatch.setenv(VARIABLE, "outer")
    assert keys_for_commands("") == "outer"
    assert keys_for_commands("inner") == "outer:inner"


def test_any_of_several_keys_is_found():
    env = os.environ | {VARIABLE: f"{KEY}-1:{KEY}-2:{KEY}-3"}
    for number in (1, 2, 3):
        with subprocess.Popen(["sleep", "1000"], env=env) as child:
            assert end_leftovers(f"{KEY}-{number}") == 1
            assert child.wait(WAIT_S) < 0


def test_a_resume_ends_nested_runs_sessions_and_groups(tmp_path):
    """The outer run is killed while its command, which is a run, has commands in two sessions."""
    bursar = [sys.executable, "-c", "from bursar.cli import main; main()"]
    line = "[ -e second ] && exit 0; touch second; setsid sleep 1000 & sleep 1000 & echo up; wait"
    (tmp_path / "inner.toml").write_text(f"[task.x]\nshell = {json.dumps(line)}\n")
    nested = [*bursar, "run", "--plain", "--no-journal", "inner.toml"]
    (tmp_path / "outer.toml").write_text(f"[task.o]\ncommand = {json.dumps(nested)}\n")
    first = [*bursar, "run", "--plain", "--journal", "journal", "outer.toml"]
    with subprocess.Popen(first, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert any("| up" in said for said in running.stdout)
        running.kill()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal")) as db:
        (key,) = db.execute("SELECT key FROM run").fetchone()
    assert len(processes_with(key)) >= 4  # the inner run, its shell, two sleeps
    said = subprocess.run([*bursar, "resume", "--plain", "journal"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "killed the processes that the killed run had left running" in said.stdout
    assert processes_with(key) == set()
