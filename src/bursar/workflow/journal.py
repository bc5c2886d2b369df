"""The journal of a run: one SQLite file in which every transition of every task is one transaction.

    pending ──► running ──► ok | failed | cancelled
       └──────► cancelled | dropped              failed ──► running (a retry)

A run may be killed between any two transitions. Then the file has everything up to the last transition. A resume begins
a new *session*: tasks that are `ok` stay `ok`, and all others run (again). A task whose definition has changed, and
every task that depends on it, begins a new *edition*. Within one edition a task is `ok` at most once; an index of the
database ensures this, not only this code.

The file is in WAL mode with `synchronous=NORMAL`. A committed transition is in the cache of the operating system, so a
kill of the process loses nothing, and a reader never delays the run. A power cut may lose the newest commits, but never
an older one before a newer one. Such a loss is the same as a kill at an earlier moment: a task without a record runs
again.

JOURNAL-1  a transition changes the rows of the task and of the attempt in one transaction, or it changes nothing
JOURNAL-2  attempts of a task are numbered from 1, over all sessions and editions, without gaps
JOURNAL-3  per task and edition at most one attempt is `ok`
JOURNAL-4  one process at a time writes a journal (`database.py`)
JOURNAL-5  reasons of waiting are written at most once per `REASONS_S`, and only those that changed, one row per task

Rejected: `synchronous=FULL`; a power cut would lose less, but each transition would wait a millisecond for the disk. A
log that is replayed at the start; every question would need the whole log. One file for all runs; a busy run would
delay the others, and no run could be deleted alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from bursar.errors import JournalError
from bursar.workflow.database import (
    connect,
    damage,
    is_absent,
    make_tables,
    plain_errors,
    require_journal,
    take_lock,
    upgrade,
)
from bursar.workflow.model import Workflow
from bursar.workflow.plan import Plan, begin_session
from bursar.workflow.references import Kept

REASONS_S: Final = 1.0  # JOURNAL-5: often enough for a person who looks
BEFORE: Final = {  # the states from which a task can end badly
    "failed": ("running",),
    "cancelled": ("pending", "running", "failed"),
    "dropped": ("pending",),
}
WAITS_MAX: Final = 32  # reasons of waiting that the journal keeps of one attempt


class Waited(NamedTuple):
    """Why a task waited, and how long."""

    reason: str
    seconds: float


class Journal:
    """The journal of one run, held by the process that runs it."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock
        self.session = 0
        try:
            self._db = connect(path)
        except BaseException:
            self._unlock()
            raise

    # ---- opening

    @classmethod
    def create(cls, path: Path, workflow: Workflow) -> Self:
        """Make a new journal. An existing journal is never overwritten: that raises `JournalError`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # results may be private
        except OSError as error:
            raise JournalError(
                f"{path}: the journal cannot be made: {error.strerror or error}; choose another file (--journal FILE), "
                "or run without a journal (--no-journal)"
            ) from error
        journal = cls(path, take_lock(path))
        try:
            with plain_errors(path):
                journal._db.execute("PRAGMA journal_mode=WAL")
            with journal._transaction():
                make_tables(journal._db, path, workflow.name, workflow.file)
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def key(self) -> str:
        """A random word that marks the environment of every command of this run."""
        with damage(self.path):
            return str(self._db.execute("SELECT key FROM run").fetchone()[0])

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing journal, to continue its run."""
        require_journal(path)
        journal = cls(path, take_lock(path))
        try:
            with journal._transaction():
                upgrade(journal._db)
        except BaseException:
            journal.close()
            raise
        return journal

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        with plain_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file and release its lock. SQLite merges its log into the file. May be called twice."""
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- sessions

    def begin(self, workflow: Workflow, again: Iterable[str] = ()) -> Plan:
        """Begin a new session: end the open attempts of the last one, and write the workflow as it is now."""
        with damage(self.path), self._transaction():
            self.session, plan = begin_session(self._db, workflow, list(again), time.time())
            return plan

    def end(self, ending: str) -> None:
        """Write how the session ended."""
        with self._transaction():
            self._db.execute(
                "UPDATE session SET ended = ?, ending = ? WHERE n = ?", (time.time(), ending, self.session)
            )

    # ---- transitions

    def started(self, task: str, waits: Iterable[Waited] = ()) -> int:
        """The task begins to run. Returns the number of the attempt (JOURNAL-2)."""
        at = time.time()
        with self._transaction():
            self._move(task, ("pending", "failed"), "running", at, ", attempt = attempt + 1, error = NULL")
            kept = json.dumps([tuple(waited) for waited in list(waits)[-WAITS_MAX:]])
            self._db.execute(
                "INSERT INTO attempt (task, n, edition, session, began, waits) "
                "SELECT name, attempt, edition, ?, ?, ? FROM task WHERE name = ?",
                (self.session, at, kept, task),
            )
            return self._db.execute("SELECT attempt FROM task WHERE name = ?", (task,)).fetchone()[0]

    def succeeded(self, task: str, kept: Kept) -> None:
        at = time.time()
        with self._transaction():
            self._move(task, ("running",), "ok", at, ", result = ?, not_kept = ?", (kept.json, kept.why_not or None))
            self._end_attempt(task, "ok", None, at)

    def failed(self, task: str, error: str) -> None:
        self.ended_badly(task, "failed", error)

    def cancelled(self, task: str, reason: str) -> None:
        self.ended_badly(task, "cancelled", reason)

    def dropped(self, task: str, reason: str) -> None:
        self.ended_badly(task, "dropped", reason)

    def ended_badly(self, task: str, ending: str, error: str, traceback: str = "") -> None:
        """The task failed, or was cancelled or dropped."""
        at = time.time()
        with self._transaction():
            self._move(task, BEFORE[ending], ending, at, ", error = ?", (error,))
            self._end_attempt(task, ending, error, at, traceback)

    def _move(
        self, task: str, before: tuple[str, ...], state: str, at: float, also: str, values: tuple[Any, ...] = ()
    ) -> None:
        """Change the state of a task, if its state is one of `before`. Every change of a state goes through here."""
        marks = ", ".join("?" * len(before))
        done = self._db.execute(
            f"UPDATE task SET state = ?, since = ?, reason = NULL, reason_at = NULL{also} "
            f"WHERE name = ? AND state IN ({marks})",
            (state, at, *values, task, *before),
        )
        if done.rowcount != 1:
            found = self._db.execute("SELECT state FROM task WHERE name = ?", (task,)).fetchone()
            raise JournalError(
                f"{self.path}: task {task!r} cannot become {state}: it is {found[0] if found else 'missing'}; "
                "another program has changed the journal"
            )

    def _end_attempt(self, task: str, ending: str, error: str | None, at: float, traceback: str = "") -> None:
        """End the open attempt of a task. A task that never began has none. An index checks JOURNAL-3."""
        self._db.execute(
            "UPDATE attempt SET ended = ?, ending = ?, error = ?, traceback = ? WHERE task = ? AND ending IS NULL",
            (at, ending, error, traceback or None, task),
        )

    def waiting(self, reasons: Iterable[tuple[str, str]]) -> None:
        """Write why tasks wait now, as pairs (task, reason), in one transaction (JOURNAL-5)."""
        at = time.time()
        with self._transaction():
            self._db.executemany(
                "UPDATE task SET reason = ?, reason_at = ? WHERE name = ?",
                [(reason, at, name) for name, reason in reasons],
            )


def open_journal(path: Path, workflow: Workflow, resume: bool) -> Journal:
    """The journal for a run: with `resume` the existing one, if there is one, and otherwise a new one."""
    workflow.load()  # a workflow that cannot run leaves no file
    for step in workflow.steps.values():
        step.digest()
    return Journal.open(path) if resume and not is_absent(path) else Journal.create(path, workflow)
