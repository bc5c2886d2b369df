"""Ctrl-C, and the signal that prints a dump, while a runtime runs in the main thread.

The first Ctrl-C cancels the program, which then cleans up. The second one stops it: by `KeyboardInterrupt` where the
program's own code or the host's loop is interrupted; but if it comes while Bursar itself is at work, whose books and
records a bolt from the blue would leave half written, at the end of the poll or at the beginning of the next batch. A
third one waits for nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from bursar.drive.coroutine import Coroutines
from bursar.drive.host import Host
from bursar.drive.program_calls import CALLS_PROGRAM
from bursar.errors import HostMisuse

if TYPE_CHECKING:
    from bursar.ops.introspection import Snapshot

_OURS: Final = "bursar."
LOOP_MARK: Final = "__bursar_loop__"  # a module of a host's own loop has it: that code may be interrupted


class InterruptOwner(Protocol):
    """What is interrupted: the runtime."""

    driver: Coroutines

    def interrupted(self) -> None:
        """The first Ctrl-C."""
        ...

    def snapshot(self) -> Snapshot: ...


class Interrupts:
    """What one runtime hears of signals, and does about them."""

    def __init__(self, program: InterruptOwner, host: Host, dump_signal: int | None) -> None:
        if dump_signal is not None and not hasattr(host, "run_until"):
            raise HostMisuse(
                f"dump_signal: host {host.name!r} is a guest in a loop that is not ours, and so are the signals there; "
                "have that loop print runtime.snapshot() when one comes"
            )
        self._program = program
        self._host = host
        self._dump_signal = dump_signal
        self.count = 0

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen while the block runs, if this is the thread that hears of signals."""
        if threading.current_thread() is not threading.main_thread():
            if self._dump_signal is not None:
                raise HostMisuse(
                    "dump_signal: only the main thread of a process hears of signals, and this runtime runs in another"
                )
            yield
            return
        restore: list[tuple[int, Any]] = []
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Interrupts):
            restore.append((signal.SIGINT, signal.signal(signal.SIGINT, self._on_interrupt)))
        if self._dump_signal is not None:
            restore.append((self._dump_signal, signal.signal(self._dump_signal, self._on_dump)))
        try:
            yield
        finally:
            for number, handler in reversed(restore):
                signal.signal(number, handler)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            self._program.interrupted()
            return
        driver = self._program.driver
        insisting, driver.aborting = driver.aborting, True
        if insisting or is_interruptible(frame):
            raise KeyboardInterrupt
        self._host.wake()  # to the batch that looks

    def look(self) -> None:
        """Carry out what could not be done where the signal came."""
        if self._program.driver.aborting:
            raise KeyboardInterrupt

    def _on_dump(self, number: int, frame: FrameType | None) -> None:
        """Between any two lines of the program: whatever goes wrong here must not become its problem."""
        with contextlib.suppress(Exception):
            os.write(sys.stderr.fileno(), f"{self._program.snapshot()}\n".encode())


def is_interruptible(frame: FrameType | None) -> bool:
    """Whether an error may be raised in this frame: it is the program's own, or that of a loop between two batches."""
    struck = frame
    while frame is not None:
        name: str = frame.f_globals.get("__name__", "")
        if frame.f_globals.get(LOOP_MARK):
            return True
        if frame.f_code in CALLS_PROGRAM:
            return frame is not struck
        if name.startswith(_OURS):
            return False
        frame = frame.f_back
    return True
