"""The journal: each transition is complete or changes nothing, and none is recorded twice. On real SQLite files."""

import contextlib
import sqlite3

import pytest
from support.journals import do, rows, states
from support.workflow import keep

from bursar import JournalError
from bursar.workflow.journal import Journal, Waited


def test_a_task_from_beginning_to_end(journal, path):
    assert journal.started("a", [Waited("waits for cpu", 1.5)]) == 1
    assert rows(path, "SELECT state, attempt FROM task WHERE name = 'a'") == [("running", 1)]
    journal.succeeded("a", keep({"x": 1}))
    assert rows(path, "SELECT state, result FROM task WHERE name = 'a'") == [("ok", '{"x": 1}')]
    assert rows(path, "SELECT n, edition, session, ending, waits FROM attempt") == [
        (1, 1, 1, "ok", '[["waits for cpu", 1.5]]')
    ]


def test_attempts_are_numbered_over_retries_and_sessions(journal, path, chain):
    assert journal.started("a") == 1
    journal.failed("a", "no")
    assert journal.started("a") == 2
    journal.cancelled("a", "stopped")
    journal.close()
    with Journal.open(path) as resumed:
        resumed.begin(chain())
        assert resumed.started("a") == 3
        resumed.succeeded("a", keep(1))
    assert rows(path, "SELECT n, session, ending, error FROM attempt") == [
        (1, 1, "failed", "no"),
        (2, 1, "cancelled", "stopped"),
        (3, 2, "ok", None),
    ]


def test_what_never_began_has_no_attempt(journal, path):
    journal.dropped("a", "too many")
    journal.cancelled("b", "dependency: a")
    assert states(path) == {"a": "dropped", "b": "cancelled", "c": "pending", "d": "pending"}
    assert rows(path, "SELECT count(*) FROM attempt") == [(0,)]


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ([], "succeeded"),
        ([], "failed"),
        (["started"], "started"),
        (["started"], "dropped"),
        (["started", "succeeded"], "started"),
        (["started", "succeeded"], "succeeded"),
        (["started", "succeeded"], "failed"),
        (["started", "succeeded"], "cancelled"),
        (["started", "failed"], "succeeded"),
        (["started", "cancelled"], "started"),
        (["dropped"], "started"),
    ],
)
def test_a_transition_that_may_not_be_changes_nothing(journal, path, before, step):
    def go(what):
        values = {"started": (), "succeeded": (keep(1),)}
        getattr(journal, what)("a", *values.get(what, ("why",)))

    for what in before:
        go(what)
    was = rows(path, "SELECT * FROM task"), rows(path, "SELECT * FROM attempt")
    with pytest.raises(JournalError, match="task 'a' cannot become"):
        go(step)
    assert (rows(path, "SELECT * FROM task"), rows(path, "SELECT * FROM attempt")) == was


def test_the_database_itself_refuses_a_second_completion(journal, path):
    do(journal, "a")
    with contextlib.closing(sqlite3.connect(path)) as db:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO attempt (task, n, edition, session, began, ending) VALUES ('a', 2, 1, 1, 0, 'ok')")
        db.execute("INSERT INTO attempt (task, n, edition, session, began) VALUES ('b', 1, 1, 1, 0)")
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO attempt (task, n, edition, session, began) VALUES ('b', 2, 1, 1, 0)")


def test_reasons_are_those_of_the_moment(journal, path):
    journal.waiting([("b", "waits for 1 task"), ("c", "is short of cpu")])
    journal.waiting([("c", "is short of ram")])
    assert rows(path, "SELECT name, reason FROM task WHERE reason IS NOT NULL ORDER BY name") == [
        ("b", "waits for 1 task"),
        ("c", "is short of ram"),
    ]
    journal.started("c")
    assert rows(path, "SELECT reason, reason_at FROM task WHERE name = 'c'") == [(None, None)]


def test_a_full_disk_is_an_error_that_names_the_file(journal, path):
    journal._db.execute("PRAGMA max_page_count=1")  # less than the file has: it cannot grow
    with pytest.raises(JournalError, match=r"run\.journal: the journal cannot be used: database or disk is full"):
        do(journal, "a", "x" * 500_000)
    assert states(path)["a"] == "running"
