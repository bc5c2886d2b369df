"""Waiting for files: `wait_readable`, `wait_writable`, and what every operation on a file or socket has in common.

The host calls when a file is ready. That call only posts; at the beginning of the next batch the operation that waits
looks again, under the authority that its task has then, and answers if it could be done. One operation costs one
syscall of the budget, however often it has to look: what a program pays must not depend on when a packet came.

FILES-1  a wait for a file counts as one source of the pump, from `enlist` to the first `delist`
FILES-2  readiness reaches a task only by `post`, and a task that no longer waits for it hears nothing
FILES-3  one task waits for one direction of one file; a second is refused

Rejected: to read or write in the host's callback. It would be done before the task's authority is looked at, and
outside any batch.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

from bursar.backend import Kernel, Task
from bursar.drive.pump import Pump
from bursar.errors import CapabilityDenied, HostMisuse
from bursar.law.budget import SYSCALL, Cost
from bursar.law.capability import CapIO, require
from bursar.request import Entry, Operation, loop_module

loop_module(__name__)

T_co = TypeVar("T_co", covariant=True)

VERBS: Final = ("readable", "writable")


class HasFileno(Protocol):
    """Anything with a file descriptor, such as a socket."""

    def fileno(self) -> int: ...


File = int | HasFileno


def require_files(pump: Pump, task: Task) -> None:
    """Raise unless the host can wait for files."""
    if not hasattr(pump.host, "watch"):
        raise HostMisuse(
            f"task {task.name!r} cannot wait for a file or a socket: host {pump.host.name!r} knows none; "
            "run on the native host: run(main), or run(main, host=NativeHost(), clock='virtual') for virtual time"
        )


class FileOperation(Operation[T_co]):
    """An operation that looks whether it can be done, and looks again each time that its file is ready."""

    __slots__ = ()
    cost: ClassVar[Cost] = SYSCALL
    action: ClassVar[str]  # completes "the task may not …"

    def look(self, kernel: Kernel, task: Task) -> bool:
        """Try. True: it is done, and `take` has what came of it."""
        raise NotImplementedError

    def writes(self) -> bool:
        """What it waits for after a look in vain: that the file can be written (else: read)."""
        raise NotImplementedError

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """Have `call` called once when the file is ready."""
        raise NotImplementedError

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """The wait is over, answered or not."""
        raise NotImplementedError

    def require_allowed(self, kernel: Kernel, task: Task) -> None:
        """Raise unless the task may do this, here and now."""
        require(task, task.capabilities, CapIO, self.action)
        require_files(kernel.runtime.pump, task)

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self.require_allowed(kernel, task)
        return self.look(kernel, task)

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        pump: Pump = kernel.runtime.pump
        label = f"ready {entry.task.id} {entry.generation} {'w' if self.writes() else 'r'}"
        while label in pump.expected:
            label += "'"  # another case of the same select
        deliver = partial(self._arrived, kernel, entry)
        call = partial(pump.post, label, deliver)
        entry.token = (label, call)
        pump.expected[label] = deliver
        pump.sources += 1  # FILES-1
        self._watch(pump, entry, call)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if entry.token is None:
            return
        label, call = entry.token
        entry.token = None
        pump: Pump = kernel.runtime.pump
        pump.sources -= 1
        del pump.expected[label]
        self.unwatch(pump, entry, call)

    def _watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """The one place that decides whether the host is asked to watch: in a replay it is not."""
        if not pump.live:
            return
        try:
            self.watch(pump, entry, call)
        except (OSError, ValueError, KeyError) as error:  # whatever a selector may say of a file that it does not like
            refusal = HostMisuse(f"task {entry.task.name!r}: host {pump.host.name!r} cannot watch the file: {error}")
            pump.post(f"unwatchable {entry.task.id} {entry.generation}", partial(entry.refuse, pump.kernel, refusal))

    def _arrived(self, kernel: Kernel, entry: Entry) -> None:
        """The file is said to be ready: look, and answer, refuse, or wait on."""
        if entry.token is None or kernel.runtime.pump.over:
            return  # FILES-2
        task = entry.task
        try:
            require(task, task.capabilities, CapIO, self.action)
            done = self.look(kernel, task)
        except CapabilityDenied as denied:
            kernel.note("capability_denied", task, denied)
            entry.refuse(kernel, denied)
        except (OSError, HostMisuse) as error:
            entry.refuse(kernel, error)
        else:
            if done:
                entry.answer(kernel, self.take(kernel, task))
            else:
                self._watch(kernel.runtime.pump, entry, entry.token[1])


class Watches:
    """The outpost for bare files: who waits for which, so that a second one and a closed file are found out."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._waits: dict[tuple[int, bool], tuple[Entry, _Ready]] = {}

    @classmethod
    def of(cls, pump: Pump) -> Watches:
        found = pump.outposts.get(cls)
        if not isinstance(found, cls):
            found = pump.outposts[cls] = cls(pump)
        return found

    def holder(self, fd: int, write: bool) -> Task | None:
        wait = self._waits.get((fd, write))
        return wait[0].task if wait is not None else None

    def join(self, fd: int, write: bool, entry: Entry, ready: _Ready) -> bool:
        return self._waits.setdefault((fd, write), (entry, ready))[0] is entry

    def leave(self, fd: int, write: bool, entry: Entry) -> bool:
        mine = self._waits.get((fd, write), (None, None))[0] is entry
        if mine:
            del self._waits[fd, write]
        return mine

    def forget(self, fd: int) -> None:
        """The number belongs to a new file: the host listens to the old one no more."""
        unwatch = getattr(self._pump.host, "unwatch", None)
        if unwatch is not None:
            unwatch(fd, False)
            unwatch(fd, True)

    def make_way(self, fd: int) -> None:
        """Whoever waits for a file that had this number before, and was closed, waits for nothing."""
        for write in (False, True):
            entry, ready = self._waits.get((fd, write), (None, None))
            if entry is not None and ready is not None and ready.is_gone():
                self.leave(fd, write, entry)
                self.forget(fd)
                entry.token[1]()

    def resting(self) -> None:
        """A file that was closed is never ready: let whoever waits for one look, and find out."""
        for entry, ready in list(self._waits.values()):
            if ready.is_gone():
                entry.token[1]()

    def stopped(self) -> None:
        """The tasks are gone, and with them all that waited."""


