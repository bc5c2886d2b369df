"""The reader of trace files. It gives records and events, and checks the file while it reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from bursar.errors import TraceCut, TraceError
from bursar.law.chain import fingerprint, link, seed_chain
from bursar.law.dispatch import WORKERS_MAX
from bursar.law.permission import ADMIT, DROP
from bursar.text import brief
from bursar.trace.events import BY_CODE, Event, Kind, TraceContext, TraceRecord
from bursar.trace.file_format import (
    CONTRACT,
    DIGEST_BYTES,
    END,
    ENDING,
    HEADER,
    LENGTH,
    MAGIC,
    SCHEMA,
    TEXT_BYTES_MAX,
    error_text,
)

# Admissions and drops are links of the chain too. Their task was never polled, so four fields are 0
# (`Permission._link`).
_PERMISSION: Final = {"task_admitted": (ADMIT, 0, 0, 0, 0), "task_dropped": (DROP, 0, 0, 0, 0)}


class Trace:
    """A trace file. Reading raises `TraceError` where the file is inconsistent, and `TraceCut` where it ends too
    early.

    Attributes:
        header: What the run depended on.
        ending: How the run ended. None until all records were read, and if the file has no end.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._begin(Path(path), None)

    @classmethod
    def of(cls, file: BinaryIO, name: str) -> Trace:
        """A trace in an open file, which stays open. Only one reader can use it at a time."""
        trace = cls.__new__(cls)
        trace._begin(Path(name), file)
        return trace

    def _begin(self, path: Path, file: BinaryIO | None) -> None:
        self.path = path
        self._given = file
        self.ending: dict[str, Any] | None = None
        with self._open() as reader:
            self.header = reader.header()

    @contextlib.contextmanager
    def _open(self) -> Generator[_Reader]:
        if self._given is not None:
            yield _Reader(self._given, self.path)
            return
        try:
            if self.path.exists() and not self.path.is_file():  # a pipe would block, a device may never end
                raise OSError(0, "it is not a regular file")
            file = self.path.open("rb")
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: cannot be read: {error_text(error)}") from None
        with file:
            yield _Reader(file, self.path)

    @property
    def seed_hash(self) -> int:
        """The first value of its decision chain."""
        return seed_chain(self.header["seed"], self.header["workers"])

    def records(self) -> Iterator[TraceRecord]:
        """An iterator over the records, without what follows from earlier records."""
        with self._open() as reader:
            reader.header()
            yield from reader.records(self.seed_hash)
            self.ending = reader.ending

    def events(self) -> Iterator[Event]:
        """An iterator over every event."""
        context = TraceContext(hash=self.seed_hash)
        for kind, numbers, text in self.records():
            yield context.event(kind, numbers, text)

    def broken_link(self) -> Event | None:
        """The first decision whose hash does not follow from the one before it, or None."""
        chain = self.seed_hash
        for event in self.events():
            numbers, decided = event.numbers, _PERMISSION.get(event.name)
            if event.name == "scheduler_step_decision":
                streak, limit = event.cancel_streak, event.cancel_streak_limit
                decided = (numbers["lane"], numbers["worker"], streak, limit, numbers["generation"])
            if decided is not None:
                chain = link(chain, event.task_id, event.region_id, *decided)
                if chain != event.decision_hash:
                    return event
        return None


