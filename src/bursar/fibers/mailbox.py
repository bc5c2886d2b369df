"""Guests: the functions that one run has on the native workers, and how it hears of them.

The engine writes letters into a mailbox: a guest has ended, lacks money, or stands still. When there are some it rings,
by eight bytes into a file that the host watches; a host that watches no files is told by a thread that sleeps on it.
All that has come then enters by one `Pump.post`, at the beginning of a batch, each letter under the label of the task
that waits for it. Nobody polls.

STRAY-1  what a guest was given to work on is kept alive until the letter of its end is here, also when its run is long
    over
STRAY-2  a run that is torn down asks its guests to stop and does not wait for them: they are strays, which the process
    keeps an eye on until they have left
STRAY-3  a process ends only when its strays have, or have had their time for that; what they hold is then never freed

Rejected: a call from the worker into Python. It would wait for the interpreter on a fiber's stack, with all the tasks
of that worker behind it.
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

MESSAGES_N: Final = 256  # taken at once: as many as enter in one batch
EXIT_S_MAX: Final = 2.0  # STRAY-3: what a stray may take to reach a point where it can stop
SHORT, PAUSED = 16, 20  # beside the kinds of endings: it lacks money; it stands still
LOST: Final = 17  # an ending of our own: it was in the process that this one was forked from


class GuestMessage(NamedTuple):
    """What came from the engine: `BursarLetter` of `native/abi/guest.h`."""

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
        """What it has spent; SHORT: what it lacks."""
        return self[4:]

    @classmethod
    def read(cls, text: str) -> GuestMessage:
        return cls(0, *map(int, text.split()))

    def __str__(self) -> str:
        return " ".join(map(str, self[1:]))


_MESSAGE: Final = struct.Struct("=Qiiq5q")


class Guest:
    """One function on the native workers, as this file sees it."""

    __slots__ = ()
    keep: object  # STRAY-1
    address: int | None  # Invariant: set exactly while letters may come

    def on_message(self, message: GuestMessage) -> None:
        """In the loop, at the beginning of a batch: this came."""
        raise NotImplementedError


class _Process:
    ends = False  # nobody is told anything any more


_all: weakref.WeakSet[GuestMailbox] = weakref.WeakSet()
_abandoned_mailboxes: set[GuestMailbox] = set()  # STRAY-2


class GuestMailbox:
    """The guests of one run: an outpost of its pump."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._library = library.library()
        self._messages = bytearray(MESSAGES_N * _MESSAGE.size)
        self._page: Any = (ctypes.c_char * len(self._messages)).from_buffer(self._messages)
        self._arrived: deque[tuple[Guest, GuestMessage]] = deque()  # letters that the loop has not taken in
        self._posted = False  # that there are such
        self.cap: object = None  # the last capability that was found to allow native functions,
        self.open_pools: object = None  # and the last pools that were found to have no limit
        self._living: dict[int, Guest] = {}  # by key
        self._keys = 0
        self._watched = False
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()  # between the listener, which lets go of guests, and whoever uses their addresses
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._handle: int | None = self._library.bursar_mailbox_open(self._bell)
        if self._handle is None:
            os.close(self._bell)
            raise MemoryError("there is none for a mailbox of the native workers")
        _once()
        _all.add(self)

    @classmethod
    def of(cls, pump: Pump) -> GuestMailbox:
        found = pump.outposts.get(cls)
        if not isinstance(found, cls):
            sweep()
            found = pump.outposts[cls] = cls(pump)
        return found

    # ---- telling the engine

    def spawn(
        self, guest: Guest, function: int, argument: int | None, name: bytes, stack: int, portion: Portion | None
    ) -> int:
        """Run a function. 0, or the code of the library that says why not."""
        if library.is_forked():
            library.library()  # FORK-1: refuses
        budget = _budget(portion) if portion is not None else None
        with self._lock:  # it may end at once, but nobody hears of it before this is over
            self._keys = key = self._keys + 1
            address: int = self._library.bursar_guest_spawn(self._handle, key, function, argument, name, stack, budget)
            if address < 0:
                return address
            guest.address = address
            self._living[key] = guest
        if not self._watched:
            self._listen()
        return 0

    def cancel(self, guest: Guest) -> None:
        self._ask(guest, self._library.bursar_guest_cancel)

    def pause(self, guest: Guest, number: int) -> None:
        """Have it stand still; a letter with that number says when it does."""
        self._ask(guest, self._library.bursar_guest_pause, number)

    def resume(self, guest: Guest) -> None:
        self._ask(guest, self._library.bursar_guest_resume)

    def fill(self, guest: Guest, portion: Portion) -> None:
        """Another portion. Where the runtime itself was started with too little for that, it gets none."""
        if self._ask(guest, self._library.bursar_guest_fill, _budget(portion)):
            self.refuse(guest)

    def refuse(self, guest: Guest) -> None:
        """Nothing more of what it lacks."""
        self._ask(guest, self._library.bursar_guest_refuse)

    def _ask(self, guest: Guest, call: Callable[..., int | None], *args: object) -> int | None:
        """One that has ended needs no telling: its letter is here, or will be."""
        if guest.address is None:
            return None
        with self._lock:
            return self._call(guest, call, *args)

    def _call(self, guest: Guest, call: Callable[..., int | None], *args: object) -> int | None:
        """Under the lock: the listener may have come first."""
        return call(guest.address, *args) if guest.address is not None else None

    # ---- hearing

    def _listen(self) -> None:
        """Have somebody wait for the bell, while anything lives."""
        if self._watched or self._listener is not None or not self._living:
            return
        watch = getattr(self._pump.host, "watch", None)
        if watch is not None:
            with contextlib.suppress(ValueError):  # a loop of asyncio's that watches nothing
                watch(self._bell, False, self._rang)
                self._watched = True
                return
        self._listener = threading.Thread(target=self._sleep_and_listen, name="bursar native letters", daemon=True)
        self._listener.start()

    def _rang(self) -> None:
        """The host: the bell can be read."""
        if library.is_forked():
            return
        self._watched = False
        self.take()
        self._listen()
        if not self._watched:
            self._pump.host.unwatch(self._bell, False)  # pyright: ignore

    def _sleep_and_listen(self) -> None:
        while self._handle is not None and not self._pump.over:
            select.select([self._bell], [], [])
            self.take()

    def take(self) -> None:
        """Read all letters there are, and hand them on."""
        if library.is_forked():
            return  # they are the parent's
        with self._lock:
            if self._handle is None:
                return
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell)
            while self._read() == MESSAGES_N:
                pass
        self._post_messages()

    def _read(self) -> int:
        """As many as there is room for. How many that were. Under the lock."""
        n: int = self._library.bursar_mailbox_take(self._handle, self._page, MESSAGES_N)
        for message in map(GuestMessage._make, _MESSAGE.iter_unpack(memoryview(self._messages)[: n * _MESSAGE.size])):
            self._arrived.append((self._living[message.key], message))
            if message.kind not in (SHORT, PAUSED):
                self._gone(message.key)
        return n

    def deliver(self, guest: Guest, message: GuestMessage) -> None:
        """Have a guest hear this, at the beginning of a batch."""
        self._arrived.append((guest, message))
        self._post_messages()

    def _post_messages(self) -> None:
        """One message is about all that has come before the loop looks."""
        if self._arrived and not self._posted and not _Process.ends:
            self._posted = True
            self._pump.post("", self._take_in)

    def _take_in(self) -> int:
        """The letters, as many as a batch lets in. Returns how many."""
        pump, arrived = self._pump, self._arrived
        self._posted = False  # first: who comes after this tells by himself
        n = len(arrived) if pump.over else min(len(arrived), pump.room)
        for _ in range(n):
            guest, message = arrived.popleft()
            guest.on_message(message)
        self._post_messages()
        return n

    def _gone(self, key: int) -> None:
        guest = self._living.pop(key)
        guest.address = None
        guest.keep = None

    # ---- as an outpost of the pump

    def resting(self) -> None:
        """The bell says everything."""

    def stopped(self) -> None:
        """STRAY-2."""
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
        """STRAY-3: they may go on writing to what they were given, until the process is gone."""
        for guest in self._living.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(guest.keep))

    def drop_all(self) -> None:
        """This is the child of a fork, and they are in the parent."""
        for key, guest in list(self._living.items()):
            self._gone(key)
            self._arrived.append((guest, GuestMessage(key, LOST, 0, 0, 0, 0, 0, 0, 0)))
        if self._arrived and not self._pump.over:
            self._pump.post("", self._take_in)

    @property
    def bell(self) -> int | None:
        """What to wait for while any live."""
        return self._bell if self._living else None

    def cancel_all(self) -> None:
        for guest in list(self._living.values()):
            self.cancel(guest)


@functools.lru_cache(maxsize=64)  # most are the same
def _budget(amounts: Portion) -> Any:
    return library.Budget((ctypes.c_int64 * library.COMPONENTS_N)(*amounts))


def sweep() -> None:
    """Let go of strays that have left."""
    for mailbox in list(_abandoned_mailboxes):
        mailbox.close_if_empty()


def _leave() -> None:
    """The process ends. Runs that go on in threads nobody waits for are strays as well."""
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
def _once() -> None:
    """What the process is to see to from the first guest on."""
    atexit.register(_leave)
    library.when_forked(_forked)
