"""Virtual time: it passes only when no task is runnable, and then at once.

The time jumps to the next deadline, so a run takes no longer than its work. The whole schedule is a function of the
program, the seed, the number of workers and the budgets. `VirtualHost` is a loop with such a clock and nothing else.
`VirtualClock` replaces the clock of another host: the loop of that host drives the pump, and tasks can wait for its
files, but its time is not used.

While a task waits for something outside (a socket, another thread), virtual time does not pass, because it is unknown
how long that takes. A wait for a signal does not stop virtual time: the signal may never come, and then no timer would
ever fire.
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
    """A host with virtual time and a simple loop. It has no files."""

    name = "virtual"
    virtual = True

    def __init__(self) -> None:
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self._now_ns = 0
        self._alarm_ns: int | None = None
        self._calls = False
        # Not an Event: a signal handler or a destructor may call `wake` inside `wake`, and only `put` is reentrant.
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

    handoff = microtask  # this loop has no other work

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
    """Another host, with its clock replaced."""

    virtual = True

    def __init__(self, host: Host) -> None:
        self.name = f"{host.name}, virtual clock"
        self._host = host
        self._now_ns = 0

    def __getattr__(self, name: str) -> Any:
        """Everything but the time comes from the other host: its queues, its files, its loop."""
        return getattr(self._host, name)

    def now_ns(self) -> int:
        return self._now_ns

    def alarm(self, deadline_ns: int | None) -> None:
        """The pump sets an alarm only if no task is runnable or waits for something outside, so the time jumps now."""
        if deadline_ns is not None:
            self._now_ns = max(self._now_ns, deadline_ns)
            self._host.handoff()
