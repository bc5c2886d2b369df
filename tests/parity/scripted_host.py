"""The scripted host: a real host that calls the pump exactly when a script says so.

In a page, `scripted_page` takes its place: there the real browser host makes the calls. Both take the same orders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from support.hosts import SLICE_MS_MAX, Host, Pump

CALLS_MAX = 10_000  # a script that has not settled by then never does


class ScriptError(Exception):
    """The script asks for something that cannot be."""


class ScriptedLoop(ABC):
    """A host that waits for orders, and the orders that a script gives to the loop around it."""

    host: Host
    owed: Any  # true: the pump asked for a call

    def begin(self, pump: Pump) -> None:
        """Prepare the loop: the run begins."""
        self.pump = pump

    async def call(self) -> None:
        """Make the call that the pump asked for."""
        if not self.owed:
            raise ScriptError("call: the pump asked for none")
        await self.call_owed()

    async def settle(self) -> None:
        """Make calls until none is owed."""
        for _ in range(CALLS_MAX):
            if not self.owed:
                return
            await self.call_owed()
        raise ScriptError(f"settle: still busy after {CALLS_MAX} calls")

    @abstractmethod
    async def call_owed(self) -> None: ...

    @abstractmethod
    async def call_again(self) -> None:
        """Make the last call once more."""

    @abstractmethod
    async def ring(self) -> None:
        """Let the alarm ring, at its time or later. This call serves for the one that is owed too: the pump asks again
        if that was not enough."""

    @abstractmethod
    def jump(self, ms: int) -> None:
        """Move the clock."""

    @abstractmethod
    def reenter(self) -> None:
        """Call the pump in the middle of a poll."""

    @abstractmethod
    async def end(self) -> None:
        """Give back what is left: the run is over."""


class ScriptedHost(ScriptedLoop):
    """A host that does nothing by itself: the script says when each call is made."""

    name = "scripted"
    virtual = False

    def __init__(self) -> None:
        self.host = self
        self.clock_ns = self.since_ns = 0
        self.owed = False
        self.alarm_ns: int | None = None

    # ---- what the pump asks for

    def open(self, pump: Pump) -> None:
        """`begin` has the pump already."""

    def close(self) -> None:
        """Nothing is held."""

    def now_ns(self) -> int:
        return self.clock_ns

    def entropy(self, size: int) -> bytes:
        return bytes(size)

    def microtask(self) -> None:
        self.owed = True

    handoff = microtask

    def alarm(self, deadline_ns: int | None) -> None:
        self.alarm_ns = deadline_ns

    def wake(self) -> None:
        raise ScriptError("a script has one thread: no other thread can wake the host")

    def overdue(self) -> bool:
        return self.clock_ns - self.since_ns >= SLICE_MS_MAX * 1e6

    # ---- what the script orders

    async def call_owed(self) -> None:
        self.owed = False
        await self.call_again()

    async def call_again(self) -> None:
        self.since_ns = self.clock_ns
        self.pump.drain()

    async def ring(self) -> None:
        if self.alarm_ns is None:
            raise ScriptError("ring: no alarm is set")
        self.clock_ns = self.since_ns = max(self.clock_ns, self.alarm_ns)
        self.alarm_ns = None
        self.owed = False
        self.pump.rang()

    def jump(self, ms: int) -> None:
        self.clock_ns += ms * 1_000_000

    def reenter(self) -> None:
        self.pump.drain()

    async def end(self) -> None:
        """Nothing is left."""
