"""Trace files: one run, on disk, while it happens.

    magic      16 bytes
    header     length (u32), JSON: seed, workers, limits, versions, program: everything that the run depended on
    records    kind (u8), the numbers of that kind (see `trace.events`), and if it has a text: length (u32), bytes
    end        0 (u8), number of records (u64), last value of the chain (u64), length (u32), JSON: how the run ended
    digest     SHA-256 of everything before it

All numbers are little-endian. The writer holds a batch of the pump, BUFFER_BYTES at most; the reader one record. A run
that was killed leaves a file without an end: its records are still good, and reading it says how many there are.

Rejected: JSON lines as the format on disk. They are readable without a tool, four times as large with the same content
(fourteen times with every field), and twenty times as slow to write; `bursar trace export --format jsonl` makes them
when they are wanted.
"""

from __future__ import annotations

import struct
from typing import Final

from bursar.text import brief

SCHEMA: Final = 1
MAGIC: Final = b"bursar trace 1\n\0"
TEXT_BYTES_MAX: Final = 1 << 24  # of one text: what one read from a socket may bring
END: Final = 0  # the kind of the last record
DIGEST_BYTES: Final = 32

HEADER: Final[dict[str, type]] = {
    "schema": int,
    "versions": dict,
    "kernel": str,
    "host": str,
    "clock": str,
    "program": dict,
    "seed": int,
    "workers": int,
    "steal": str,
    "profile": str,
    "budget": list,
    "yield_interval": int,
    "cleanup_ops": int,
    "cleanup_ns": int,
    "burst_limit": int,
    "cancel_streak_max": int,
    "timed_streak_max": int,
    "root_region": int,
}
LAW_HEADER: Final = HEADER.keys() - {"schema", "versions", "kernel", "host", "clock", "program"}  # alike on every host

LENGTH: Final = struct.Struct("<I")
ENDING: Final = struct.Struct("<BQQI")


def told(error: Exception) -> str:
    """An error of the file system in its own words, without the number and the path."""
    return getattr(error, "strerror", None) or brief(error)
