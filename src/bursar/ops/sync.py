"""`Event`, `Lock`, `Semaphore`: let tasks wait for each other without passing values.

All three are first come, first served. A lock or a semaphore passes directly to the next waiter: a woken task already
holds it. A held lock and a hold of a semaphore are obligations: if a task ends with one, this is reported, and the next
waiter gets it. Each object binds to the kernel of the first task that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from bursar.backend import Kernel, Task, WaitList
from bursar.errors import BursarError, ScopeMisuse
from bursar.law.obligation import Settled
from bursar.request import Entry, Operation, loop_module, require_thread, where
from bursar.seam import accelerated

loop_module(__name__)

T_co = TypeVar("T_co", covariant=True)


class _Shared:
    """An object with a queue of waiting tasks."""

    __slots__ = ("_kernel", "_waiters")

    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._waiters = WaitList()

    def _bind(self, kernel: Kernel, task: Task) -> None:
        if self._kernel is None:
            self._kernel = kernel
        elif self._kernel is not kernel:
            raise ScopeMisuse(f"task {task.name!r} used a {type(self).__name__} that belongs to another runtime")

    def _require_thread(self, what: str) -> None:
        if self._kernel is not None:
            require_thread(self._kernel, what)

    def _answer_oldest(self, value: object) -> None:
        assert self._kernel is not None, "only a bound object has waiters"
        self._waiters.take_oldest().answer(self._kernel, value)


class _Queued(Operation[T_co]):
    """An operation on a `_Shared` object: it waits in the object's queue, oldest first."""

    __slots__ = ("_shared",)

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self._shared._waiters.join(entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        self._shared._waiters.leave(entry)


@accelerated
class Event(_Shared):
    """Happens once. All tasks that wait for it, before or after, continue."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        super().__init__()
        self._set = False

    def is_set(self) -> bool:
        """Whether the event has happened."""
        return self._set

    def set(self) -> None:
        """Let the event happen. Idempotent and free."""
        self._require_thread("Event.set()")
        self._set = True
        while self._waiters:
            self._answer_oldest(None)

    def wait(self) -> Operation[None]:
        """Awaited: returns when the event has happened. Works in `select`."""
        return _EventWait(self)


class _EventWait(_Queued[None]):
    __slots__ = ("_event",)
    reason = "waits for an event"

    def __init__(self, event: Event) -> None:
        super().__init__(event)
        self._event = event

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self._event._bind(kernel, task)
        return self._event.is_set()

    def take(self, kernel: Kernel, task: Task) -> None:
        """The event has happened."""


class Semaphore(_Shared):
    """At most `value` holds exist at once. They are given in the order of arrival. Use `async with semaphore:`."""

    __slots__ = ("_entered", "_holders", "_label", "_value")

    def __init__(self, value: int) -> None:
        super().__init__()
        if type(value) is not int or value < 0:
            raise ValueError(f"Semaphore({value!r}): must be a whole number, not negative")
        self._label = "a permit of a semaphore"
        self._value = value
        self._holders: dict[Hold, None] = {}
        self._entered: dict[Task, list[Hold]] = {}  # the holds of open `async with` blocks

    @property
    def value(self) -> int:
        """How many more holds can be given."""
        return self._value

    def acquire(self) -> Operation[Hold]:
        """Awaited: a `Hold`. Release it with `.release()` or `with hold:`. Works in `select`."""
        return _Acquire(self)

    def _give(self, kernel: Kernel, task: Task) -> Hold:
        """Make a hold for a task."""
        hold = Hold(self, kernel, task)
        self._holders[hold] = None
        return hold

    def _take_back(self, hold: Hold) -> None:
        """A hold was released: the task that has waited longest gets the unit; otherwise the semaphore keeps it.

        If there is no memory for a new hold, the semaphore keeps the unit until the next release.
        """
        if self._holders.pop(hold, self) is self:
            return  # memory ran out before the hold was given to a task
        self._value += 1
        while self._value and self._waiters:
            assert self._kernel is not None, "only a bound object has waiters"
            wait = self._waiters.oldest()
            new = self._give(self._kernel, wait.task)
            self._waiters.leave(wait)
            self._value -= 1
            wait.answer(self._kernel, new)

    def _holds(self) -> Iterable[Hold]:
        """The present holds, oldest first."""
        return iter(self._holders)

    def _holder_tasks(self) -> Iterable[Task]:
        return (hold.holder for hold in self._holders)

    def _take_one(self) -> None:
        self._value -= 1

    async def __aenter__(self) -> None:
        hold = await self.acquire()
        self._entered.setdefault(hold.holder, []).append(hold)

    async def __aexit__(self, *_: object) -> None:
        current = self._kernel.current if self._kernel is not None else None
        holds = self._entered.get(current, []) if current is not None else []
        if not holds or current is None:
            raise ScopeMisuse("a semaphore's block was left by another task than the one that entered it")
        holds.pop().release()
        if not holds:
            del self._entered[current]


class _Acquire(_Queued["Hold"]):
    __slots__ = ("_semaphore",)

    def __init__(self, semaphore: Semaphore) -> None:
        super().__init__(semaphore)
        self._semaphore = semaphore

    def why(self) -> str:
        return f"waits for {self._semaphore._label}"

    def ready(self, kernel: Kernel, task: Task) -> bool:
        self._semaphore._bind(kernel, task)
        return self._semaphore.value > 0

    def take(self, kernel: Kernel, task: Task) -> Hold:
        hold = self._semaphore._give(kernel, task)
        self._semaphore._take_one()
        return hold

    def blockers(self) -> Iterable[Task]:
        return self._semaphore._holder_tasks()


class Hold:
    """One unit of a semaphore, held by one task. Must be released before the task ends."""

    __slots__ = ("_obligation", "_semaphore")

    def __init__(self, semaphore: Semaphore, kernel: Kernel, task: Task) -> None:
        self._semaphore = semaphore
        self._obligation = kernel.promise(task, semaphore._label, where(task), self._give_back)

    def _give_back(self) -> None:
        self._semaphore._take_back(self)

    @property
    def holder(self) -> Task:
        return self._obligation.holder

    def release(self) -> None:
        """Give the unit back. A second release is an error: it would release another task's hold."""
        self._semaphore._require_thread("Hold.release()")
        if self._obligation.settled is not Settled.OPEN:
            raise BursarError(f"{self._obligation.what} was {self._obligation.settled.name.lower()} already")
        self._obligation.settle(Settled.ABORTED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._obligation.settled is Settled.OPEN:
            self.release()


class Lock:
    """Held by one task at a time, in the order of arrival. Not reentrant. Use `async with lock:`.

    If a task ends while it holds the lock, Bursar reports `obligation_leaked` and passes the lock on.
    """

    __slots__ = ("_semaphore",)

    def __init__(self) -> None:
        self._semaphore = Semaphore(1)
        self._semaphore._label = "a lock"

    def locked(self) -> bool:
        """Whether a task holds the lock."""
        return self._semaphore.value == 0

    def acquire(self) -> Operation[Hold]:
        """Awaited: take the lock. Raises `ScopeMisuse` if the task holds it already. Works in `select`."""
        return _LockAcquire(self._semaphore)

    def release(self) -> None:
        """Release the lock. Only the task that holds it may do this."""
        self._semaphore._require_thread("Lock.release()")
        kernel = self._semaphore._kernel
        current = kernel.current if kernel is not None else None
        for hold in self._semaphore._holds():
            if hold.holder is current:
                hold.release()
                return
        who = f"task {current.name!r}" if current is not None else "code outside any task"
        raise ScopeMisuse(f"{who} released a lock that it does not hold")

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()


class _LockAcquire(_Acquire):
    __slots__ = ()

    def why(self) -> str:
        holder = next(iter(self._semaphore._holder_tasks()), None)
        return f"waits for a lock held by {holder.name!r}" if holder is not None else "waits for a lock"

    def ready(self, kernel: Kernel, task: Task) -> bool:
        if any(holder is task for holder in self._semaphore._holder_tasks()):
            raise ScopeMisuse(f"task {task.name!r} holds this lock already and would wait for itself")
        return super().ready(kernel, task)
