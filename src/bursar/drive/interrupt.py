"""Handles Ctrl-C and the signal that prints a dump, while a runtime runs in the main thread.

The first Ctrl-C cancels the program, which then cleans up. The second Ctrl-C raises `KeyboardInterrupt`, at once if it
interrupts the program's code or the host's loop. If it interrupts Bursar's own code, the error waits until the end of
the poll or the beginning of the next batch: an asynchronous exception would leave Bursar's records half written. The
third Ctrl-C raises at once in any case.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from bursar.drive.coroutine import Coroutines
from bursar.drive.host import Host
from bursar.drive.program_calls import CALLS_PROGRAM
from bursar.errors import HostMisuse
from bursar.tracebacks import is_own

if TYPE_CHECKING:
    from bursar.ops.introspection import Snapshot

LOOP_MARK: Final = "__bursar_loop__"  # a module with this name contains a host's loop, which may be interrupted


class InterruptOwner(Protocol):
    """The runtime, as `Interrupts` sees it."""

    driver: Coroutines

    def _interrupted(self) -> None:
        """The first Ctrl-C."""
        ...

    def _dump(self) -> Snapshot: ...


class Interrupts:
    """The signal handlers of one runtime."""

    def __init__(self, program: InterruptOwner, host: Host, dump_signal: int | None) -> None:
        if dump_signal is not None and not hasattr(host, "run_until"):
            raise HostMisuse(
                f"dump_signal: host {host.name!r} is a guest in another library's loop, which handles the signals; "
                "print runtime.snapshot() in a signal handler of that loop"
            )
        self._program = program
        self._host = host
        self._dump_signal = dump_signal
        self._before: list[tuple[int, Any]] = []  # the handlers that ours replace, by signal
        self.count = 0

    def listen(self) -> None:
        """Install the signal handlers, if this is the main thread. `restore` must follow, also after an error."""
        if threading.current_thread() is not threading.main_thread():
            if self._dump_signal is not None:
                raise HostMisuse(
                    "dump_signal: only the main thread of a process gets signals, but this runtime runs in another"
                )
            return
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Interrupts):
            self._replace(signal.SIGINT, self._on_interrupt)
        if self._dump_signal is not None:
            self._replace(self._dump_signal, self._on_dump)

    def _replace(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._before.append((number, signal.getsignal(number)))
        signal.signal(number, handler)

    def restore(self) -> None:
        """Restore the handlers that `listen` replaced. Idempotent: a call that an exception interrupted is repeated."""
        while self._before:
            signal.signal(*self._before[-1])
            del self._before[-1]

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            self._program._interrupted()
            return
        driver = self._program.driver
        insisting, driver.aborting = driver.aborting, True
        if insisting or is_interruptible(frame):
            raise KeyboardInterrupt
        self._host.wake()  # the next batch calls `look`

    def look(self) -> None:
        """Do what the signal handler could not do where the signal arrived."""
        if self._program.driver.aborting:
            raise KeyboardInterrupt

    def _on_dump(self, number: int, frame: FrameType | None) -> None:
        """Print the dump. It runs between two lines of the program, so no error may leave it."""
        with contextlib.suppress(Exception):
            os.write(sys.stderr.fileno(), f"{self._program._dump()}\n".encode())


def is_interruptible(frame: FrameType | None) -> bool:
    """Whether an asynchronous exception may be raised in this frame: the frame belongs to the program, or to a host's
    loop between two batches."""
    innermost = frame
    while frame is not None:
        if frame.f_globals.get(LOOP_MARK):
            return True
        if frame.f_code in CALLS_PROGRAM:
            return frame is not innermost
        if is_own(frame):
            return False
        frame = frame.f_back
    return True
