"""The folder of the journals: one file per run, which is found by its workflow, its path or its id.

The folder is `$XDG_STATE_HOME/bursar`, by default `~/.local/state/bursar`. The name of a file, without its ending, is
the id of the run. The newest `JOURNALS_MAX` journals are kept. A new run deletes older ones, unless a process runs
them.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from bursar.errors import JournalError
from bursar.workflow.database import is_running, lock_of
from bursar.workflow.journal_reader import Head, head
from bursar.workflow.model import Workflow

ENDING: Final = ".journal"
JOURNALS_MAX: Final = 100  # a few megabytes
STEM_MAX: Final = 40  # characters of the workflow's name in the name of the file


def folder() -> Path:
    """The folder of the journals. It may not exist yet."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "bursar"


def new_path(workflow: Workflow) -> Path:
    """The path of a new journal, with a name that no other run has."""
    stem = re.sub(r"[^\w-]+", "-", workflow.name, flags=re.ASCII).strip("-")[:STEM_MAX] or "workflow"
    now = datetime.datetime.now(datetime.UTC)
    return folder() / f"{stem}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}{ENDING}"


def journals() -> list[Head]:
    """Every journal of the folder, the newest run first. Other files, and incomplete journals, are left out."""
    found: list[Head] = []
    with contextlib.suppress(FileNotFoundError):
        for path in folder().iterdir():
            if path.suffix == ENDING:
                with contextlib.suppress(JournalError):
                    found.append(head(path))
    return sorted(found, key=lambda one: (one.created, one.id), reverse=True)


def find(what: str | None) -> Path:
    """The journal with this path or id, or the newest one of this workflow file; for None the newest unfinished one."""
    known = journals()
    if what is None:
        for one in known:
            if not one.finished and not is_running(one.path):
                return one.path
        raise JournalError("there is no unfinished run to resume; name a workflow file, a journal, or the id of a run")
    path = Path(what)
    if path.suffix == ".toml":
        mine = of_workflow(path)
        if mine:
            return mine[0].path
        raise JournalError(
            f"{path}: there is no journal of this workflow in {folder()}; run it first, or name a journal"
        )
    for one in known:
        if one.id == what:
            return one.path
    if path.exists():
        return path
    raise JournalError(
        f"{what}: there is no such workflow file, journal or id of a run; the journals are in {folder()}"
    )


def of_workflow(file: Path) -> list[Head]:
    """The journals of a workflow file, the newest run first."""
    resolved = file.resolve()
    return [one for one in journals() if one.file == resolved]


def prune() -> None:
    """Delete the oldest journals of the folder."""
    for one in journals()[JOURNALS_MAX:]:
        if not is_running(one.path):
            for path in (*(one.path.with_name(one.path.name + end) for end in ("-wal", "-shm")), one.path):
                with contextlib.suppress(OSError, sqlite3.Error):
                    path.unlink()
            with contextlib.suppress(OSError):
                lock_of(one.path).unlink()
