"""Runs plain functions as tasks: `on_thread` is the coroutine of such a task, and awaits one request.

The request gives a *job* to the pool (`threads.pool`), and blocks the task until the thread has left the function. The
wait is not interruptible. If the task is cancelled, its function is asked to stop, through its checkpoint if it has
one. The task goes on living until the thread has left. So no function outlives its nursery, and a task never ends while
its function still runs.

THREAD-1  a job is answered exactly once, by one post under the label of its task and poll
THREAD-2  a task that was asked to stop ends as cancelled, whatever its function returned; if the function raised an
    error, the task fails with it
THREAD-3  after its task was asked to stop a function is not called; a function that returned an awaitable has failed
THREAD-4  a running function counts as a source of the pump: virtual time stops, and waiting for it is no deadlock; a
    paused function does not count

A function that returns a coroutine or a request has done nothing yet, and no task awaits what it returned. Its task
fails, and the error says what to pass instead. Rejected: awaiting the result in the task. The task would keep its slot
during that time.

The function sees the context variables of the spawn. The memory meter counts only the loop's thread.

`ThreadJob` is the part that every function needs; it is C in the native kernel (`native/python/threads/job.c`).
`ControlledJob` adds what few functions need: a checkpoint, or a replay.

Rejected: `concurrent.futures` and its callbacks. A future has three locks and a condition where one post is enough. Its
callback runs in the thread, where it may not touch the law.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import CoroutineType, FunctionType
from typing import Any, ClassVar, Final, NoReturn, TypeVar, TypeVarTuple

from bursar.backend import Kernel, Task, Wait
from bursar.drive import cpu_time
from bursar.errors import Cancelled, CapabilityDenied, ThreadLost
from bursar.law import cancel
from bursar.law.admission import graph
from bursar.law.cancel import CancelReason
from bursar.law.capability import CapExecutor, require
from bursar.law.costs import SYSCALL, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.pool import measures
from bursar.ops.checkpoint import Checkpoint
from bursar.ops.pause import reached
from bursar.ops.start import OURS, PLAIN
from bursar.ops.task import Task as Handle
from bursar.request import SUSPENDED, Request
from bursar.seam import expose_to_c, methods_on
from bursar.text import brief
from bursar.threads.checkpoint import ThreadControl
from bursar.threads.pool import ThreadPool
from bursar.threads.signature import Place, arguments, place_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TO_AWAIT: Final = (CoroutineType, Request)
BACKEND: Final = "thread"  # what a `CapExecutor` must allow


async def on_thread(fn: Callable[[*Ts], T], args: tuple[*Ts]) -> T:
    """Run `fn(*args)` on a thread of the pool. Returns when the thread has left the function."""
    return await OnThread(fn, args)


async def on_thread_with_values(fn: Callable[..., T], args: tuple[Any, ...]) -> T:
    """The same for a function whose arguments contain tasks, perhaps in a list, tuple, set or dict. All of them have
    succeeded; their values are passed."""
    return await on_thread(fn, graph.with_values(args, Handle, True))


OURS.extend((on_thread.__code__, on_thread_with_values.__code__))
PLAIN.update({False: on_thread, True: on_thread_with_values})
expose_to_c(on_thread=on_thread, on_thread_with_values=on_thread_with_values)


def refuse_awaitable(task: Task, returned: Any) -> NoReturn:
    """In the thread: raise, because the function returned an awaitable."""
    end_label = f"task {brief(task.name)!r}: the function ran on a thread and returned "
    if inspect.iscoroutine(returned):
        end_label += (
            f"the coroutine {brief(returned.__qualname__)!r}, which no task awaits; pass the async function itself: "
        )
        if inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
            returned.close()  # otherwise Python would warn later that it was never awaited
        raise TypeError(f"{end_label}spawn(fn, x), not spawn(lambda: fn(x))")
    returned.mark_used()  # one complaint is enough
    what = brief(returned, lambda request: type(request).__qualname__.lstrip("_"))
    raise TypeError(f"{end_label}a request, {what}, which no task awaits; spawn an `async def` that awaits it")


expose_to_c(refuse_awaitable=refuse_awaitable)


@methods_on("OnThread", replaces=())
class OnThread(Request[T]):
    """The request that runs a function on the pool."""

    __slots__ = ("args", "fn")
    cost: ClassVar[Cost] = SYSCALL  # a thread is a resource of the operating system

    def __init__(self, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        self.fn = fn
        self.args = args

    def hand_over(self, kernel: Kernel, task: Task) -> Any:
        pump, fn = kernel.runtime.pump, self.fn
        pool = pump.outposts.get(ThreadPool) or ThreadPool.of(pump)
        cap = task.capabilities.get(CapExecutor)
        if cap is None or cap is not pool.cap or kernel.registry.revoked_serials:
            pool.cap = _require_threads(task)
        place = place_of(fn) if type(fn) is not FunctionType or fn.__annotations__ else None
        if place is None and pump.live and not measures(task.pools):
            job = ThreadJob(pool, task, fn, self.args)
        else:
            job = ControlledJob(pool, task, fn, self.args, place)
        pool.start(job)
        kernel.blocked(task, job)
        return SUSPENDED

    perform = hand_over


def _require_threads(task: Task) -> CapExecutor:
    """The capability that allows the task to run a function on a thread. Raises `CapabilityDenied`."""
    cap = require(task, task.capabilities, CapExecutor, "run a function on a thread")
    if BACKEND not in cap.backends:
        raise CapabilityDenied(
            f"task {task.name!r} may not run a function on a thread: its CapExecutor allows "
            f"{', '.join(sorted(cap.backends)) or 'nothing'}; grant CapExecutor(frozenset({{{BACKEND!r}}}))"
        )
    return cap


@methods_on("ThreadJob", replaces={"call", "deliver_if_plain", "work"})
class ThreadJob(Wait):
    """One function to run, and the wait of its task for it."""

    __slots__ = ("args", "begun", "counted", "error", "fn", "pool", "posted", "stop", "stopped_at", "value")
    interruptible = False
    control: ThreadControl | None = None  # asks it to stop or to pause; None: it has no checkpoint

    def __init__(self, pool: ThreadPool, task: Task, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(task)
        self.pool = pool
        self.fn: Callable[..., Any] | None = fn
        self.args: tuple[Any, ...] | None = args
        self.value: Any = None
        self.error: BaseException | None = None
        self.stop: CancelReason | None = None  # why it was asked to stop
        self.stopped_at = -1  # the number of the checkpoint at which it stopped; 0: it was not called
        self.counted = True  # as a source of the pump (THREAD-4)
        self.begun = False
        self.posted = False  # it has ended, and its end is posted

    @property
    def label(self) -> str:
        """The task and its poll."""
        return f"{self.task.id} {self.generation}"

    @property
    def reason(self) -> str:
        if self.stop is not None:
            return f"was asked to stop ({self.stop}) and its thread has not left yet"
        report = self.control.report if self.control is not None else ""
        return f"runs on a thread: {report}" if report else "runs on a thread"

    @property
    def unbilled_ops(self) -> int:
        """The ops that its checkpoints have used and its task has not paid; negative: paid in advance."""
        return self.control.unbilled_ops if self.control is not None else 0

    @property
    def progress(self) -> float | None:
        """The progress that its checkpoint last reported; None: none yet."""
        return self.control.progress if self.control is not None else None

    @property
    def message(self) -> str:
        return self.control.message if self.control is not None else ""

    # ---- in the thread

    def work(self) -> None:
        """Call the function, unless its task was asked to stop (THREAD-3), and post its end (THREAD-1)."""
        if self.stop is None:
            self.call()
        else:
            self.error, self.stopped_at = Cancelled(self.stop), 0
        self.posted = True
        self.pool.post(self)

    def call(self) -> None:
        fn, args, self.fn, self.args = self.fn, self.args, None, None  # the job must not keep the arguments alive
        assert fn is not None, "it is called once"
        assert args is not None, "it is called once"
        try:
            value = self.task.context.run(fn, *args)
            if isinstance(value, TO_AWAIT):
                refuse_awaitable(self.task, value)
            self.value = value
        except BaseException as error:
            self.error = error

    def lost(self, error: BaseException) -> None:
        """The thread died outside the function."""
        end_label = f"task {self.task.name!r} ({self.task.id}) lost its thread: {type(error).__name__}"
        self.error = ThreadLost(f"{end_label} was raised outside the function; run the task again")
        self.error.__cause__ = error
        self.posted = True
        self.pool.post(self)

    # ---- in the loop

    @property
    def end_label(self) -> str:
        """The label of its end in the trace."""
        where = "" if self.stopped_at < 0 else f" stopped at {self.stopped_at}"
        return f"thread {self.label}{where}"

    def deliver_if_plain(self, kernel: Kernel) -> bool:
        """Take in the end of the job, if it only makes its task continue. A pool thread may call this too."""
        if self.error is not None or self.task.cancel_pending:
            return False
        value, self.value = self.value, None
        self.answer(kernel, value)
        return True

    def deliver(self) -> None:
        """The thread has left the function: let the task continue."""
        pump, task, error = self.pool.pump, self.task, self.error
        if pump.over:
            return
        self.count(False)
        self.pool.end(self)
        if self.control is not None:
            self.control.return_unused()
        value, self.value, self.error = self.value, None, None
        if error is not None and not (task.cancel_pending and isinstance(error, Cancelled)):
            self.refuse(pump.kernel, error)
        elif task.cancel_pending:
            pump.kernel.wake(task, self.generation)  # THREAD-2: it gets `Cancelled`
        else:
            self.answer(pump.kernel, value)

    def work_here(self) -> None:
        """Run the function in the loop's own thread, and take in its end."""
        pump = self.pool.pump
        if pump.over:
            return
        self.begun = True
        if self.stop is None:
            self.call()
            if isinstance(self.error, KeyboardInterrupt) and pump.kernel.runtime.driver.aborting:
                raise self.error
        self.deliver()

    def interrupted(self, kernel: Dispatch) -> None:
        """The task was asked to stop: ask the function to stop, and go on waiting."""
        scope = cancel.deliverable(self.task)
        reason = scope.reason if scope is not None else None
        self.stop = reason or cancel.why_ended(self.task)
        self.count(True)
        if self.control is not None:
            self.control.stop(self.stop)

    def ask_pause(self, kernel: Dispatch) -> None:
        """Ask the function to pause at its next checkpoint. A function without a checkpoint never pauses."""

    def ask_resume(self, kernel: Dispatch) -> None:
        """Let the function continue."""

    def count(self, works: bool) -> None:
        """THREAD-4."""
        if works is not self.counted:
            self.counted = works
            self.pool.pump.sources += 1 if works else -1


