"""Waiting for files: `wait_readable`, `wait_writable`, and the base class of every operation on a file or socket.

When a file is ready, the host calls a function that only posts. At the beginning of the next batch the waiting
operation tries again, with the capabilities that its task has then. If it succeeds, the task gets the answer. One
operation costs one syscall of the budget, however often it tries: the price must not depend on when a packet came.

FILES-1  a wait for a file counts as one source of the pump, from `enlist` to the first `delist`
FILES-2  readiness reaches a task only by `post`, and only while the task still waits for it
FILES-3  at most one task waits for one direction of one file; a second task is refused

Rejected: reading or writing in the host's callback. That would be before the check of the task's capabilities, and
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
from bursar.law.capability import CapIO, require
from bursar.law.costs import SYSCALL, Cost
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
            f"task {task.name!r} cannot wait for a file or a socket: host {pump.host.name!r} has none; "
            "call run(main), or for virtual time run(main, host=bursar.hosts.selector.SelectorHost(), clock='virtual')"
        )


class FileOperation(Operation[T_co]):
    """An operation that is tried at once, and again each time that its file is ready."""

    __slots__ = ()
    cost: ClassVar[Cost] = SYSCALL
    action: ClassVar[str]  # completes "the task may not …"

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        """Try the operation. True: it is done, and `take` returns its result."""
        raise NotImplementedError

    def writes(self) -> bool:
        """Whether a failed `attempt` must wait until the file can be written. Otherwise: until it can be read."""
        raise NotImplementedError

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """Ask the host to call `call` once, when the file is ready."""
        raise NotImplementedError

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        """The wait is over, with or without an answer: undo `watch`."""
        raise NotImplementedError

    def require_allowed(self, kernel: Kernel, task: Task) -> None:
        """Raise unless the task may do this on this host."""
        require(task, task.capabilities, CapIO, self.action)
        require_files(kernel.runtime.pump, task)

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self.require_allowed(kernel, task)
        return self.attempt(kernel, task)

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        pump: Pump = kernel.runtime.pump
        label = f"ready {entry.task.id} {entry.generation} {'w' if self.writes() else 'r'}"
        while label in pump.expected:
            label += "'"  # another case of the same select
        deliver = partial(self._on_ready, kernel, entry)
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
        """Ask the host to watch the file, unless this is a replay."""
        if not pump.live:
            return
        try:
            self.watch(pump, entry, call)
        except (OSError, ValueError, KeyError) as error:  # what selectors raise for a file that they cannot watch
            refusal = HostMisuse(f"task {entry.task.name!r}: host {pump.host.name!r} cannot watch the file: {error}")
            pump.post(f"unwatchable {entry.task.id} {entry.generation}", partial(entry.refuse, pump.kernel, refusal))

    def _on_ready(self, kernel: Kernel, entry: Entry) -> None:
        """The host reported that the file is ready: try again; then answer, refuse, or wait again."""
        if entry.token is None or kernel.runtime.pump.over:
            return  # FILES-2
        task = entry.task
        try:
            require(task, task.capabilities, CapIO, self.action)
            done = self.attempt(kernel, task)
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
    """The outpost for `wait_readable` and `wait_writable`: which task waits for which file.

    It finds a second task that wants to wait for the same file, and files that were closed during a wait.
    """

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
        """Stop watching the old file with this number: the number belongs to a new file, or soon will."""
        unwatch = getattr(self._pump.host, "unwatch", None)
        if unwatch is not None:
            unwatch(fd, False)
            unwatch(fd, True)

    def end_stale_waits(self, fd: int) -> None:
        """Let a wait end that is for an earlier file with this number, if that file was closed."""
        for write in (False, True):
            entry, ready = self._waits.get((fd, write), (None, None))
            if entry is not None and ready is not None and ready.was_closed():
                self.leave(fd, write, entry)
                self.forget(fd)
                entry.token[1]()

    def resting(self) -> None:
        """A closed file never becomes ready: let each task that waits for one try again, which raises an error."""
        for entry, ready in list(self._waits.values()):
            if ready.was_closed():
                entry.token[1]()

    def stopped(self) -> None:
        """Nothing to do: no task waits any more."""


class _Ready(FileOperation[None]):
    """Wait until a file can be read or written. Neither reads nor writes."""

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
            hint = "" if error.errno == errno.EBUSY else "; it must be open, and not a file on disk"
            raise self._refusal(task, f"{error.strerror or error}{hint}") from error
        return False  # only the host can say whether the file is ready, by its call

    def _try(self, host: Any, watches: Watches) -> None:
        """Raise unless the host accepts the file, so that the task is refused at once and not during its wait."""
        watches.end_stale_waits(self._fd)
        other = watches.holder(self._fd, self._write)
        if other is not None:  # FILES-3
            hint = "let one task wait and set an Event for the other"
            raise OSError(errno.EBUSY, f"task {other.name!r} already waits for that; {hint}")
        try:
            host.watch(self._fd, self._write, lambda: None)
        except (ValueError, KeyError) as error:
            raise OSError(errno.EINVAL, str(error)) from error
        host.unwatch(self._fd, self._write)
        self._identity = _identity(self._fd)

    def _refusal(self, task: Task, why: str) -> HostMisuse:
        return HostMisuse(f"task {task.name!r} cannot wait until file {self._fd} is {VERBS[self._write]}: {why}")

    def attempt(self, kernel: Kernel, task: Task) -> bool:
        if kernel.runtime.pump.ask(task, "closed", self.was_closed):
            raise self._refusal(task, "it was closed during the wait; end the wait first: cancel the task, or select()")
        return True

    def was_closed(self) -> bool:
        """Whether the file was closed. Its number may belong to another file by now."""
        try:
            if isinstance(self._file, int):
                return _identity(self._file) != self._identity
            return self._file.fileno() != self._fd
        except (OSError, ValueError):
            return True

    def take(self, kernel: Kernel, task: Task) -> None:
        """Nothing to do: the file is ready."""

    def watch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        if Watches.of(pump).join(self._fd, self._write, entry, self):
            pump.host.watch(self._fd, self._write, call)  # pyright: ignore

    def unwatch(self, pump: Pump, entry: Entry, call: Callable[[], None]) -> None:
        if Watches.of(pump).leave(self._fd, self._write, entry):
            pump.host.unwatch(self._fd, self._write)  # pyright: ignore


def _identity(fd: int) -> tuple[int, int]:
    """What tells this file from a later file with the same number."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def wait_readable(file: File) -> Operation[None]:
    """Awaited: returns when `file` (a number, or an object with `fileno()`) can be read. Needs `CapIO`. Works in
    `select`.

    Raises `HostMisuse` if another task already waits to read this file, if the file is closed, and for files on disk.
    """
    return _Ready(file, write=False)


def wait_writable(file: File) -> Operation[None]:
    """Awaited: returns when `file` can be written. Needs `CapIO`. Works in `select`."""
    return _Ready(file, write=True)
