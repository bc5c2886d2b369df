"""The report: counts, exit codes, the critical path, and its text."""

from pathlib import Path

import pytest
from support.workflow import store

from bursar.workflow.summary import FAILED_SHOWN, PATH_SHOWN, Report, TaskReport


def task(name, state="ok", seconds=1.0, waited=0.0, error="", earlier=False):
    return TaskReport(name, state, 1, seconds, waited, error, None, earlier)


def report(*tasks, graph=None, seconds=4.0, stopped="", journal=None):
    graph = graph or {one.name: () for one in tasks}
    return Report("film", {one.name: one for one in tasks}, graph, seconds, stopped, journal)


DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def diamond():
    return report(task("a", seconds=1), task("b", seconds=5), task("c", seconds=2), task("d", seconds=1), graph=DIAMOND)


def test_the_critical_path():
    found = diamond()
    assert found.critical_path == ["a", "b", "d"]
    assert found.critical_seconds == 7
    assert found.work_seconds == 9


@pytest.mark.parametrize(
    ("states", "stopped", "code"),
    [
        (["ok", "ok"], "", 0),
        (["ok", "failed"], "", 1),
        (["ok", "cancelled"], "", 1),
        (["ok", "dropped"], "", 1),
        (["ok", "cancelled"], "SIGINT", 130),
        (["ok", "pending"], "SIGINT", 130),
        (["failed", "cancelled"], "SIGTERM", 143),
        (["ok", "cancelled"], "SIGHUP", 129),
        (["ok", "ok"], "SIGINT", 0),
    ],
)
def test_exit_codes(states, stopped, code):
    found = report(*(task(str(i), state) for i, state in enumerate(states)), stopped=stopped)
    assert found.exit_code == code


def test_results_are_those_of_what_is_done():
    assert set(report(task("a"), task("b", "failed")).results) == {"a"}


def test_as_it_reads():
    tasks = [task("a", seconds=1), task("b", seconds=5, waited=0.5), task("c", seconds=2), task("d", seconds=1)]
    assert str(report(*tasks, graph=DIAMOND, seconds=8)).splitlines() == [
        "film: 4 ok in 8.00 s; 9.00 s of work, 1.1 tasks at a time",
        "critical path: 7.00 s",
        "      1.00 s  a",
        "      5.00 s  b, after 0.50 s of waiting",
        "      1.00 s  d",
    ]


def test_what_was_done_earlier_is_no_work_of_this_session():
    found = report(task("a", seconds=3, earlier=True), task("b", seconds=1), graph={"a": (), "b": ("a",)})
    assert found.work_seconds == 1
    assert "2 ok (1 of them in an earlier session)" in str(found)
    assert "3.00 s  a, in an earlier session" in str(found)


def test_what_went_wrong_and_what_to_do(state):
    bad = [task(f"t{i}", "failed", error=f"error {i}\nmore") for i in range(FAILED_SHOWN + 3)]
    lines = str(report(*bad, journal=Path("/elsewhere/run.journal"))).splitlines()
    assert "t0 failed: error 0" in lines
    assert "and 3 more" in lines
    assert lines[-1] == "to continue: bursar resume /elsewhere/run.journal"
    kept = report(task("a", "dropped", error="drop: too many"), journal=store.folder() / "film-1.journal")
    assert "a dropped: drop: too many" in str(kept)
    assert str(kept).endswith("bursar resume film-1")
    assert "bursar resume" not in str(report(task("a"), journal=Path("/x/run.journal")))


def test_a_long_path_is_cut():
    names = [f"t{i}" for i in range(PATH_SHOWN + 5)]
    graph = {name: (names[i - 1],) if i else () for i, name in enumerate(names)}
    assert str(report(*map(task, names), graph=graph)).endswith("  and 5 more")


def test_for_machines():
    found = report(task("a"), task("b", "failed", earlier=False), stopped="SIGINT", journal=Path("/x/run.journal"))
    assert found.as_dict() == {
        "workflow": "film",
        "ok": False,
        "exit_code": 130,
        "stopped": "SIGINT",
        "counts": {"ok": 1, "failed": 1},
        "earlier": 0,
        "seconds": 4.0,
        "work_seconds": 2.0,
        "critical_path": ["a"],
        "critical_seconds": 1.0,
        "journal": "/x/run.journal",
    }