class _Ready(FileOperation[None]):
    """Wait until a file can be read, or written, without doing either."""

    __slots__ = ("_fd", "_file", "_identity", "_write")
    action = "wait for a file"

    def __init__(self, file: File, write: bool) -> None:
        self._file = file
        self._write = write
        self._fd = -1
        self._identity = (0, 0)

    def why(self) -> str:
        return f"waits until a file is {VERBS[self._write]}"

    def writes(self) -> bool:
        return self._write

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self.require_allowed(kernel, task)
        pump: Pump = kernel.runtime.pump
        self._fd = self._file if isinstance(self._file, int) else self._file.fileno()
        if self._fd < 0:
            raise self._refusal(task, "it is closed")
        try:
            pump.ask(task, "watch", partial(self._try, pump.host, Watches.of(pump)))
        except OSError as error:
            hint = "" if error.errno == errno.EBUSY else "; is it open, and no file on disk?"
            raise self._refusal(task, f"{error.strerror or error}{hint}") from error
        return False  # the host knows, and it says so by a call

    def _try(self, host: Any, watches: Watches) -> None:
        """Whether the host accepts the file: when the task waits it is too late to refuse."""
        watches.make_way(self._fd)
        other = watches.holder(self._fd, self._write)
        if other is not None:  # FILES-3
            raise OSError(errno.EBUSY, f"task {other.name!r} does already; let one task do it and tell the other")
        try:
            host.watch(self._fd, self._write, lambda: None)
        except (ValueError, KeyError) as error:
            raise OSError(errno.EINVAL, str(error)) from error
        host.unwatch(self._fd, self._write)
        self._identity = _identity(self._fd)

    def _refusal(self, task: Task, why: str) -> HostMisuse:
        return HostMisuse(f"task {task.name!r} cannot wait until file {self._fd} is {VERBS[self._write]}: {why}")

    def look(self, kernel: Kernel, task: Task) -> bool:
        if kernel.runtime.pump.ask(task, "closed", self.is_gone):
            raise self._refusal(task, "it was closed meanwhile; end the wait first, by cancelling the task or select()")
        return True

    def is_gone(self) -> bool:
        """Whether the file was closed, perhaps with another one in its place by now."""
        try:
            if isinstance(self._file, int):
                return _identity(self._file) != self._identity
            return self._file.fileno() != self._fd
        except (OSError, ValueError):
            return True

    def take(self, kernel: Kernel, task: Task) -> None:
        """It is ready."""

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        if Watches.of(pump).join(self._fd, self._write, entry, self):
            pump.host.watch(self._fd, self._write, call)  # pyright: ignore

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        if Watches.of(pump).leave(self._fd, self._write, entry):
            pump.host.unwatch(self._fd, self._write)  # pyright: ignore


def _identity(fd: int) -> tuple[int, int]:
    """Which file it is, whatever its number."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def wait_readable(file: File) -> Operation[None]:
    """Awaited: returns when `file` (a number, or an object with `fileno()`) can be read. Needs `CapIO`. Works in
    `select`.

    Raises `HostMisuse` if another task waits for the same, if the file is closed, and for files on disk.
    """
    return _Ready(file, write=False)


def wait_writable(file: File) -> Operation[None]:
    """Awaited: returns when `file` can be written. Needs `CapIO`. Works in `select`."""
    return _Ready(file, write=True)
