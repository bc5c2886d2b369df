"""Traces that an earlier version recorded still verify and replay, decision for decision.

The traces in `recorded/` were recorded from the programs beside them. A new schema of traces gets new files; the old
files then show that an old schema is refused with a reason.
"""

import runpy
from pathlib import Path

import pytest
from support.evidence import Trace, replay, verify

RECORDED = Path(__file__).parent / "recorded"
FINGERPRINTS = {"families": "4e48cdbb66b054b3", "messages": "c904e88dd665ed56", "money": "92ebaa9d66b55aea"}
RESULTS = {
    "families": [6, 14, 1, 42],
    "messages": [[0, 100, 101, 102, 103], [1, 2, 3, 4, 104]],
    "money": (400, 5, "at last", 6),
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_an_earlier_trace_verifies(name):
    assert verify(Trace(RECORDED / f"{name}.trace")).fingerprint == FINGERPRINTS[name]


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_an_earlier_trace_replays(name):
    main = runpy.run_path(str(RECORDED / f"{name}.py"))["main"]
    assert replay(Trace(RECORDED / f"{name}.trace"), main).value == RESULTS[name]
