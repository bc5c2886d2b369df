"""The native host: the machine's monotonic clock, and a socket pair to be woken by.

The pair is what makes waking safe from signal handlers and from other threads: writing a byte needs no lock.
Readiness of other sockets will be waited for in the same place.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time

WAIT_S_MAX = 3600.0  # select takes no arbitrary floats; the caller looks at the clock again anyway


class NativeHost:
    """Real time."""

    def __init__(self) -> None:
        self._start_ns = time.monotonic_ns()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def wait_until(self, deadline_ns: int) -> None:
        seconds = min(max(0.0, (deadline_ns - self.now_ns()) / 1e9), WAIT_S_MAX)
        readable, _, _ = select.select([self._reader], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                while self._reader.recv(4096):
                    pass

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: a wake is pending already
            self._writer.send(b"\0")

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
