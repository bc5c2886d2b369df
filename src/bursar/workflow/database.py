"""The file behind a journal: an SQLite database in WAL mode, its tables, and the lock beside it.

One transaction makes all tables. So a journal is either complete or *absent*: there is no file, or the file is empty or
has no table, because its process was killed in that moment. A file that is no journal is never changed.

One process at a time runs a journal. It holds a lock on a separate file beside the journal. The operating system
releases the lock when the process ends for any reason.

Rejected: a lock on the journal itself. SQLite has its own locks there, and on some systems ours would disturb them.
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

from bursar.errors import BursarError, JournalError

try:
    import fcntl
except ImportError:  # Windows: there, nothing keeps two processes from one journal
    fcntl = None

APPLICATION_ID: Final = 0x42555253  # "BURS": marks a database as a journal
SCHEMA_VERSION: Final = 2  # 1 had no tracebacks
BUSY_MS: Final = 5_000  # a reader may lock the file for a moment, when SQLite merges the log into it
LOCK_TRIES: Final = 5  # a process in `is_running` holds the lock for a moment
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
    waits TEXT, traceback TEXT, PRIMARY KEY (task, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX completed_once ON attempt (task, edition) WHERE ending = 'ok';
CREATE UNIQUE INDEX runs_once ON attempt (task) WHERE ending IS NULL;
"""


def connect(path: Path) -> sqlite3.Connection:
    with plain_errors(path):
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            db.execute("PRAGMA synchronous=NORMAL")  # the first statement that reads the file
            db.execute("PRAGMA foreign_keys=ON")
        except BaseException:
            db.close()
            raise
        return db


@contextlib.contextmanager
def plain_errors(path: Path) -> Generator[None]:
    """Turn an error of SQLite, or a text that is damaged or not UTF-8, into a `JournalError` that names the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        raise JournalError(f"{path}: the journal cannot be used: {error}") from error


@contextlib.contextmanager
def damage(path: Path) -> Generator[None]:
    """Turn an error in what a journal contains, such as a text where a number belongs, into a `JournalError`."""
    try:
        with plain_errors(path):
            yield
    except BursarError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise JournalError(f"{path}: the journal is damaged: {error}; start a new run") from error


def make_tables(db: sqlite3.Connection, path: Path, workflow: str, file: Path | None) -> None:
    """Make the tables of a new journal, inside a transaction. Raise if the file has tables already."""
    if _is_journal(db):
        raise JournalError(
            f"{path}: the journal exists already; continue it (bursar resume {path}, or run with --resume), or name "
            "another file"
        )
    if _holds_something(db):
        raise JournalError(f"{path}: this is a database, but not a journal of Bursar; name another file")
    for statement in _TABLES.split(";"):
        db.execute(statement)
    key = secrets.token_hex(8)  # marks the processes of this run
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
        raise JournalError(
            f"{path}: this is not a journal of Bursar, or its run was killed before the first task; name another file"
        )
    if not 1 <= version <= SCHEMA_VERSION:
        raise JournalError(
            f"{path}: the journal has format {version}, and this version of Bursar reads 1 to {SCHEMA_VERSION}; use "
            "the version that wrote it, or start a new run"
        )


def upgrade(db: sqlite3.Connection) -> None:
    """Give an older journal the tables of this version, inside a transaction. A reader reads every version."""
    if db.execute("PRAGMA user_version").fetchone()[0] == 1:
        db.execute("ALTER TABLE attempt ADD COLUMN traceback TEXT")
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def is_absent(path: Path) -> bool:
    """Whether a new journal can be made here: no file, or a file without tables, because its process was killed."""
    if not path.exists():
        return True
    with plain_errors(path), contextlib.closing(connect(path)) as db:
        return not _is_journal(db) and not _holds_something(db)


def lock_of(path: Path) -> Path:
    """The file that is locked while a process runs the journal."""
    return path.with_name(path.name + ".lock")


def take_lock(path: Path) -> int | None:
    """Take the lock, until the returned file is closed or the process ends. Raise if another process has it."""
    if fcntl is None:
        return None
    try:
        lock = os.open(lock_of(path), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            f"{lock_of(path)}: the lock of the journal cannot be opened: {error.strerror or error}; remove it, or name "
            "another journal"
        ) from error
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(LOCK_NAP_S)
        else:
            return lock
    os.close(lock)
    raise JournalError(f"{path}: another process runs this journal; wait for its end, or stop it first")


def is_running(path: Path) -> bool:
    """Whether a process runs this journal now."""
    if fcntl is None:
        return False
    try:
        lock = os.open(lock_of(path), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # there is no lock, or something that no run can lock, such as a folder
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
