"""`Task`: the handle that a spawn returns, and what a task may ask about itself.

A handle looks at the law's record; it never copies it, so what it shows is true at that moment. Two handles of the
same task are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from bursar.backend import Kernel, Wait, WaitList, grafted, native, tell
from bursar.backend import Task as Record
from bursar.errors import ResultNotReady, ScopeMisuse, TaskCancelled, TaskDropped, TaskPanicked
from bursar.law.budget import Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, OutcomeKind, State
from bursar.ops.introspection import Explanation, explain
from bursar.request import SUSPENDED, Entry, Operation, Request
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.law.admission.ticket import Past

T_co = TypeVar("T_co", covariant=True)


def _admission() -> Any:
    """What a handle does at a gate. It is built on handles, so it cannot be imported before them."""
    from bursar.ops import gate_spawn as ask

    return ask


def unwrap(name: str, outcome: Outcome) -> Any:
    """The value of an outcome, or the error that it stands for."""
    match outcome.kind:
        case OutcomeKind.OK:
            return outcome.value
        case OutcomeKind.FAILED:
            assert outcome.error is not None, "a failure has an error"
            raise outcome.error
        case OutcomeKind.PANICKED:
            raise TaskPanicked(f"task {name!r} panicked: {brief(outcome.error, repr)}") from outcome.error
        case OutcomeKind.CANCELLED:
            raise TaskCancelled(f"task {name!r} was cancelled ({outcome.reason})")
        case OutcomeKind.DROPPED:
            raise TaskDropped(f"task {name!r} was dropped ({outcome.reason})")


def why_ended(record: Record) -> str:
    return f"waits for task {record.name!r}"


tell(why_ended=why_ended)


@native
class _Ended(Operation[Outcome]):
    """Wait for the end of a task."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def why(self) -> str:
        return why_ended(self._record)

    def ready(self, kernel: Kernel, task: Record) -> bool:
        if task is self._record:
            raise ScopeMisuse(f"task {task.name!r} awaits itself, which would never end")
        if self._record.outcome is None and kernel.tasks.get(self._record.id) is not self._record:
            raise ScopeMisuse(f"task {self._record.name!r} belongs to another runtime than {task.name!r}")
        return self._record.outcome is not None

    def take(self, kernel: Kernel, task: Record) -> Outcome | None:
        return self._record.outcome

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        if self._record.waiters is None:
            self._record.waiters = WaitList()
        self._record.waiters.join(entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if self._record.waiters is not None:
            self._record.waiters.leave(entry)

    def blockers(self) -> Iterable[Record]:
        return (self._record,)


class _AtEnd(Wait):
    """Nobody waits: it stands among those who wait for the end of a task, and passes the outcome on."""

    __slots__ = ("call",)

    call: Callable[[Outcome], None]

    def answer(self, kernel: Any, value: Outcome) -> None:
        self.call(value)


def at_end(record: Record, call: Callable[[Outcome], None]) -> None:
    """For Bursar's own parts: `call` is called when the task ends, in the middle of the law, also if it never began."""
    if record.waiters is None:
        record.waiters = WaitList()
    wait = _AtEnd(record)
    wait.call = call
    record.waiters.join(wait)


@grafted("TaskHandle")
class Task(Generic[T_co]):
    """A handle on a spawned task. `await task` gives its value or raises what it failed with."""

    __slots__ = ("_kernel", "_record")

    def __init__(self, kernel: Kernel, record: Record) -> None:
        self._kernel = kernel
        self._record = record

    @property
    def id(self) -> int:
        return self._record.id

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def state(self) -> State:
        record = self._record
        return State.PAUSED if record.state is State.BLOCKED and self._kernel.is_paused(record) else record.state

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it lives."""
        return self._record.outcome

    @property
    def result(self) -> T_co:
        """Its value, or whatever it failed with; of its last attempt. Before its end: `ResultNotReady`."""
        return cast("T_co", result_of(self))

    @property
    def spent(self) -> Budget:
        """What it has spent so far."""
        return Budget(*self._record.spent)

    @property
    def budget(self) -> Budget:
        """What it may still spend of its own; None where it draws on its nursery's purse."""
        mine, purse = self._record.pools, self._record.purse_of
        return Budget(*(p.left if p is not q else None for p, q in zip(mine, purse, strict=True)))

    def wait(self) -> Operation[Outcome]:
        """Awaited: its outcome, without raising. Can be a case of a `select`."""
        return _Ended(self._record)

    def __await__(self) -> Generator[Request[Any], Any, T_co]:
        task = self
        while True:
            outcome = yield from task.wait().__await__()
            later = task.retried_by
            if later is None:
                return cast("T_co", unwrap(self.name, outcome))
            task = later

    def cancel(self, detail: str = "") -> None:
        """Ask it to stop. It is told at its next await point; this does not wait for it."""
        by = self._kernel.current
        reason = CancelReason(CancelKind.USER, brief(detail), by.id if by is not None else None)
        self._kernel.cancel_request(self._record, reason)

    def explain(self) -> Explanation:
        """Why it stands where it stands: state, reason, whom it waits for, since when, what it spent."""
        return explain(self._kernel, self._record)

    def pause(self, timeout: float | None = None) -> Operation[bool]:
        """Have it stand still, from now on or, on a thread, from its next checkpoint. Awaited: whether it stands; it
        may have ended first. If it does not come to a checkpoint within `timeout` seconds it is cancelled, and the
        await raises `PauseTimeout`."""
        return _admission().pause(self._kernel, self._record, timeout)

    def resume(self) -> None:
        """Let it go on. What it gave back while it stood it must wait for again."""
        _admission().resume(self._kernel, self._record)

    def drop(self, detail: str = "") -> None:
        """It waits for permission: it shall not start. Whoever asks for its result is told `TaskDropped`."""
        _admission().drop(self._kernel, self._record, brief(detail))

    @property
    def priority(self) -> int:
        """With which it asked for permission."""
        permit = cast("Any", self._record.permit)
        return permit.priority if permit is not None else 0

    @property
    def history(self) -> list[Past]:
        """What it has waited for permission for, oldest first; the newest few."""
        permit = cast("Any", self._record.permit)
        return permit.history if permit is not None else []

    @property
    def progress(self) -> float | None:
        """How far its function, which runs on a thread, said it is, from 0 to 1; None: it says nothing."""
        return getattr(self._record.wait, "progress", None)

    @property
    def attempt(self) -> int:
        """Which attempt it is, from 1."""
        permit = cast("Any", self._record.permit)
        return permit.attempt if permit is not None else 1

    @property
    def retry_of(self) -> Task[T_co] | None:
        """The attempt before it."""
        permit = cast("Any", self._record.permit)
        return Task(self._kernel, permit.retry_of) if permit is not None and permit.retry_of is not None else None

    @property
    def retried_by(self) -> Task[T_co] | None:
        """The attempt after it."""
        permit = cast("Any", self._record.permit)
        return Task(self._kernel, permit.next_task) if permit is not None and permit.next_task is not None else None

    def inside(self, kernel: Kernel) -> Record:
        """For Bursar's own parts: the record behind the handle, which must belong to `kernel`."""
        if self._kernel is not kernel:
            raise ScopeMisuse(f"task {self.name!r} belongs to another runtime")
        return self._record

    def __repr__(self) -> str:
        ended = f" {self.outcome}" if self.outcome is not None else ""
        return f"<Task {self.id} {self.name!r} {self.state.name}{ended}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and other._record is self._record  # pyright: ignore[reportUnknownMemberType]

    def __hash__(self) -> int:
        return hash(self._record)


def result_of(task: Task[Any]) -> Any:
    """The value of an ended task, or the error that it stands for. If it was tried again, the last attempt counts."""
    while (later := task.retried_by) is not None:
        task = later
    if task.outcome is None:
        raise ResultNotReady(
            f"task {task.name!r} is {task.state.name} and has no result yet; "
            "await it, or read the result after its nursery's block"
        )
    return unwrap(task.name, task.outcome)


tell(result_of=result_of)


class _Checkpoint(Request[None]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: Record) -> Any:
        kernel.yielded(task)
        return SUSPENDED


_CHECKPOINT = _Checkpoint()


@native
def checkpoint() -> Request[None]:
    """Pay one op and let the others run: the place where a long loop can be stopped."""
    return _CHECKPOINT


class _Current(Request[Task[Any]]):
    __slots__ = ()

    def perform(self, kernel: Kernel, task: Record) -> Task[Any]:
        return Task(kernel, task)


def current_task() -> Request[Task[Any]]:
    """Awaited: the handle of the task that asks."""
    return _Current()
