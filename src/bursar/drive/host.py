"""Hosts: call the pump. A host is a small adapter around one event loop: Bursar's own, asyncio's, the browser's.

The pump (`drive.pump`) decides what happens; a host only calls it. `open` gives the host its pump. The host then calls
two methods of the pump, always in the thread that opened it, and never from inside another call:

    microtask   `pump.drain()`, before the loop does anything else
    handoff     `pump.drain()`, after the loop has run everything else that was waiting
    alarm       `pump.rang()`, at a time; there is one alarm, and setting it again replaces it
    wake        `pump.drain()`, soon, asked for by another thread or a signal handler

The time, entropy and the readiness of files also come from the host, and from nowhere else. A host that calls twice,
late or for no reason does no harm. A call from another thread raises `HostMisuse`. If a host never calls, the run
raises `HostLost` when the host's loop returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from bursar.drive.pump import Pump


class Host(Protocol):
    """The methods that the pump needs."""

    name: str  # for evidence
    virtual: bool  # its time passes only while it waits for an alarm

    def open(self, pump: Pump) -> None:
        """The run begins."""
        ...

    def close(self) -> None:
        """The run is over: make no more calls, and release all resources."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        ...

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes."""
        ...

    def microtask(self) -> None:
        """Drain the pump before the loop does anything else."""
        ...

    def handoff(self) -> None:
        """Drain the pump after the loop has run everything else that was waiting."""
        ...

    def alarm(self, deadline_ns: int | None) -> None:
        """Replace the alarm; None removes it."""
        ...

    def wake(self) -> None:
        """Drain the pump soon. Safe from any thread and from signal handlers."""
        ...


class Shared(Host, Protocol):
    """A host whose loop must also do other things without delay: draw frames, answer input."""

    def overdue(self) -> bool:
        """Whether the running call has taken long enough. If so, the pump hands off, even in the middle of a batch."""
        ...


class Loop(Host, Protocol):
    """A host with a loop of its own, which a caller can run to the end."""

    def run_until(self, over: Callable[[], bool]) -> None:
        """Run the loop until `over()` is True. It is called after every call of the pump."""
        ...


class Lender(Host, Protocol):
    """A host that lets another thread drive the pump while its loop sleeps (`drive.loop_ownership`)."""

    def drive_from_thread(self, drive: Callable[[], bool]) -> bool:
        """In another thread: call `drive()` in place of the loop. Returns False if the loop must be woken instead."""
        ...


class Files(Host, Protocol):
    """A host that knows when a file or a socket can be read or written."""

    def watch(self, fd: int, write: bool, ready: Callable[[], None]) -> None:
        """Call `ready` once, in the thread of the host, when `fd` can be read (or written, with `write`)."""
        ...

    def unwatch(self, fd: int, write: bool) -> None:
        """Forget a watch. Idempotent."""
        ...
