"""Requests: how a coroutine asks its kernel for something, without looking for a "current runtime".

A coroutine awaits a request object. The await yields the object to the driver. The driver bills the task for the
request and calls `perform` with the kernel and the task. A request is only a description, so it may be awaited again.
A request that is dropped and was never awaited is a mistake of the program, which forgot `await`: a `RuntimeWarning`
names the line, as for coroutines.

An `Operation` is a request that may have to wait, and can be a case of a `select`:

    ready    can it be done now? It takes nothing. It may raise, and may start the object that it asks.
    take     do it now
    enlist   wait for it: enter the queue of the object that can answer
    delist   leave that queue, if still in it

Rejected: futures with callbacks. Code that makes a future must find the current loop. That is ambient authority, and
Bursar has none.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Never, TypeVar, cast

from bursar.backend import Kernel, Task, Wait
from bursar.errors import ScopeMisuse
from bursar.law.costs import OP, Cost
from bursar.law.dispatch import Dispatch
from bursar.law.wake import SUSPENDED as SUSPENDED
from bursar.seam import accelerated, expose_to_c
from bursar.tracebacks import is_own

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def require_thread(kernel: Kernel, what: str) -> None:
    """Every method that changes something without an await calls this first. Raises `ScopeMisuse`, which names `what`,
    in another thread than the one that drives `kernel`.

    A change from another thread would not wake the loop: it would take effect late, or never. Before and after a run
    no thread drives the kernel, and every thread may change its objects.
    """
    if kernel.thread and kernel.thread != threading.get_ident():
        raise ScopeMisuse(
            f"{what} was used from another thread than the one that runs its runtime, where it would take effect late "
            "or never; open a portal to a nursery, and use portal.call(function, *args) or portal.spawn there"
        )


expose_to_c(require_thread=require_thread)


def running(kernel: Kernel, what: str) -> Task:
    """The task that `kernel` polls in this thread: code that does not await acts for this task.

    Raises `ScopeMisuse`, which names `what`, if no task runs here.
    """
    require_thread(kernel, what)
    if kernel.current is None:
        raise ScopeMisuse(f"{what} was used outside any task of its runtime; use it inside a task")
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
        if frame is not None and not is_own(frame):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        awaitable = (
            getattr(awaitable, "cr_await", None)
            or getattr(awaitable, "gi_yieldfrom", None)
            or getattr(awaitable, "ag_await", None)
        )
    return place


def warn_forgotten(kind: type, stacklevel: int = 2) -> None:
    """A request was dropped, and no task ever awaited it. The warning names the line that dropped it."""
    keyword = getattr(kind, "keyword", "await")
    message = f"a request ({kind.__name__.lstrip('_')}) was never awaited; write `{keyword}` before it"
    warnings.warn(message, RuntimeWarning, stacklevel=stacklevel)


expose_to_c(warn_forgotten=warn_forgotten)


@accelerated(adds={"send"}, omits={"__del__", "keyword"})  # in C a request is its own iterator
class Request(Generic[T_co]):
    """A description of something that a task asks its kernel for."""

    __slots__ = ("_used",)  # set once it was awaited, or another request performs it

    cost: ClassVar[Cost] = OP
    keyword: ClassVar[str] = "await"  # what a program writes before it
    timed: ClassVar[bool] = False  # whether it sets a deadline or reads the clock, and so needs the exact time

    def bill(self) -> Cost:
        """The cost of the request. Most requests cost the same every time."""
        return self.cost

    def __await__(self) -> Generator[Request[Any], Any, T_co]:
        self._used = True
        return (yield self)

    def mark_used(self) -> None:
        """Called by code that performs the request without an `await`."""
        self._used = True

    def __del__(self) -> None:
        if not hasattr(self, "_used"):
            warn_forgotten(type(self), 3)

    if not TYPE_CHECKING:  # a type checker must refuse to iterate a request

        def __iter__(self) -> Never:
            """Refuses: the program forgot `await`, and iterating would lose what the request asks for."""
            self._used = True  # one complaint is enough
            raise TypeError(f"a request ({type(self).__name__}) cannot be iterated; write `await` before it")

        __next__ = __iter__

    def perform(self, kernel: Kernel, task: Task) -> Any:
        """Perform the request. Returns its result; or SUSPENDED if the poll is over, after telling the kernel how it
        ended."""
        raise NotImplementedError


# The modules whose functions must run on the loop, never on a thread. Each module registers itself; C types have the
# module of `Request`. `bursar.run`, workflows and portals may be used on a thread, so their modules are not here.
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
        """The reason of the wait, as the end of the sentence "the task …"."""
        return self.reason

    def ready(self, kernel: Kernel, task: Task) -> bool:
        raise NotImplementedError

    def take(self, kernel: Kernel, task: Task) -> Any:
        raise NotImplementedError

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        raise NotImplementedError

    def enlisted(self, kernel: Kernel) -> None:
        """Called when the task waits: do what has become possible because it waits."""

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
        self.token: Any = None  # what `enlist` remembers for `delist`

    @property
    def reason(self) -> str:
        return self.operation.why()

    def withdraw(self, kernel: Dispatch) -> None:
        self.operation.delist(cast("Kernel", kernel), self)

    def blockers(self) -> Iterable[Task]:
        return self.operation.blockers()
