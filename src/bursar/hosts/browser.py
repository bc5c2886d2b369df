"""The browser host: runs Bursar as a guest in the event loop of a page, a web worker or node, through Pyodide.

    microtask   queueMicrotask: before the page does anything else
    handoff     a message to itself: after the page had time for input, timers and frames
    alarm       setTimeout, one at a time

The host uses the functions of its `api` object and looks up no global. So the code that makes a host decides what the
host may use of the page. Only `BrowserHost.of_page()` takes these functions from the globals of the page. Handoffs use
a MessageChannel or, where there is none, setTimeout(0). Browsers delay nested calls of setTimeout by 4 ms, so the
host's name says if there is none.

BROWSER-1  the host's functions for JavaScript are made once, at `open`, and destroyed once, at `close` or after it
BROWSER-2  a microtask cannot be cancelled, so the function that it calls lives until the last queued one has run
BROWSER-3  an alarm never rings early by the host's own clock: the pump would set it again at once, many times
BROWSER-4  at most MICROTASKS_MAX microtasks run between two turns of the page, even if every promise resolves at once

Rejected: driving the pump from Pyodide's asyncio loop. That loop queues every call with setTimeout or a message, never
as a microtask, and it is a global of the interpreter. Only `bursar.browser.run` uses it, so that its caller can await
the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final, Self, cast

from bursar.backend import Kernel, Task
from bursar.drive.pump import Pump, PumpState
from bursar.errors import CapabilityDenied, HostMisuse, PromiseRejected
from bursar.law.capability import CapIO, require
from bursar.law.costs import SYSCALL, Cost
from bursar.request import Entry, Operation, loop_module
from bursar.text import brief

loop_module(__name__)

DELAY_MS_MAX: Final = 2**31 - 1  # the longest delay of setTimeout; a longer one rings at once
SLICE_MS_MAX: Final = 8.0  # of one call: half a frame, so that the page can do its own work in the same frame
MICROTASKS_MAX: Final = 16  # in a row: enough for a chain of short waits, too few to delay a frame
RANDOM_BYTES_MAX: Final = 65_536  # the most that getRandomValues gives in one call
NEEDED: Final = ("queueMicrotask", "setTimeout", "clearTimeout", "now", "getRandomValues")


@dataclass(frozen=True, slots=True)
class PageApi:
    """The functions of a page that a host may use. Any object with these attributes works, also a JavaScript object.

    `now` is `performance.now`. The others have the names that a page has for them: `queueMicrotask`, `setTimeout`,
    `clearTimeout`, `getRandomValues` and, if there is one, `MessageChannel`.
    """

    queueMicrotask: Any
    setTimeout: Any
    clearTimeout: Any
    now: Any
    getRandomValues: Any
    MessageChannel: Any = None


class BrowserHost:
    """A host for the event loop of a page, a web worker or node. Each runtime needs its own.

    Its time is real: it is not `virtual`.
    """

    virtual = False

    def __init__(self, api: Any) -> None:
        for name in NEEDED:
            if not getattr(api, name, None):
                raise HostMisuse(f"a BrowserHost needs {name}, and its api object does not have that")
        self._api = api
        self._channel: Any = getattr(api, "MessageChannel", None) or None  # JavaScript's null is not None
        self.name = "browser" if self._channel else "browser, without MessageChannel"
        self._sending_port: Any = None
        self._alarm: Any = None  # the id that setTimeout returned
        self._handoff: Any = None  # the same for a handoff, where there is no port
        self._microtasks_queued = 0  # and not run yet (BROWSER-2)
        self._microtasks_in_a_row = 0  # since the last turn of the page (BROWSER-4)
        self._open = False
        self._since_ms = 0.0  # when the running call of the page began
        self._pump: Pump | None = None

    @classmethod
    def of_page(cls) -> Self:
        """A host that takes everything from the globals of the page."""
        js = _pyodide("js")
        return cls(
            PageApi(
                queueMicrotask=js.queueMicrotask,
                setTimeout=js.setTimeout,
                clearTimeout=js.clearTimeout,
                now=js.performance.now,
                getRandomValues=js.crypto.getRandomValues,
                MessageChannel=getattr(js, "MessageChannel", None),
            )
        )

    @property
    def handoff_by(self) -> str:
        """How control goes back to the page: "MessageChannel" or "setTimeout"."""
        return "MessageChannel" if self._channel else "setTimeout"

    def open(self, pump: Pump) -> None:
        """The run begins."""
        if self._pump is not None:
            raise HostMisuse(f"host {self.name!r} has driven a run already; make a new host for each run")
        create_proxy = _pyodide("pyodide.ffi").create_proxy
        self._pump = pump
        # BROWSER-1
        self._soon, self._later, self._ring = map(create_proxy, (self._on_soon, self._on_later, self._on_ring))
        self._start_ms: float = self._api.now()
        self._open = True
        if self._channel:
            ports = self._channel.new()
            self._sending_port = ports.port2
            self._receiving_port = ports.port1
            self._receiving_port.onmessage = self._later

    def close(self) -> None:
        """Stop: later callbacks of the page have no effect."""
        if not self._open:
            return
        self._open = False
        self.alarm(None)
        if self._sending_port is not None:
            self._receiving_port.onmessage = None
            self._receiving_port.close()  # an open port keeps node from ending
            self._sending_port.close()
        elif self._handoff is not None:
            self._api.clearTimeout(self._handoff)
        self._later.destroy()
        self._ring.destroy()
        if not self._microtasks_queued:  # BROWSER-2
            self._soon.destroy()

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return round((self._api.now() - self._start_ms) * 1e6)

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes."""
        to_js = _pyodide("pyodide.ffi").to_js
        parts = [min(RANDOM_BYTES_MAX, size - done) for done in range(0, size, RANDOM_BYTES_MAX)]
        return b"".join(self._api.getRandomValues(to_js(bytes(part))).to_bytes() for part in parts)

    # ---- what the pump asks for

    def microtask(self) -> None:
        """Drain the pump before the page does anything else."""
        if self._microtasks_in_a_row == MICROTASKS_MAX:  # BROWSER-4
            self.handoff()
            return
        self._microtasks_in_a_row += 1
        self._microtasks_queued += 1
        self._api.queueMicrotask(self._soon)

    def handoff(self) -> None:
        """Drain the pump after the page had time for input, timers and frames."""
        if self._sending_port is not None:
            self._sending_port.postMessage(None)
        else:
            self._handoff = self._api.setTimeout(self._later, 0)

    def alarm(self, deadline_ns: int | None) -> None:
        """Replace the alarm; None removes it."""
        if self._alarm is not None:
            self._api.clearTimeout(self._alarm)
            self._alarm = None
        if deadline_ns is not None:
            delay_ms = -(-(deadline_ns - self.now_ns()) // 1_000_000)  # rounded up (BROWSER-3)
            self._alarm = self._api.setTimeout(self._ring, max(0, min(delay_ms, DELAY_MS_MAX)))

    def wake(self) -> None:
        """Drain the pump soon."""
        if self._open:
            self.microtask()

    def overdue(self) -> bool:
        """Whether the running call has taken so long that the pump must hand off."""
        return self._api.now() - self._since_ms >= SLICE_MS_MAX

    # ---- what the page calls

    def _on_soon(self, *_: object) -> None:
        self._microtasks_queued = max(0, self._microtasks_queued - 1)
        if self._open:
            self._drain()
        elif not self._microtasks_queued:
            self._soon.destroy()

    def _on_later(self, *_: object) -> None:
        self._handoff = None
        self._microtasks_in_a_row = 0
        self._drain()

    def _on_ring(self, *_: object) -> None:
        self._alarm = None
        self._microtasks_in_a_row = 0
        self._begin_call().rang()

    def _drain(self) -> None:
        self._begin_call().drain()

    def _begin_call(self) -> Pump:
        assert self._pump is not None, "only an open host is called"
        if self._pump.state is not PumpState.RUNNING:
            self._since_ms = self._api.now()
        return self._pump


def _pyodide(name: str) -> Any:
    """A module that only Pyodide has."""
    try:
        return import_module(name)
    except ImportError:
        raise HostMisuse(
            "the browser host works only in Pyodide, where Python runs inside JavaScript; "
            "leave `host` out, or use another host"
        ) from None


# ---- promises


class _Promise:
    """The wait of one task for one promise. It ends when the page answers or the task stops waiting."""

    __slots__ = ("_proxies", "entry", "kernel", "waits")

    def __init__(self, kernel: Kernel, entry: Entry) -> None:
        self.kernel = kernel
        self.entry = entry
        self.waits = True
        self._proxies: list[Any] = []
        kernel.runtime.pump.sources += 1

    def listen(self, promise: Any) -> None:
        """Ask for a call when the promise is resolved or rejected.

        If a JavaScript function returned the promise, Python sees an asyncio future. For other promises this calls
        JavaScript's own `then`, because Pyodide's `then` loses a rejection whose reason is not an Error.
        """
        if isinstance(promise, asyncio.Future):
            cast("asyncio.Future[Any]", promise).add_done_callback(self._done)
            return
        ffi, reflect = _pyodide("pyodide.ffi"), _pyodide("js").Reflect
        self._proxies = [ffi.create_proxy(self.resolved), ffi.create_proxy(self.rejected)]
        try:
            reflect.apply(reflect.get(promise, "then"), promise, ffi.to_js(self._proxies))
        except Exception as error:  # in JavaScript, a `then` that throws is a rejection
            self.rejected(error)

    def _done(self, future: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError("it was cancelled") if future.cancelled() else future.exception()
        if error is None:
            self.resolved(future.result())
        else:
            self.rejected(error)

    def close(self) -> bool:
        """End the wait. True: it had not ended before."""
        waits, self.waits = self.waits, False
        self.kernel.runtime.pump.sources -= waits
        return waits

    def post(self, deliver: Callable[[], None]) -> None:
        """The page has answered: post the answer, which takes effect at the beginning of a batch."""
        entry, proxies = self.entry, self._proxies
        self._proxies = []
        for proxy in proxies:
            proxy.destroy()
        self.kernel.runtime.pump.post(f"promise {entry.task.id} {entry.generation}", lambda: self._deliver(deliver))

    def _deliver(self, deliver: Callable[[], None]) -> None:
        if not self.close() or self.kernel.runtime.pump.over:
            return
        task = self.entry.task
        try:
            require(task, task.capabilities, CapIO, "take the result of a promise")
        except CapabilityDenied as error:
            self.kernel.note("capability_denied", task, error)
            self.entry.refuse(self.kernel, error)
        else:
            deliver()

    def resolved(self, value: Any) -> None:
        self.post(lambda: self.entry.answer(self.kernel, value))

    def rejected(self, reason: Any) -> None:
        task = self.entry.task
        message = f"the promise that task {task.name!r} ({task.id}) waited for was rejected: {brief(reason)}"
        self.post(lambda: self.entry.refuse(self.kernel, PromiseRejected(message, reason)))


class _Await(Operation[Any]):
    """Wait for a promise. Its result never comes at once, so this always waits."""

    __slots__ = ("_abort", "_promise")
    cost: ClassVar[Cost] = SYSCALL
    reason = "waits for a promise of the page"

    def __init__(self, promise: Any, abort: Any) -> None:
        self._promise = promise
        self._abort = abort

    def ready(self, kernel: Kernel, task: Task) -> bool:
        require(task, task.capabilities, CapIO, "await a promise")
        return False

    def take(self, kernel: Kernel, task: Task) -> None:
        raise AssertionError("a promise is never ready at once")

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        entry.token = _Promise(kernel, entry)
        entry.token.listen(self._promise)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if entry.token.close() and self._abort is not None:
            self._abort.abort()


def from_promise(promise: Any, abort: Any = None) -> Operation[Any]:
    """Awaited: the value of a promise, or of any other object with a `then` method.

    Needs `CapIO`, before and after the wait, and costs a syscall. Works in `select`. Raises `PromiseRejected` if the
    promise is rejected. With an AbortController as `abort`, a task that stops waiting early aborts the request;
    without one the promise continues, and its result is ignored.
    """
    thenable = isinstance(promise, _pyodide("pyodide.ffi").JsProxy) and hasattr(promise, "then")
    if not thenable and not isinstance(promise, asyncio.Future):
        raise TypeError(f"from_promise({brief(promise, repr)}): must be a promise, or an object with a `then` method")
    return _Await(promise, abort)
