"""Trace files: one run, on disk, while it happens.

    magic      16 bytes
    header     length (u32), JSON: seed, workers, limits, versions, program: everything that the run depended on
    records    kind (u8), the numbers of that kind (see `evidence.events`), and if it has a text: length (u32), bytes
    end        0 (u8), number of records (u64), last value of the chain (u64), length (u32), JSON: how the run ended
    digest     SHA-256 of everything before it

All numbers are little-endian. The writer holds a batch of the pump, BUFFER_BYTES at most; the reader one record. A run
that was killed leaves a file without an end: its records are still good, and reading it says how many there are.

Rejected: JSON lines as the format on disk. They are readable without a tool, four times as large with the same content
(fourteen times with every field), and twenty times as slow to write; `bursar trace export --format jsonl` makes them
when they are wanted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import struct
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

try:
    import fcntl
except ImportError:  # not on every platform
    fcntl = None

from bursar.errors import TraceCut, TraceError, brief
from bursar.evidence.events import BY_CODE, KINDS, Context, Event, Kind, Record
from bursar.evidence.store import Deque, Shelved, encoded, newest, pen_for
from bursar.law.chain import fingerprint, link, seed_chain
from bursar.law.dispatch import WORKERS_MAX
from bursar.law.kernel import Kernel
from bursar.law.permission import ADMIT, DROP
from bursar.law.task import Task

if TYPE_CHECKING:
    from bursar._native import Pen

SCHEMA: Final = 1
MAGIC: Final = b"bursar trace 1\n\0"
BUFFER_BYTES: Final = 64 * 1024  # a batch that tells more than this is written in parts
TEXT_BYTES_MAX: Final = 1 << 24  # of one text: what one read from a socket may bring
MEMORY_BYTES_MAX: Final = 1 << 26  # of the answers of the host that `Memory` keeps
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

# What else is a link of the chain, of a task that no poll has begun yet (`Permission._link`).
_PERMISSION: Final = {"task_admitted": (ADMIT, 0, 0, 0, 0), "task_dropped": (DROP, 0, 0, 0, 0)}
_LENGTH: Final = struct.Struct("<I")
_END: Final = struct.Struct("<BQQI")


def versions() -> dict[str, str]:
    """What the run was made with."""
    from importlib.metadata import version

    return {"bursar": version("bursar"), "python": platform.python_version(), "platform": platform.platform()}


def digest_of(path: Path) -> str:
    """The SHA-256 of a program's file: what tells a trace of another program."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- writing


def claim(path: Path) -> BinaryIO:
    """Open a file for one run alone, as it is: two that wrote into one would leave the trace of neither."""
    file = path.open("ab")
    if fcntl is not None and path.is_file():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise BlockingIOError(error.errno, "another run is being recorded there") from None
        except OSError:
            pass  # a file system without locks
    return file


