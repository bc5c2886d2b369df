"""The types of the public face: a checker accepts the right uses, finds their types, and refuses the wrong ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

HERE = Path(__file__).parent


def diagnose(file):
    """The errors that the checker finds: {line: rule}."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", str(file)]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=WAIT_S)
    if "No module named" in done.stderr:
        pytest.skip("basedpyright is not installed")
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {entry["range"]["start"]["line"] + 1: entry["message"] for entry in found if entry["severity"] == "error"}


def test_right_uses_have_the_types_that_they_should():
    assert diagnose(HERE / "uses.py") == {}


def test_every_wrong_use_is_an_error_and_nothing_else_is():
    file = HERE / "mistakes.py"
    marked = {i for i, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# wrong")}
    found = diagnose(file)
    assert set(found) == marked, {line: found[line] for line in set(found) - marked}
