"""What a killed run left running is found wherever it went, and nobody else is."""

import os
import subprocess
import sys

from support.time_limits import WAIT_S

from bursar.workflow.orphan_processes import VARIABLE, end_leftovers, processes_with

KEY = "0123test-leftovers"


def test_they_are_found_wherever_they_went():
    """A child in a session of its own, whose parent is gone."""
    env = os.environ | {VARIABLE: KEY}
    line = "setsid sh -c 'sleep 1000; true' >/dev/null 2>&1 & echo started"
    said = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True)
    assert said.stdout == "started\n"
    assert processes_with(KEY)
    assert end_leftovers(KEY) >= 1
    assert processes_with(KEY) == set()


def test_nobody_else_is_touched():
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
