"""The native host: our own loop, on the machine's monotonic clock and `selectors`.

Where nothing but other threads can end its sleep, the loop sleeps by a bell, which costs them the least. Else a
selector waits, for the files and sockets that are watched and for one end of a socket pair: a byte from the other end
wakes it. Where a task waits for a signal, the system writes that byte itself; Python runs the handler of a signal only
between two bytecodes, and one that comes as the loop lies down, or in another thread, would else be heard at its next
wake. Who wakes a loop that is awake only leaves a note: the loop looks for it after it has said that it is going to
sleep. While it sleeps and watches no file, another thread may stand in for it (`drive.loop_ownership`).

A file stays with the selector after it was ready, until it is unwatched or until it is ready again and nobody waits for
it: a connection that is read, answered and read again costs the system no call for that.

Rejected: edge-triggered or one-shot watches. The first lose a wake when somebody reads only a part, the second cost a
call for every wait.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from bursar.drive.loop_ownership import Turn
from bursar.drive.pump import Pump
from bursar.errors import HostMisuse

__bursar_loop__ = True  # between two batches an asynchronous exception may be raised here (`drive.interrupt`)

WAIT_S_MAX: Final = 3600.0  # selectors take no arbitrary floats; the pump looks at the clock again anyway
_MASKS: Final = (selectors.EVENT_READ, selectors.EVENT_WRITE)


class _Watched:
    """One file: what the selector listens for, and whom to call."""

    __slots__ = ("calls", "mask")

    def __init__(self, mask: int) -> None:
        self.mask = mask
        self.calls: list[Callable[[], None] | None] = [None, None]  # when it can be read, and written


class NativeHost:
    """Real time, real files."""

    name = "native"
    virtual = False

    def __init__(self) -> None:
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self.start_ns = 0  # when the run's clock showed 0, by the machine's
        self._soon = False  # a microtask is owed
        self._later = False  # a handoff is owed
        self._waking = False  # somebody wants the loop to look
        self._asleep = False  # or about to be, and then it has not looked for that yet
        self._by_bell = True  # that is how it sleeps
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may come in the middle of itself
        self._alarm_ns: int | None = None
        self._files: dict[int, _Watched] = {}
        self._ending = threading.RLock()  # between a wake and the end; a signal handler may come in between

    def open(self, pump: Pump) -> None:
        if self._pump is not None:
            raise HostMisuse("this NativeHost drives another run already; give each run a host of its own")
        self._pump = pump
        self.start_ns = time.monotonic_ns()
        self._soon = self._later = self._waking = self._asleep = False
        self._alarm_ns = None
        self._turn = Turn()
        self._selector = selectors.DefaultSelector()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ, None)

    def close(self) -> None:
        self._pump = None
        self._files.clear()
        self._selector.close()
        with self._ending:  # no byte may go out to whatever gets this number next
            self._reader.close()
            self._writer.close()

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.start_ns

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def microtask(self) -> None:
        self._soon = True

    def handoff(self) -> None:
        self._later = True

    def alarm(self, deadline_ns: int | None) -> None:
        self._alarm_ns = deadline_ns

    def wake(self) -> None:
        if self._waking:
            return  # the loop has not begun to look yet: it will find what this wake is about
        self._waking = True
        if not self._asleep:
            return
        if self._by_bell:
            self._bell.put(None)
            return
        try:
            self._ring()
        except BaseException:  # an error out of the blue, in a thread of the program's: the loop may not have heard
            self._waking = False  # so whoever comes next rings again
            raise

    def _ring(self) -> None:
        try:
            self._ending.acquire()
            try:  # noqa: SIM105 (nothing is called in between)
                self._writer.send(b"\0")
            except OSError:
                pass  # full: a wake is pending already; closed: all is over
        finally:  # also if something struck as soon as it was taken, which `with` does not see from 3.14 on
            try:  # noqa: SIM105
                self._ending.release()
            except RuntimeError:
                pass  # it was struck before

    def drive_from_thread(self, drive: Callable[[], bool]) -> bool:
        turn = self._turn
        if self._waking or not turn.free:
            return False
        try:
            return turn.take(False) and drive()
        finally:  # also if something struck as soon as it was taken
            try:  # noqa: SIM105 (nothing strikes before the first call, and that is to be this one)
                turn.leave()
            except RuntimeError:
                pass  # another was faster

    # ---- files

    def watch(self, fd: int, write: bool, ready: Callable[[], None]) -> None:
        mask, file = _MASKS[write], self._files.get(fd)
        if file is None:
            file = _Watched(mask)
            self._selector.register(fd, mask, file)
            self._files[fd] = file
        elif not file.mask & mask:
            self._selector.modify(fd, file.mask | mask, file)
            file.mask |= mask
        file.calls[write] = ready

    def unwatch(self, fd: int, write: bool) -> None:
        file = self._files.get(fd)
        if file is None:
            return
        file.calls[write] = None
        left = file.mask & ~_MASKS[write]
        try:
            if left and left != file.mask:
                self._selector.modify(fd, left, file)
            elif not left:
                self._selector.unregister(fd)
        except (OSError, KeyError):  # closed behind our back: then nobody listens to it any more
            left = 0
        file.mask = left
        if not left:
            del self._files[fd]

    # ---- the loop

    def run_until(self, over: Callable[[], bool]) -> None:
        pump = self._pump
        assert pump is not None, "only an open host runs"
        rings = self._ring_for_signals()
        try:
            while not over():
                if self._soon:
                    self._soon = False
                    pump.drain()
                    continue
                # At a handoff nothing outside can have happened but time, if no file is watched and nobody called.
                woken = self._wait(pump) if self._files or self._waking or not self._later else False
                if self._alarm_ns is not None and self._alarm_ns <= self.now_ns():
                    self._alarm_ns = None
                    pump.rang()
                elif woken or self._later:
                    self._later = False
                    pump.drain()
        finally:
            self._turn.take_back()  # it has it, unless it was struck before it could; and nobody drives what is over
            if rings:
                signal.set_wakeup_fd(-1)

    def _ring_for_signals(self) -> bool:
        """Have the system write a byte for every signal. False: not the main thread, or another loop has it do so."""
        if threading.current_thread() is not threading.main_thread():
            return False
        before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        return before == -1

    def _wait(self, pump: Pump) -> bool:
        """Wait for files, the alarm or a wake. True: there was a wake."""
        if self._later:
            seconds: float | None = 0.0
        elif self._alarm_ns is None:
            seconds = None
        else:
            seconds = min(max(0.0, (self._alarm_ns - self.now_ns()) / 1e9), WAIT_S_MAX)
        self._by_bell = not self._files and not pump.listeners
        self._asleep = True
        if self._waking:
            seconds = 0.0  # before, and after that nobody would have rung
        if self._files:
            for key, events in self._selector.select(seconds):
                if key.data is None:
                    self._swallow()
                else:
                    self._tell(key.fd, key.data, events)
        elif not self._waking:
            self._sleep(seconds)
        self._asleep = False
        woken, self._waking = self._waking, False  # a wake that is left out before this is seen to by the next batch
        return woken

    def _sleep(self, seconds: float | None) -> None:
        try:
            self._turn.give()
            if self._by_bell:
                self._bell.get(timeout=seconds)
            elif self._selector.select(seconds):
                self._swallow()
        except queue.Empty:
            return  # it is time
        finally:
            self._turn.take_back()

    def _tell(self, fd: int, file: _Watched, events: int) -> None:
        for write, mask in enumerate(_MASKS):
            if not events & mask:
                continue
            ready = file.calls[write]
            if ready is None:
                self.unwatch(fd, bool(write))  # nobody waits any more: do not hear of it again
            else:
                file.calls[write] = None
                ready()

    def _swallow(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
