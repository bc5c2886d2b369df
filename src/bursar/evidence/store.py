"""Where the records of a run go while it happens, and the pen by which a kernel in C puts most of them there itself.

An observer in Python costs a kernel in C more than the rest of a step. So a recorder has a `pen`: the kernel, which
looks for one when it is given an observer, lets the pen write what happens to every task, into the recorder's own
store; of everything else it tells the recorder as ever, which describes it and puts it there too. A kernel in Python
knows of no pens. The layout of a record is the catalogue's; the pen is told it here.

Rejected: a recorder of its own for the kernel in C. It would describe every kind a second time, the rare ones too, and
be told from this one by nothing but speed.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bursar.evidence.catalogue import BY_CODE, KINDS, Kind, Numbers
from bursar.evidence.events import Context
from bursar.kernel import NativeKernel

if TYPE_CHECKING:
    from bursar._native import Pen, Shelf

LAYOUTS: Final = {kind.name: (kind.code, kind.layout.format) for kind in KINDS.values()}

Kept = tuple[Kind, Numbers, str | bytes]


def encoded(kind: Kind, numbers: Numbers, text: bytes) -> bytes:
    """A record as a trace file holds it."""
    if kind.text:
        return kind.layout.pack(kind.code, *numbers, len(text)) + text
    return kind.layout.pack(kind.code, *numbers)


def pen_for(kernel: Any, page: bytearray, page_max: int) -> Pen | None:
    """A pen that writes on `page`, and asks the observer to `flush` when that is longer than `page_max`.

    None: the kernel has no use for one.
    """
    if not _takes_pens(kernel):
        return None
    from bursar._native import Pen

    return Pen(LAYOUTS, page, page_max)


def newest(kernel: Any, events_max: int, answers_bytes_max: int) -> Deque | Shelved:
    """A store for the newest records of a kernel: so many of them, and so many bytes of what the host answered."""
    kind = Shelved if _takes_pens(kernel) else Deque
    return kind(kernel.chain, events_max, answers_bytes_max)


def _takes_pens(kernel: Any) -> bool:
    return NativeKernel is not None and isinstance(kernel, NativeKernel)


class Deque:
    """The newest records, as they were described."""

    pen: Final = None

    def __init__(self, chain: int, events_max: int, answers_bytes_max: int) -> None:
        self._events_max = events_max
        self._answers_bytes_max = answers_bytes_max
        self._records: deque[Kept] = deque()
        self._answers_bytes = 0
        self._before = Context(hash=chain)

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
        """Older ones that are gone."""
        return self._before.number

    def before(self) -> Context:
        """What those say about the first that is kept."""
        return self._before.copy()

    def records(self) -> list[Kept]:
        """The kept ones, oldest first."""
        return list(self._records)


class Shelved:
    """The newest records of a kernel in C, as bytes on a shelf, which is the pen as well."""

    def __init__(self, chain: int, events_max: int, answers_bytes_max: int) -> None:
        from bursar._native import Shelf

        self.pen: Final[Shelf] = Shelf(LAYOUTS, min(events_max, sys.maxsize), answers_bytes_max, chain)

    def put(self, kind: Kind, numbers: Numbers, text: str | bytes) -> None:
        if isinstance(text, bytes):
            self.pen.put(encoded(kind, numbers, text), len(text))
        else:
            self.pen.put(encoded(kind, numbers, text.encode()), 0)

    @property
    def dropped(self) -> int:
        return self.pen.dropped

    def before(self) -> Context:
        return Context(*self.pen.before())

    def records(self) -> list[Kept]:
        return [_decoded(record, answer) for record, answer in self.pen.records()]


def _decoded(record: bytes, answer: bool) -> Kept:
    kind = BY_CODE[record[0]]
    _, *numbers = kind.layout.unpack_from(record)
    if not kind.text:
        return kind, tuple(numbers), ""
    numbers.pop()  # the length of the text
    text = record[kind.layout.size :]
    return kind, tuple(numbers), text if answer else text.decode()
