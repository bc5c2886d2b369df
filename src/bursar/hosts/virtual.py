"""Virtual time: it passes only when nothing is runnable, and then at once.

A wait jumps to its deadline, so a run takes no longer than its work, and the whole schedule is a function of program,
seed, worker count and budgets. `VirtualHost` is a loop with such a clock and nothing else. `VirtualClock` puts one on
any other host: its loop drives the pump, its files can be waited for, its time is not used. While anything outside is
awaited (a socket, another thread) virtual time stands still: it cannot know how long that takes. Not so for a signal,
which may never come: whoever waits for one on a clock that jumps would else keep every timer from ringing.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from typing import Any

from bursar.drive.host import Host
from bursar.drive.pump import Pump
from bursar.errors import HostMisuse

__bursar_loop__ = True  # between two batches an asynchronous exception may be raised here (`drive.interrupt`)


class VirtualHost:
    """A clock that jumps, and the plainest loop there is."""

    name = "virtual"
    virtual = True

    def __init__(self) -> None:
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self._now_ns = 0
        self._alarm_ns: int | None = None
        self._calls = False
        # Its `put` is reentrant, and an Event's `set` is not: a signal or the collector comes while the lock is held.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def open(self, pump: Pump) -> None:
        if self._pump is not None:
            raise HostMisuse("this VirtualHost drives another run already; give each run a host of its own")
        self._pump = pump
        self._now_ns = 0
        self._alarm_ns = None
        self._calls = False

    def close(self) -> None:
        self._pump = None

    def now_ns(self) -> int:
        return self._now_ns

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def microtask(self) -> None:
        self._calls = True

    handoff = microtask  # there is nobody else to give way to

    def alarm(self, deadline_ns: int | None) -> None:
        self._alarm_ns = deadline_ns

    def wake(self) -> None:
        self._wakes.put(None)

    def run_until(self, over: Callable[[], bool]) -> None:
        pump, wakes = self._pump, self._wakes
        assert pump is not None, "only an open host runs"
        while not over():
            while not wakes.empty():
                wakes.get()
                self._calls = True
            if self._calls:
                self._calls = False
                pump.drain()
            elif self._alarm_ns is not None:
                self._now_ns = max(self._now_ns, self._alarm_ns)
                self._alarm_ns = None
                pump.rang()
            else:
                wakes.get()
                self._calls = True


class VirtualClock:
    """Any host, with its clock replaced."""

    virtual = True

    def __init__(self, host: Host) -> None:
        self.name = f"{host.name}, virtual clock"
        self._host = host
        self._now_ns = 0

    def __getattr__(self, name: str) -> Any:
        """Everything that is not about time is the host's own affair: its queues, its files, its loop."""
        return getattr(self._host, name)

    def now_ns(self) -> int:
        return self._now_ns

    def alarm(self, deadline_ns: int | None) -> None:
        """Nothing is runnable and nothing outside is awaited: it is that late already."""
        if deadline_ns is not None:
            self._now_ns = max(self._now_ns, deadline_ns)
            self._host.handoff()
