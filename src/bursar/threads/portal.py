"""Portals: let other threads start tasks in a nursery (`spawn`), and call functions in the loop's thread (`call`).

A portal belongs to the task that opened the nursery. Its spawns and calls happen at the beginning of a batch, with the
authority of that task. The nursery's purse pays for the spawned tasks. The thread gets a future of each task, which is
answered in every case (`portal_future`). While a portal is open, a program in which every task waits is not deadlocked,
because another thread may still spawn or call.

Calls are made for frequent use. They wait in a queue of the portal. One post to the pump covers all calls that arrive
before it is read. The trace records how many calls these were, as an answer of the host. It does not record the order
in which the calls of several threads arrived. If a replay depends on this order, give each thread its own portal.

PORTAL-1  an open portal counts as one source of the pump, until its block or its nursery ends
PORTAL-2  an accepted call is made exactly once, unless the run ends first; the calls of one thread keep their order
PORTAL-3  all portals together make at most as many calls in one batch as the batch takes other posts
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, TypeVarTuple

from bursar.drive.pump import Pump
from bursar.errors import HostLost, NurseryClosed, ScopeMisuse, WouldBlock
from bursar.law.budget import UNSTATED, Budget, require_plain
from bursar.law.capability import CapSpawn, require
from bursar.law.nursery import NurseryState
from bursar.law.state import Outcome
from bursar.ops.classify import require_coroutine_function, title_of
from bursar.ops.nursery import Nursery
from bursar.request import require_thread, running
from bursar.seam import accelerated
from bursar.text import brief, type_name

if TYPE_CHECKING:
    from concurrent.futures import Future

    from bursar.threads.portal_future import Submission

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PENDING_MAX: Final = 10_000  # tasks, and calls, that may wait: more come only from a thread that never waits


@accelerated
class PortalCalls:
    """A queue of calls. Any thread adds calls, and the runtime's thread makes them."""

    __slots__ = ("_failed", "_limit", "_post_calls", "_posted", "_queue", "_refuse", "open")

    def __init__(
        self,
        limit: int,
        post: Callable[[], object],
        refuse: Callable[[], object],
        failed: Callable[[Callable[..., object], Exception], object],
    ) -> None:
        self.open = False
        self._limit = limit
        self._post_calls = post  # posts that there are calls, so that `run` is called
        self._refuse = refuse  # called if the queue is closed or full; unless it raises, the call is accepted anyway
        self._failed = failed  # gets the error of a call that raised
        self._queue: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._posted = False

    def __len__(self) -> int:
        return len(self._queue)

    def call(self, fn: Callable[[*Ts], object], /, *args: *Ts) -> None:
        if not callable(fn):
            raise TypeError(f"call() takes a function and its arguments, not a {type(fn).__name__}")
        if not self.open or len(self._queue) >= self._limit:
            self._refuse()
        self._queue.append((fn, args))
        if not self._posted:
            self._posted = True
            self._post_calls()

    def run(self, n: int, /) -> bool:
        """Make the oldest `n` calls, or all if there are fewer. Returns True if others are left, which the caller must
        post."""
        for _ in range(min(n, len(self._queue))):
            fn, args = self._queue.popleft()
            try:
                fn(*args)
            except Exception as error:
                self._failed(fn, error)
        self._posted = False  # first, so that a call that comes after this posts again
        if self._queue:
            self._posted = True
        return self._posted

    def drop(self) -> None:
        """Forget every call that has not been made."""
        self._queue.clear()


class _PortalOutpost:
    """The portal as the pump sees it. The methods of an outpost are not for programs, so `Portal` has none of them."""

    __slots__ = ("_portal",)

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def resting(self) -> None:
        self._portal._resting()

    def stopped(self) -> None:
        self._portal._stopped()


