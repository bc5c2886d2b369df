"""The virtual host: time that passes only when nothing is runnable.

A wait jumps to its deadline at once, so a run takes no longer than its work, and the whole schedule is a function of
program, seed, worker count and budgets.
"""

from __future__ import annotations


class VirtualHost:
    """A clock that jumps."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def wait_until(self, deadline_ns: int) -> None:
        self._now_ns = max(self._now_ns, deadline_ns)

    def wake(self) -> None:
        """Nothing ever waits here."""

    def close(self) -> None:
        """Nothing is held."""
