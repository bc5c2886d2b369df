"""The browser host: a guest in the event loop of a page, a worker or node, through Pyodide.

    microtask   queueMicrotask: before the page does anything else
    handoff     a message to ourselves: after input, timers and frames had their chance
    alarm       setTimeout, one at a time

The host uses what its `api` object holds and nothing else: it looks up no global, so a program that was given a host
without a clock to spare has none. `BrowserHost.of_page()` is the one place that takes these functions from the page.
Where there is no MessageChannel, setTimeout(0) takes its place: browsers delay that by 4 ms once it is nested, so the
name of the host says it.

BROWSER-1  Python functions that JavaScript may call are made once, at `open`, and given up once, after `close`
BROWSER-2  a microtask cannot be taken back: what it calls lives until the last one has come
BROWSER-3  an alarm never rings early by the host's own clock, or the pump would ask again at once, and again
BROWSER-4  at most MICROTASKS_MAX microtasks run between two turns of the page: promises that are kept at once make no
    monopoly

Rejected: driving the pump from Pyodide's asyncio loop. It queues every call with setTimeout or a message, never as a
microtask, and it is a global of the interpreter; only `run` uses it, to give whoever waits for the end something to
await.
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
from bursar.law.budget import SYSCALL, Cost
from bursar.law.capability import CapIO, require
from bursar.request import Entry, Operation, loop_module
from bursar.text import brief

loop_module(__name__)

DELAY_MS_MAX: Final = 2**31 - 1  # what setTimeout takes; more than that and it rings at once
SLICE_MS_MAX: Final = 8.0  # of one call: half a frame, so that what follows it still makes the frame
MICROTASKS_MAX: Final = 16  # in a row: enough for a chain of short hops, too few to hold up a frame
RANDOM_BYTES_MAX: Final = 65_536  # what getRandomValues gives in one call
NEEDED: Final = ("queueMicrotask", "setTimeout", "clearTimeout", "now", "getRandomValues")


@dataclass(frozen=True, slots=True)
class PageApi:
    """What a host may use of a page. Any object with these attributes works, also a JavaScript object."""

    queueMicrotask: Any
    setTimeout: Any
    clearTimeout: Any
    now: Any  # performance.now
    getRandomValues: Any
    MessageChannel: Any = None


class BrowserHost:
    """A host for the event loop of a page, a web worker or node. Each runtime needs its own."""

    virtual = False

    def __init__(self, api: Any) -> None:
        for name in NEEDED:
            if not getattr(api, name, None):
                raise HostMisuse(f"a BrowserHost needs {name}, and the api object that it was given has none")
        self._api = api
        self._channel: Any = getattr(api, "MessageChannel", None) or None  # JavaScript's null is no None
        self.name = "browser" if self._channel else "browser, without MessageChannel"
        self._port: Any = None
        self._alarm: Any = None  # what setTimeout gave
        self._handoff: Any = None  # the same, where there is no port
        self._owed = 0  # microtasks that have not come yet (BROWSER-2)
        self._in_a_row = 0  # microtasks since the page had its turn (BROWSER-4)
        self._open = False
        self._since_ms = 0.0  # when the call began that is running
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
        if self._pump is not None:
            raise HostMisuse(f"host {self.name!r} has driven a run already; make a new one for the next")
        create_proxy = _pyodide("pyodide.ffi").create_proxy
        self._pump = pump
        # BROWSER-1
        self._soon, self._later, self._ring = map(create_proxy, (self._on_soon, self._on_later, self._on_ring))
        self._start_ms: float = self._api.now()
        self._open = True
        if self._channel:
            ports = self._channel.new()
            self._port = ports.port2
            self._heard = ports.port1
            self._heard.onmessage = self._later

    def close(self) -> None:
        """Stop: later callbacks of the page have no effect."""
        if not self._open:
            return
        self._open = False
        self.alarm(None)
        if self._port is not None:
            self._heard.onmessage = None
            self._heard.close()  # or node would never end
            self._port.close()
        elif self._handoff is not None:
            self._api.clearTimeout(self._handoff)
        self._later.destroy()
        self._ring.destroy()
        if not self._owed:  # BROWSER-2
            self._soon.destroy()

    def now_ns(self) -> int:
        return round((self._api.now() - self._start_ms) * 1e6)

    def entropy(self, size: int) -> bytes:
        to_js = _pyodide("pyodide.ffi").to_js
        parts = [min(RANDOM_BYTES_MAX, size - done) for done in range(0, size, RANDOM_BYTES_MAX)]
        return b"".join(self._api.getRandomValues(to_js(bytes(part))).to_bytes() for part in parts)

    # ---- what the pump asks for

    def microtask(self) -> None:
        if self._in_a_row == MICROTASKS_MAX:  # BROWSER-4
            self.handoff()
            return
        self._in_a_row += 1
        self._owed += 1
        self._api.queueMicrotask(self._soon)

    def handoff(self) -> None:
        if self._port is not None:
            self._port.postMessage(None)
        else:
            self._handoff = self._api.setTimeout(self._later, 0)

    def alarm(self, deadline_ns: int | None) -> None:
        if self._alarm is not None:
            self._api.clearTimeout(self._alarm)
            self._alarm = None
        if deadline_ns is not None:
            delay_ms = -(-(deadline_ns - self.now_ns()) // 1_000_000)  # rounded up (BROWSER-3)
            self._alarm = self._api.setTimeout(self._ring, max(0, min(delay_ms, DELAY_MS_MAX)))

    def wake(self) -> None:
        if self._open:
            self.microtask()

    def overdue(self) -> bool:
        return self._api.now() - self._since_ms >= SLICE_MS_MAX

    # ---- what the page calls

    def _on_soon(self, *_: object) -> None:
        self._owed = max(0, self._owed - 1)
        if self._open:
            self._drain()
        elif not self._owed:
            self._soon.destroy()

    def _on_later(self, *_: object) -> None:
        self._handoff = None
        self._in_a_row = 0
        self._drain()

    def _on_ring(self, *_: object) -> None:
        self._alarm = None
        self._in_a_row = 0
        self._called().rang()

    def _drain(self) -> None:
        self._called().drain()

    def _called(self) -> Pump:
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
            "the browser host works in Pyodide only: this Python has no JavaScript around it; "
            "leave `host` out, or use another one"
        ) from None


# ---- promises


class _Promise:
    """One task waiting for one promise. Whoever comes first closes it: the page, or the task's cancellation."""

    __slots__ = ("_proxies", "entry", "kernel", "waits")

    def __init__(self, kernel: Kernel, entry: Entry) -> None:
        self.kernel = kernel
        self.entry = entry
        self.waits = True
        self._proxies: list[Any] = []
        kernel.runtime.pump.sources += 1

    def listen(self, promise: Any) -> None:
        """A promise that a JavaScript function returned is a future by the time that Python sees it; others are as
        they were made, and for those it is JavaScript's own `then` that is called: Pyodide's loses a rejection whose
        reason is no Error."""
        if isinstance(promise, asyncio.Future):
            cast("asyncio.Future[Any]", promise).add_done_callback(self._done)
            return
        ffi, reflect = _pyodide("pyodide.ffi"), _pyodide("js").Reflect
        self._proxies = [ffi.create_proxy(self.resolved), ffi.create_proxy(self.rejected)]
        try:
            reflect.apply(reflect.get(promise, "then"), promise, ffi.to_js(self._proxies))
        except Exception as error:  # a `then` that throws is a rejection: so it is in JavaScript
            self.rejected(error)

    def _done(self, future: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError("it was cancelled") if future.cancelled() else future.exception()
        if error is None:
            self.resolved(future.result())
        else:
            self.rejected(error)

    def close(self) -> bool:
        """True, once."""
        waits, self.waits = self.waits, False
        self.kernel.runtime.pump.sources -= waits
        return waits

    def post(self, deliver: Callable[[], None]) -> None:
        """The page calls: the task hears of it at the beginning of a batch, as of everything from outside."""
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
    """Waits until a promise is settled. A promise never is at once, so this always waits."""

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
        raise TypeError(f"from_promise({brief(promise, repr)}): not a promise, nor any object that has a `then`")
    return _Await(promise, abort)
