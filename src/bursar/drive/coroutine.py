"""The driver of coroutine tasks: runs one poll at a time.

`poll` resumes the coroutine, takes the request that it yields, bills the task and performs the request. It repeats this
until the task waits, yields, cannot pay or ends. Only the driver throws `Cancelled` into a task: at the await point,
before the awaited operation takes effect.

A mistake of a task affects only that task. If it awaits an object that Bursar cannot drive, `ForeignAwait` is raised at
that await. A `BaseException` ends the task as panicked. A coroutine that does not close is abandoned after
CLOSE_ATTEMPTS_MAX attempts, and reported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sized
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from bursar.backend import Kernel, Task
from bursar.drive import cpu_time
from bursar.drive.program_calls import calls_program
from bursar.errors import BudgetExceeded, Cancelled, CapabilityDenied, ForeignAwait
from bursar.law import cancel
from bursar.law.cancel import CancelKind, CancelPhase
from bursar.law.kernel import Drain
from bursar.law.ledger import Bill
from bursar.law.pool import measures
from bursar.law.state import Outcome, OutcomeKind, raised
from bursar.ops.start import OURS
from bursar.request import SUSPENDED, Request
from bursar.seam import NATIVE, accelerated, expose_to_c
from bursar.text import brief
from bursar.tracebacks import hide_own_frames, traceback_of

if TYPE_CHECKING:
    from bursar.drive.memory import MemoryMeter

CLOSE_ATTEMPTS_MAX: Final = 8  # each attempt gets past one `await` in a `finally` block


class _Foreign(Request[None]):
    """Stands for an awaited object that Bursar cannot drive. It is billed like any request, then raises."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def perform(self, kernel: Kernel, task: Task) -> None:
        kind = type(self._thing)
        bridge = ""
        if _of_asyncio(kind):
            bridge = ", or await bursar.asyncio.from_asyncio(...) in an asyncio loop"
        raise ForeignAwait(
            f"task {task.name!r} awaited something that yielded {brief(self._thing, repr)} "
            f"({kind.__module__}.{kind.__qualname__}), which Bursar does not drive; "
            f"await Bursar's own operations here{bridge}"
        )


def _of_asyncio(kind: type) -> bool:
    """Whether asyncio's tasks can wait for objects of this class. It reads class dictionaries, which cannot lie."""
    return any("_asyncio_future_blocking" in type.__getattribute__(base, "__dict__") for base in type.mro(kind))


def _as_request(thing: object) -> Request[Any]:
    """The yielded object, if it is a request; otherwise a `_Foreign`. It uses `type`, because `__class__` can lie."""
    return thing if issubclass(type(thing), Request) else _Foreign(thing)  # pyright: ignore[reportReturnType]


expose_to_c(as_request=_as_request)


