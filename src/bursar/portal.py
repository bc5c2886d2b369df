"""Portals: how other threads start tasks in a nursery.

A portal belongs to the task that opened the nursery. What comes through it is spawned at the beginning of a batch, on
the authority of that task and at the expense of its nursery; the thread holds a `concurrent.futures.Future`, which gets
an answer in every case, also when the run ends first. While a portal is open, a program that waits is not deadlocked:
somebody outside may yet come.

Q1  every future that `spawn` returned is answered exactly once, and never inside the law: its callbacks are not ours
Q2  an open portal counts as one source of the pump, until its block or its nursery ends
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

from bursar.errors import CapabilityDenied, HostLost, NurseryClosed, ScopeMisuse, WouldBlock, brief
from bursar.execution.coroutine import start
from bursar.hosts.pump import Pump
from bursar.kernel import Task
from bursar.law import budget as money
from bursar.law.budget import UNSTATED, Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.capability import CapSpawn, require
from bursar.law.nursery import NurseryState
from bursar.law.state import Outcome
from bursar.nursery import Nursery, require_coroutine_function, title_of
from bursar.request import running
from bursar.task import at_end, unwrap

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PENDING_MAX: Final = 10_000  # submissions that were not looked at yet: more would be a thread that never waits


class Portal:
    """Thread-safe. `with bursar.portal(nursery) as portal:`, in the task that opened the nursery."""

    def __init__(self, nursery: Nursery) -> None:
        self._kernel, self._record = nursery.inside()
        self._pump: Pump = self._kernel.driver.pump
        self._open = False
        self._pending = 0
        self._counting = threading.Lock()  # only for the number
        self._futures: dict[Task, Future[Any]] = {}  # of the tasks that live; only the loop's thread touches it

    def __enter__(self) -> Self:
        owner = running(self._kernel, "a portal")
        if self._record.owner is not owner:
            raise ScopeMisuse(
                f"task {owner.name!r} cannot open a portal to {self._record.name}, which it did not open: "
                "what comes through acts for the task that did"
            )
        if self._open:
            raise ScopeMisuse(f"task {owner.name!r}: this portal to {self._record.name} is open already")
        self._kernel.require_open(self._record)
        require(owner, owner.capabilities, CapSpawn, f"open a portal to {self._record.name}")
        self._open = True
        self._pump.sources += 1
        self._pump.outposts[self] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take nothing more. What came through goes on. Idempotent; only in the thread of the runtime."""
        if self._kernel.driver.thread != threading.get_ident() and not self._pump.over:
            raise ScopeMisuse(f"{self!r} was closed from another thread than the one that runs its runtime")
        if self._open:
            self._open = False
            self._pump.sources -= 1

    def spawn(
        self,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        name: str | None = None,
        budget: Budget | None = None,
    ) -> Future[T]:
        """Start `fn(*args)` as a task of the nursery, from any thread. The future gets its result, error or refusal.

        Cancelling the future cancels the task. The context variables of the calling thread are copied.
        """
        require_coroutine_function(fn)
        if budget is not None:
            money.require_plain(budget)
        title = brief(name) if name else title_of(fn)
        future: Future[T] = Future()
        with self._counting:
            full = self._pending >= PENDING_MAX
            self._pending += not full
        if full:
            _settle(future, error=WouldBlock(f"{PENDING_MAX:,} tasks wait to be spawned into {self._record.name}"))
            return future
        begin = partial(start, fn=fn, args=args)
        context = contextvars.copy_context()
        job = partial(self._take, title, UNSTATED if budget is None else budget, begin, context, future)
        self._pump.post(f"spawn {title}", job)
        return future

    # ---- in the thread of the runtime, unless the run is over

    def _take(
        self,
        title: str,
        budget: Budget,
        begin: Callable[[Task], None],
        context: contextvars.Context,
        future: Future[Any],
    ) -> None:
        with self._counting:
            self._pending -= 1
        kernel, record = self._kernel, self._record
        assert record.owner is not None, "a portal leads to a nursery of a task"
        try:
            self._require_open()
            if self._pump.ask(record.owner, "withdrawn", lambda: int(future.cancelled())):
                future.cancel()  # in a replay nobody may have done so yet
                _settle(future)
                return
            task = kernel.spawn(record, name=title, budget=budget, spawner=record.owner)
        except Exception as refused:
            if isinstance(refused, CapabilityDenied):
                kernel.note("capability_denied", record.owner, refused)
            _settle(future, error=refused)
            return
        context.run(begin, task)
        self._futures[task] = future
        at_end(task, partial(self._ended, task))
        future.add_done_callback(partial(self._answered, task))

    def _require_open(self) -> None:
        if self._pump.over or not self._open:
            over = "the run is over" if self._pump.over else "its portal is closed"
            raise NurseryClosed(f"{self._record.name} takes no more tasks from other threads: {over}")

    def _ended(self, task: Task, outcome: Outcome) -> None:
        """The law is at work: tell the future later (Q1)."""
        future = self._futures.pop(task)
        self._pump.post(f"ended {task.name}", partial(_pass_on, task.name, outcome, future))

    def _answered(self, task: Task, future: Future[Any]) -> None:
        """In any thread: the future is done, perhaps because somebody cancelled it."""
        if future.cancelled():
            self._pump.post(f"withdrawn {task.name}", partial(self._cancel, task))

    def _cancel(self, task: Task) -> None:
        if not self._pump.over:
            self._kernel.cancel_request(task, CancelReason(CancelKind.USER, "its future was cancelled"))

    # ---- as an outpost of the pump

    def resting(self) -> None:
        if self._record.state is not NurseryState.OPEN:
            self.close()
        if not self._open and not self._futures:
            self._pump.outposts.pop(self, None)

    def stopped(self) -> None:
        """Whoever still waits for a task waits for one that was closed with the run."""
        self.close()
        futures, self._futures = self._futures, {}
        for task, future in futures.items():
            _settle(future, error=HostLost(f"task {task.name!r}: the run was torn down before it ended"))

    def __repr__(self) -> str:
        return f"<Portal to {self._record.name}, {'open' if self._open else 'closed'}>"


def _settle(future: Future[Any], *, value: Any = None, error: BaseException | None = None) -> None:
    """Answer a future, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _pass_on(name: str, outcome: Outcome, future: Future[Any]) -> None:
    try:
        value = unwrap(name, outcome)
    except Exception as error:
        _settle(future, error=error)
    else:
        _settle(future, value=value)


def portal(nursery: Nursery) -> Portal:
    """`with portal(nursery) as p:` opens a nursery to other threads: they call `p.spawn(fn, *args)`."""
    return Portal(nursery)