class ControlledJob(ThreadJob):
    """A job with a checkpoint, or in a replay."""

    __slots__ = ("control", "cpu_ns", "measured")

    def __init__(
        self, pool: ThreadPool, task: Task, fn: Callable[..., Any], args: tuple[Any, ...], place: Place | None
    ) -> None:
        super().__init__(pool, task, fn, args)
        self.control = None
        self.measured = measures(task.pools)
        self.cpu_ns = 0  # processor time since the last checkpoint
        if place is not None:
            self.control = ThreadControl(pool.pump, task, self.label, pool, self._thread_paused)
            self.args, keywords = arguments(place, args, Checkpoint(self.control))
            self.fn = partial(fn, **keywords) if keywords else fn

    def work(self) -> None:
        pump = self.pool.pump
        if self.stop is None if pump.live else 0 not in pump.recorded_responses(self.label):
            self.call()
            self.stopped_at = self.control.stopped_at if self.control is not None else -1
        else:
            self.error, self.stopped_at = Cancelled(self.stop), 0
        self.posted = True
        self.pool.post(self)

    def call(self) -> None:
        if self.control is not None:
            self.control.begin()
        begun_ns = cpu_time.thread_time_ns()
        super().call()
        self.cpu_ns = cpu_time.thread_time_ns() - (begun_ns if self.control is None else self.control.measured_ns)

    def deliver(self) -> None:
        pump = self.pool.pump
        if self.measured and not pump.over:
            pump.kernel.runtime.driver.charge_cpu(self.task, self.cpu_ns)
        super().deliver()

    def deliver_if_plain(self, kernel: Kernel) -> bool:
        if self.measured or self.control is not None or not self.counted:
            return False  # the unused rest of its slice must be refunded in the loop
        return super().deliver_if_plain(kernel)

    def ask_pause(self, kernel: Dispatch) -> None:
        if self.control is not None:
            self.control.pause()

    def ask_resume(self, kernel: Dispatch) -> None:
        if self.control is not None:
            self.count(True)
            self.control.resume()

    def _thread_paused(self) -> None:
        """The thread is paused at its checkpoint."""
        self.count(False)
        reached(self.pool.pump.kernel, self.task)