@accelerated(omits={"resume", "close_begun_generators", "close_collected_generators"})
class Driver:
    """Polls tasks: the part that runs at every poll."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.clock: Callable[[], int] | None = None  # read before a request that sets a deadline
        self.start_ns = -1  # the machine's monotonic clock at time 0 of the run; -1: C must not read that clock
        self.meter: MemoryMeter | None = None  # charges tasks for the memory that they allocate
        self.collected: Sized | None = None  # async generators to be closed after the poll
        self.begun: Sized | None = None  # tasks that have begun async generators
        self.held = False  # the caller holds the kernel, so in C the collector may skip its records (gc_aside.c)
        self.aborting = False  # after a second Ctrl-C: a KeyboardInterrupt ends the run, not only a task
        self.stopped = False  # make no more steps
        self.measured = False  # a budget states processor time; only C needs to know, in advance
        self.checked = False  # set by a subclass that replaces `poll`: C then calls `poll` by name
        self.ours: list[CodeType] = []  # the code of coroutines that run no user code: any thread may poll them
        self.anywhere = False  # a pool thread drives: only coroutines in `ours` may be polled
        self.dispatched: Task | None = None  # the task that a pool thread could not poll; the loop polls it first

    def run(self, left: int, overdue: Callable[[], bool] | None) -> tuple[int, bool]:
        """Make at most `left` steps, while a task is runnable.

        Returns how many steps are left, and whether the batch was cut: because `overdue` returned True, or because the
        dispatched task cannot be polled in this thread.
        """
        kernel = self.kernel
        while ((left and kernel.runnable) or self.dispatched is not None) and not self.stopped:
            task, self.dispatched = self.dispatched, None
            if task is None:
                left -= 1
                if kernel.observer is not None:
                    kernel.observer("scheduler_step_begin", None, None)
                task = kernel.step()
            if task is None:
                break
            if self.anywhere and getattr(task.work, "cr_code", None) not in self.ours:
                self.dispatched = task
                return left, True
            self.poll(task)
            if self.aborting:
                raise KeyboardInterrupt
            if self.collected:
                self.close_collected_generators()
            kernel.step_over(task)
            if overdue is not None and left and kernel.runnable and overdue():
                return left, True
        return left, False

    def poll(self, task: Task) -> None:
        """Run a task that was just dispatched until its poll is over."""
        if task.ending is not None:
            self.kernel.finish(task, task.ending)
            return
        if task.cut:
            self._close(task)
            return
        value, error, request = task.inbox, task.error, task.unpaid_request
        task.inbox = task.error = task.unpaid_request = None
        if error is None and task.cancel_pending and not task.effect:
            error = self.kernel.deliver_cancel(task)
        task.effect = False
        if not task.started and error is not None:
            self._close(task)
            return
        task.started = True
        self.resume(task, value, error, None if error is not None else request)

    @calls_program
    def resume(self, task: Task, value: Any, error: BaseException | None, request: Request[Any] | None) -> None:
        """Run the program's code until the task waits, yields, cannot pay or ends."""
        kernel, coroutine = self.kernel, task.work
        run = task.context.run if self.meter is None else partial(self.meter.run, task)
        if measures(task.pools):
            run = partial(self._measured, task, run)
            if request is not None and task.cpu_due:
                kernel.pay_cpu_due(task)
        while True:
            if request is None:
                try:
                    request = run(coroutine.send, value) if error is None else run(coroutine.throw, error)
                except StopIteration as stop:
                    self._returned(task, stop.value)
                    return
                except BaseException as failure:
                    error = None  # the traceback refers to this frame: a cycle would keep the frames of the task
                    self._raised(task, failure)
                    return
            request = _as_request(request)
            request.mark_used()  # a generator may yield a request without awaiting it
            value, error = None, kernel.deliver_cancel(task) if task.cancel_pending else None
            if error is None:
                value, error = self._ask(task, request)
                if value is SUSPENDED:
                    return
            request = None

    def _ask(self, task: Task, request: Request[Any]) -> tuple[Any, BaseException | None]:
        """Bill and perform one request. Returns its value, and the error to raise at the await point, if any."""
        task.unpaid_request = request
        match self.kernel.bill(task, request.bill()):
            case Bill.PAID:
                task.unpaid_request = None
            case Bill.SUSPENDED:
                return SUSPENDED, None
            case Bill.CUT:
                self._close(task)
                return SUSPENDED, None
            case shortage:
                task.unpaid_request = None
                return None, shortage
        if request.timed and self.clock is not None:
            self.clock()  # the poll may have taken long, so read the time again
        try:
            return request.perform(self.kernel, task), None
        except AssertionError:
            raise  # a bug in Bursar must not look like a mistake of the task
        except Exception as refused:
            if self.kernel.current is not task:
                raise  # the poll is over: the task waits, so the error cannot be raised in it
            if isinstance(refused, CapabilityDenied):
                self.kernel.note("capability_denied", task, refused)
            return None, refused

    def _measured(self, task: Task, run: Callable[..., Any], resume: Callable[[Any], Any], value: Any) -> Any:
        """Resume the code of a task, and charge the processor time that it takes."""
        begun_ns = self._cpu_now()
        try:
            return run(resume, value)
        finally:
            self._charge_cpu(task, begun_ns)

    # ---- measured time and endings: see `Coroutines`

    def _cpu_now(self) -> int:
        raise NotImplementedError

    def _charge_cpu(self, task: Task, begun_ns: int) -> None:
        raise NotImplementedError

    def _returned(self, task: Task, value: Any) -> None:
        raise NotImplementedError

    def _raised(self, task: Task, error: BaseException) -> None:
        raise NotImplementedError

    def _close(self, task: Task) -> None:
        raise NotImplementedError

    def close_collected_generators(self) -> None:
        raise NotImplementedError

    def close_begun_generators(self, task: Task) -> None:
        raise NotImplementedError


