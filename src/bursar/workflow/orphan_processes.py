"""What a killed run left running: commands whose Bursar is gone. A resume ends them first, or they would run twice.

Every command carries the key of its run in its environment, and passes it on to whatever it starts. So they are found
by looking at the environment of all processes, whatever groups and sessions they have moved to. Linux only (`/proc`);
elsewhere, and for a process that has cleared its environment, nothing is found and nothing is done.

Rejected: the numbers of processes in the journal (by the time of a resume they may belong to somebody else), and a
signal at the death of the parent (it reaches the command, but not what the command has started).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Final

VARIABLE: Final = "BURSAR_RUN"
ROUNDS_MAX: Final = 10  # a process may fork while we look; whoever forks faster than this is not ours to stop
DEATH_S: Final = 5.0  # that a killed process may take to die: it may be in the middle of writing to a slow disk
PROC: Final = Path("/proc")


def end_leftovers(key: str) -> int:
    """Kill every process of the run but this one, and wait until they are gone. Returns how many there were."""
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
    process = os.pidfd_open(pid)  # from here on it is this one that is meant, whoever gets its number
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], DEATH_S)
    finally:
        os.close(process)


def processes_with(key: str) -> set[int]:
    """The processes of a run, as far as can be seen."""
    entry = f"{VARIABLE}={key}".encode()
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for folder in PROC.iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):  # it is gone, or not ours to look at
                    if entry in (folder / "environ").read_bytes().split(b"\0"):
                        found.add(int(folder.name))
    return found
