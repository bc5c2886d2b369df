"""Hosts: what drives the pump. The virtual clock and a plain loop here; asyncio and the browser are later rooms."""

from __future__ import annotations

from typing import Protocol


class Host(Protocol):
    """What a runtime needs from its surroundings: a clock, a way to wait, a way to be woken from waiting."""

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        ...

    def wait_until(self, deadline_ns: int) -> None:
        """Return at `deadline_ns`, or earlier if something happened outside."""
        ...

    def wake(self) -> None:
        """End a `wait_until` early. Safe from signal handlers and other threads."""
        ...

    def close(self) -> None:
        """Give back whatever the host holds."""
        ...
