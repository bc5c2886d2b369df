"""Reads a journal without running it: the states of a run, and the explanation of one task.

A reader never delays a run: the file is in WAL mode, and nothing here writes.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bursar.errors import JournalError
from bursar.workflow.database import damage, is_running, require_journal
from bursar.workflow.journal import Waited
from bursar.workflow.schema import choice


@dataclass(frozen=True, slots=True)
class Head:
    """The workflow of a journal, and how many tasks are in each state."""

    path: Path
    id: str
    workflow: str
    file: Path | None
    created: float
    states: dict[str, int]  # the number of tasks in each state

    @property
    def finished(self) -> bool:
        """Whether every task is `ok`, so that there is nothing to resume."""
        return set(self.states) <= {"ok"} and bool(self.states)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task."""

    n: int
    edition: int
    session: int
    began: float
    ended: float | None
    ending: str | None
    error: str | None
    waits: tuple[Waited, ...]
    traceback: str | None  # of a Python function that failed; an older journal has none


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task of a journal, with its attempts."""

    name: str
    title: str
    depends: tuple[str, ...]
    edition: int
    state: str
    result: Any
    not_kept: str
    error: str
    since: float
    reason: str
    reason_at: float | None
    attempts: tuple[Attempt, ...]
    blockers: tuple[tuple[str, str], ...]  # the dependencies that are not `ok`, with their states
    running: bool  # whether a process runs the journal now

    @property
    def live_state(self) -> str:
        """The state, but "interrupted" for a task that was running when its process was killed."""
        return "interrupted" if self.state == "running" and not self.running else self.state


@contextlib.contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A connection for reading that sees the journal at one moment."""
    require_journal(path)
    with damage(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only=ON")
        db.execute("BEGIN")
        yield db


def head(path: Path) -> Head:
    """The head of a journal."""
    with reading(path) as db:
        run = db.execute("SELECT * FROM run").fetchone()
        states = dict(db.execute("SELECT state, count(*) FROM task WHERE position >= 0 GROUP BY state").fetchall())
        file = None if run["file"] is None else Path(_text(run["file"]))
        return Head(path, path.stem, _text(run["workflow"]), file, float(run["created"]), states)


def _text(value: Any) -> str:
    """The value, if it is text: a damaged journal may hold anything."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is not text")
    return value


def task(path: Path, name: str) -> TaskRecord:
    """One task of the journal."""
    with reading(path) as db:
        row = db.execute("SELECT * FROM task WHERE name = ?", (name,)).fetchone()
        if row is None:
            names = [found for (found,) in db.execute("SELECT name FROM task")]
            raise JournalError(f"{path}: there is no task {name!r} in this run{choice(name, names)}")
        attempts = db.execute("SELECT * FROM attempt WHERE task = ? ORDER BY n", (name,)).fetchall()
        depends = tuple(_text(other) for other in json.loads(row["depends"]))
        states = dict(db.execute("SELECT name, state FROM task").fetchall())
        return TaskRecord(
            name,
            _text(row["title"]),
            depends,
            int(row["edition"]),
            _text(row["state"]),
            None if row["result"] is None else json.loads(row["result"]),
            _text(row["not_kept"] or ""),
            _text(row["error"] or ""),
            float(row["since"]),
            _text(row["reason"] or ""),
            None if row["reason_at"] is None else float(row["reason_at"]),
            tuple(_attempt(found) for found in attempts),
            tuple((other, _text(states.get(other, "gone"))) for other in depends if states.get(other) != "ok"),
            is_running(path),
        )


def _attempt(row: sqlite3.Row) -> Attempt:
    # An older journal has no tracebacks. A row can be asked for its columns only with `keys`.
    has_traceback = "traceback" in row.keys()  # noqa: SIM118
    return Attempt(
        int(row["n"]),
        int(row["edition"]),
        int(row["session"]),
        float(row["began"]),
        None if row["ended"] is None else float(row["ended"]),
        None if row["ending"] is None else _text(row["ending"]),
        None if row["error"] is None else _text(row["error"]),
        tuple(Waited(_text(reason), float(seconds)) for reason, seconds in json.loads(row["waits"] or "[]")),
        _text(row["traceback"]) if has_traceback and row["traceback"] is not None else None,
    )


# ---- in words


def explained(found: TaskRecord, now: float | None = None) -> str:
    """The state of a task and its reason, as a few lines of text."""
    now = time.time() if now is None else now
    lines = [f"task {found.name!r} {_state_line(found, now)}", f"  runs {found.title}"]
    if found.state == "pending" and not found.running and found.reason:
        lines.append(f"  its last known reason: it {found.reason}")
    if found.state == "pending":
        lines += [f"  waits for task {name!r}, which is {state}" for name, state in found.blockers]
    for attempt in found.attempts:
        lines += _attempt_lines(attempt, found, now)
    if found.not_kept:
        lines.append(f"  its result is not in the journal: {found.not_kept}; a resume may have to run it again")
    return "\n".join(lines)


def _state_line(found: TaskRecord, now: float) -> str:
    for_s = f"for {max(0.0, now - found.since):.1f} s"
    match found.live_state:
        case "pending" if not found.running:
            return "has not run yet, and no process runs the workflow; continue with bursar resume"
        case "pending":
            told = f"noted {max(0.0, now - found.reason_at):.1f} s ago" if found.reason_at is not None else "just now"
            return f"has been pending {for_s}: it {found.reason or 'waits for permission'} ({told})"
        case "running":
            return f"has been running {for_s}"
        case "interrupted":
            return "was running when its process was killed; a resume runs it again"
        case "ok":
            return "is done"
        case ending:
            return f"{ending}: {found.error}" if ending == "failed" else f"was {ending}: {found.error}"


def _attempt_lines(attempt: Attempt, found: TaskRecord, now: float) -> list[str]:
    took = (attempt.ended if attempt.ended is not None else now) - attempt.began
    ending = f"{attempt.ending} after" if attempt.ending else "running for" if found.running else "killed within"
    session = f", session {attempt.session}" if attempt.session > 1 else ""
    lines = [f"  attempt {attempt.n}{session}: {ending} {took:.3f} s"]
    if attempt.error and attempt.error != found.error:
        lines.append(f"    {attempt.error}")
    if attempt.traceback and attempt is found.attempts[-1]:
        lines += [f"    {line}" for line in attempt.traceback.split("\n")]
    lines += [f"    before, for {waited.seconds:.3f} s: {waited.reason}" for waited in attempt.waits]
    return lines
