"""The asyncio host: Bursar as a guest in a loop of asyncio's, or uvloop's, and asyncio's things in Bursar's tasks.

`run` is awaited by an asyncio task and runs a Bursar program in its loop; `from_asyncio` is awaited by a Bursar task
and waits for something of asyncio's. Cancellation crosses both ways, and whoever cancels waits until the other side
has wound down, so neither leaves anything running behind the other's back.

ASYNCIO-1  a Bursar task that waits for asyncio goes on only when that has ended, unless the task is cut off
    (`hosts.asyncio_bridge`)
ASYNCIO-2  no code of asyncio's runs inside a batch, and no task of Bursar's inside one of asyncio's
ASYNCIO-3  at most one drain is queued with the loop

A call that is queued from inside a callback runs in the loop's next round, after it has looked at its files: that is
why microtask and handoff can be one and the same here, and why the loop always gets its turn.

Rejected: making each Bursar task an asyncio task. The order in which asyncio resumes them is its own affair, so there
would be no lanes, no decisions and no fingerprint. Also rejected: a loop of ours that speaks asyncio's interface. It
would be a second asyncio, and still none that uvicorn could be started in.
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

WAIT_S_MAX: Final = 3600.0  # loops differ in the longest delay that they take; the pump looks at the clock again anyway


class AsyncioHost:
    """A host for a runtime that is a guest in the running asyncio loop. Each runtime needs its own."""

    name = "asyncio"
    virtual = False

    def __init__(self) -> None:
        self.asyncio_loop = running_loop("an AsyncioHost was made")
        self.bridges: dict[AsyncioBridge, None] = {}  # what its tasks wait for in asyncio
        self.coroutines: set[Coroutine[Any, Any, Any]] = set()  # those among them that it started itself
        self.context = contextvars.copy_context()  # of every callback: what a task has set must not leak into another
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self._start_ns = 0
        self._soon: asyncio.Handle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns: int | None = None
        self._waking = False
        self._watched: set[tuple[int, bool]] = set()

    def open(self, pump: Pump) -> None:
        if running_loop("a guest of asyncio was started") is not self.asyncio_loop:
            raise HostMisuse(
                "an AsyncioHost was made in one asyncio loop and started in another; make it where it runs"
            )
        if self._pump is not None:
            raise HostMisuse("this AsyncioHost drives another run already; give each run a host of its own")
        self._pump = pump
        self._start_ns = time.monotonic_ns()

    def close(self) -> None:
        self._pump = None
        self.alarm(None)
        if self._soon is not None:
            self._soon.cancel()
        if self.asyncio_loop.is_closed():
            return  # there is nothing left to take back, and nobody who could end
        for fd, write in list(self._watched):
            self.unwatch(fd, write)
        for crossing in list(self.bridges):
            crossing.abandon()

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    # ---- calls back

    def microtask(self) -> None:
        if self.asyncio_loop.is_closed():
            self._lost()
        elif self._soon is None:  # ASYNCIO-3
            self._soon = self.asyncio_loop.call_soon(self._drain, context=self.context)

    handoff = microtask

    def alarm(self, deadline_ns: int | None) -> None:
        if deadline_ns == self._alarm_ns:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_ns = None, deadline_ns
        if deadline_ns is not None:
            delay = min(max(0.0, (deadline_ns - self.now_ns()) / 1e9), WAIT_S_MAX)
            self._alarm = self.asyncio_loop.call_later(delay, self._rang, context=self.context)

    def wake(self) -> None:
        if self._pump is None or self._waking:
            return
        self._waking = True
        try:
            self.asyncio_loop.call_soon_threadsafe(self._wake, context=self.context)
        except RuntimeError:  # it is closed
            self._lost()

    def _drain(self) -> None:
        self._soon = None
        if self._pump is not None:
            self._pump.drain()

    def _wake(self) -> None:
        self._waking = False  # first: whatever is posted from here on wakes again
        if self._soon is None:
            self._drain()

    def _rang(self) -> None:
        self._alarm = self._alarm_ns = None
        if self._pump is not None and self._soon is None:
            self._pump.rang()

    def _lost(self) -> None:
        """The loop is closed: no batch runs now, and none ever will."""
        if self._pump is not None:
            tasks = counted(len(self._pump.kernel.tasks), "task")
            self._pump.stop(HostLost(f"the asyncio loop was closed while {tasks} lived; end the program before it"))

    # ---- files

    def watch(self, fd: int, write: bool, ready: Callable[[], None]) -> None:
        def once() -> None:
            self.unwatch(fd, write)
            ready()

        try:
            (self.asyncio_loop.add_writer if write else self.asyncio_loop.add_reader)(fd, once)
        except RuntimeError as refusal:  # it belongs to a transport, or (NotImplementedError) this loop watches none
            raise ValueError(f"asyncio does not watch {fd}: {brief(refusal) or type(refusal).__name__}") from None
        self._watched.add((fd, write))

    def unwatch(self, fd: int, write: bool) -> None:
        if (fd, write) in self._watched:
            self._watched.remove((fd, write))
            with contextlib.suppress(OSError):  # closed meanwhile: then it is forgotten already
                (self.asyncio_loop.remove_writer if write else self.asyncio_loop.remove_reader)(fd)


def running_loop(what: str) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise HostMisuse(
            f"{what} where no asyncio loop runs; write `async def start(): await bursar.asyncio.guest.run(main)` "
            "and call asyncio.run(start())"
        ) from None
