"""Metered memory, in an interpreter of its own: what other tests have allocated before would be in its way."""

import subprocess
import sys
from pathlib import Path

from support.patience import WAIT_S

CASES = Path(__file__).with_name("memory_cases.py")


def test_all_cases_pass_in_a_fresh_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, cwd=CASES.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