class Recorder:
    """The observer that writes a trace file. Trouble with the file ends the recording, never the program."""

    def __init__(self, kernel: Kernel, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        self.error: Exception | None = None
        self._kernel = kernel
        self._digest = hashlib.sha256()
        self._records = 0  # and those that the pen wrote
        text = json.dumps(header, sort_keys=True).encode()
        if len(text) > TEXT_BYTES_MAX:
            raise TraceError(f"{self.path}: the header of the trace would be {len(text):,} bytes long")
        self._buffer = bytearray(MAGIC + _LENGTH.pack(len(text)) + text)
        self.pen = pen_for(kernel, self._buffer, BUFFER_BYTES)  # writes into this very buffer: it is never replaced
        try:
            self._file: BinaryIO | None = claim(self.path)
            if self.path.is_file():
                self._file.truncate(0)
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: the trace cannot be written: {_told(error)}") from None
        self.flush()

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        kind = KINDS[name]
        try:
            numbers, text = kind.describe(self._kernel, task, detail)
            told = text if isinstance(text, bytes) else text.encode()
            if len(told) > TEXT_BYTES_MAX:
                raise ValueError(f"the {kind.text} of {name} is {len(told):,} bytes long")
            record = encoded(kind, numbers, told)
        except Exception as error:
            self._give_up(error)
            return
        self._buffer += record  # at once: a signal may come between any two lines
        self._records += 1
        if len(self._buffer) > BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what happened so far to the file."""
        if self._file is not None:
            try:
                self._file.write(self._buffer)
                self._file.flush()
            except OSError as error:
                self._give_up(error)
            else:
                self._digest.update(self._buffer)
        self._buffer.clear()

    def _give_up(self, error: Exception) -> None:
        """The file ends here; the run goes on unrecorded."""
        self.error = error
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if self._kernel.observer is self:
            self._kernel.observe(None)
        if file is not None:
            with contextlib.suppress(OSError):  # what could not be written before cannot be written now
                file.close()

    def close(self, ending: dict[str, Any]) -> None:
        """Write the end and the digest. Idempotent."""
        text = json.dumps(ending, sort_keys=True).encode()
        records = self._records + (self.pen.count if self.pen is not None else 0)
        self._buffer += _END.pack(END, records, self._kernel.chain, len(text)) + text
        self.flush()
        self._buffer += self._digest.digest()
        self.flush()
        self._close()


class Memory:
    """The newest events of a run, kept in memory: `Runtime(record=Memory(10_000))`, then `memory.events()`."""

    def __init__(self, events_max: int = 100_000) -> None:
        if type(events_max) is not int or events_max < 1:
            raise ValueError(f"Memory(events_max={events_max!r}): must be a whole number, at least 1")
        self.events_max = events_max
        self._kernel: Kernel | None = None
        self._store: Deque | Shelved = Deque(0, events_max, MEMORY_BYTES_MAX)

    @property
    def pen(self) -> Pen | None:
        """By which a kernel in C writes down most of what happens."""
        return self._store.pen

    @property
    def dropped(self) -> int:
        """How many older events are gone."""
        return self._store.dropped

    def attach(self, kernel: Kernel) -> None:
        """Listen to a kernel that has not begun."""
        self._kernel = kernel
        self._store = newest(kernel, self.events_max, MEMORY_BYTES_MAX)
        kernel.observe(self)

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        kind = KINDS[name]
        numbers, text = kind.describe(self._kernel, task, detail)
        self._store.put(kind, numbers, text)

    @property
    def _before(self) -> Context:
        """What the dropped ones say about the first that is kept."""
        return self._store.before()

    def events(self) -> Iterator[Event]:
        """The kept ones, oldest first."""
        context = self._before
        for record in self._store.records():
            yield context.event(*record)


# ---- reading


class Trace:
    """A trace file, read from the beginning to the end as often as one likes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._begin(Path(path), None)

    @classmethod
    def of(cls, file: BinaryIO, name: str) -> Trace:
        """A trace in a file that is open already, read by one reader at a time; it stays open."""
        trace = cls.__new__(cls)
        trace._begin(Path(name), file)
        return trace

    def _begin(self, path: Path, file: BinaryIO | None) -> None:
        self.path = path
        self._given = file
        self.ending: dict[str, Any] | None = None  # known once all events were read
        with self._open() as reader:
            self.header = reader.header()

    @contextlib.contextmanager
    def _open(self) -> Generator[_Reader]:
        if self._given is not None:
            yield _Reader(self._given, self.path)
            return
        try:
            if self.path.exists() and not self.path.is_file():  # a pipe would block, a device may never end
                raise OSError(0, "it is no plain file")
            file = self.path.open("rb")
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: cannot be read: {_told(error)}") from None
        with file:
            yield _Reader(file, self.path)

    @property
    def seed_hash(self) -> int:
        """Where its decision chain starts."""
        return seed_chain(self.header["seed"], self.header["workers"])

    def records(self) -> Iterator[Record]:
        """The bare records. Raises `TraceError` where the file stops making sense."""
        with self._open() as reader:
            reader.header()
            yield from reader.records(self.seed_hash)
            self.ending = reader.ending

    def events(self) -> Iterator[Event]:
        """Every event with everything that is true of it."""
        context = Context(hash=self.seed_hash)
        for kind, numbers, text in self.records():
            yield context.event(kind, numbers, text)

    def broken_link(self) -> Event | None:
        """The first decision whose hash does not follow from the one before it; None: the chain holds."""
        chain = self.seed_hash
        for event in self.events():
            told, circumstances = event.numbers, _PERMISSION.get(event.name)
            if event.name == "scheduler_step_decision":
                streak, limit = event.cancel_streak, event.cancel_streak_limit
                circumstances = (told["lane"], told["worker"], streak, limit, told["generation"])
            if circumstances is not None:
                chain = link(chain, event.task_id, event.region_id, *circumstances)
                if chain != event.decision_hash:
                    return event
        return None


class _Reader:
    """Reads one file once, and checks the container on the way."""

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
        """The next bytes. What the file cannot hold is not even asked for: a length may claim anything."""
        data = self._file.read(size) if size <= self._size - self._read else b""
        if len(data) < size:
            raise self._fail(
                f"the file ends in the middle: the run goes on, or was killed, or the file was cut; "
                f"{self._count:,} whole records can be read",
                TraceCut,
            )
        self._digest.update(data)
        self._read += size
        return data

    def _take_text(self, length: int, what: str) -> bytes:
        if length > TEXT_BYTES_MAX:
            raise self._fail(f"{what} claims to be {length:,} bytes long; at most {TEXT_BYTES_MAX:,} make sense")
        return self._take(length)

    def _take_object(self, length: int, what: str) -> dict[str, Any]:
        text = self._take_text(length, what)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if type(found) is not dict:
            raise self._fail(f"{what} is no JSON object: {brief(text[:80], repr)}")
        return found  # pyright: ignore[reportUnknownVariableType] (JSON)

    def header(self) -> dict[str, Any]:
        magic = self._file.read(len(MAGIC))
        if magic != MAGIC:
            raise self._fail("this is no trace of Bursar, or one of a version that this one cannot read")
        self._digest.update(magic)
        self._read += len(magic)
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size))
        header = self._take_object(length, "the header")
        if header.get("schema") != SCHEMA:
            raise self._fail(f"the schema is {brief(header.get('schema'), repr)}; this Bursar reads schema {SCHEMA}")
        for name, kind in HEADER.items():
            if type(header.get(name)) is not kind:
                raise self._fail(f"the header has no {name} that makes sense: {brief(header.get(name), repr)}")
        if not 1 <= header["workers"] <= WORKERS_MAX:
            raise self._fail(f"the header speaks of {header['workers']} workers; 1 to {WORKERS_MAX} make sense")
        return header

    def records(self, chain: int) -> Iterator[Record]:
        """Each record; at the end, whether the end fits them. `chain` is where the decisions start from."""
        while (code := self._take(1)) != bytes((END,)):
            kind = BY_CODE.get(code[0])
            if kind is None:
                raise self._fail(f"there is no kind of record with the number {code[0]}")
            _, *numbers = kind.layout.unpack(code + self._take(kind.layout.size - 1))
            text = self._take_text(numbers.pop(), f"the {kind.text} of {kind.name}") if kind.text else b""
            self._check_names(kind, numbers)
            if kind.name == "scheduler_step_decision":
                chain = numbers[-1]
            self._count += 1
            yield Record(kind, tuple(numbers), text)
        self._end(chain)

    def _check_names(self, kind: Kind, numbers: list[int]) -> None:
        """A value that has a name in the catalogue has one, or is absent."""
        for field, number in zip(kind.fields, numbers, strict=True):
            if field.names and number >= len(field.names):
                raise self._fail(f"the {field.name} of {kind.name} is {number}, which stands for nothing")

    def _end(self, chain: int) -> None:
        _, count, last, length = _END.unpack(bytes((END,)) + self._take(_END.size - 1))
        if count != self._count:
            raise self._fail(f"the end counts {count:,} records, but there are {self._count:,}")
        if chain != last:
            raise self._fail(f"the last decision is {fingerprint(chain)}, but the end names {fingerprint(last)}")
        ending = self._take_object(length, "the end")
        expected = self._digest.digest()
        if self._take(DIGEST_BYTES) != expected:
            raise self._fail("the digest does not fit: the file was changed or damaged after it was written")
        if self._read != self._size:
            raise self._fail("there is something after the digest")
        self.ending = ending


def _told(error: Exception) -> str:
    """An error of the file system in its own words, without the number and the path."""
    return getattr(error, "strerror", None) or brief(error)
