"""The trace ring: the newest events of a run, kept in memory.

`DequeStore` keeps the records of the Python kernel as tuples. `TraceRingStore` keeps those of the native kernel as
bytes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from bursar.law.kernel import Kernel
from bursar.law.task import Task
from bursar.trace.catalogue import KINDS, Kind, Numbers
from bursar.trace.events import Event, TraceContext
from bursar.trace.record_codec import LAYOUTS, StoredRecord, decoded, encoded, is_native_kernel

if TYPE_CHECKING:
    from bursar._native import TraceRing, TraceWriter

MEMORY_BYTES_MAX: Final = (
    1 << 26
)  # of all answers of the host in a `Memory`: a few large files must not fill the memory


class Memory:
    """For `record=`: keeps the newest events of a run in memory. ValueError for a size below 1."""

    def __init__(self, events_max: int = 100_000) -> None:
        if type(events_max) is not int or events_max < 1:
            raise ValueError(f"Memory(events_max={events_max!r}): must be a whole number, at least 1")
        self.events_max = events_max
        self._kernel: Kernel | None = None
        self._store: DequeStore | TraceRingStore = DequeStore(0, events_max, MEMORY_BYTES_MAX)

    @property
    def trace_writer(self) -> TraceWriter | None:
        """With it the native kernel records the frequent events (`trace.record_codec`)."""
        return self._store.trace_writer

    @property
    def dropped(self) -> int:
        """How many older events were discarded."""
        return self._store.dropped

    def attach(self, kernel: Kernel) -> None:
        """Become the observer of a kernel, before its run begins."""
        self._kernel = kernel
        self._store = make_store(kernel, self.events_max, MEMORY_BYTES_MAX)
        kernel.observe(self)

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        kind = KINDS[name]
        numbers, text = kind.describe(self._kernel, task, detail)
        self._store.put(kind, numbers, text)

    @property
    def _before(self) -> TraceContext:
        """The context of the first record that is kept: what the dropped records say."""
        return self._store.before()

    def events(self) -> Iterator[Event]:
        """The events that were kept, oldest first."""
        context = self._before
        for record in self._store.records():
            yield context.event(*record)


def make_store(kernel: Any, events_max: int, answers_bytes_max: int) -> DequeStore | TraceRingStore:
    """A store for the newest records of a kernel, within both limits."""
    kind = TraceRingStore if is_native_kernel(kernel) else DequeStore
    return kind(kernel.chain, events_max, answers_bytes_max)


class DequeStore:
    """The newest records of a kernel in Python, as tuples."""

    trace_writer: Final = None

    def __init__(self, chain: int, events_max: int, answers_bytes_max: int) -> None:
        self._events_max = events_max
        self._answers_bytes_max = answers_bytes_max
        self._records: deque[StoredRecord] = deque()
        self._answers_bytes = 0
        self._before = TraceContext(hash=chain)

    def put(self, kind: Kind, numbers: Numbers, text: str | bytes) -> None:
        self._records.append((kind, numbers, text))
        if isinstance(text, bytes):
            self._answers_bytes += len(text)
        while len(self._records) > self._events_max or self._answers_bytes > self._answers_bytes_max:
            self._drop()

    def _drop(self) -> None:
        kind, numbers, text = self._records.popleft()
        self._before.skip(kind, numbers)
        if isinstance(text, bytes):
            self._answers_bytes -= len(text)

    @property
    def dropped(self) -> int:
        """How many older records were discarded."""
        return self._before.number

    def before(self) -> TraceContext:
        """The context of the first record that is kept."""
        return self._before.copy()

    def records(self) -> list[StoredRecord]:
        """The kept records, oldest first."""
        return list(self._records)


class TraceRingStore:
    """The newest records of a native kernel, as bytes in a `TraceRing`, which is its trace writer too."""

    def __init__(self, chain: int, events_max: int, answers_bytes_max: int) -> None:
        from bursar._native import TraceRing

        self.trace_writer: Final[TraceRing] = TraceRing(LAYOUTS, min(events_max, sys.maxsize), answers_bytes_max, chain)

    def put(self, kind: Kind, numbers: Numbers, text: str | bytes) -> None:
        if isinstance(text, bytes):
            self.trace_writer.put(encoded(kind, numbers, text), len(text))
        else:
            self.trace_writer.put(encoded(kind, numbers, text.encode()), 0)

    @property
    def dropped(self) -> int:
        return self.trace_writer.dropped

    def before(self) -> TraceContext:
        return TraceContext(*self.trace_writer.before())

    def records(self) -> list[StoredRecord]:
        return [decoded(record, answer) for record, answer in self.trace_writer.records()]
