"""Kills the commands that a killed run left running. A resume does this first, or these commands would run twice.

Every command has the key of its run in its environment, and its child processes inherit it. A command may be a run
itself, whose commands then have both keys: a resume of the outer run finds them too. So a search through the
environments of all processes finds them, in any process group and session. This works on Linux only (`/proc`).
Elsewhere, and for a process that has cleared its environment, nothing is found.

Rejected: process ids in the journal; at the time of a resume, another process may have the id. A signal at the death of
the parent; it reaches the command, but not its children.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Final

VARIABLE: Final = "BURSAR_RUN"  # the keys of all runs that a process belongs to, the outermost first
SEPARATOR: Final = ":"
ROUNDS_MAX: Final = 10  # a process may fork during the search; one that forks faster than this is not stopped
DEATH_S: Final = 5.0  # for a killed process to end: it may be writing to a slow disk
PROC: Final = Path("/proc")


def keys_for_commands(key: str) -> str:
    """The value of the variable for the commands of a run: the keys of the runs around it, then its own, if it has one.
    A run without a journal has no key: no resume will look for its commands."""
    return SEPARATOR.join(found for found in (os.environ.get(VARIABLE, ""), key) if found)


def end_leftovers(key: str) -> int:
    """Kill every process of the run except this one, and wait for their ends. Returns the number of them."""
    ended: set[int] = set()
    for _ in range(ROUNDS_MAX):
        found = processes_with(key) - {os.getpid()}
        if not found:
            break
        ended |= found
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                _end(pid)
    return len(ended)


def _end(pid: int) -> None:
    process = os.pidfd_open(pid)  # from here on another process with this id is safe
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], DEATH_S)
    finally:
        os.close(process)


def processes_with(key: str) -> set[int]:
    """The ids of the processes of a run that this user may inspect."""
    name, wanted, mark = f"{VARIABLE}=".encode(), key.encode(), SEPARATOR.encode()
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for folder in PROC.iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
                    for entry in (folder / "environ").read_bytes().split(b"\0"):
                        if entry.startswith(name) and wanted in entry.removeprefix(name).split(mark):
                            found.add(int(folder.name))
    return found
