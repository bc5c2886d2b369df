"""Journals of workflows, written and looked at from outside, by plain SQL."""

import contextlib
import sqlite3

from support.workflow import Journal, keep


def rows(path, query, *values):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(query, values).fetchall()


def states(path):
    return dict(rows(path, "SELECT name, state FROM task"))


def do(journal, name, value=1):
    """A task from its start to its good end."""
    journal.started(name)
    journal.succeeded(name, keep(value))


def resumed(path, workflow, *again):
    """What a new session finds."""
    with Journal.open(path) as journal:
        return journal.begin(workflow, again)
