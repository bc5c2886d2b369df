"""The real browser host, on the real queues of a page or of node; the script says when each queue is used.

`ScriptedPage` is the api object of a `BrowserHost`. What the host asks for is kept until the script orders it. Then it
goes through the page's own `queueMicrotask`, `MessageChannel` or `setTimeout`, and JavaScript calls the host. Only the
clock is not the page's: the script moves it, so that the speed of the machine cannot cut a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import js
from parity.scripted_host import ScriptedLoop, ScriptError
from support.hosts import BrowserHost, Pump

TURNS_MAX = 10_000  # of the page, until it makes a call that was queued: usually one or two


class Port:
    """The sending port of a channel. A message waits for the script."""

    def __init__(self, page: ScriptedPage, port: Any) -> None:
        self.page = page
        self.port = port

    def postMessage(self, message: Any) -> None:
        self.page.owed.append(partial(self.port.postMessage, message))

    def close(self) -> None:
        self.port.close()


class ScriptedPage(ScriptedLoop):
    """Everything that a host may use of a page, and the orders of a script."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.owed: list[Callable[[], Any]] = []  # what the host asked for, each ready to be queued with the page
        self.late: list[Callable[[], Any]] = []  # what the script passed over
        self.last: Callable[[], Any] | None = None
        self.alarm: tuple[float, Any] | None = None
        self.calls = 0
        self.MessageChannel = SimpleNamespace(new=self.new_channel)
        self.host = BrowserHost(self)

    # ---- what the host uses

    def now(self) -> float:
        return self.ms

    def queueMicrotask(self, function: Any) -> None:
        self.function = function
        self.owed.append(partial(js.queueMicrotask, function))

    def new_channel(self) -> SimpleNamespace:
        channel = js.MessageChannel.new()
        return SimpleNamespace(port1=channel.port1, port2=Port(self, channel.port2))

    def setTimeout(self, function: Any, ms: float) -> int:
        """Only for the alarm: handoffs are messages."""
        self.alarm = (self.ms + ms, function)
        return 1

    def clearTimeout(self, id: int) -> None:
        self.alarm = None

    def getRandomValues(self, buffer: Any) -> Any:
        return buffer

    # ---- what the script orders

    def begin(self, pump: Pump) -> None:
        """Count the calls that reach the pump."""
        drain = pump.drain

        def counted() -> None:
            self.calls += 1
            drain()

        pump.drain = counted

    async def call_owed(self) -> None:
        self.last = self.owed.pop(0)
        await self.through_the_page(self.last)

    async def call_again(self) -> None:
        assert self.last is not None, "there was a call"
        await self.through_the_page(self.last)

    async def ring(self) -> None:
        if self.alarm is None:
            raise ScriptError("ring: no alarm is set")
        due, function = self.alarm
        self.ms, self.alarm = max(self.ms, due), None
        self.late += self.owed
        self.owed.clear()
        await self.through_the_page(partial(js.setTimeout, function, 0))

    def jump(self, ms: int) -> None:
        self.ms += ms

    def reenter(self) -> None:
        self.function()

    async def end(self) -> None:
        """Make the calls that were passed over. The run is over, and they must do nothing."""
        for queue in self.late + self.owed:
            queue()
        await asyncio.sleep(0)

    async def through_the_page(self, queue: Callable[[], Any]) -> None:
        """Queue a call with the page, and wait until the page has made it."""
        before = self.calls
        queue()
        for _ in range(TURNS_MAX):
            if self.calls != before:
                return
            await asyncio.sleep(0)
        raise ScriptError(f"the page did not make the call in {TURNS_MAX} of its turns")