class _Reader:
    """Reads one file once, and checks lengths, counts, chain and digest."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._digest = hashlib.sha256()
        self._read = 0
        self._count = 0
        self.ending: dict[str, Any] | None = None

    def _fail(self, what: str, kind: type[TraceError] = TraceError) -> TraceError:
        return kind(f"{self._path}: {what} (record {self._count:,}, byte {self._read:,})", self._count)

    def _take(self, size: int) -> bytes:
        """The next bytes. A forged length may be huge, so at most the rest of the file is requested."""
        data = self._file.read(size) if size <= self._size - self._read else b""
        if len(data) < size:
            raise self._fail(
                f"the file ends in the middle: the run still goes on, or was killed, or the file was cut; "
                f"{self._count:,} complete records can be read",
                TraceCut,
            )
        self._digest.update(data)
        self._read += size
        return data

    def _take_text(self, length: int, what: str) -> bytes:
        if length > TEXT_BYTES_MAX:
            raise self._fail(f"{what} is said to be {length:,} bytes long; at most {TEXT_BYTES_MAX:,} are allowed")
        return self._take(length)

    def _take_object(self, length: int, what: str) -> dict[str, Any]:
        text = self._take_text(length, what)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if type(found) is not dict:
            raise self._fail(f"{what} is not a JSON object: {brief(text[:80], repr)}")
        return found  # pyright: ignore[reportUnknownVariableType] (JSON)

    def header(self) -> dict[str, Any]:
        magic = self._file.read(len(MAGIC))
        if magic != MAGIC:
            raise self._fail("this is not a Bursar trace, or its format is not the one that this version reads")
        self._digest.update(magic)
        self._read += len(magic)
        (length,) = LENGTH.unpack(self._take(LENGTH.size))
        header = self._take_object(length, "the header")
        if header.get("schema") != SCHEMA:
            raise self._fail(f"the schema is {brief(header.get('schema'), repr)}; this Bursar reads schema {SCHEMA}")
        if header.get("contract", CONTRACT) != CONTRACT:
            raise self._fail(
                f"the trace follows the contract {brief(header['contract'], repr)}; this Bursar follows {CONTRACT}"
            )
        for name, kind in HEADER.items():
            if type(header.get(name)) is not kind:
                raise self._fail(f"{name} in the header is missing or invalid: {brief(header.get(name), repr)}")
        if type(header.get("named", {})) is not dict:  # only in the trace of a run whose budget has named counters
            raise self._fail(f"named in the header is invalid: {brief(header['named'], repr)}")
        if not 1 <= header["workers"] <= WORKERS_MAX:
            raise self._fail(f"the header says {header['workers']} workers; 1 to {WORKERS_MAX} are allowed")
        return header

    def records(self, chain: int) -> Iterator[TraceRecord]:
        """Each record; then check that the end matches them. `chain` is the chain's first value."""
        while (code := self._take(1)) != bytes((END,)):
            kind = BY_CODE.get(code[0])
            if kind is None:
                raise self._fail(f"no kind of record has the number {code[0]}")
            _, *numbers = kind.layout.unpack(code + self._take(kind.layout.size - 1))
            text = self._take_text(numbers.pop(), f"the {kind.text} of {kind.name}") if kind.text else b""
            self._check_names(kind, numbers)
            if kind.name == "scheduler_step_decision":
                chain = numbers[-1]
            self._count += 1
            yield TraceRecord(kind, tuple(numbers), text)
        self._end(chain)

    def _check_names(self, kind: Kind, numbers: list[int]) -> None:
        """Check that every value of a field with named values has a name. Negative: the value is absent."""
        for field, number in zip(kind.fields, numbers, strict=True):
            if field.names and number >= len(field.names):
                raise self._fail(f"the {field.name} of {kind.name} is {number}, which has no meaning")

    def _end(self, chain: int) -> None:
        _, count, last, length = ENDING.unpack(bytes((END,)) + self._take(ENDING.size - 1))
        if count != self._count:
            raise self._fail(f"the end counts {count:,} records, but there are {self._count:,}")
        if chain != last:
            raise self._fail(f"the last decision is {fingerprint(chain)}, but the end says {fingerprint(last)}")
        ending = self._take_object(length, "the end")
        expected = self._digest.digest()
        if self._take(DIGEST_BYTES) != expected:
            raise self._fail("the digest does not match: the file was changed or damaged after it was written")
        if self._read != self._size:
            raise self._fail("there are bytes after the digest")
        self.ending = ending
