"""Requests: how a coroutine asks. Nothing here, and nothing built on it, looks for a "current runtime".

A coroutine awaits a request object; the await yields the object itself to whoever drives the coroutine; the driver
bills the task for it and calls `perform` with its own kernel and the task. A request is a description and may be
awaited again. An `Operation` is a request that may have to wait, and so can be a case of a `select`:

    ready    could it be done now? (takes nothing; may refuse, and brings what it is about to life)
    take     do it now
    enlist   wait for it: enter the queue of whoever can answer
    delist   leave that queue, if still in it

Rejected: futures with callbacks. They need a loop to be found from inside, which is the ambient authority that
Bursar does without.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from bursar.backend import Kernel, Task, Wait
from bursar.errors import ScopeMisuse
from bursar.law.budget import OP, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.wake import SUSPENDED as SUSPENDED
from bursar.seam import accelerated

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def running(kernel: Kernel, what: str) -> Task:
    """The task on whose behalf code runs that does not await: the one that `kernel` is polling, in this thread."""
    if kernel.current is None:
        raise ScopeMisuse(f"{what} was used outside any task of its runtime")
    if kernel.runtime is not None and kernel.runtime.thread != threading.get_ident():
        raise ScopeMisuse(f"{what} was used from another thread than the one that runs its runtime")
    return kernel.current


def where(task: Task) -> str:
    """The place in the program where a suspended task awaits: `file:line in function`."""
    place = "an unknown place"
    awaitable: Any = task.work
    while awaitable is not None:
        frame = (
            getattr(awaitable, "cr_frame", None)
            or getattr(awaitable, "gi_frame", None)
            or getattr(awaitable, "ag_frame", None)
        )
        if frame is not None and not frame.f_globals.get("__name__", "").startswith("bursar."):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        awaitable = (
            getattr(awaitable, "cr_await", None)
            or getattr(awaitable, "gi_yieldfrom", None)
            or getattr(awaitable, "ag_await", None)
        )
    return place


@accelerated(adds={"__iter__", "__next__", "send"})  # in C a request is its own iterator
class Request(Generic[T_co]):
    """Something that a task asks of the kernel that drives it."""

    __slots__ = ()

    cost: ClassVar[Cost] = OP
    timed: ClassVar[bool] = False  # whether it sets a deadline or reads the clock: the time must be exact

    def bill(self) -> Cost:
        """What it costs. Most requests cost the same every time."""
        return self.cost

    def __await__(self) -> Generator[Request[Any], Any, T_co]:
        return (yield self)

    def perform(self, kernel: Kernel, task: Task) -> Any:
        """Do it. Returns the result, or SUSPENDED once the kernel knows how the poll ended."""
        raise NotImplementedError


# The modules whose functions and methods belong into the loop. A module registers itself; what is in C has the module
# of `Request`. `bursar.run`, a workflow and a portal may be used on a thread: their modules are not here.
LOOP_MODULES: Final[set[str]] = {Request.__module__}


def loop_module(name: str) -> None:
    """Registers a module whose functions make requests: `loop_module(__name__)`."""
    LOOP_MODULES.add(name)


@accelerated
class Operation(Request[T_co]):
    """A request that may have to wait."""

    __slots__ = ()

    reason: ClassVar[str] = "waits"

    def why(self) -> str:
        """What a task does that waits for this, as the end of the sentence "the task …"."""
        return self.reason

    def ready(self, kernel: Kernel, task: Task) -> bool:
        raise NotImplementedError

    def take(self, kernel: Kernel, task: Task) -> Any:
        raise NotImplementedError

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        raise NotImplementedError

    def enlisted(self, kernel: Kernel) -> None:
        """The task waits now: whatever its waiting makes possible may happen."""

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        raise NotImplementedError

    def blockers(self) -> Iterable[Task]:
        """The tasks that can end this wait, where that is known."""
        return ()

    def perform(self, kernel: Kernel, task: Task) -> Any:
        if self.ready(kernel, task):
            return self.take(kernel, task)
        entry = Entry(task, self)
        self.enlist(kernel, entry)
        kernel.blocked(task, entry)
        self.enlisted(kernel)
        return SUSPENDED


@accelerated
class Entry(Wait):
    """One task in the queue of one operation."""

    __slots__ = ("operation", "token")

    def __init__(self, task: Task, operation: Operation[Any]) -> None:
        super().__init__(task)
        self.operation = operation
        self.token: Any = None  # whatever `enlist` needs to remember for `delist`

    @property
    def reason(self) -> str:
        return self.operation.why()

    def withdraw(self, kernel: Dispatch) -> None:
        self.operation.delist(cast("Kernel", kernel), self)

    def blockers(self) -> Iterable[Task]:
        return self.operation.blockers()
