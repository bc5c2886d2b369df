"""`Task`: the handle that a spawn returns; and the requests of a task about itself.

A handle reads the law's record and copies nothing, so it always shows the present state. Two handles of the same task
are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from bursar.backend import Kernel, Wait, WaitList
from bursar.backend import Task as LawTask
from bursar.errors import ResultNotReady, ScopeMisuse, TaskCancelled, TaskDropped, TaskPanicked
from bursar.law.admission.drops import read_drop
from bursar.law.budget import Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.pool import own_left
from bursar.law.state import Outcome, OutcomeKind, State
from bursar.ops.pause import drop_task, pause_task, resume_task
from bursar.request import SUSPENDED, Entry, Operation, Request, loop_module, require_thread
from bursar.seam import accelerated, expose_to_c, methods_on
from bursar.text import brief
from bursar.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from bursar.law.admission.ticket import WaitReason
    from bursar.ops.explain import Explanation

loop_module(__name__)

T_co = TypeVar("T_co", covariant=True)


def unwrap(name: str, outcome: Outcome) -> Any:
    """The value of an outcome. Raises the error if the outcome is not OK."""
    match outcome.kind:
        case OutcomeKind.OK:
            return outcome.value
        case OutcomeKind.FAILED:
            assert outcome.error is not None, "a failure has an error"
            raise BaseException.with_traceback(outcome.error, outcome.traceback)
        case OutcomeKind.PANICKED:
            raise TaskPanicked(f"task {name!r} panicked: {brief(outcome.error, repr)}") from outcome.error
        case OutcomeKind.CANCELLED:
            raise TaskCancelled(f"task {name!r} was cancelled ({outcome.reason})")
        case OutcomeKind.DROPPED:
            raise TaskDropped(f"task {name!r} was dropped ({outcome.reason})")


def read_outcome(record: LawTask) -> Outcome | None:
    """The outcome of a task, for a program, which then knows of a drop."""
    outcome = record.outcome
    if outcome is not None and outcome.kind is OutcomeKind.DROPPED:
        read_drop(record)
    return outcome


def why_ended(record: LawTask) -> str:
    return f"waits for task {record.name!r}"


expose_to_c(why_ended=why_ended, read_drop=read_drop)


@accelerated
class _Ended(Operation[Outcome]):
    """Wait for the end of a task."""

    __slots__ = ("_record",)

    def __init__(self, record: LawTask) -> None:
        self._record = record

    def why(self) -> str:
        return why_ended(self._record)

    def ready(self, kernel: Kernel, task: LawTask) -> bool:
        if task is self._record:
            raise ScopeMisuse(f"task {task.name!r} awaits itself, which would never end")
        if self._record.outcome is None and kernel.tasks.get(self._record.id) is not self._record:
            raise ScopeMisuse(f"task {self._record.name!r} belongs to another runtime than {task.name!r}")
        return self._record.outcome is not None

    def take(self, kernel: Kernel, task: LawTask) -> Outcome | None:
        return read_outcome(self._record)

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        if self._record.waiters is None:
            self._record.waiters = WaitList()
        self._record.waiters.join(entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if self._record.waiters is not None:
            self._record.waiters.leave(entry)

    def blockers(self) -> Iterable[LawTask]:
        return (self._record,)


class _AtEnd(Wait):
    """A wait without a waiting task. It is in the list of waits for a task's end, and passes the outcome to `call`."""

    __slots__ = ("call",)

    call: Callable[[Outcome], None]

    def answer(self, kernel: Any, value: Outcome) -> None:
        self.call(value)


def at_end(record: LawTask, call: Callable[[Outcome], None]) -> None:
    """For Bursar's own modules: call `call` when the task ends, even if it never began. The law is in the middle of a
    change then."""
    if record.waiters is None:
        record.waiters = WaitList()
    wait = _AtEnd(record)
    wait.call = call
    record.waiters.join(wait)


