"""The journal: transitions, sessions, editions, and that nothing is on record twice; on real SQLite files."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from textwrap import dedent

import pytest

from bursar.errors import JournalError, WorkflowError
from bursar.workflow import Workflow
from bursar.workflow.database import is_running, is_unborn, lock_of, require_journal
from bursar.workflow.journal import Journal, Waited
from bursar.workflow.values import keep


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.journal"


@pytest.fixture
def journal(path, chain):
    """A new one, in its first session."""
    with Journal.create(path, chain()) as journal:
        journal.begin(chain())
        yield journal


def rows(path, query, *values):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(query, values).fetchall()


def states(path):
    return dict(rows(path, "SELECT name, state FROM task"))


def do(journal, name, value=1):
    journal.started(name)
    journal.succeeded(name, keep(value))


def again(path, workflow, *names):
    """What a resume finds."""
    with Journal.open(path) as journal:
        return journal.begin(workflow, names)


# ---- transitions


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


# ---- resuming


def test_a_resume_finds_results_and_leaves_the_rest_to_run(journal, path, chain):
    do(journal, "a", {"x": (1, 2)})
    journal.started("d")
    journal.failed("d", "no")
    journal.end("failed")
    journal.close()
    plan = again(path, chain())
    assert plan.results == {"a": {"x": [1, 2]}}
    assert plan.seconds["a"] >= 0
    assert (plan.again, plan.lost) == ({}, [])
    assert states(path) == {"a": "ok", "b": "pending", "c": "pending", "d": "pending"}


def test_what_was_running_is_lost_and_runs_again(journal, path, chain):
    journal.started("a")
    journal.started("d")
    journal.close()  # without `end`: as if killed
    plan = again(path, chain())
    assert plan.lost == [("a", 1), ("d", 1)]
    assert rows(path, "SELECT task, ending FROM attempt ORDER BY task") == [("a", "lost"), ("d", "lost")]
    assert rows(path, "SELECT n, ending FROM session") == [(1, "killed"), (2, None)]
    assert set(states(path).values()) == {"pending"}


def test_a_changed_task_and_all_behind_it_run_again(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    plan = again(path, chain(b=1))
    assert plan.results == {"a": 1, "d": 1}
    assert plan.again == {"b": "its definition has changed", "c": "task 'b', which it depends on, runs again"}
    assert rows(path, "SELECT name, edition FROM task ORDER BY name") == [("a", 1), ("b", 2), ("c", 2), ("d", 1)]
    with Journal.open(path) as resumed:
        resumed.begin(chain(b=1))
        do(resumed, "b")
    assert rows(path, "SELECT n, edition, ending FROM attempt WHERE task = 'b'") == [(1, 1, "ok"), (2, 2, "ok")]


def test_a_change_that_was_taken_back_runs_again_too(journal, path, chain):
    do(journal, "a")
    journal.close()
    with Journal.open(path) as changed:
        changed.begin(chain(a=1))
        do(changed, "a", 2)
    assert again(path, chain()).again == {"a": "its definition has changed"}  # what it wrote is not there any more


def test_a_change_of_what_has_not_run_is_no_news(journal, path, chain):
    do(journal, "a")
    journal.close()
    plan = again(path, chain(b=1))
    assert (plan.results, plan.again) == ({"a": 1}, {})


def test_asked_for(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    assert again(path, chain(), "c").again == {"c": "it was asked for"}


def test_asked_for_what_is_not_there(journal, path, chain):
    journal.close()
    with Journal.open(path) as resumed, pytest.raises(WorkflowError, match="no task 'x' in workflow 'chain'"):
        resumed.begin(chain(), ["x"])
    assert rows(path, "SELECT count(*) FROM session") == [(1,)]  # a refused session was never there


def test_tasks_that_come_and_go(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    fewer = Workflow("chain")
    fewer.task("d", "json:dumps", args=[0])
    fewer.task("e", "json:dumps", args=[0])
    assert again(path, fewer).results == {"d": 1}
    back = again(path, chain())  # what they depend on may have changed while they were away
    assert (back.results, set(back.again)) == ({"d": 1}, set("abc"))


def uses():
    """maker → user → last: `user` uses the result of `maker`, `last` only follows."""
    w = Workflow("uses")
    maker = w.task("maker", "json:dumps", args=[0])
    w.task("user", "json:dumps", args=[maker])
    w.task("last", "json:dumps", args=[0], after=["user"])
    return w


def test_a_result_that_was_not_kept_is_made_again_if_somebody_needs_it(path):
    w = uses()
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "maker", {1, 2})
    plan = again(path, w)
    assert plan.again == {"maker": "task 'user' needs its result, which could not be kept"}
    assert plan.results == {}


def test_a_result_that_was_not_kept_and_nobody_needs_is_not_made_again(path):
    w = uses()
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "maker", {1, 2})
        do(journal, "user")
    plan = again(path, w)
    assert plan.again == {}
    assert plan.results == {"maker": None, "user": 1}


def test_one_that_is_made_again_may_need_others_that_are(path):
    w = Workflow("w")
    first = w.task("first", "json:dumps", args=[0])
    second = w.task("second", "json:dumps", args=[first])
    w.task("third", "json:dumps", args=[second])
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "first", {1})
        do(journal, "second", {2})
    assert set(again(path, w).again) == {"first", "second"}


# ---- files


def test_a_journal_is_never_overwritten(journal, path, chain):
    journal.close()
    with pytest.raises(JournalError, match="the journal is there already; go on with it"):
        Journal.create(path, chain())
    assert states(path)


def test_another_database_is_left_alone(path, chain):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")
        db.commit()
    with pytest.raises(JournalError, match="no journal of Bursar"):
        Journal.create(path, chain())
    with pytest.raises(JournalError, match="not a journal of Bursar"):
        Journal.open(path)
    assert rows(path, "SELECT name FROM sqlite_master") == [("mine",)]


def test_a_file_that_is_no_database(path, chain):
    path.write_text("hello, this is text and long enough to be read as a header of a database" * 3)
    for attempt in (lambda: Journal.create(path, chain()), lambda: Journal.open(path)):
        with pytest.raises(JournalError, match="file is not a database"):
            attempt()


def test_a_journal_that_was_never_born_can_be_made(path, chain):
    assert is_unborn(path)
    path.touch()
    assert is_unborn(path)
    with pytest.raises(JournalError, match="killed before it began"):
        require_journal(path)
    Journal.create(path, chain()).close()
    assert not is_unborn(path)


def test_a_format_of_the_future(journal, path):
    journal.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(JournalError, match="has format 99"):
        Journal.open(path)


def test_no_such_journal(path):
    with pytest.raises(JournalError, match="there is no such journal"):
        Journal.open(path)
    assert not path.exists()


def test_a_folder_that_cannot_be_made(tmp_path, chain):
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="the journal cannot be made"):
        Journal.create(tmp_path / "file" / "run.journal", chain())


def test_others_may_not_read_it(journal, path):
    assert path.stat().st_mode & 0o077 == 0


def test_two_processes_cannot_run_one_journal(journal, path):
    assert is_running(path)
    with pytest.raises(JournalError, match="another process is running this journal"):
        Journal.open(path)
    journal.close()
    assert not is_running(path)
    Journal.open(path).close()


def test_the_lock_goes_with_the_process(path, chain):
    """Killed, not ended: the kernel lets go of the lock, and what was committed is there."""
    holder = dedent(f"""
        import sys
        from pathlib import Path
        from bursar.workflow import Workflow
        from bursar.workflow.journal import Journal
        from bursar.workflow.values import keep
        w = Workflow("chain")
        w.task("a", "json:dumps", args=[0])
        w.task("d", "json:dumps", args=[0])
        journal = Journal.create(Path({str(path)!r}), w)
        journal.begin(w)
        journal.started("a")
        journal.succeeded("a", keep("done"))
        journal.started("d")
        print("ready", flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert is_running(path)
        os.kill(process.pid, signal.SIGKILL)
    assert not is_running(path)
    assert lock_of(path).exists()
    plan = again(path, chain())
    assert (plan.results, plan.lost) == ({"a": "done"}, [("d", 1)])


def test_a_full_disk_is_an_error_that_names_the_file(journal, path):
    journal._db.execute("PRAGMA max_page_count=1")  # the smallest that the file already is: it cannot grow
    with pytest.raises(JournalError, match=r"run\.journal: the journal cannot be used: database or disk is full"):
        do(journal, "a", "x" * 500_000)
    assert states(path)["a"] == "running"
