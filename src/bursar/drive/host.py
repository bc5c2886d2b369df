"""Hosts: what drives the pump. A host is a small adapter around one event loop: ours, asyncio's, the browser's.

The pump (`drive.pump`) decides what happens; a host only calls it back. It is handed the pump by `open` and owes it
calls of two methods, always in the thread that opened it and never from inside another call:

    microtask   `pump.drain()`, before the loop does anything else
    handoff     `pump.drain()`, after the loop has seen to everything else that was waiting
    alarm       `pump.rang()`, at a time; there is one alarm, and setting it again replaces it
    wake        `pump.drain()`, soon, asked for by another thread or a signal handler

The time, entropy and the readiness of files come from the host as well, and from nowhere else. A host that calls back
twice, late or for no reason does no harm; one that calls from another thread is refused; one that does not call back
at all is found out when its loop returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from bursar.drive.pump import Pump


class Host(Protocol):
    """What the pump needs from its surroundings."""

    name: str  # for evidence
    virtual: bool  # its time passes only while it waits for an alarm

    def open(self, pump: Pump) -> None:
        """The run begins."""
        ...

    def close(self) -> None:
        """The run is over: call back no more, and give back whatever is held."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        ...

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes."""
        ...

    def microtask(self) -> None: ...

    def handoff(self) -> None: ...

    def alarm(self, deadline_ns: int | None) -> None:
        """Replace the alarm; None: there is none any more."""
        ...

    def wake(self) -> None:
        """Safe from any thread and from signal handlers."""
        ...


class Shared(Host, Protocol):
    """A host whose loop has others to serve, and soon: frames to draw, input to answer."""

    def overdue(self) -> bool:
        """The call that is running has taken long enough. The pump hands off, in the middle of a batch if need be."""
        ...


class Loop(Host, Protocol):
    """A host that is a loop of its own, and can be run to the end by whoever calls."""

    def run_until(self, over: Callable[[], bool]) -> None:
        """Loop until `over()`, which is asked after every call back."""
        ...


class Lender(Host, Protocol):
    """A host for whose loop another thread may stand in while it sleeps (`drive.loop_ownership`)."""

    def drive_from_thread(self, drive: Callable[[], bool]) -> bool:
        """In another thread: `drive()` in the loop's place. False: that did nothing, or it could not: wake the loop."""
        ...


class Files(Host, Protocol):
    """A host that knows when a file or a socket can be read or written."""

    def watch(self, fd: int, write: bool, ready: Callable[[], None]) -> None:
        """Call `ready` once, in the thread of the host, when `fd` can be read (or written, with `write`)."""
        ...

    def unwatch(self, fd: int, write: bool) -> None:
        """Forget a watch. Idempotent."""
        ...
