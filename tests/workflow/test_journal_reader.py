"""Reading a journal: the states of a run, and the explanation of one task, during the run and afterwards."""

import pytest
from support.workflow import keep

from bursar import JournalError
from bursar.workflow import journal_reader as record
from bursar.workflow.journal import Waited


def said(path, name):
    found = record.task(path, name)
    return record.explained(found, now=found.since + 2)


def test_the_head(journal, path):
    journal.started("a")
    journal.succeeded("a", keep(1))
    found = record.head(path)
    assert (found.id, found.workflow, found.file) == ("run", "chain", None)
    assert found.states == {"ok": 1, "pending": 3}
    assert not found.finished
    for name in "bcd":
        journal.started(name)
        journal.succeeded(name, keep(1))
    assert record.head(path).finished


def test_a_task_that_waits(journal, path):
    journal.started("a")
    journal.waiting([("b", "waits for 1 task that it depends on")])
    lines = said(path, "b").splitlines()
    assert lines[0].startswith("task 'b' has been pending for 2.0 s: it waits for 1 task that it depends on (noted ")
    assert lines[1:] == ["  runs json:dumps", "  waits for task 'a', which is running"]


def test_a_task_that_runs(journal, path):
    journal.started("a", [Waited("is short of cpu", 0.25)])
    assert said(path, "a").splitlines() == [
        "task 'a' has been running for 2.0 s",
        "  runs json:dumps",
        "  attempt 1: running for 2.000 s",
        "    before, for 0.250 s: is short of cpu",
    ]


def test_a_task_whose_run_was_killed(journal, path):
    journal.started("a")
    journal.close()
    assert record.task(path, "a").live_state == "interrupted"
    assert "was running when its process was killed; a resume runs it again" in said(path, "a")
    assert "has not run yet, and no process runs the workflow; continue with bursar resume" in said(path, "b")


def test_what_a_task_waited_for_when_its_run_was_killed(journal, path):
    journal.started("a")
    journal.waiting([("d", "needs 1 of cpu")])
    journal.close()
    assert "  its last known reason: it needs 1 of cpu" in said(path, "d").splitlines()


def test_a_task_that_failed_twice(journal, path):
    journal.started("a")
    journal.failed("a", "ValueError: first")
    journal.started("a")
    journal.failed("a", "ValueError: second")
    lines = said(path, "a").splitlines()
    assert lines[0] == "task 'a' failed: ValueError: second"
    assert lines[2].startswith("  attempt 1: failed after 0.0")
    assert lines[3] == "    ValueError: first"
    assert lines[4].startswith("  attempt 2: failed after 0.0")


def test_ends_of_every_kind(journal, path):
    journal.cancelled("c", "dependency: task 'b' failed")
    journal.dropped("d", "drop: too many")
    journal.started("a")
    journal.succeeded("a", keep({1}))
    assert said(path, "c").startswith("task 'c' was cancelled: dependency: task 'b' failed")
    assert said(path, "d").startswith("task 'd' was dropped: drop: too many")
    assert said(path, "a").startswith("task 'a' is done")
    assert "its result is not in the journal: it is a set" in said(path, "a")


def test_a_task_that_is_not_there(journal, path):
    with pytest.raises(JournalError, match="there is no task 'aa' in this run; did you mean 'a'"):
        record.task(path, "aa")


def test_reading_changes_nothing_and_delays_no_writer(journal, path):
    with record.reading(path) as db:
        db.execute("SELECT count(*) FROM task").fetchone()
        journal.started("a")  # the writer does not wait for the reader
        assert (
            db.execute("SELECT state FROM task WHERE name = 'a'").fetchone()[0] == "pending"
        )  # the reader still sees the earlier moment
        with pytest.raises(Exception, match="readonly"):
            db.execute("UPDATE task SET state = 'ok'")
