"""The file behind a journal: an SQLite database in WAL mode, its tables, and the lock beside it.

The tables are made all at once, so that a file is either complete or *unborn*: not there, empty, or without any table,
as a process leaves it that was killed at that moment. What is anybody else's is never touched.

One process runs a journal at a time. It holds a lock on a file of its own beside the journal, which the kernel lets go
of when the process dies, however it does. Not on the journal itself: SQLite has locks there, and on some systems ours
would get into their way.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from bursar.errors import JournalError

try:
    import fcntl
except ImportError:  # not on Windows: there nobody is kept from running a journal twice
    fcntl = None

APPLICATION_ID: Final = 0x42555253  # "BURS": how a journal is told from any other database
SCHEMA_VERSION: Final = 1
BUSY_MS: Final = 5_000  # a reader may hold the file for a moment, when the log is folded back into it
LOCK_TRIES: Final = 5  # whoever asks `is_running` holds the lock for a moment
LOCK_NAP_S: Final = 0.02

_TABLES: Final = """
CREATE TABLE run (key TEXT NOT NULL, workflow TEXT NOT NULL, file TEXT, created REAL NOT NULL);
CREATE TABLE session (
    n INTEGER PRIMARY KEY, pid INTEGER NOT NULL, began REAL NOT NULL, ended REAL, ending TEXT
);
CREATE TABLE task (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, title TEXT NOT NULL, depends TEXT NOT NULL, digest TEXT NOT NULL,
    edition INTEGER NOT NULL DEFAULT 1, state TEXT NOT NULL DEFAULT 'pending', attempt INTEGER NOT NULL DEFAULT 0,
    result TEXT, not_kept TEXT, error TEXT, since REAL NOT NULL, reason TEXT, reason_at REAL
);
CREATE TABLE attempt (
    task TEXT NOT NULL REFERENCES task(name), n INTEGER NOT NULL, edition INTEGER NOT NULL,
    session INTEGER NOT NULL REFERENCES session(n), began REAL NOT NULL, ended REAL, ending TEXT, error TEXT,
    waits TEXT, PRIMARY KEY (task, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX completed_once ON attempt (task, edition) WHERE ending = 'ok';
CREATE UNIQUE INDEX runs_once ON attempt (task) WHERE ending IS NULL;
"""


def connect(path: Path) -> sqlite3.Connection:
    with plain_errors(path):
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            db.execute("PRAGMA synchronous=NORMAL")  # the first that looks into the file
            db.execute("PRAGMA foreign_keys=ON")
        except BaseException:
            db.close()
            raise
        return db


@contextlib.contextmanager
def plain_errors(path: Path) -> Generator[None]:
    """What SQLite says, as an error that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise JournalError(f"{path}: the journal cannot be used: {error}") from error


def make_tables(db: sqlite3.Connection, path: Path, workflow: str, file: Path | None) -> None:
    """Inside a transaction: the tables of a new journal, in a file that holds none."""
    if _is_journal(db):
        raise JournalError(
            f"{path}: the journal is there already; go on with it (bursar resume {path}, or run with --resume), or "
            "name another file"
        )
    if _holds_something(db):
        raise JournalError(f"{path}: this is a database, but no journal of Bursar; name another file")
    for statement in _TABLES.split(";"):
        db.execute(statement)
    key = secrets.token_hex(8)  # what the run's own processes are known by
    db.execute("INSERT INTO run VALUES (?, ?, ?, ?)", (key, workflow, None if file is None else str(file), time.time()))
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _holds_something(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _is_journal(db: sqlite3.Connection) -> bool:
    return db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


def require_journal(path: Path) -> None:
    """Raise unless the file is a journal that this version can read."""
    if not path.is_file():
        raise JournalError(f"{path}: there is no such journal")
    with plain_errors(path), contextlib.closing(connect(path)) as db:
        mine = _is_journal(db)
        (version,) = db.execute("PRAGMA user_version").fetchone()
    if not mine:
        raise JournalError(f"{path}: this is not a journal of Bursar, or its run was killed before it began")
    if version != SCHEMA_VERSION:
        raise JournalError(
            f"{path}: the journal has format {version}, and this version of Bursar reads {SCHEMA_VERSION}"
        )


def is_absent(path: Path) -> bool:
    """Whether there is no journal here yet, but there may be one: no file, or one whose run was killed at its birth."""
    if not path.exists():
        return True
    with plain_errors(path), contextlib.closing(connect(path)) as db:
        return not _is_journal(db) and not _holds_something(db)


def lock_of(path: Path) -> Path:
    """The file that is locked while a process runs the journal."""
    return path.with_name(path.name + ".lock")


def take_lock(path: Path) -> int | None:
    """Taken until it is closed, or the process ends."""
    if fcntl is None:
        return None
    lock = os.open(lock_of(path), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(LOCK_NAP_S)
        else:
            return lock
    os.close(lock)
    raise JournalError(f"{path}: another process is running this journal; wait for it, or stop it first")


def is_running(path: Path) -> bool:
    """Whether a process runs this journal at this moment."""
    if fcntl is None or not lock_of(path).exists():
        return False
    lock = os.open(lock_of(path), os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
