"""Programs that tests start in a process of their own."""

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]


def with_tests() -> dict[str, str]:
    """The environment of a program that imports what tests import: `support` among it."""
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
