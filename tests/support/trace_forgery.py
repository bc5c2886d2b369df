"""A forger: reads a trace, changes a record, and writes it again so that the container has nothing to complain about.

The number of records, the last value of the chain and the digest are made to fit. Whoever still notices has understood
what the records mean.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import NamedTuple

from support.evidence import END, MAGIC, Kind, Trace, Verdict, verify

LINKS = ("scheduler_step_decision", "task_admitted", "task_dropped")  # of the chain
_LENGTH = struct.Struct("<I")
_END = struct.Struct("<BQQI")
_RANGES = {
    "B": (0, 2**8 - 1),
    "b": (-(2**7), 2**7 - 1),
    "H": (0, 2**16 - 1),
    "I": (0, 2**32 - 1),
    "Q": (0, 2**64 - 1),
    "q": (-(2**63), 2**63 - 1),
}


class TraceRecord(NamedTuple):
    kind: Kind
    numbers: tuple[int, ...]
    text: bytes

    @property
    def name(self) -> str:
        return self.kind.name

    def of(self, field: str) -> int:
        """The number that a field of this name holds."""
        return self.numbers[[f.name for f in self.kind.fields].index(field)]

    def __str__(self) -> str:
        return f"{self.name}{self.numbers} {self.text!r}"

    def with_number(self, place: int, value: int) -> TraceRecord:
        return self._replace(numbers=(*self.numbers[:place], value, *self.numbers[place + 1 :]))

    def packed(self) -> bytes:
        if self.kind.text:
            return self.kind.layout.pack(self.kind.code, *self.numbers, len(self.text)) + self.text
        return self.kind.layout.pack(self.kind.code, *self.numbers)


class Change(NamedTuple):
    """One change of one record. `after` is what stands at `at` now; None: nothing."""

    what: str  # number, text, delete, duplicate, swap
    at: int
    before: TraceRecord
    after: TraceRecord | None
    field: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.field} at {self.at}: {self.before} → {self.after}"


class Forgery:
    """One trace, and as many changed ones as one likes."""

    def __init__(self, path: Path) -> None:
        trace = Trace(path)
        self.seed_hash = trace.seed_hash
        self.data = Path(path).read_bytes()
        self.header = trace.header
        self.records = [TraceRecord(*record) for record in trace.records()]
        self.ending = trace.ending
        self._seen: dict[str, list[int]] = defaultdict(list)
        for record in self.records:
            for field, value in zip(record.kind.fields, record.numbers, strict=True):
                self._seen[field.name].append(value)

    def written(self, records: list[TraceRecord]) -> bytes:
        """The bytes of a trace with these records: with a chain that ends as they say, and a digest that fits."""
        header, ending = json.dumps(self.header).encode(), json.dumps(self.ending).encode()
        chain = self.seed_hash
        for record in records:
            if record.name in LINKS:
                chain = record.of("decision_hash")
        body = b"".join(
            [
                MAGIC,
                _LENGTH.pack(len(header)),
                header,
                *(record.packed() for record in records),
                _END.pack(END, len(records), chain, len(ending)),
                ending,
            ]
        )
        return body + hashlib.sha256(body).digest()

    def verify(self, records: list[TraceRecord]) -> Verdict:
        return verify(Trace.of(io.BytesIO(self.written(records)), "a forged trace"))

    def change(self, random: Random) -> tuple[list[TraceRecord], Change]:
        """The records with one of them changed in some way."""
        while True:
            at = random.randrange(len(self.records))
            how = random.choices(
                (self._number, self._text, self._delete, self._duplicate, self._swap), (12, 2, 3, 1, 2)
            )
            change = how[0](random, at)
            if change is not None:
                return change

    def _with(self, at: int, record: TraceRecord) -> list[TraceRecord]:
        return [*self.records[:at], record, *self.records[at + 1 :]]

    def _number(self, random: Random, at: int) -> tuple[list[TraceRecord], Change] | None:
        record = self.records[at]
        if not record.numbers:
            return None
        place = random.randrange(len(record.numbers))
        field, old = record.kind.fields[place], record.numbers[place]
        least, most = _RANGES[field.code]
        choices = (old - 1, old + 1, random.choice(self._seen[field.name]), random.randint(least, most))
        new = random.choice((*choices, random.randint(0, 10)))
        if new == old or not least <= new <= most:
            return None
        changed = record.with_number(place, new)
        return self._with(at, changed), Change("number", at, record, changed, field.name)

    def _text(self, random: Random, at: int) -> tuple[list[TraceRecord], Change] | None:
        record = self.records[at]
        new = random.choice((record.text + b"x", b"", b"other", record.text[:-1], b"\xff"))
        if not record.kind.text or new == record.text:
            return None
        changed = record._replace(text=new)
        return self._with(at, changed), Change("text", at, record, changed, record.kind.text)

    def _delete(self, random: Random, at: int) -> tuple[list[TraceRecord], Change] | None:
        return [*self.records[:at], *self.records[at + 1 :]], Change("delete", at, self.records[at], None)

    def _duplicate(self, random: Random, at: int) -> tuple[list[TraceRecord], Change] | None:
        record = self.records[at]
        return [*self.records[:at], record, *self.records[at:]], Change("duplicate", at, record, record)

    def _swap(self, random: Random, at: int) -> tuple[list[TraceRecord], Change] | None:
        if at + 1 == len(self.records) or self.records[at] == self.records[at + 1]:
            return None
        first, second = self.records[at : at + 2]
        return [*self.records[:at], second, first, *self.records[at + 2 :]], Change("swap", at, first, second)
