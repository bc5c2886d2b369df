"""Replay of a program that ran as a guest in asyncio: in an asyncio loop, but on the recorded time.

A trace does not hold the results of asyncio futures. So the asyncio part of the program really runs, in real time. Its
results are delivered at the recorded moments, and everything else comes from the trace.
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
from bursar.evidence.replay.replay_runtime import Replayed, ReplayPump, finish, prepare
from bursar.hosts.asyncio import AsyncioHost
from bursar.law.capability import Capability
from bursar.trace.reader import Trace

Ts = TypeVarTuple("Ts")

BY_ASYNCIO: Final = frozenset({"asyncio"})  # the kinds of posts that the loop repeats
NOTHING: Final = Counter[str]()


class AsyncioReplayHost(AsyncioHost):
    """A guest in asyncio that begins the next recorded batch when asyncio has posted what this batch delivers."""

    def __init__(self, cursor: ReplayCursor) -> None:
        super().__init__()
        self.name = str(cursor.trace.header["host"])
        self.virtual = cursor.is_virtual
        self._cursor = cursor
        self._batches = posts_by_batch(cursor.trace)
        self._awaited: Counter[str] = next(self._batches, NOTHING)
        self._limit: asyncio.TimerHandle | None = None  # ends the replay if asyncio takes too long
        self._replaying: ReplayPump | None = None

    def open(self, pump: Pump) -> None:
        super().open(pump)
        assert isinstance(pump, ReplayPump), "a replay uses a ReplayPump"
        self._replaying = pump

    def close(self) -> None:
        super().close()
        self._replaying = None
        self._stop_waiting()

    def now_ns(self) -> int:
        return self._cursor.now_ns()

    def alarm(self, deadline_ns: int | None) -> None:
        """Try the next batch soon: the trace decides, not the deadline."""
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


def posts_by_batch(trace: Trace) -> Iterator[Counter[str]]:
    """For each batch: the labels that asyncio must have posted before the batch can begin."""
    labels = NOTHING
    with contextlib.suppress(TraceCut):
        for kind, _, text in trace.records():
            if kind.name == "host_turn":
                if labels is not NOTHING:
                    yield labels
                labels = Counter[str]()
            elif kind.name == "outside":
                label = text.decode("utf-8", "replace")
                labels[label] += label.partition(" ")[0] in BY_ASYNCIO
    yield labels


async def replay(
    trace: Trace,
    fn: Callable[[*Ts], Coroutine[Any, Any, Any]],
    *args: *Ts,
    capabilities: Iterable[Capability] | None = None,
) -> Replayed:
    """Replay a program that ran as a guest in asyncio. Await it in an asyncio loop."""
    runtime = prepare(trace, capabilities, AsyncioReplayHost, BY_ASYNCIO)
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
    return finish(runtime, value, error)
