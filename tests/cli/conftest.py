"""What the tests of the command line share: the installed `bursar` script, run as a user runs it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

Completed = subprocess.CompletedProcess[str]


@pytest.fixture
def script() -> Path:
    """The console script beside the interpreter that runs the tests."""
    found = Path(sys.executable).parent / "bursar"
    assert found.exists(), "the package is not installed in this environment"
    return found


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of the tests, without the variables that change the output."""
    kept = {key: value for key, value in os.environ.items() if key not in {"BURSAR_KERNEL", "FORCE_COLOR"}}
    return kept | {"NO_COLOR": "1", "COLUMNS": "120"}


@pytest.fixture
def bursar(script: Path, environment: dict[str, str], tmp_path: Path) -> Callable[..., Completed]:
    """Run `bursar` with the given arguments, in an empty folder."""

    def call(*args: object, **variables: str) -> Completed:
        return subprocess.run(
            [script, *map(str, args)],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    return call
