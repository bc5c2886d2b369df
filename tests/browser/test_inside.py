"""The tests of inside/, under node. test_chromium.py runs them in Chromium."""

import pytest
from browser.harness import cases, run_case

MODULES = ("host", "promises", "running")


@pytest.mark.parametrize("case", cases(*MODULES))
def test_under_node(node, case):
    run_case(node, case)
