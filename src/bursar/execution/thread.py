"""Plain functions as tasks: `on_thread` is the coroutine of such a task, and awaits one request.

The request hands a *job* to the pool (`execution.pool`) and blocks the task until the thread has left the function. The
wait is not interruptible: a task that is cancelled is asked to stop, by its checkpoint if it has one, and stays what it
is, a task that still runs, until its thread has really left. So nothing outlives its nursery, and nobody is told that
work has ended which goes on.

T1  a job is answered exactly once, by one message under the label of its task and poll
T2  a task that was asked to stop ends as cancelled, whatever its function returned; an error that it raised fails it
T3  a function is not called once its task was asked to stop
T4  while a function runs it counts as a source of the pump: virtual time stands still, and waiting for it is no
    deadlock; one that stands paused does not count

Contexts: the function sees the context variables of the spawn. The memory meter counts for the loop's thread only.

Rejected: futures of `concurrent.futures` and their callbacks. A future is three locks and a condition, for what one
message says; and its callback runs in the thread, where it may not touch the law.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar, TypeVarTuple

from bursar.errors import Cancelled, CapabilityDenied, ThreadLost
from bursar.execution.checkpoint import Checkpoint, Line
from bursar.execution.coroutine import OURS
from bursar.execution.pool import Pool
from bursar.execution.signature import arguments, place_of
from bursar.kernel import Kernel, Task, Wait
from bursar.law import cancel
from bursar.law.budget import SYSCALL, Cost
from bursar.law.cancel import CancelReason
from bursar.law.capability import CapExecutor, require
from bursar.law.dispatch import Dispatch
from bursar.request import SUSPENDED, Request

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BACKEND: Final = "thread"  # what a `CapExecutor` must allow


async def on_thread(fn: Callable[[*Ts], T], args: tuple[*Ts]) -> T:
    """`fn(*args)`, on a thread of the pool. Returns when the thread has left it."""
    return await _OnThread(fn, args)


OURS.append(on_thread.__code__)


class _OnThread(Request[T]):
    """Have a function run by the pool."""

    __slots__ = ("_args", "_fn")
    cost: ClassVar[Cost] = SYSCALL  # threads are the system's

    def __init__(self, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._fn = fn
        self._args = args

    def perform(self, kernel: Kernel, task: Task) -> Any:
        pool = Pool.of(kernel.driver.pump)
        permit = task.capabilities.get(CapExecutor)
        if permit is None or permit is not pool.permit or kernel.registry.revoked_serials:
            pool.permit = _require_threads(task)
        kernel.blocked(task, Job(pool, task, self._fn, self._args))
        return SUSPENDED


def _require_threads(task: Task) -> CapExecutor:
    """The capability by which the task may do this, or `CapabilityDenied`."""
    permit = require(task, task.capabilities, CapExecutor, "run a function on a thread")
    if BACKEND not in permit.backends:
        raise CapabilityDenied(
            f"task {task.name!r} may not run a function on a thread: its CapExecutor allows "
            f"{', '.join(sorted(permit.backends)) or 'nothing'}; grant CapExecutor(frozenset({{{BACKEND!r}}}))"
        )
    return permit


class Job(Wait):
    """One function that runs, and the wait of its task for it."""

    __slots__ = (
        "_args",
        "_counted",
        "_error",
        "_fn",
        "_heeded",
        "_pool",
        "_pump",
        "_stop",
        "_value",
        "begun",
        "line",
        "posted",
    )
    interruptible = False

    def __init__(self, pool: Pool, task: Task, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(task)
        self._pump = pump = pool.pump
        self._pool = pool
        self._fn: Callable[..., Any] | None = fn
        self._args = args
        self._value: Any = None
        self._error: BaseException | None = None
        self._stop: CancelReason | None = None  # why it is to stop
        self._counted = True  # as a source of the pump (T4)
        self.line: Line | None = None
        self.begun = False
        self.posted = False
        place = place_of(fn)
        if place is not None:
            self.line = Line(pump, task, self.label, pool, self._stands)
            self._args, keywords = arguments(place, args, Checkpoint(self.line))
            self._fn = partial(fn, **keywords) if keywords else fn
        pool.start(self)
        pump.sources += 1

    @property
    def label(self) -> str:
        """The task and its poll."""
        return f"{self.task.id} {self.generation}"

    @property
    def reason(self) -> str:
        if self._stop is not None:
            return f"was asked to stop ({self._stop}) and its thread has not left yet"
        return "runs on a thread"

    @property
    def progress(self) -> float | None:
        """What its checkpoint last said; None: nothing yet."""
        return self.line.progress if self.line is not None else None

    @property
    def message(self) -> str:
        return self.line.message if self.line is not None else ""

    # ---- in the thread

    def work(self) -> None:
        """Call the function, unless it is too late (T3), and tell what came of it (T1)."""
        pump = self._pump
        if self._stop is None if pump.live else 0 not in pump.foretold(self.label):
            self._call()
            self._left(self.line.heeded if self.line is not None else -1)
        else:
            self._error = Cancelled(self._stop)
            self._left(0)

    def _call(self) -> None:
        fn, args, self._fn, self._args = self._fn, self._args, None, ()  # what they hold is not kept for the task
        assert fn is not None, "it is called once"
        try:
            if self.line is not None:
                self.line.begin()
            self._value = self.task.context.run(fn, *args)
        except BaseException as error:
            self._error = error

    def _left(self, heeded: int) -> None:
        """The function is over. `heeded`: at which checkpoint it stopped, if it was asked to; 0: it was not called."""
        self._heeded = heeded
        self.posted = True
        self._pool.post(self)

    def lost(self, error: BaseException) -> None:
        """Its thread died around the function."""
        told = f"task {self.task.name!r} ({self.task.id}) lost its thread: {type(error).__name__}"
        self._error = ThreadLost(f"{told} struck it outside the function, or it had none; run the task again")
        self._error.__cause__ = error
        self._left(-1)

    # ---- in the loop

    @property
    def smooth(self) -> bool:
        """Its end makes nothing happen but that its task ends well: any thread may take it in."""
        return self._error is None and not self.task.cancel_pending

    @property
    def told(self) -> str:
        """What its end is called in the evidence."""
        where = "" if self._heeded < 0 else f" stopped at {self._heeded}"
        return f"thread {self.label}{where}"

    def work_here(self) -> None:
        """The same in the loop's own thread."""
        if self._pump.over:
            return
        self.begun = True
        if self._stop is None:
            self._call()
            if isinstance(self._error, KeyboardInterrupt) and self._pump.kernel.driver.driver.aborting:
                raise self._error
        self.deliver()

    def deliver(self) -> None:
        """The thread has left: the task goes on."""
        pump, task, error = self._pump, self.task, self._error
        if pump.over:
            return
        self._count(False)
        self._pool.end(self)
        if self.line is not None:
            self.line.settle()
        value, self._value, self._error = self._value, None, None
        if error is not None and not (task.cancel_pending and isinstance(error, Cancelled)):
            self.refuse(pump.kernel, error)
        elif task.cancel_pending:
            pump.kernel.wake(task, self.generation)  # T2: and is told `Cancelled`
        else:
            self.answer(pump.kernel, value)

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was asked to stop: pass that on, and wait on."""
        scope = cancel.deliverable(self.task)
        reason = scope.reason if scope is not None else None
        self._stop = reason or cancel.why_ended(self.task)
        self._count(True)
        if self.line is not None:
            self.line.stop(self._stop)

    def ask_pause(self, kernel: Dispatch) -> None:
        """Stand at the next checkpoint. A function without one never comes to it."""
        if self.line is not None:
            self.line.pause()

    def ask_resume(self, kernel: Dispatch) -> None:
        """Go on."""
        if self.line is not None:
            self._count(True)
            self.line.resume()

    def _stands(self) -> None:
        """The thread stands at its checkpoint."""
        self._count(False)
        import_module("bursar.admission.pause").reached(self._pump.kernel, self.task)  # which is built on all of this

    def _count(self, works: bool) -> None:
        """T4."""
        if works is not self._counted:
            self._counted = works
            self._pump.sources += 1 if works else -1