class Coroutines(Driver):
    """Drives the coroutine tasks of one kernel: the polls, and how they end."""

    def __init__(self, kernel: Kernel) -> None:
        if not NATIVE:
            super().__init__(kernel)
        self.ours = OURS
        self.recorded_cpu_ns: Callable[[Task], int | None] | None = None  # in a replay: the recorded time
        self.close_collected: Callable[[], None] | None = None
        self.close_begun: Callable[[Task], None] | None = None

    def close_collected_generators(self) -> None:
        """A poll dropped async generators: close them at once."""
        if self.close_collected is not None:
            self.close_collected()

    def _cpu_now(self) -> int:
        return cpu_time.thread_time_ns()

    def _charge_cpu(self, task: Task, begun_ns: int) -> None:
        self.charge_cpu(task, cpu_time.thread_time_ns() - begun_ns)

    def charge_cpu(self, task: Task, used_ns: int) -> None:
        """Charge processor time that was measured; in a replay, the time that the recorded run measured."""
        recorded = self.recorded_cpu_ns(task) if self.recorded_cpu_ns is not None else None
        self.kernel.charge_cpu(task, max(used_ns, 0) if recorded is None else recorded)

    def close_begun_generators(self, task: Task) -> None:
        """A task was cancelled, or fails: close the async generators that it began, after the poll."""
        if self.begun and self.close_begun is not None:
            self.close_begun(task)

    def _returned(self, task: Task, value: Any) -> None:
        if task.phase is CancelPhase.DRAINING and task.reason is not None and task.reason.kind is not CancelKind.BUDGET:
            self.kernel.report(
                "cancel_swallowed",
                task,
                f"was cancelled ({task.reason}) and returned {brief(value, repr)} instead of letting Cancelled pass",
            )
            self.kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=task.reason))
            return
        self.kernel.finish(task, Outcome(OutcomeKind.OK, value))

    def _raised(self, task: Task, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and self.aborting:
            raise error
        self.close_begun_generators(task)
        if isinstance(error, Cancelled):
            reason = getattr(error, "reason", None) or cancel.why_ended(task)
            self.kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=reason))
            return
        hide_own_frames(error)
        with contextlib.suppress(Exception):  # an error may refuse to carry notes
            BaseException.add_note(error, f"in task {task.name!r} ({task.id}) of {task.nursery.name}")
        kind = OutcomeKind.PANICKED
        if isinstance(error, Exception):
            kind = OutcomeKind.FAILED
            if task.ticket is not None:
                task.ticket.failed(error)
        self.kernel.finish(task, raised(kind, error, traceback_of(error)))

    def _close(self, task: Task) -> None:
        """End a task without resuming it: it never started, or it overran its cleanup."""
        kernel = self.kernel
        if task.has_children():
            kernel.blocked(task, Drain(task))
            return
        if task.effect and task.inbox is not None:
            kernel.report("result_lost", task, "was cut off before it could take the result of a finished operation")
        reason, asked = cancel.why_ended(task), task.phase is not CancelPhase.IDLE
        self.close_begun_generators(task)
        self.close(task)
        if not asked and task.started:  # the task itself was not asked to stop: it overran the cleanup of a block
            error = BudgetExceeded(
                f"task {task.name!r} overran the cleanup of a cancelled block ({reason})", task=task.name
            )
            kernel.finish(task, Outcome(OutcomeKind.FAILED, error=error))
        elif task.reason is not None and task.reason.kind is CancelKind.BUDGET:
            error = BudgetExceeded(f"{task.reason.detail} (and it overran its cleanup)", task=task.name)
            kernel.finish(task, Outcome(OutcomeKind.FAILED, error=error))
        else:
            kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=reason))

    @calls_program
    def close(self, task: Task) -> None:
        """Close the task's coroutine, and ignore what it awaits on the way out."""
        if task.work is None:
            return  # memory ran out before the task got its coroutine
        close = (
            partial(task.context.run, task.work.close) if self.meter is None else partial(self.meter.close_work, task)
        )
        for _ in range(CLOSE_ATTEMPTS_MAX):
            try:
                close()
            except RuntimeError as refusal:
                if "ignored GeneratorExit" not in str(refusal):
                    self.kernel.report("cleanup_failed", task, f"raised {brief(refusal, repr)} while it was closed")
                    return
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self.aborting:
                    raise
                self.kernel.report("cleanup_failed", task, f"raised {brief(error, repr)} while it was closed")
                return
            else:
                return
        self.kernel.report("cleanup_ignored", task, f"went on awaiting after being closed {CLOSE_ATTEMPTS_MAX} times")
