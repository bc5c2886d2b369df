"""Encodes trace records as bytes. In the native kernel, a `TraceWriter` in C encodes the records of frequent events.

An observer in Python costs the native kernel more than the rest of a step. So an observer that records has an attribute
`trace_writer`. The native kernel takes it from its observer, and calls it instead of the observer for the frequent
events. The trace writer appends their records to the observer's own store. The observer gets all other events, and adds
their records to the same store. The Python kernel ignores the attribute. The layouts of the records are the
catalogue's; `LAYOUTS` hands them to C.

Rejected: a second recorder, for the native kernel. It would have to describe every kind again, also the rare ones, and
would differ from this one only in speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bursar.backend import NativeKernel
from bursar.trace.catalogue import BY_CODE, KINDS, Kind, Numbers

if TYPE_CHECKING:
    from bursar._native import TraceWriter

LAYOUTS: Final = {kind.name: (kind.code, kind.layout.format) for kind in KINDS.values()}

StoredRecord = tuple[Kind, Numbers, str | bytes]


def encoded(kind: Kind, numbers: Numbers, text: bytes) -> bytes:
    """A record as a trace file holds it."""
    if kind.text:
        return kind.layout.pack(kind.code, *numbers, len(text)) + text
    return kind.layout.pack(kind.code, *numbers)


def trace_writer_for(kernel: Any, page: bytearray, page_max: int) -> TraceWriter | None:
    """A trace writer that appends to `page`, and calls the observer's `flush` when `page` is longer than `page_max`.

    None: the kernel is in Python and uses no trace writer.
    """
    if not is_native_kernel(kernel):
        return None
    from bursar._native import TraceWriter

    return TraceWriter(LAYOUTS, page, page_max)


def is_native_kernel(kernel: Any) -> bool:
    return NativeKernel is not None and isinstance(kernel, NativeKernel)


def decoded(record: bytes, answer: bool) -> StoredRecord:
    """The reverse of `encoded`. `answer`: the text is an answer of the host, and stays bytes."""
    kind = BY_CODE[record[0]]
    _, *numbers = kind.layout.unpack_from(record)
    if not kind.text:
        return kind, tuple(numbers), ""
    numbers.pop()  # the length of the text
    text = record[kind.layout.size :]
    return kind, tuple(numbers), text if answer else text.decode()
