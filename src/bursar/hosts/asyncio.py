"""The asyncio host: runs Bursar as a guest in an asyncio loop, such as uvloop's.

An asyncio task awaits `bursar.asyncio.run`, which runs a Bursar program in the loop of that task. A Bursar task awaits
`from_asyncio`, which waits for an asyncio object. Cancellation crosses in both directions. The side that cancels waits
until the other side has ended, so neither side leaves anything running.

ASYNCIO-1  a Bursar task that waits for an asyncio object continues only when that object is done, unless the task is
    cut (`hosts.asyncio_bridge`)
ASYNCIO-2  no asyncio code runs inside a batch, and no Bursar task runs inside an asyncio task
ASYNCIO-3  at most one drain and one wake are queued with the loop

If a callback queues a call, the loop makes the call in its next round, after it has looked at its files. So microtask
and handoff can be the same here, and the loop does its own work between two batches.

Rejected: making each Bursar task an asyncio task. asyncio would decide which of them resumes first, so there would be
no lanes, no decisions and no fingerprint. Rejected: an event loop of ours with asyncio's interface. It would be a
second asyncio, and uvicorn still could not run in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bursar.drive.pump import Pump
from bursar.errors import HostLost, HostMisuse
from bursar.hosts.asyncio_bridge import AsyncioBridge
from bursar.text import brief, counted

WAIT_S_MAX: Final = 3600.0  # every loop accepts this delay; if it ends too early, the pump sets the alarm again


class AsyncioHost:
    """A host for a runtime that is a guest in the running asyncio loop. Each runtime needs its own.

    Traces record its `name`. Its time is real: it is not `virtual`.
    """

    name = "asyncio"
    virtual = False

    def __init__(self) -> None:
        self.asyncio_loop = running_loop("an AsyncioHost was made")
        self.bridges: dict[AsyncioBridge, None] = {}  # the waits of Bursar tasks for asyncio objects
        self.coroutines: set[Coroutine[Any, Any, Any]] = set()  # coroutines that run for such waits
        self.context = contextvars.copy_context()  # of every callback, so that no task sees the variables of another
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self._start_ns = 0
        self._soon: asyncio.Handle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns: int | None = None
        self._waking = False
        self._watched: set[tuple[int, bool]] = set()

    def open(self, pump: Pump) -> None:
        """The run begins."""
        if running_loop("a guest of asyncio was started") is not self.asyncio_loop:
            raise HostMisuse(
                "an AsyncioHost was made in one asyncio loop and started in another; make it where it runs"
            )
        if self._pump is not None:
            raise HostMisuse("this AsyncioHost drives another run already; give each run a host of its own")
        self._pump = pump
        self._start_ns = time.monotonic_ns()

    def close(self) -> None:
        """The run is over: make no more calls, and release all resources."""
        self._pump = None
        self.alarm(None)
        if self._soon is not None:
            self._soon.cancel()
        if self.asyncio_loop.is_closed():
            return  # a closed loop watches no files and runs no tasks
        for fd, write in list(self._watched):
            self.unwatch(fd, write)
        for bridge in list(self.bridges):
            bridge.abandon()

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self._start_ns

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes."""
        return os.urandom(size)

    # ---- calls back

    def microtask(self) -> None:
        """Drain the pump in the next round of the loop. A handoff is the same here."""
        if self.asyncio_loop.is_closed():
            self._lost()
        elif self._soon is None:  # ASYNCIO-3
            self._soon = self.asyncio_loop.call_soon(self._drain, context=self.context)

    handoff = microtask

    def alarm(self, deadline_ns: int | None) -> None:
        """Replace the alarm; None removes it."""
        if deadline_ns == self._alarm_ns:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_ns = None, deadline_ns
        if deadline_ns is not None:
            delay = min(max(0.0, (deadline_ns - self.now_ns()) / 1e9), WAIT_S_MAX)
            self._alarm = self.asyncio_loop.call_later(delay, self._rang, context=self.context)

    def wake(self) -> None:
        """Drain the pump soon. Safe from any thread and from signal handlers."""
        if self._pump is None or self._waking:  # ASYNCIO-3
            return
        self._waking = True
        try:
            self.asyncio_loop.call_soon_threadsafe(self._wake, context=self.context)
        except RuntimeError:  # the loop is closed
            self._lost()

    def _drain(self) -> None:
        self._soon = None
        if self._pump is not None:
            self._pump.drain()

    def _wake(self) -> None:
        self._waking = False  # before the drain: a later post must wake the loop again
        if self._soon is None:
            self._drain()

    def _rang(self) -> None:
        self._alarm = self._alarm_ns = None
        if self._pump is not None and self._soon is None:
            self._pump.rang()

    def _lost(self) -> None:
        """The loop is closed: no batch runs now, and none can run later. Stop the run."""
        if self._pump is not None:
            tasks = counted(len(self._pump.kernel.tasks), "task")
            self._pump.stop(HostLost(f"the asyncio loop was closed while {tasks} lived; end the Bursar program first"))

    # ---- files

    def watch(self, fd: int, write: bool, ready: Callable[[], None]) -> None:
        """Call `ready` once when `fd` can be read, or written with `write`."""

        def once() -> None:
            self.unwatch(fd, write)
            ready()

        try:
            (self.asyncio_loop.add_writer if write else self.asyncio_loop.add_reader)(fd, once)
        except RuntimeError as refusal:  # a transport uses the file, or the loop watches none (NotImplementedError)
            raise ValueError(f"asyncio cannot watch file {fd}: {brief(refusal) or type(refusal).__name__}") from None
        self._watched.add((fd, write))

    def unwatch(self, fd: int, write: bool) -> None:
        """Forget a watch. Idempotent."""
        if (fd, write) in self._watched:
            self._watched.remove((fd, write))
            with contextlib.suppress(OSError):  # the file was closed: the loop watches it no longer
                (self.asyncio_loop.remove_writer if write else self.asyncio_loop.remove_reader)(fd)


def running_loop(what: str) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise HostMisuse(
            f"{what} where no asyncio loop runs; write `async def start(): await bursar.asyncio.run(main)` "
            "and call asyncio.run(start())"
        ) from None
