"""The selector host: Bursar's own loop, on the machine's monotonic clock and `selectors`.

The loop sleeps in one of two ways. If files are watched, it waits in a selector: for the files and for one end of a
socket pair. A byte from the other end wakes the loop. Without files, it first waits for an item of a queue, because
that is cheapest for the threads that wake it. After `QUEUE_S_MAX` it waits in the selector too, because of signals.

In the main thread the system sends such a byte at every signal. Python runs a signal handler only between two
bytecodes. Without the byte, a signal that comes just before the sleep, or in another thread, would be handled only at
the next wake. So a signal is handled after `QUEUE_S_MAX` at the latest.

A thread that wakes a loop that is awake only sets a flag. The loop looks at the flag after it has said that it is about
to sleep, so no wake is lost. While the loop sleeps and watches no file, another thread may drive the pump in its place
(`drive.loop_ownership`).

A signal handler of the program may raise after any call of the loop. So what must not be lost is kept by an object
that closes itself (`_socket.socket`, an epoll object) or is stored by the same call (`_swap_wakeup_fd`).

A file stays registered with the selector after it was ready, until it is unwatched, or until it is ready again and no
task waits for it. So a connection that is read, answered and read again needs no system call for its registration.

Rejected: edge-triggered watches. They lose a wake when a task reads only a part. Rejected: one-shot watches. They cost
a system call for every wait.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import queue
import selectors
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from bursar.drive.loop_ownership import LoopOwnership
from bursar.drive.pump import Pump
from bursar.errors import HostMisuse

__bursar_loop__ = True  # between two batches an asynchronous exception may be raised here (`drive.interrupt`)

QUEUE_S_MAX: Final = 0.05  # how late a signal may be handled; programs that are woken often wake sooner
WAIT_S_MAX: Final = 3600.0  # selectors refuse very long waits; after this one the loop reads the clock again
_MASKS: Final = (selectors.EVENT_READ, selectors.EVENT_WRITE)


def _swap_wakeup_fd(fd: int, before: list[int]) -> None:
    """Send the byte of every signal to the file `fd`, and append the file that got it before.

    Both in one call of C: an exception between two calls would lose the file before.
    """
    before.extend(map(partial(signal.set_wakeup_fd, warn_on_full_buffer=False), (fd,)))


class _Watched:
    """One file: what the selector watches it for, and the functions to call."""

    __slots__ = ("calls", "mask")

    def __init__(self, mask: int) -> None:
        self.mask = mask
        self.calls: list[Callable[[], None] | None] = [None, None]  # when it can be read; when it can be written


class SelectorHost:
    """The default host: Bursar's own loop, with real time and real files."""

    name = "native"  # traces record this name
    virtual = False

    def __init__(self) -> None:
        self._pump: Pump | None = None  # Invariant: set exactly while open
        self.start_ns = 0  # the machine's time when the run began
        self._soon = False  # the pump has asked for a microtask
        self._later = False  # the pump has asked for a handoff
        self._waking = False  # there was a wake, and the loop has not seen it yet
        self._asleep = False  # the loop sleeps, or is about to sleep and will look at `_waking` first
        self._sleeps_on_queue = True  # the loop sleeps on `_wake_queue`; False: in the selector
        self._wake_queue: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` is reentrant, for signal handlers
        self._alarm_ns: int | None = None
        self._files: dict[int, _Watched] = {}
        self._socket_lock = threading.RLock()  # to send a byte, or to close; reentrant, for signal handlers

    def open(self, pump: Pump) -> None:
        if self._pump is not None:
            raise HostMisuse("this SelectorHost drives another run already; give each run a host of its own")
        self.start_ns = time.monotonic_ns()
        self._soon = self._later = self._waking = self._asleep = False
        self._alarm_ns = None
        self._ownership = LoopOwnership()
        reader, writer = _socket.socketpair()  # not `socket.socketpair`: between its two calls a file could be lost
        try:
            reader.setblocking(False)
            writer.setblocking(False)
            selector = selectors.DefaultSelector()
            selector.register(reader.fileno(), selectors.EVENT_READ, None)
        except BaseException:
            reader.close()
            writer.close()
            raise
        self._pump, self._selector, self._reader, self._writer = pump, selector, reader, writer

    def close(self) -> None:
        """Idempotent: a call that an exception has interrupted is repeated."""
        self._pump = None
        self._files.clear()
        with self._socket_lock:  # no byte may be sent to a later file with the same number
            self._reader.close()
            self._writer.close()
        self._selector.close()

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
            return  # the loop has not seen the last wake yet, and will handle both together
        self._waking = True
        if not self._asleep:
            return
        if self._sleeps_on_queue:
            self._wake_queue.put(None)
            return
        try:
            self._send_wake_byte()
        except BaseException:  # an asynchronous exception in a thread of the program: perhaps no byte was sent
            self._waking = False  # so the next wake sends one
            raise

    def _send_wake_byte(self) -> None:
        try:
            self._socket_lock.acquire()
            try:  # noqa: SIM105 (no other call may come in between)
                self._writer.send(b"\0")
            except OSError:
                pass  # full: a wake is pending already; closed: the run is over
        finally:  # also after an exception right after `acquire`, in which case `with` does not release from 3.14 on
            try:  # noqa: SIM105
                self._socket_lock.release()
            except RuntimeError:
                pass  # the exception came before `acquire`

    def drive_from_thread(self, drive: Callable[[], bool]) -> bool:
        ownership = self._ownership
        if self._waking or not ownership.free:
            return False
        try:
            return ownership.take(False) and drive()
        finally:  # also after an exception right after `take`
            try:  # noqa: SIM105 (an exception comes after a call at the earliest, so the first call must be `leave`)
                ownership.leave()
            except RuntimeError:
                pass  # this thread does not have the ownership

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
        except (OSError, KeyError):  # the file was closed: the selector watches it no longer
            left = 0
        file.mask = left
        if not left:
            del self._files[fd]

    # ---- the loop

    def run_until(self, over: Callable[[], bool]) -> None:
        pump = self._pump
        assert pump is not None, "only an open host runs"
        before: list[int] = []  # the file that got a byte at every signal before this loop; empty: unchanged
        try:
            self._wake_on_signals(before)
            while not over():
                if self._soon:
                    self._soon = False
                    pump.drain()
                    continue
                # At a handoff, if no file is watched and there was no wake, only the time can have changed.
                woken = self._wait() if self._files or self._waking or not self._later else False
                if self._alarm_ns is not None and self._alarm_ns <= self.now_ns():
                    self._alarm_ns = None
                    pump.rang()
                elif woken or self._later:
                    self._later = False
                    pump.drain()
        finally:
            try:
                if before:
                    signal.set_wakeup_fd(before[0])
            finally:
                # An exception may have come before the loop took it back. No thread may drive a run that is over.
                self._ownership.take_back()

    def _wake_on_signals(self, before: list[int]) -> None:
        """Ask the system to send a byte at every signal, unless another loop has asked already."""
        if threading.current_thread() is threading.main_thread():
            _swap_wakeup_fd(self._writer.fileno(), before)
            if before != [-1]:
                signal.set_wakeup_fd(before[0])
                before.clear()

    def _alarm_s(self) -> float | None:
        """Seconds until the alarm, or None."""
        if self._alarm_ns is None:
            return None
        return min(max(0.0, (self._alarm_ns - self.now_ns()) / 1e9), WAIT_S_MAX)

    def _wait(self) -> bool:
        """Wait for files, the alarm or a wake. True: there was a wake."""
        seconds = 0.0 if self._later else self._alarm_s()
        self._sleeps_on_queue = not self._files
        self._asleep = True
        if self._waking:
            seconds = 0.0  # the wake came while the loop was awake, so it only set the flag
        if self._files:
            for key, events in self._selector.select(seconds):
                if key.data is None:
                    self._discard_wake_bytes()
                else:
                    self._call_ready(key.fd, key.data, events)
        elif not self._waking:
            self._sleep(seconds)
        self._asleep = False
        woken, self._waking = self._waking, False  # the next batch handles every wake that came before this line
        return woken

    def _sleep(self, seconds: float | None) -> None:
        try:
            self._ownership.give()
            if self._sleep_on_queue(seconds):
                return
            self._sleeps_on_queue = False
            if self._waking:
                return  # the wake came before this line, so it went to the queue
            if self._selector.select(self._alarm_s()):
                self._discard_wake_bytes()
        finally:
            self._ownership.take_back()

    def _sleep_on_queue(self, seconds: float | None) -> bool:
        """Wait for an item of the queue. True: the sleep is over. False: no item has come within `QUEUE_S_MAX`."""
        short = seconds is None or seconds > QUEUE_S_MAX
        try:
            self._wake_queue.get(timeout=QUEUE_S_MAX if short else seconds)
        except queue.Empty:
            return not short
        return True

    def _call_ready(self, fd: int, file: _Watched, events: int) -> None:
        for write, mask in enumerate(_MASKS):
            if not events & mask:
                continue
            ready = file.calls[write]
            if ready is None:
                self.unwatch(fd, bool(write))  # no task waits for it any more
            else:
                file.calls[write] = None
                ready()

    def _discard_wake_bytes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
