"""The journal of a run: one SQLite file in which every transition of every task is one transaction.

    pending ──► running ──► ok | failed | cancelled
       └──────► cancelled | dropped              failed ──► running (a retry)

A run may be killed between any two of these. What the file holds then is what happened up to the last transition, and
whoever resumes it starts a new *session*: tasks that are `ok` stay so, everything else runs (again). A task whose
definition has changed, and all behind it, begins a new *edition*; within one edition it is `ok` at most once, and an
index of the database sees to that, not only this code.

The file is in WAL mode with `synchronous=NORMAL`: what was committed is with the operating system, so killing the
process loses nothing, and a reader never holds up the run. A power cut may lose the last few commits, never the order
of them. That adds no case that was not there before: a task that was done a moment before the end, and is not on
record, runs again. FULL would narrow that moment to a millisecond and cost one for every transition.

JOURNAL-1  a transition changes the row of the task and that of the attempt in one transaction, or nothing
JOURNAL-2  attempts of a task are numbered from 1, over all sessions and editions, without gaps
JOURNAL-3  per task and edition at most one attempt is `ok`
JOURNAL-4  one process writes at a time (`database.py`)
JOURNAL-5  reasons of waiting are written at most once per `REASONS_S`, those that changed, one row a task

Rejected: a log that is replayed at the start (every question would need the whole of it), and one file for all runs (a
run that is busy would hold up the others, and nothing could be thrown away).
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
from bursar.workflow.database import connect, is_absent, make_tables, plain_errors, require_journal, take_lock
from bursar.workflow.model import Workflow
from bursar.workflow.plan import Plan, begin_session
from bursar.workflow.references import Kept

REASONS_S: Final = 1.0  # JOURNAL-5: as often as a person looks
WAITS_MAX: Final = 32  # reasons of waiting kept of one attempt


class Waited(NamedTuple):
    """A reason for which a task waited, and how long."""

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
        """A new journal. Refused if there is one already: nothing is ever overwritten."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # results may be private
        except OSError as error:
            raise JournalError(
                f"{path}: the journal cannot be made: {error.strerror or error}; put it elsewhere (--journal FILE), "
                "or do without (--no-journal)"
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
        """A word that stands in the environment of every command of this run, and nowhere else."""
        with plain_errors(self.path):
            return self._db.execute("SELECT key FROM run").fetchone()[0]

    @classmethod
    def open(cls, path: Path) -> Self:
        """A journal that is there, to go on with."""
        require_journal(path)
        return cls(path, take_lock(path))

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
        """Let go of the file, with the log folded back into it. Idempotent."""
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
        """A new session: settle what the last one left behind, take in the workflow as it is, and say what to do."""
        with self._transaction():
            self.session, plan = begin_session(self._db, workflow, list(again), time.time())
            return plan

    def end(self, ending: str) -> None:
        """The session is over, and whoever reads the file may know how."""
        with self._transaction():
            self._db.execute(
                "UPDATE session SET ended = ?, ending = ? WHERE n = ?", (time.time(), ending, self.session)
            )

    # ---- transitions

    def started(self, task: str, waits: Iterable[Waited] = ()) -> int:
        """It begins to run. Returns the number of the attempt (JOURNAL-2)."""
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
        self._ended_badly(task, ("running",), "failed", error)

    def cancelled(self, task: str, reason: str) -> None:
        self._ended_badly(task, ("pending", "running", "failed"), "cancelled", reason)

    def dropped(self, task: str, reason: str) -> None:
        self._ended_badly(task, ("pending",), "dropped", reason)

    def _ended_badly(self, task: str, before: tuple[str, ...], ending: str, error: str) -> None:
        at = time.time()
        with self._transaction():
            self._move(task, before, ending, at, ", error = ?", (error,))
            self._end_attempt(task, ending, error, at)

    def _move(
        self, task: str, before: tuple[str, ...], state: str, at: float, also: str, values: tuple[Any, ...] = ()
    ) -> None:
        """The one place where a state changes, and where it is checked that it may."""
        marks = ", ".join("?" * len(before))
        done = self._db.execute(
            f"UPDATE task SET state = ?, since = ?, reason = NULL, reason_at = NULL{also} "
            f"WHERE name = ? AND state IN ({marks})",
            (state, at, *values, task, *before),
        )
        if done.rowcount != 1:
            found = self._db.execute("SELECT state FROM task WHERE name = ?", (task,)).fetchone()
            raise JournalError(
                f"{self.path}: task {task!r} cannot become {state}: it is {found[0] if found else 'not there'}; "
                "the journal was changed by somebody else"
            )

    def _end_attempt(self, task: str, ending: str, error: str | None, at: float) -> None:
        """JOURNAL-3, by the index. A task that never began has no attempt to end."""
        self._db.execute(
            "UPDATE attempt SET ended = ?, ending = ?, error = ? WHERE task = ? AND ending IS NULL",
            (at, ending, error, task),
        )

    def waiting(self, reasons: Iterable[tuple[str, str]]) -> None:
        """What tasks wait for at this moment: (task, reason). One transaction for all (JOURNAL-5)."""
        at = time.time()
        with self._transaction():
            self._db.executemany(
                "UPDATE task SET reason = ?, reason_at = ? WHERE name = ?",
                [(reason, at, name) for name, reason in reasons],
            )


def open_journal(path: Path, workflow: Workflow, resume: bool) -> Journal:
    """The journal to write to: a new one, or, if that is wanted and there is one, the one that is there."""
    workflow.load()  # nothing is left behind if it cannot be run
    for step in workflow.steps.values():
        step.digest()
    return Journal.open(path) if resume and not is_absent(path) else Journal.create(path, workflow)
