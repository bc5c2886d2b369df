"""The tests of inside/, under node. The same run in Chromium: see test_chromium.py."""

import pytest
from browser.harness import cases, run_case

MODULES = ("host", "promises", "running")


@pytest.mark.parametrize("case", cases(*MODULES))
def test_under_node(node, case):
    run_case(node, case)
