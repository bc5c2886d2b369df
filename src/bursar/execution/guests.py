"""Guests: the functions that one run has on the native workers, and how it hears of them.

The engine writes letters into a mailbox: a guest has ended, or lacks money. When there are some it rings, by eight
bytes into a file that the host watches; a host that watches no files is told by a thread that sleeps on it. Each letter
then enters by `Pump.post`, under the label of the task that waits for it, at the beginning of a batch. Nobody polls.

G1  what a guest was given to work on is kept alive until the letter of its end is here, also when its run is long over
G2  a run that is torn down asks its guests to stop and does not wait for them: they are strays, which the process keeps
    an eye on until they have left
G3  a process ends only when its strays have, or have had their time for that; what they hold is then never freed

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
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from bursar.execution import library
from bursar.hosts.pump import Pump

LETTERS_N: Final = 64  # taken at once: as many as enter in one batch
EXIT_S_MAX: Final = 2.0  # G3: what a stray may take to reach a point where it can stop
SHORT, LOST = 16, 17  # beside the kinds of endings: it lacks money; it was in the process that this one was forked from

Portion = tuple[int, ...]  # of money, by component
Letter = tuple[int, int, int, Portion]  # kind, how it panicked, code, amounts


class Guest:
    """One function on the native workers."""

    __slots__ = ("address", "deliver", "keep", "label", "letter")

    def __init__(self, keep: object) -> None:
        self.keep = keep  # G1
        self.address: int | None = None  # Invariant: set exactly while letters may come
        self.label = ""  # under which the next letter enters,
        self.deliver: Callable[[], None] | None = None  # and who takes it
        self.letter: Letter | None = None  # what came and was not delivered yet

    def tell(self, letter: Letter) -> None:
        if self.letter is not None and letter[0] == SHORT:  # it lacks this as well
            letter = (*letter[:3], tuple(map(max, letter[3], self.letter[3])))
        self.letter = letter


class _Process:
    ends = False  # nobody is told anything any more


_all: weakref.WeakSet[Guests] = weakref.WeakSet()
_strays: set[Guests] = set()  # G2


class Guests:
    """The guests of one run: an outpost of its pump."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._library = library.library()
        self._letters = (library.Letter * LETTERS_N)()
        self._living: dict[int, Guest] = {}  # by key
        self._keys = 0
        self._watched = False
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()  # between the listener, which lets go of guests, and whoever uses their addresses
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._mailbox: int | None = self._library.bursar_mailbox_open(self._bell)
        if self._mailbox is None:
            os.close(self._bell)
            raise MemoryError("there is none for a mailbox of the native workers")
        _once()
        _all.add(self)

    @classmethod
    def of(cls, pump: Pump) -> Guests:
        found = pump.outposts.get(cls)
        if not isinstance(found, cls):
            sweep()
            found = pump.outposts[cls] = cls(pump)
        return found

    # ---- telling the engine

    def spawn(
        self, guest: Guest, function: int, argument: int | None, name: bytes, stack: int, portion: Portion
    ) -> int:
        """Run a function. 0, or the code of the library that says why not."""
        library.library()  # E1: not in a child
        address = ctypes.c_void_p()
        with self._lock:  # it may end at once, but nobody hears of it before this is over
            self._keys += 1
            error: int = self._library.bursar_guest_spawn(
                self._mailbox, self._keys, function, argument, name, stack, _budget(portion), ctypes.byref(address)
            )
            if error:
                return error
            guest.address = address.value
            self._living[self._keys] = guest
        self._listen()
        return 0

    def cancel(self, guest: Guest) -> None:
        self._tell(guest, self._library.bursar_guest_cancel)

    def fill(self, guest: Guest, portion: Portion) -> None:
        """Another portion. Where the runtime itself was started with too little for that, it gets none."""
        if self._tell(guest, self._library.bursar_guest_fill, _budget(portion)):
            self.refuse(guest)

    def refuse(self, guest: Guest) -> None:
        """Nothing more of what it lacks."""
        self._tell(guest, self._library.bursar_guest_refuse)

    def _tell(self, guest: Guest, call: Callable[..., int | None], *args: object) -> int | None:
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
        while self._mailbox is not None and not self._pump.over:
            select.select([self._bell], [], [])
            self.take()

    def take(self) -> None:
        """Read all letters there are, and hand them on."""
        if library.is_forked():
            return  # they are the parent's
        for guest in self._read():
            if guest.deliver is not None and not _Process.ends:  # else whoever is about to wait will look
                self._pump.post(guest.label, guest.deliver)

    def _read(self) -> list[Guest]:
        told: list[Guest] = []
        with self._lock:
            if self._mailbox is None:
                return told
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell)
            n = LETTERS_N
            while n == LETTERS_N:
                n = self._library.bursar_mailbox_take(self._mailbox, self._letters, LETTERS_N)
                for letter in self._letters[:n]:
                    guest = self._living[letter.key]
                    guest.tell((letter.kind, letter.panic, letter.code, tuple(letter.amounts)))
                    if letter.kind != SHORT:
                        self._gone(letter.key)
                    told.append(guest)
        return told

    def _gone(self, key: int) -> None:
        guest = self._living.pop(key)
        guest.address = None
        guest.keep = None

    # ---- as an outpost of the pump

    def resting(self) -> None:
        """The bell says everything."""

    def stopped(self) -> None:
        """G2."""
        if library.is_forked():
            return
        self.cancel_all()
        if self._listener is not None:
            os.eventfd_write(self._bell, 1)
            self._listener.join()
        _strays.add(self)
        sweep()

    # ---- strays

    def close_if_empty(self) -> None:
        self.take()
        with self._lock:
            if self._living or self._mailbox is None:
                return
            error: int = self._library.bursar_mailbox_close(self._mailbox)
            assert not error, "G1"
            self._mailbox = None
            os.close(self._bell)
            _strays.discard(self)

    def forsake(self) -> None:
        """G3: they may go on writing to what they were given, until the process is gone."""
        for guest in self._living.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(guest.keep))

    def lose(self) -> None:
        """This is the child of a fork, and they are in the parent."""
        for key, guest in list(self._living.items()):
            guest.letter = (LOST, 0, 0, (0,) * library.COMPONENTS_N)
            self._gone(key)
            if guest.deliver is not None and not self._pump.over:
                self._pump.post(guest.label, guest.deliver)

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
    for guests in list(_strays):
        guests.close_if_empty()


def _leave() -> None:
    """The process ends. Runs that go on in threads nobody waits for are strays as well."""
    if library.is_forked():
        return
    _Process.ends = True
    for guests in list(_all):
        guests.cancel_all()
    deadline_s = time.monotonic() + EXIT_S_MAX
    try:
        while bells := [guests.bell for guests in _all if guests.bell is not None]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            select.select(bells, [], [], left_s)
            for guests in list(_all):
                guests.take()
    finally:
        for guests in _all:
            guests.forsake()


def _forked() -> None:
    for guests in list(_all):
        guests.lose()


@functools.cache
def _once() -> None:
    """What the process is to see to from the first guest on."""
    atexit.register(_leave)
    library.when_forked(_forked)
