"""The format of trace files. A file holds one run, and is written while the run goes on.

    magic      16 bytes
    header     length (u32), JSON: seed, workers, limits, versions, program: everything that the run depended on
    records    kind (u8), the numbers of that kind (see `trace.catalogue`); with a text: also its length (u32) and bytes
    end        0 (u8), number of records (u64), last value of the chain (u64), length (u32), JSON: how the run ended
    digest     SHA-256 of everything before it

All numbers are little-endian. The writer buffers at most one batch of the pump, and at most BUFFER_BYTES and one
record. The reader buffers one record. A killed run leaves a file without an end. Its records can still be read, and the
reader's error says how many there are.

Rejected: JSON lines as the format on disk. They are readable without a tool, but four times as large with the same
content (fourteen times with every field), and twenty times as slow to write. `bursar trace export --format jsonl` makes
them from a trace.
"""

from __future__ import annotations

import struct
from typing import Final

from bursar.text import brief

SCHEMA: Final = 1

# The contract for hosts whose rules the events follow. A change of their meaning raises the version, and needs a note
# in the changelog and new fixtures (tests/parity). A trace without this field is older than the field, and still opens.
CONTRACT: Final = {"id": "wasm-browser-scheduler-semantics-v1", "version": 1}

MAGIC: Final = b"bursar trace 1\n\0"
TEXT_BYTES_MAX: Final = 1 << 24  # of one text: as long as the answer to one read from a socket may be
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
LAW_HEADER: Final = HEADER.keys() - {"schema", "versions", "kernel", "host", "clock", "program"}  # same on every host

LENGTH: Final = struct.Struct("<I")
ENDING: Final = struct.Struct("<BQQI")


def error_text(error: Exception) -> str:
    """The system's text of an error, without the number and the path."""
    return getattr(error, "strerror", None) or brief(error)
