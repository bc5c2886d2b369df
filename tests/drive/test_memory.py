"""Metered memory, in an interpreter of its own: what other tests have allocated before would be in its way."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

import bursar

CASES = Path(__file__).with_name("memory_cases.py")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.skipif(FREE_THREADED, reason="no meter in a free-threaded Python")
def test_all_cases_pass_in_a_fresh_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, cwd=CASES.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a GIL")
def test_it_is_refused_where_memory_is_taken_past_the_hooks():
    async def main():
        pass

    with pytest.raises(bursar.BursarError, match="free-threaded"):
        bursar.run(main, meter_memory=True)
