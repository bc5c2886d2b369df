"""Where the records of a run go while it happens, and the pen by which a kernel in C puts most of them there itself.

An observer in Python costs a kernel in C more than the rest of a step. So a recorder has a `trace_writer`: the kernel,
which looks for one when it is given an observer, lets the pen write what happens to every task, into the recorder's own
store; of everything else it tells the recorder as ever, which describes it and puts it there too. A kernel in Python
knows of no pens. The layout of a record is the catalogue's; the pen is told it here.

Rejected: a recorder of its own for the kernel in C. It would describe every kind a second time, the rare ones too, and
be told from this one by nothing but speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bursar.backend import NativeKernel
from bursar.trace.catalogue import BY_CODE, KINDS, Kind, Numbers

if TYPE_CHECKING:
    from bursar._native import TraceWriter

LAYOUTS: Final = {kind.name: (kind.code, kind.layout.format) for kind in KINDS.values()}

Kept = tuple[Kind, Numbers, str | bytes]


def encoded(kind: Kind, numbers: Numbers, text: bytes) -> bytes:
    """A record as a trace file holds it."""
    if kind.text:
        return kind.layout.pack(kind.code, *numbers, len(text)) + text
    return kind.layout.pack(kind.code, *numbers)


def trace_writer_for(kernel: Any, page: bytearray, page_max: int) -> TraceWriter | None:
    """A pen that writes on `page`, and asks the observer to `flush` when that is longer than `page_max`.

    None: the kernel has no use for one.
    """
    if not takes_pens(kernel):
        return None
    from bursar._native import TraceWriter

    return TraceWriter(LAYOUTS, page, page_max)


def takes_pens(kernel: Any) -> bool:
    return NativeKernel is not None and isinstance(kernel, NativeKernel)


def decoded(record: bytes, answer: bool) -> Kept:
    kind = BY_CODE[record[0]]
    _, *numbers = kind.layout.unpack_from(record)
    if not kind.text:
        return kind, tuple(numbers), ""
    numbers.pop()  # the length of the text
    text = record[kind.layout.size :]
    return kind, tuple(numbers), text if answer else text.decode()
