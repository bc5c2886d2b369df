"""The file of a journal: complete, not yet made, or no journal at all; and the lock beside it."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from textwrap import dedent

import pytest
from support.journals import resumed, rows, states
from support.workflow import Journal

from bursar import JournalError
from bursar.workflow import Workflow
from bursar.workflow.database import is_absent, is_running, lock_of, require_journal


def test_a_journal_is_never_overwritten(journal, path, chain):
    journal.close()
    with pytest.raises(JournalError, match="the journal exists already; continue it"):
        Journal.create(path, chain())
    assert states(path)


def test_another_database_is_left_alone(path, chain):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")
        db.commit()
    with pytest.raises(JournalError, match="but not a journal of Bursar"):
        Journal.create(path, chain())
    with pytest.raises(JournalError, match="not a journal of Bursar"):
        Journal.open(path)
    assert rows(path, "SELECT name FROM sqlite_master") == [("mine",)]


def test_a_file_that_is_no_database(path, chain):
    path.write_text("hello, this is text and long enough to be read as a header of a database" * 3)
    for attempt in (lambda: Journal.create(path, chain()), lambda: Journal.open(path)):
        with pytest.raises(JournalError, match="file is not a database"):
            attempt()
        assert not is_running(path)  # a refused process holds no lock


def test_a_journal_without_tables_can_be_made(path, chain):
    assert is_absent(path)
    path.touch()
    assert is_absent(path)
    with pytest.raises(JournalError, match="killed before the first task"):
        require_journal(path)
    Journal.create(path, chain()).close()
    assert not is_absent(path)


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
    with pytest.raises(JournalError, match="another process runs this journal"):
        Journal.open(path)
    journal.close()
    assert not is_running(path)
    Journal.open(path).close()


def test_the_lock_goes_with_the_process(path, chain):
    """After a kill, the operating system releases the lock, and the committed rows are there."""
    holder = dedent(f"""
        import sys
        from pathlib import Path
        from bursar.workflow import Workflow
        from bursar.workflow.journal import Journal
        from bursar.workflow.references import keep
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
    plan = resumed(path, chain())
    assert (plan.results, plan.lost) == ({"a": "done"}, [("d", 1)])


def test_a_folder_in_the_place_of_the_lock(tmp_path):
    w = Workflow("w")
    w.task("a", int)
    path = tmp_path / "journal"
    lock_of(path).mkdir()
    with pytest.raises(JournalError, match=r"journal\.lock: the lock of the journal cannot be opened: .*; remove it"):
        w.run(journal=path)
    assert not is_running(path)
