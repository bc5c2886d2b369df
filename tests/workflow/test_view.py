"""The output of a run: lines, JSON, and the live view in a terminal of a known size."""

import io
import json
import threading

import pytest
from rich.console import Console
from support.time_limits import WAIT_S
from support.workflow import Live

from bursar import Checkpoint
from bursar.workflow import Workflow
from bursar.workflow.view import Json, Plain


def fails():
    raise ValueError("no")


@pytest.fixture
def w():
    w = Workflow("film", resources={"cpu": 1})
    a = w.task("a", lambda: [1, "é"], priority=100)
    w.task("b", shell="echo hello; exit 3", after=[a], retry=1)
    w.task("c", int, after=["b"])
    return w


def without_times(line):
    at, _, rest = line.partition(" s  ")
    assert float(at) >= 0
    return rest


def test_plain(w):
    out = io.StringIO()
    view = Plain(out)
    report = w.run(listener=view)
    view.finish(report)
    events = [without_times(line).partition(" after ")[0] for line in out.getvalue().splitlines()[:6]]
    assert events == ["3 of 3 tasks to run", "a started", "a done", "b started", "b | hello", "b failed"]
    assert "b will be tried again, 1 more time at most" in out.getvalue()
    assert "b started (attempt 2)" in out.getvalue()
    assert "c cancelled: dependency: task 'b'" in out.getvalue()
    assert "\n             hello\n" in out.getvalue(), "what a failure has to say in several lines is indented"
    assert "film: 1 ok, 1 failed, 1 cancelled in" in out.getvalue()


def test_json(w):
    out = io.StringIO()
    view = Json(out)
    view.finish(w.run(listener=view))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["event"] for one in found[:3]] == ["run", "started", "ok"]
    assert found[2].items() >= {"task": "a", "attempt": 1, "result": [1, "é"]}.items()
    assert [one["detail"] for one in found if one["event"] == "output"] == ["hello", "hello"]
    assert [one["attempt"] for one in found if one["event"] == "failed"] == [1, 2]
    assert found[-1]["event"] == "summary"
    assert found[-1]["counts"] == {"ok": 1, "failed": 1, "cancelled": 1}
    assert all(one["at"] >= 0 for one in found[:-1])


def test_json_of_what_json_cannot_hold():
    out = io.StringIO()
    w = Workflow("w")
    w.task("a", lambda: {1})
    w.run(listener=Json(out))
    assert '"result": null' in out.getvalue()


class Once(Live):
    """Draws once the run has reached the states to be shown, and then lets the run continue."""

    def __init__(self, console, go, *wanted):
        super().__init__(console)
        self.go, self.wanted, self.frame = go, wanted, ""

    def tick(self, run):
        super().tick(run)
        paper = terminal(self._console.height)
        paper.print(self.draw(run))
        drawn = paper.file.getvalue()
        if not self.go.is_set() and all(word in drawn for word in self.wanted):
            self.frame = drawn
            self.go.set()


def terminal(height=30):
    return Console(file=io.StringIO(), force_terminal=True, width=100, height=height, color_system=None)


def test_live_shows_who_runs_and_who_waits_for_what():
    go = threading.Event()

    def draws(checkpoint: Checkpoint):
        checkpoint(progress=0.5)
        go.wait(WAIT_S)

    w = Workflow("film", resources={"cpu": 1})
    w.task("drawing", draws, priority=100)
    w.task("waiting", int)
    w.task("behind", int, after=["drawing"])
    console = terminal()
    view = Once(console, go, "drawing", "needs 1 of cpu", "waits for 1", "━━━━━━━━━━")
    report = w.run(listener=view)
    view.finish(report)
    assert view.frame, "nothing was shown"
    lines = view.frame.splitlines()
    assert "film" in lines[0]
    assert "1 running" in lines[0]
    assert "2 pending" in lines[0]
    assert "queued: 1 of priority 50; waiting for dependencies: 1; running: 1" in lines[1]
    assert "film: 3 ok" in console.file.getvalue()


def test_live_is_no_higher_than_the_terminal():
    go = threading.Event()
    w = Workflow("many", resources={"cpu": 1})
    for number in range(50):
        w.task(f"t{number}", go.wait, args=[60])
    view = Once(terminal(height=16), go, "more")
    assert w.run(listener=view).ok
    view.close()
    assert len(view.frame.splitlines()) <= 15
    assert "and 40 more" in view.frame


def test_live_prints_news_above():
    console = terminal()
    w = Workflow("w")
    w.task("a", shell="echo hello")
    w.task("b", fails)
    view = Live(console)
    view.finish(w.run(listener=view))
    said = console.file.getvalue()
    assert "a | hello" in said
    assert "b failed after" in said
    assert "ValueError: no" in said
