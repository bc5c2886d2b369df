"""The processes that a killed run left running are found, in any session, and no other processes."""

import os
import subprocess
import sys

from support.time_limits import WAIT_S

from bursar.workflow.orphan_processes import VARIABLE, end_leftovers, processes_with

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
