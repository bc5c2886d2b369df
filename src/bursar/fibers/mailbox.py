"""Fiber calls: the C functions that one run has on the native workers, and the mailbox that reports on them.

The engine puts messages into a mailbox: a fiber call has ended, is short of budget, or is paused. If the mailbox was
empty, the engine writes to an eventfd (the bell), which the host watches. For a host that watches no files, a thread
waits for the bell. One `Pump.post` delivers all messages that have arrived, at the beginning of a batch. Each message
is recorded under the label of the task that waits for it. Nothing polls.

STRAY-1  the argument of a fiber call is kept alive until the message of its end arrives, even after the run
STRAY-2  a run that is torn down asks its fiber calls to stop and does not wait for them; the process keeps these strays
    until they have ended
STRAY-3  a process ends when its strays have ended, or after EXIT_S_MAX; what these strays still hold is never freed

Rejected: a call from a worker into Python. The call would wait for the GIL on a fiber's stack, and would block all
tasks of that worker.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import select
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bursar.drive.pump import Pump
from bursar.fibers import library
from bursar.fibers.budget import Portion

MESSAGES_N: Final = 256  # read at once: as many as one batch delivers
EXIT_S_MAX: Final = 2.0  # STRAY-3: the time for a stray to reach a point where it can stop
SHORT, PAUSED = 16, 20  # kinds of messages that are no ends: the function is short of budget; the fiber call is paused
LOST: Final = 17  # our own kind: the fiber call is in the parent of this forked process


class FiberMessage(NamedTuple):
    """A message from the engine: `FiberMessage` of `native/abi/mailbox.h`."""

    key: int
    kind: int
    panic: int
    code: int
    ops: int
    memory: int
    spawns: int
    channel_ops: int
    syscalls: int

    @property
    def amounts(self) -> Portion:
        """What the function has spent. SHORT: what it is short of."""
        return self[4:]

    @classmethod
    def read(cls, text: str) -> FiberMessage:
        return cls(0, *map(int, text.split()))

    def __str__(self) -> str:
        return " ".join(map(str, self[1:]))


_MESSAGE: Final = struct.Struct("=Qiiq5q")


class FiberCall:
    """One function on the native workers. `fibers.run.Run` derives from this class."""

    __slots__ = ()
    keep: object  # STRAY-1
    address: int | None  # Invariant: set exactly while messages may arrive

    def on_message(self, message: FiberMessage) -> None:
        """Called in the loop, at the beginning of a batch."""
        raise NotImplementedError


class _Process:
    ends = False  # the process exits: no message is delivered any more


_all: weakref.WeakSet[FiberMailbox] = weakref.WeakSet()
_abandoned_mailboxes: set[FiberMailbox] = set()  # STRAY-2


class FiberMailbox:
    """The fiber calls of one run: an outpost of its pump."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._library = library.library()
        self._messages = bytearray(MESSAGES_N * _MESSAGE.size)
        self._page: Any = (ctypes.c_char * len(self._messages)).from_buffer(self._messages)
        self._arrived: deque[tuple[FiberCall, FiberMessage]] = deque()  # messages that are not delivered yet
        self._posted = False  # a post that will deliver them is on its way
        self.cap: object = None  # cache of `fibers.run`: the last capability that allowed native functions
        self.open_pools: object = None  # cache of `fibers.run`: the last pools that had no limit
        self._living: dict[int, FiberCall] = {}  # by key
        self._keys = 0
        self._watched = False
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()  # between the listener, which frees fiber calls, and users of their addresses
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._handle: int | None = self._library.bursar_mailbox_open(self._bell)
        if self._handle is None:
            os.close(self._bell)
            raise MemoryError("no memory for a mailbox of the native workers")
        _register_process_hooks()
        _all.add(self)

    @classmethod
    def of(cls, pump: Pump) -> FiberMailbox:
        found = pump.outposts.get(cls)
        if not isinstance(found, cls):
            sweep()
            found = pump.outposts[cls] = cls(pump)
        return found

    # ---- requests to the engine

    def spawn(
        self,
        fiber_call: FiberCall,
        function: int,
        argument: int | None,
        name: bytes,
        stack: int,
        portion: Portion | None,
    ) -> int:
        """Run a function. Returns 0, or the error code of the library."""
        if library.is_forked():
            library.library()  # FORK-1: raises
        budget = _budget(portion) if portion is not None else None
        with self._lock:  # the function may end at once, but no message is read before it is in `_living`
            self._keys = key = self._keys + 1
            address: int = self._library.bursar_fiber_call_spawn(
                self._handle, key, function, argument, name, stack, budget
            )
            if address < 0:
                return address
            fiber_call.address = address
            self._living[key] = fiber_call
        if not self._watched:
            self._listen()
        return 0

    def cancel(self, fiber_call: FiberCall) -> None:
        self._ask(fiber_call, self._library.bursar_fiber_call_cancel)

    def pause(self, fiber_call: FiberCall, number: int) -> None:
        """Ask the fiber call to pause. A message with this number arrives when the fiber call is paused."""
        self._ask(fiber_call, self._library.bursar_fiber_call_pause, number)

    def resume(self, fiber_call: FiberCall) -> None:
        self._ask(fiber_call, self._library.bursar_fiber_call_resume)

    def fill(self, fiber_call: FiberCall, portion: Portion) -> None:
        """Give the fiber call another portion. If the engine's own budget is too small for that, refuse."""
        if self._ask(fiber_call, self._library.bursar_fiber_call_fill, _budget(portion)):
            self.refuse(fiber_call)

    def refuse(self, fiber_call: FiberCall) -> None:
        """Give the fiber call nothing more of what it is short of."""
        self._ask(fiber_call, self._library.bursar_fiber_call_refuse)

    def _ask(self, fiber_call: FiberCall, function: Callable[..., int | None], *args: object) -> int | None:
        """Call a function of the library for the fiber call, unless it has ended."""
        if fiber_call.address is None:
            return None
        with self._lock:
            return self._call(fiber_call, function, *args)

    def _call(self, fiber_call: FiberCall, function: Callable[..., int | None], *args: object) -> int | None:
        """Under the lock, check again: the listener may have removed the fiber call."""
        return function(fiber_call.address, *args) if fiber_call.address is not None else None

    # ---- messages from the engine

    def _listen(self) -> None:
        """While any fiber call lives, let the host watch the bell, or start a thread that waits for it."""
        if self._watched or self._listener is not None or not self._living:
            return
        watch = getattr(self._pump.host, "watch", None)
        if watch is not None:
            with contextlib.suppress(ValueError):  # an asyncio loop that cannot watch files
                watch(self._bell, False, self._rang)
                self._watched = True
                return
        self._listener = threading.Thread(target=self._listen_in_thread, name="bursar native messages", daemon=True)
        self._listener.start()

    def _rang(self) -> None:
        """The host calls this when the bell can be read."""
        if library.is_forked():
            return
        self._watched = False
        self.take()
        self._listen()
        if not self._watched:
            self._pump.host.unwatch(self._bell, False)  # pyright: ignore

    def _listen_in_thread(self) -> None:
        while self._handle is not None and not self._pump.over:
            select.select([self._bell], [], [])
            self.take()

    def take(self) -> None:
        """Read all messages that are there, and post their delivery."""
        if library.is_forked():
            return  # the messages belong to the parent
        with self._lock:
            if self._handle is None:
                return
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell)
            while self._read() == MESSAGES_N:
                pass
        self._post_messages()

    def _read(self) -> int:
        """Under the lock: read at most MESSAGES_N messages. Returns how many."""
        n: int = self._library.bursar_mailbox_take(self._handle, self._page, MESSAGES_N)
        for message in map(FiberMessage._make, _MESSAGE.iter_unpack(memoryview(self._messages)[: n * _MESSAGE.size])):
            self._arrived.append((self._living[message.key], message))
            if message.kind not in (SHORT, PAUSED):
                self._remove(message.key)
        return n

    def deliver(self, fiber_call: FiberCall, message: FiberMessage) -> None:
        """Deliver a message to a fiber call, at the beginning of a batch."""
        self._arrived.append((fiber_call, message))
        self._post_messages()

    def _post_messages(self) -> None:
        """One post delivers all messages that arrive before its batch."""
        if self._arrived and not self._posted and not _Process.ends:
            self._posted = True
            self._pump.post("", self._take_in)

    def _take_in(self) -> int:
        """Deliver as many messages as the batch has room for. Returns how many."""
        pump, arrived = self._pump, self._arrived
        self._posted = False  # before reading: a message that arrives from now on makes its own post
        n = len(arrived) if pump.over else min(len(arrived), pump.room)
        for _ in range(n):
            fiber_call, message = arrived.popleft()
            fiber_call.on_message(message)
        self._post_messages()
        return n

    def _remove(self, key: int) -> None:
        fiber_call = self._living.pop(key)
        fiber_call.address = None
        fiber_call.keep = None

    # ---- as an outpost of the pump

    def resting(self) -> None:
        """Nothing to do: the bell announces every message."""

    def stopped(self) -> None:
        """The run has ended or was torn down: its fiber calls become strays (STRAY-2)."""
        if library.is_forked():
            return
        self.cancel_all()
        if self._listener is not None:
            os.eventfd_write(self._bell, 1)
            self._listener.join()
        _abandoned_mailboxes.add(self)
        sweep()

    # ---- strays

    def close_if_empty(self) -> None:
        self.take()
        with self._lock:
            if self._living or self._handle is None:
                return
            error: int = self._library.bursar_mailbox_close(self._handle)
            assert not error, "STRAY-1"
            self._handle = None
            os.close(self._bell)
            _abandoned_mailboxes.discard(self)

    def abandon(self) -> None:
        """STRAY-3: the functions may write to their arguments until the process ends, so nothing frees these."""
        for fiber_call in self._living.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(fiber_call.keep))

    def drop_all(self) -> None:
        """In a forked child: the functions run in the parent, so their tasks get a message that they are lost."""
        for key, fiber_call in list(self._living.items()):
            self._remove(key)
            self._arrived.append((fiber_call, FiberMessage(key, LOST, 0, 0, 0, 0, 0, 0, 0)))
        if self._arrived and not self._pump.over:
            self._pump.post("", self._take_in)

    @property
    def bell(self) -> int | None:
        """The file to wait for, while any fiber call lives."""
        return self._bell if self._living else None

    def cancel_all(self) -> None:
        for fiber_call in list(self._living.values()):
            self.cancel(fiber_call)


@functools.lru_cache(maxsize=64)  # most portions are equal
def _budget(amounts: Portion) -> Any:
    return library.Budget((ctypes.c_int64 * library.COMPONENTS_N)(*amounts))


def sweep() -> None:
    """Close the mailboxes of torn down runs whose strays have all ended."""
    for mailbox in list(_abandoned_mailboxes):
        mailbox.close_if_empty()


def _at_exit() -> None:
    """The process ends. The fiber calls of runs in daemon threads are strays too."""
    if library.is_forked():
        return
    _Process.ends = True
    for mailbox in list(_all):
        mailbox.cancel_all()
    deadline_s = time.monotonic() + EXIT_S_MAX
    try:
        while bells := [mailbox.bell for mailbox in _all if mailbox.bell is not None]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            select.select(bells, [], [], left_s)
            for mailbox in list(_all):
                mailbox.take()
    finally:
        for mailbox in _all:
            mailbox.abandon()


def _forked() -> None:
    for mailbox in list(_all):
        mailbox.drop_all()


@functools.cache
def _register_process_hooks() -> None:
    atexit.register(_at_exit)
    library.when_forked(_forked)