@methods_on("TaskHandle", replaces={"result"})
class Task(Generic[T_co]):
    """The handle that `spawn` returns. Handles of the same task are equal.

    `await task` returns its value, or raises: its error if it failed, `TaskCancelled`, `TaskPanicked` or
    `TaskDropped`.
    """

    __slots__ = ("_kernel", "_record")

    def __init__(self, kernel: Kernel, record: LawTask) -> None:
        self._kernel = kernel
        self._record = record

    @property
    def id(self) -> int:
        """The number of the task in its run."""
        return self._record.id

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._record.name

    @property
    def state(self) -> State:
        """The `State` of the task."""
        record = self._record
        return State.PAUSED if record.state is State.BLOCKED and self._kernel.is_paused(record) else record.state

    @property
    def outcome(self) -> Outcome | None:
        """How the task ended; None while it lives."""
        return read_outcome(self._record)

    @property
    def result(self) -> T_co:
        """The task's value, or its error, as for `await task` but without waiting. Raises `ResultNotReady` before
        the end."""
        task = self
        while (later := task.retried_by) is not None:
            task = later
        try:
            if task.outcome is None:
                raise ResultNotReady(
                    f"task {task.name!r} is {task.state.name} and has no result yet; "
                    "await it, or read the result after its nursery's block"
                )
            return cast("T_co", unwrap(task.name, task.outcome))
        except BaseException as error:
            hide_own_frames(error)
            raise

    expose_to_c(result_of=result.fget)

    @property
    def spent(self) -> Budget:
        """What the task has spent so far."""
        return Budget(*self._record.spent, **(self._record.named_spent or {}))

    @property
    def budget(self) -> Budget:
        """What the task may still spend of its own budget; None where it draws on its nursery's purse."""
        return own_left(self._record.pools, self._record.purse_of)

    def wait(self) -> Operation[Outcome]:
        """Awaited: the task's `Outcome`, without raising. Works in `select`."""
        return _Ended(self._record)

    def __await__(self) -> Generator[Request[Any], Any, T_co]:
        task = self
        while True:
            outcome = yield from task.wait().__await__()
            later = task.retried_by
            if later is None:
                break
            task = later
        try:
            return cast("T_co", unwrap(self.name, outcome))
        except BaseException as error:
            hide_own_frames(error)
            raise

    def cancel(self, detail: str = "") -> None:
        """Ask the task to stop. It gets `Cancelled` at its next await. Does not wait."""
        require_thread(self._kernel, "Task.cancel()")
        by = self._kernel.current
        reason = CancelReason(CancelKind.USER, brief(detail), by.id if by is not None else None)
        self._kernel.cancel_request(self._record, reason)

    def explain(self) -> Explanation:
        """Why the task does not run: its state, the reason, which tasks it waits for, since when, and what it has
        spent."""
        from bursar.ops.explain import explain  # loaded on first use

        return explain(self._kernel, self._record, self._kernel.now_ns)

    def pause(self, timeout: float | None = None) -> Operation[bool]:
        """Pause the task: at once, or for a function on a thread or a C function at its next checkpoint.

        Awaited: True when the task is paused, False if it ended first. If it reaches no checkpoint within `timeout`
        seconds it is cancelled, and the await raises `PauseTimeout`. A task cannot pause itself.
        """
        require_thread(self._kernel, "Task.pause()")
        return pause_task(self._kernel, self._record, timeout)

    def resume(self) -> None:
        """Let a paused task continue. It waits for the slot and the CPU that it gave back."""
        require_thread(self._kernel, "Task.resume()")
        resume_task(self._kernel, self._record)

    def drop(self, detail: str = "") -> None:
        """Drop a task that waits for permission: it will not start. Its handle raises `TaskDropped`."""
        require_thread(self._kernel, "Task.drop()")
        drop_task(self._kernel, self._record, brief(detail))

    @property
    def priority(self) -> int:
        """The priority with which the task asked for permission."""
        ticket = cast("Any", self._record.ticket)
        return ticket.priority if ticket is not None else 0

    @property
    def history(self) -> list[WaitReason]:
        """Why the task has waited for permission, oldest first; the newest 32 entries."""
        ticket = cast("Any", self._record.ticket)
        return ticket.history if ticket is not None else []

    @property
    def progress(self) -> float | None:
        """The progress that the task's checkpoint last reported, from 0 to 1; None if it reports none."""
        return getattr(self._record.wait, "progress", None)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ticket = cast("Any", self._record.ticket)
        return ticket.attempt if ticket is not None else 1

    @property
    def retry_of(self) -> Task[T_co] | None:
        """The attempt before this one, or None."""
        ticket = cast("Any", self._record.ticket)
        return Task(self._kernel, ticket.retry_of) if ticket is not None and ticket.retry_of is not None else None

    @property
    def retried_by(self) -> Task[T_co] | None:
        """The attempt after this one, or None."""
        ticket = cast("Any", self._record.ticket)
        return Task(self._kernel, ticket.next_task) if ticket is not None and ticket.next_task is not None else None

    def _inside(self, kernel: Kernel) -> LawTask:
        """For Bursar's own modules: the record of the task, which must belong to `kernel`."""
        if self._kernel is not kernel:
            raise ScopeMisuse(f"task {self.name!r} belongs to another runtime")
        return self._record

    def __repr__(self) -> str:
        outcome = self._record.outcome
        ended = f" {outcome}" if outcome is not None else ""
        return f"<Task {self.id} {self.name!r} {self.state.name}{ended}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and other._record is self._record  # pyright: ignore[reportUnknownMemberType]

    def __hash__(self) -> int:
        return hash(self._record)


class _Checkpoint(Request[None]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: LawTask) -> Any:
        kernel.yielded(task)
        return SUSPENDED


_CHECKPOINT = _Checkpoint()
_CHECKPOINT.mark_used()  # all calls return it, so it cannot show that one of them was forgotten


@accelerated
def checkpoint() -> Request[None]:
    """Awaited: pay one op and let the other tasks run. This is the place where a long loop can be stopped.

    Every call returns the same object, so that a yield makes none. So no warning can name a checkpoint whose `await`
    was forgotten, as it does for all other requests.
    """
    return _CHECKPOINT


class _Current(Request[Task[Any]]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: LawTask) -> Task[Any]:
        return Task(kernel, task)


def current_task() -> Request[Task[Any]]:
    """Awaited: the handle of the running task."""
    return _Current()
