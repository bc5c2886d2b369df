"""`wait_signal`: a task waits for a signal of the operating system.

A signal handler of ours is installed only while a task waits for the signal, and it only posts. Afterwards the previous
handler is restored. So a server can wait for SIGTERM and shut down when it comes; a second SIGTERM ends the process.
Virtual time does not wait for a signal, because most runs end without one.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, ClassVar

from bursar.backend import Kernel, Task, WaitList
from bursar.drive.pump import Pump
from bursar.errors import HostMisuse
from bursar.law.capability import CapIO, require
from bursar.law.costs import SYSCALL, Cost
from bursar.request import Entry, Operation, loop_module

loop_module(__name__)

UNCATCHABLE = {signal.Signals[name] for name in ("SIGKILL", "SIGSTOP") if name in signal.Signals.__members__}


class _Handler:
    """The handler of one signal in one runtime, the handler that it replaced, and the tasks that wait."""

    def __init__(self, pump: Pump, number: signal.Signals) -> None:
        self._pump = pump
        self._number = number
        self.label = f"signal {number.name}"
        self.waiters = WaitList()
        self._previous: Any = None

    def install(self) -> None:
        self._pump.listeners += 1
        self._pump.expected[self.label] = self._deliver
        self._pump.outposts[self] = self
        if self._pump.live:
            self._previous = signal.getsignal(self._number)  # first: the second call may be interrupted
            signal.signal(self._number, self._on_signal)

    def remove(self) -> None:
        if self._pump.outposts.pop(self, None) is None:
            return
        self._pump.listeners -= 1
        del self._pump.expected[self.label]
        if self._pump.live:
            self._restore_previous()

    def _restore_previous(self) -> None:
        """Restore the previous handler. If a later runtime has replaced this handler, unlink it from that chain."""
        previous = self._previous if self._previous is not None else signal.SIG_DFL
        found = signal.getsignal(self._number)
        if found == self._on_signal:
            signal.signal(self._number, previous)
        while (above := _our_handler(found)) is not None:
            if above._previous == self._on_signal:
                above._previous = previous
            found = above._previous

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._pump.post(self.label, self._deliver)
        self._pump.host.wake()  # a handler runs in the loop's own thread, but the loop may be asleep
        below = _our_handler(self._previous)
        if below is not None:  # another runtime waits for this signal too
            below._on_signal(number, frame)

    def _deliver(self) -> None:
        if self._pump.over:
            return  # `stopped` removes the handler
        while self.waiters:
            self.waiters.take_oldest().answer(self._pump.kernel, None)
        self.remove()

    def resting(self) -> None:
        """Nothing to look for: a signal does not end unnoticed."""

    def stopped(self) -> None:
        self.remove()


def _our_handler(handler: Any) -> _Handler | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, _Handler) else None


class _Signal(Operation[None]):
    __slots__ = ("_number",)
    cost: ClassVar[Cost] = SYSCALL

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def why(self) -> str:
        return f"waits for {self._number.name}"

    def ready(self, kernel: Kernel, task: Task) -> bool:
        require(task, task.capabilities, CapIO, f"wait for {self._number.name}")
        if kernel.runtime.pump.live and threading.current_thread() is not threading.main_thread():
            raise HostMisuse(
                f"task {task.name!r} cannot wait for {self._number.name}: only the main thread of a process receives "
                "signals, and this runtime runs in another thread"
            )
        return False

    def take(self, kernel: Kernel, task: Task) -> None:
        """Never ready at once."""

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        pump: Pump = kernel.runtime.pump
        handler = _find(pump, self._number)
        if handler is None:
            handler = _Handler(pump, self._number)
            handler.install()
        handler.waiters.join(entry)
        entry.token = handler

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        handler: _Handler = entry.token
        handler.waiters.leave(entry)
        if not handler.waiters:
            handler.remove()


def _find(pump: Pump, number: signal.Signals) -> _Handler | None:
    label = f"signal {number.name}"
    return next((o for o in pump.outposts.values() if isinstance(o, _Handler) and o.label == label), None)


def wait_signal(number: int) -> Operation[None]:
    """Awaited: returns when the signal arrives. Needs `CapIO`, and a runtime in the main thread.

    Afterwards the previous handler of the signal is active again. Raises `ValueError` for a signal that cannot be
    caught.
    """
    try:
        known = signal.Signals(number)
    except ValueError:
        raise ValueError(f"wait_signal({number!r}): there is no such signal") from None
    if known in UNCATCHABLE:
        raise ValueError(f"wait_signal({known.name}): this signal cannot be caught")
    return _Signal(known)
