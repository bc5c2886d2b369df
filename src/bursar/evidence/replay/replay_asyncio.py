"""Replay of a program that was a guest of asyncio's: in a loop of asyncio's, on the recorded time.

What its tasks wait for in asyncio is no answer of a host: no trace holds it. So that part of the program really runs,
and takes the time that it takes; what comes of it is let in at the recorded moment, and everything else is replayed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeVarTuple

from bursar.drive.pump import Pump
from bursar.errors import HostLost, TraceCut
from bursar.evidence.replay.cursor import ReplayCursor
from bursar.evidence.replay.replay import Replayed, ReplayPump, judge, prepare
from bursar.hosts.asyncio import AsyncioHost
from bursar.law.capability import Capability
from bursar.trace.reader import Trace

Ts = TypeVarTuple("Ts")

BROUGHT: Final = frozenset({"asyncio"})
NOTHING: Final = Counter[str]()


class AsyncioReplayHost(AsyncioHost):
    """A guest of asyncio's that begins a batch when the trace has one and asyncio has done its part of it."""

    def __init__(self, cursor: ReplayCursor) -> None:
        super().__init__()
        self.name = str(cursor.trace.header["host"])
        self.virtual = cursor.is_virtual
        self._cursor = cursor
        self._batches = needed(cursor.trace)
        self._awaited: Counter[str] = next(self._batches, NOTHING)
        self._limit: asyncio.TimerHandle | None = None  # how long asyncio may take
        self._replaying: ReplayPump | None = None

    def open(self, pump: Pump) -> None:
        super().open(pump)
        assert isinstance(pump, ReplayPump), "a replay has a pump of its own"
        self._replaying = pump

    def close(self) -> None:
        super().close()
        self._replaying = None
        self._stop_waiting()

    def now_ns(self) -> int:
        return self._cursor.now_ns()

    def alarm(self, deadline_ns: int | None) -> None:
        """It has rung when the trace has a batch next."""
        if self._replaying is not None:
            self.microtask()

    def _drain(self) -> None:
        self._soon = None
        pump = self._replaying
        if pump is None:
            return
        if pump.has_made(self._awaited) or self._cursor.failure is not None:
            self._stop_waiting()
            self._awaited = next(self._batches, NOTHING)
            pump.drain()
        elif self._limit is None:
            self._limit = self.asyncio_loop.call_later(pump.patience_s(), self._give_up, pump)

    def _give_up(self, pump: ReplayPump) -> None:
        pump.gave_up(", ".join(self._awaited))
        pump.drain()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def needed(trace: Trace) -> Iterator[Counter[str]]:
    """For each batch, what asyncio must have done before it can begin."""
    labels = NOTHING
    with contextlib.suppress(TraceCut):
        for kind, _, text in trace.records():
            if kind.name == "host_turn":
                if labels is not NOTHING:
                    yield labels
                labels = Counter[str]()
            elif kind.name == "outside":
                label = text.decode("utf-8", "replace")
                labels[label] += label.partition(" ")[0] in BROUGHT
    yield labels


async def replay(
    trace: Trace,
    fn: Callable[[*Ts], Coroutine[Any, Any, Any]],
    *args: *Ts,
    capabilities: Iterable[Capability] | None = None,
) -> Replayed:
    """Replay a program that ran as a guest in asyncio. Awaited in an asyncio loop."""
    runtime = prepare(trace, capabilities, AsyncioReplayHost, BROUGHT)
    over = asyncio.Event()
    runtime.on_end = over.set
    runtime.start(fn, *args)
    try:
        await over.wait()
    finally:
        runtime.pump.stop(HostLost("the asyncio task that awaited the replay was cancelled"))
    value, error = None, None
    try:
        value = runtime.result()
    except BaseException as raised:
        error = raised
    return judge(runtime, value, error)
