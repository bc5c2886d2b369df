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
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, TypeVarTuple, cast

from bursar.errors import Cancelled, CapabilityDenied, ThreadLost
from bursar.execution.checkpoint import Checkpoint, Line
from bursar.execution.pool import Pool
from bursar.execution.signature import arguments, place_of
from bursar.kernel import Kernel, Task, Wait
from bursar.law import cancel
from bursar.law.budget import SYSCALL, Cost
from bursar.law.cancel import CancelReason
from bursar.law.capability import CapExecutor, require
from bursar.law.dispatch import Dispatch
from bursar.request import SUSPENDED, Request

if TYPE_CHECKING:
    from bursar.hosts.pump import Pump

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BACKEND: Final = "thread"  # what a `CapExecutor` must allow


async def on_thread(fn: Callable[[*Ts], T], args: tuple[*Ts]) -> T:
    """`fn(*args)`, on a thread of the pool. Returns when the thread has left it."""
    return await _OnThread(fn, args)


class _OnThread(Request[T]):
    """Have a function run by the pool."""

    __slots__ = ("_args", "_fn")
    cost: ClassVar[Cost] = SYSCALL  # threads are the system's

    def __init__(self, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._fn = fn
        self._args = args

    def perform(self, kernel: Kernel, task: Task) -> Any:
        permit = require(task, task.capabilities, CapExecutor, "run a function on a thread")
        if BACKEND not in permit.backends:
            raise CapabilityDenied(
                f"task {task.name!r} may not run a function on a thread: its CapExecutor allows "
                f"{', '.join(sorted(permit.backends)) or 'nothing'}; grant CapExecutor(frozenset({{{BACKEND!r}}}))"
            )
        job = Job(kernel, task, self._fn, self._args)
        job.start()
        kernel.blocked(task, job)
        return SUSPENDED


class Job(Wait):
    """One function that runs, and the wait of its task for it."""

    __slots__ = (
        "_args",
        "_context",
        "_counted",
        "_error",
        "_fn",
        "_heeded",
        "_kernel",
        "_keywords",
        "_pool",
        "_pump",
        "_stop",
        "_value",
        "begun",
        "label",
        "line",
        "posted",
    )
    interruptible = False

    def __init__(self, kernel: Kernel, task: Task, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(task)
        pump: Pump = kernel.driver.pump
        self._kernel = kernel
        self._pump = pump
        self._pool = Pool.of(pump)
        self._fn: Callable[..., Any] | None = fn
        self._args = args
        self._keywords: dict[str, Any] | None = None
        self._context = task.context
        self._stop: CancelReason | None = None  # why it is to stop
        self._heeded = -1  # at which checkpoint it stopped, if it was asked to; 0: before it began
        self._counted = False  # as a source of the pump (T4)
        self._value: Any = None
        self._error: BaseException | None = None
        self.label = f"{task.id} {self.generation}"
        self.line: Line | None = None
        self.begun = False
        self.posted = False
        place = place_of(fn)
        if place is not None:
            self.line = Line(pump, task, self.label, self._pool, self._stands)
            self._args, self._keywords = arguments(place, args, Checkpoint(self.line))

    def start(self) -> None:
        self._count(True)
        self._pool.start(self)

    @property
    def reason(self) -> str:
        if self._stop is not None:
            return f"was asked to stop ({self._stop}) and its thread has not left yet"
        return "runs on a thread"

    @property
    def progress(self) -> float:
        """What its checkpoint last said."""
        return self.line.progress if self.line is not None else 0.0

    @property
    def message(self) -> str:
        return self.line.message if self.line is not None else ""

    # ---- in the thread

    def work(self) -> None:
        """Call the function, unless it is too late (T3), and post what came of it (T1)."""
        pump = self._pump
        self._call(self._stop is None if pump.live else 0 not in pump.foretold(self.label))
        self._post()

    def _call(self, wanted: bool) -> None:
        fn = cast("Callable[..., Any]", self._fn)
        try:
            if not wanted:
                self._heeded = 0
                raise Cancelled(self._stop)
            if self.line is None:
                self._value = self._context.run(fn, *self._args)
            else:
                self.line.begin()
                self._value = self._context.run(fn, *self._args, **(self._keywords or {}))
        except BaseException as error:
            self._error = error
        self._fn = self._keywords = None  # what they hold is not kept until the task ends
        self._args = ()

    def lost(self, error: BaseException) -> None:
        """Its thread died around the function."""
        told = f"task {self.task.name!r} ({self.task.id}) lost its thread: {type(error).__name__} struck it"
        self._error = ThreadLost(f"{told} outside the function; run the task again")
        self._error.__cause__ = error
        self._post()

    def _post(self) -> None:
        heeded = self._heeded if self.line is None else max(self._heeded, self.line.heeded)
        label = f"thread {self.label}" if heeded < 0 else f"thread {self.label} stopped at {heeded}"
        self.posted = True
        self._pump.post(label, self._deliver)

    # ---- in the loop

    def work_here(self) -> None:
        """Call the function in the loop's own thread."""
        if self._pump.over:
            return
        self.begun = True
        self._call(self._stop is None)
        if isinstance(self._error, KeyboardInterrupt) and self._kernel.driver.driver.aborting:
            raise self._error
        self._deliver()

    def _deliver(self) -> None:
        """The thread has left: the task goes on."""
        pump, kernel, task, error = self._pump, self._kernel, self.task, self._error
        if pump.over:
            return
        self._count(False)
        self._pool.end(self)
        if self.line is not None:
            self.line.settle()
        value, self._value, self._error = self._value, None, None
        if error is not None and not (isinstance(error, Cancelled) and task.cancel_pending):
            self.refuse(kernel, error)
        elif task.cancel_pending:
            kernel.wake(task, self.generation)  # T2: and is told `Cancelled`
        else:
            self.answer(kernel, value)

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was asked to stop: pass that on, and wait on."""
        scope = cancel.deliverable(self.task)
        self._stop = scope.reason if scope is not None else cancel.why_ended(self.task)
        self._count(True)
        if self.line is not None:
            assert self._stop is not None, "a request has a reason"
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
        reached: Callable[[Kernel, Task], None] = import_module(
            "bursar.admission.pause"
        ).reached  # built on all of this
        reached(self._kernel, self.task)

    def _count(self, works: bool) -> None:
        """T4."""
        if works is not self._counted:
            self._counted = works
            self._pump.sources += 1 if works else -1
