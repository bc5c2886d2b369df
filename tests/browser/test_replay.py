"""A run that was recorded in a page is replayed outside it, on another Python, event by event."""

import base64

import pytest
from browser.inside import recorded
from support.evidence import Trace

from bursar.evidence.replay import replay

RECORD = """
import base64
from pathlib import Path

from bursar import Runtime
from bursar.hosts.browser import BrowserHost
from bursar.browser import guest
from inside import recorded

runtime = Runtime(host=BrowserHost.of_page(), record="run.trace", seed=5, workers=3)
handoffs, handoff = 0, runtime.pump.host.handoff
def counted():
    global handoffs
    handoffs += 1
    handoff()
runtime.pump.host.handoff = counted
value = await guest(runtime, recorded.main)
trace = base64.b64encode(Path("run.trace").read_bytes()).decode()
counts = {"handoffs": handoffs, "batches": runtime.pump.batch}
{"value": value, "trace": trace, "fingerprint": runtime.fingerprint, **counts}
"""


def replays(backend, folder):
    there = backend.run_python(RECORD)
    file = folder / "run.trace"
    file.write_bytes(base64.b64decode(there["trace"]))
    trace = Trace(file)
    here = replay(trace, recorded.main)
    assert here.value == there["value"]
    assert here.events == sum(1 for _ in trace.events())
    assert here.fingerprint == there["fingerprint"]
    return there


def test_a_run_under_node_is_replayed_outside(node, tmp_path):
    replays(node, tmp_path)


@pytest.mark.browser
def test_a_run_in_a_page_is_replayed_outside(chromium, tmp_path):
    replays(chromium, tmp_path)


def test_it_makes_no_difference_that_batches_were_cut(node, tmp_path):
    node.run_python("import bursar.hosts.browser as b; b.SLICE_MS_MAX, b.kept = 0, b.SLICE_MS_MAX")
    try:
        there = replays(node, tmp_path)
    finally:
        node.run_python("import bursar.hosts.browser as b; b.SLICE_MS_MAX = b.kept")
    assert there["handoffs"] > 3 * there["batches"], "after every step"
