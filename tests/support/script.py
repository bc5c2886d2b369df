"""A host that makes no call by itself: a test decides when each is made, whether it is made twice, late, never, or in
another thread. Beside it, two requests with which a task reaches the pump in the middle of a batch.
"""

from __future__ import annotations

import bursar
from support.requests import Operation, Request

NS = 1_000_000_000


class Script:
    """Writes down what it is asked for. `call` and `ring` make the calls."""

    name = "script"
    virtual = False

    def __init__(self) -> None:
        self.now = 0
        self.owed: list[str] = []  # calls that the pump waits for
        self.asked: list[str] = []  # the same, never taken away
        self.alarm_ns: int | None = None
        self.opened = self.closed = 0

    def open(self, pump) -> None:
        self.pump = pump
        self.opened += 1

    def close(self) -> None:
        self.closed += 1

    def now_ns(self) -> int:
        return self.now

    def entropy(self, size: int) -> bytes:
        return bytes(size)

    def _ask(self, what: str) -> None:
        self.owed.append(what)
        self.asked.append(what)

    def microtask(self) -> None:
        self._ask("microtask")

    def handoff(self) -> None:
        self._ask("handoff")

    def wake(self) -> None:
        self._ask("wake")

    def alarm(self, deadline_ns) -> None:
        self.alarm_ns = deadline_ns

    def call(self) -> None:
        """Make the call that was asked for first."""
        self.owed.pop(0)
        self.pump.drain()

    def ring(self) -> None:
        """Let the time of the alarm come."""
        self.now, self.alarm_ns = max(self.now, self.alarm_ns), None
        self.pump.rang()

    def rest(self) -> None:
        """Make every call that is owed, but let no time pass."""
        for _ in range(100_000):
            if not self.owed:
                return
            self.call()
        raise AssertionError("the pump never rests")

    def play(self) -> None:
        """To the end."""
        while not self.pump.over:
            self.rest()
            if not self.pump.over:
                self.ring()


class ScriptLoop(Script):
    """The same, as a loop of its own."""

    def run_until(self, over) -> None:
        self.play()


class Do(Request[object]):
    """Calls something in the middle of a batch, with the pump."""

    def __init__(self, call) -> None:
        self._call = call

    def perform(self, kernel, task):
        return self._call(kernel.runtime.pump)


class Await(Operation[None]):
    """Waits for something outside; `call` gets the function that brings it about."""

    reason = "waits for something outside"

    def __init__(self, call) -> None:
        self._call = call

    def ready(self, kernel, task):
        return False

    def enlist(self, kernel, entry):
        pump = kernel.runtime.pump
        pump.sources += 1
        self._call(lambda: pump.post("arrival", lambda: entry.answer(kernel, None)))

    def delist(self, kernel, entry):
        kernel.runtime.pump.sources -= 1


def names(notes) -> list[str]:
    return [name for name, _, _ in notes]


async def nothing():
    return "done"


async def forever():
    while True:
        await bursar.checkpoint()
