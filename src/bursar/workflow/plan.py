"""The beginning of a session: it ends the open attempts of the last session, and decides which tasks run.

A task that is `ok` stays `ok`, unless its result is out of date. A result is out of date if the definition of the task
has changed, if the user asked for the task, or if the result was not kept and a task that runs needs it. Then the
results of all tasks that depend on it are out of date too. A task whose result is out of date begins a new edition. One
transaction of the journal does all of this: a session begins completely, or not at all.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from typing import Any

from bursar.errors import JournalError, WorkflowError
from bursar.workflow.graph import descendants
from bursar.workflow.model import Workflow
from bursar.workflow.schema import choice


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session begins with: the valid results, the seconds they took, and why other tasks run again."""

    results: dict[str, Any]
    seconds: dict[str, float]
    again: dict[str, str]
    lost: list[tuple[str, int]]  # (task, attempt) that were running when the last session was killed


def begin_session(db: sqlite3.Connection, workflow: Workflow, again: list[str], at: float) -> tuple[int, Plan]:
    """Begin a session inside a transaction. Returns its number and its plan."""
    for name in again:
        if name not in workflow.steps:
            hint = choice(name, workflow.steps)
            raise WorkflowError(f"there is no task {name!r} in workflow {workflow.name!r}{hint}")
    _require_same(db, workflow)
    session = db.execute("INSERT INTO session (pid, began) VALUES (?, ?)", (os.getpid(), at)).lastrowid or 0
    lost = _end_lost_attempts(db, session, at)
    reasons = _take_in(db, workflow, at)
    for name in again:
        reasons.setdefault(name, "it was asked for")
    reasons = _out_of_date(db, workflow, reasons)
    db.executemany(
        "UPDATE task SET edition = edition + 1, state = 'pending', result = NULL, not_kept = NULL WHERE name = ?",
        [(name,) for name in reasons],
    )
    db.execute("UPDATE task SET state = 'pending', since = ?, error = NULL WHERE state <> 'ok'", (at,))
    db.execute("UPDATE task SET reason = NULL, reason_at = NULL")
    results, seconds = _valid_results(db)
    return session, Plan(results, seconds, reasons, lost)


def _require_same(db: sqlite3.Connection, workflow: Workflow) -> None:
    """Raise if the journal belongs to a workflow of another name. The file of the workflow may have moved."""
    (name,) = db.execute("SELECT workflow FROM run").fetchone()
    if name != workflow.name:
        raise JournalError(f"this is the journal of workflow {name!r}, not of {workflow.name!r}; name another file")
    db.execute("UPDATE run SET file = ?", (None if workflow.file is None else str(workflow.file),))


def _end_lost_attempts(db: sqlite3.Connection, session: int, at: float) -> list[tuple[str, int]]:
    """End the attempts that are still open: their process is gone."""
    lost = db.execute("SELECT task, n FROM attempt WHERE ending IS NULL ORDER BY task").fetchall()
    db.execute("UPDATE attempt SET ending = 'lost', ended = ? WHERE ending IS NULL", (at,))
    db.execute("UPDATE session SET ending = 'killed', ended = ? WHERE ending IS NULL AND n <> ?", (at, session))
    return lost


def _take_in(db: sqlite3.Connection, workflow: Workflow, at: float) -> dict[str, str]:
    """Write the tasks as they are now. Returns the tasks that have changed, each with the reason to run again."""
    known: dict[str, str] = dict(db.execute("SELECT name, digest FROM task"))
    changed: dict[str, str] = {}
    for position, step in enumerate(workflow.steps.values()):
        digest = step.digest()
        if step.name in known and known[step.name] != digest:
            changed[step.name] = "its definition has changed"
        db.execute(
            "INSERT INTO task (name, position, title, depends, digest, since) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET position = excluded.position, title = excluded.title, "
            "depends = excluded.depends, digest = excluded.digest",
            (step.name, position, step.title, json.dumps(step.after), digest, at),
        )
    # A task that is no longer in the workflow keeps its row, without a digest. If it comes back, it counts as changed,
    # because its dependencies may have changed meanwhile.
    gone = [(name,) for name in known if name not in workflow.steps]
    db.executemany("UPDATE task SET position = -1, digest = '' WHERE name = ?", gone)
    return changed


def _out_of_date(db: sqlite3.Connection, workflow: Workflow, roots: dict[str, str]) -> dict[str, str]:
    """The tasks whose results are out of date, in order, each with the reason. `roots` are those known already."""
    done = {name for (name,) in db.execute("SELECT name FROM task WHERE state = 'ok'")}
    unkept = {name for (name,) in db.execute("SELECT name FROM task WHERE state = 'ok' AND not_kept IS NOT NULL")}
    roots = dict(roots)
    while (
        True
    ):  # a task that runs again may need a result that was not kept, so that its task runs again too, and so on
        behind = descendants(workflow.graph, roots)
        missed = {
            name: f"task {step.name!r} needs its result, which could not be kept"
            for step in workflow.steps.values()
            if step.name not in done or step.name in behind or step.name in roots
            for name in step.uses & unkept
            if name not in behind and name not in roots
        }
        if not missed:
            break
        roots |= missed
    reasons = {name: f"task {root!r}, which it depends on, runs again" for name, root in behind.items()} | roots
    return {name: reasons[name] for name in workflow.steps if name in reasons and name in done}


def _valid_results(db: sqlite3.Connection) -> tuple[dict[str, Any], dict[str, float]]:
    """The valid results, and the seconds of each."""
    results: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, result, took in db.execute(
        "SELECT name, result, ended - began FROM task JOIN attempt ON task = name AND n = attempt "
        "WHERE state = 'ok' AND position >= 0 ORDER BY position"
    ):
        results[name] = None if result is None else json.loads(result)
        seconds[name] = float(took)
    return results, seconds