class Portal:
    """A thread-safe way into a nursery. All methods but `close` may be called from any thread."""

    def __init__(self, nursery: Nursery) -> None:
        self._kernel, self._record = nursery._inside()
        self._pump: Pump = self._kernel.runtime.pump
        self._open = False
        self._label = ""  # the label of its calls
        self._calls = PortalCalls(PENDING_MAX, self._post_calls, self._refuse, self._failed)
        self.call = self._calls.call  # a shortcut past the method of this class
        self._answering = threading.RLock()  # held by a thread that uses a future, and by the runtime that answers it
        from bursar.threads.portal_future import Submission  # few need a portal, and concurrent.futures takes 4 ms

        self._submission = Submission
        self._pending: set[Submission] = set()  # not taken by the runtime yet
        self._living: set[Submission] = set()  # with live tasks; only the runtime's thread uses it
        self._ended: deque[tuple[Submission, Outcome]] = deque()  # whose futures must be answered

    def __enter__(self) -> Self:
        owner = running(self._kernel, "a portal")
        if self._record.owner is not owner:
            raise ScopeMisuse(
                f"task {owner.name!r} cannot open a portal to {self._record.name}, which it did not open: "
                "only the task that opened a nursery may open a portal to it"
            )
        if self._open:
            raise ScopeMisuse(f"task {owner.name!r}: this portal to {self._record.name} is open already")
        self._kernel.require_open(self._record)
        require(owner, owner.capabilities, CapSpawn, f"open a portal to {self._record.name}")
        self._open = self._calls.open = True
        self._kernel.counters["portals"] += 1
        self._label = f"calls {self._record.name} {self._kernel.counters['portals']}"  # unique in this run
        self._pump.sources += 1
        self._pump.outposts[self] = _PortalOutpost(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Accept nothing more. Tasks that came through continue. Idempotent; only in the runtime's thread."""
        require_thread(self._kernel, "Portal.close()")
        if self._open:
            self._open = self._calls.open = False
            self._pump.sources -= 1

    # ---- tasks

    def spawn(
        self,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        name: str | None = None,
        budget: Budget | None = None,
    ) -> Future[T]:
        """Start `fn(*args)` as a task of the nursery, from any thread. The future gets its result, error or refusal.

        The task has the authority of the task that opened the nursery, and a copy of the calling thread's context
        variables. Cancelling the future cancels the task. A refusal is `NurseryClosed`, `CapabilityDenied`,
        `SpawnBudgetExceeded`, or `WouldBlock` if ten thousand submissions wait.
        """
        require_coroutine_function(fn)
        if budget is not None:
            require_plain(budget)
        title = brief(name) if name else title_of(fn)
        submission = self._submission(self, title, UNSTATED if budget is None else budget, fn, args)
        future = submission.future
        assert future is not None, "it is not answered yet"
        if len(self._pending) >= PENDING_MAX:
            submission.resolve(error=WouldBlock(f"{PENDING_MAX:,} tasks wait to be spawned into {self._record.name}"))
        else:
            self._pending.add(submission)
            self._pump.post(f"spawn {title}", submission.take)
        return future

    def _require_open(self) -> None:
        if self._pump.over or not self._open:
            over = "the run is over" if self._pump.over else "its portal is closed"
            raise NurseryClosed(f"{self._record.name} takes nothing more from other threads: {over}")

    def _answer(self) -> None:
        """Answer the futures of the tasks that ended."""
        while self._ended:
            submission, outcome = self._ended.popleft()
            submission.pass_on(outcome)

    # ---- calls

    def call(self, fn: Callable[[*Ts], object], /, *args: *Ts) -> None:
        """Call `fn(*args)` in the runtime's thread, at the beginning of a batch; from any thread.

        `fn` is a plain short function. It runs outside any task: it may set events and cancel tasks, but not wait. The
        calls of one thread keep their order. Its result is discarded; if it raises, the runtime reports `call_failed`.
        """
        self._calls.call(fn, *args)

    def _post_calls(self) -> None:
        if self._pump.over:
            self._calls.drop()
            self._calls.open = False
            self._require_open()
        self._pump.post(self._label, self._make_calls)

    def _refuse(self) -> None:
        self._require_open()
        if not self._pump.live and threading.get_ident() != self._pump.thread:
            return  # in a replay, threads wait less than in the recorded run, so they may be too fast
        raise WouldBlock(f"{PENDING_MAX:,} calls wait to be made in {self._record.name}; let the thread wait for some")

    def _make_calls(self) -> int:
        """Make the waiting calls. Returns how many posts they count for (PORTAL-3)."""
        if self._pump.over:
            self._calls.drop()
            return 0
        owner, calls = self._record.owner, self._calls
        assert owner is not None, "a portal leads to a nursery of a task"
        n = self._pump.ask(owner, "calls", lambda: min(len(calls), self._pump.burst_limit))
        self._pump.until(lambda: len(calls) >= n, self._label)
        if calls.run(n):
            self._pump.post(self._label, self._make_calls)
        return n

    def _failed(self, fn: Callable[..., object], error: Exception) -> None:
        owner = self._record.owner
        assert owner is not None, "a portal leads to a nursery of a task"
        self._kernel.report("call_failed", owner, f"{title_of(fn)} raised {type_name(error)}: {brief(error)}")

    # ---- as an outpost of the pump

    def _resting(self) -> None:
        scope = self._record.scope
        body_ended = scope is not None and scope.exiting  # an open portal hides a deadlock of the children
        if body_ended or self._record.state is not NurseryState.OPEN:
            self.close()
        if not self._open and not self._living:
            self._pump.outposts.pop(self, None)

    def _stopped(self) -> None:
        """The run was torn down: answer the futures of the tasks that were closed with it."""
        self.close()
        self._calls.drop()
        living, self._living = self._living, set()
        for submission in living:
            submission.resolve(error=HostLost(f"task {submission.title!r}: the run was torn down before it ended"))
        self._answer()

    def __repr__(self) -> str:
        return f"<Portal to {self._record.name}, {'open' if self._open else 'closed'}>"


def portal(nursery: Nursery) -> Portal:
    """Open a nursery to other threads: `with portal(nursery) as p:` gives a `Portal`.

    Only the task that opened the nursery may call it, and it needs `CapSpawn`. While the portal is open, there is no
    deadlock: another thread may still spawn something.
    """
    return Portal(nursery)
