"""The writer of trace files: an observer that writes each event of a run while the run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any, BinaryIO, Final

try:
    import fcntl
except ImportError:  # not on every platform
    fcntl = None

from bursar.errors import TraceError
from bursar.law.kernel import Kernel
from bursar.law.task import Task
from bursar.trace.events import KINDS
from bursar.trace.file_format import END, ENDING, LENGTH, MAGIC, TEXT_BYTES_MAX, error_text
from bursar.trace.record_codec import encoded, trace_writer_for

BUFFER_BYTES: Final = 64 * 1024  # a batch with more bytes than this is written in parts


def versions() -> dict[str, str]:
    """The versions that the run used, for the header."""
    from importlib.metadata import version

    return {"bursar": version("bursar"), "python": platform.python_version(), "platform": platform.platform()}


def digest_of(path: Path) -> str:
    """The SHA-256 of a program's file. It shows whether a trace comes from this program."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_locked(path: Path) -> BinaryIO:
    """Open a file for one run alone, and keep its content for now.

    Two runs that write to the same file would both lose their trace, so the second gets an error. Only the user may
    read a new file: a trace contains what the program received, decrypted.
    """
    file = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    if fcntl is not None and path.is_file():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise BlockingIOError(error.errno, "another run is being recorded to this file") from None
        except OSError:
            pass  # a file system without locks
    return file


class Recorder:
    """The observer that writes a trace file. An error of the file ends the recording, never the run."""

    def __init__(self, kernel: Kernel, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        self.error: Exception | None = None
        self._kernel = kernel
        self._digest = hashlib.sha256()
        self._records = 0  # without those of the trace writer, which counts its own
        text = json.dumps(header, sort_keys=True).encode()
        if len(text) > TEXT_BYTES_MAX:
            raise TraceError(f"{self.path}: the header of the trace would be {len(text):,} bytes long")
        self._buffer = bytearray(MAGIC + LENGTH.pack(len(text)) + text)
        # The trace writer appends to the same buffer, so `_buffer` is never replaced by another object.
        self.trace_writer = trace_writer_for(kernel, self._buffer, BUFFER_BYTES)
        try:
            self._file: BinaryIO | None = open_locked(self.path)
            if self.path.is_file():
                self._file.truncate(0)
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: the trace cannot be written: {error_text(error)}") from None
        self.flush()

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        kind = KINDS[name]
        try:
            numbers, text = kind.describe(self._kernel, task, detail)
            packed = text if isinstance(text, bytes) else text.encode()
            if len(packed) > TEXT_BYTES_MAX:
                raise ValueError(f"the {kind.text} of {name} is {len(packed):,} bytes long")
            record = encoded(kind, numbers, packed)
        except Exception as error:
            self._give_up(error)
            return
        self._buffer += record  # in one statement: a signal handler may run between two statements
        self._records += 1
        if len(self._buffer) > BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the file."""
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
        """End the recording. The run goes on without a recorder."""
        self.error = error
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if self._kernel.observer is self:
            self._kernel.observe(None)
        if file is not None:
            with contextlib.suppress(OSError):  # closing may try to write again, and fail again
                file.close()

    def close(self, ending: dict[str, Any]) -> None:
        """Write the end and the digest. Idempotent."""
        text = json.dumps(ending, sort_keys=True).encode()
        records = self._records + (self.trace_writer.count if self.trace_writer is not None else 0)
        self._buffer += ENDING.pack(END, records, self._kernel.chain, len(text)) + text
        self.flush()
        self._buffer += self._digest.digest()
        self.flush()
        self._close()
