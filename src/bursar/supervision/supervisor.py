"""Supervisors: start their children again when these fail, within limits.

    one_for_one    the failed child is restarted
    one_for_all    all children are stopped and restarted
    rest_for_one   the failed child and those started after it are stopped and restarted

A *transient* child (the default) is restarted when it fails, a *permanent* one whenever it ends, a *temporary* one
never. More than `max_restarts` restarts `within` seconds end the supervisor with `RestartLimitExceeded`. `on_exhausted`
says whether a child that runs out of budget is ended, held, cancelled or recharged. The supervisor's own purse pays for
a recharge or, if it has too little, the `CapBudget` of the task that opened the supervisor.

How it works: a manager task owns a *supervised* nursery. There a child that fails does not fail the nursery. Instead
the nursery queues the end of every child for the manager, which handles these ends one at a time.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Literal, Self, TypeVarTuple, cast, get_args

from bursar.backend import Kernel
from bursar.backend import Task as LawTask
from bursar.errors import BudgetExceeded, CapabilityDenied, ProfileError, RestartLimitExceeded, ScopeMisuse
from bursar.law.budget import UNSTATED, Budget
from bursar.law.capability import Capabilities, Capability, CapSpawn
from bursar.law.ledger import short_name
from bursar.law.state import Outcome, OutcomeKind
from bursar.law.timers import NS, to_ns
from bursar.ops.budget import recharge as recharge_by_capability
from bursar.ops.classify import require_coroutine_function, title_of
from bursar.ops.nursery import Nursery, NurseryBlock, nursery
from bursar.ops.select import select
from bursar.ops.start import start
from bursar.ops.sync import Event
from bursar.ops.task import Task
from bursar.request import Entry, Operation, Request, loop_module, require_thread, running
from bursar.text import brief, counted

loop_module(__name__)

Ts = TypeVarTuple("Ts")
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
Restart = Literal["transient", "permanent", "temporary"]
OnExhausted = Literal["end", "hold", "cancel", "recharge"]


class Child:
    """One supervised child.

    Attributes:
        name: The child's name.
        restart: `"transient"`, `"permanent"` or `"temporary"`.
        restarts: How often the child was started again.
        task: The task that runs the child now.
    """

    def __init__(
        self,
        name: str,
        restart: Restart,
        spawn: Callable[[], Task[Any]],
        on_task_end: Callable[[bool], None] | None,
    ) -> None:
        self.name = name
        self.restart: Restart = restart
        self.restarts = 0
        self._context = contextvars.copy_context()  # every restart has the context variables of the first start
        self._spawn = spawn
        self._on_task_end = on_task_end
        self.task = spawn()

    def _start_again(self) -> None:
        """Start a new task, with the same name, function and arguments."""
        self.restarts += 1
        self.task = self._context.run(self._spawn)

    def _wants_restart(self, outcome: Outcome) -> bool:
        match self.restart:
            case "permanent":
                return True
            case "transient":
                return outcome.kind in (OutcomeKind.FAILED, OutcomeKind.PANICKED)
            case "temporary":
                return False

    def _note_end(self, *, final: bool) -> None:
        """A task of this child has ended. `final`: there will be no other task."""
        if self._on_task_end is not None:
            self._on_task_end(final)


class _Supervise(Request[Kernel]):
    """Make a supervised nursery of the nursery that the asking task has just opened."""

    __slots__ = ("_nursery",)

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    def perform(self, kernel: Kernel, task: LawTask) -> Kernel:
        _, record = self._nursery._inside()
        record.ends = deque()
        return kernel


class _RequireProfile(Request[Kernel]):
    """Check that the profile has supervisors."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def perform(self, kernel: Kernel, task: LawTask) -> Kernel:
        check_profile(kernel, self._what)
        return kernel


def check_profile(kernel: Kernel, what: str) -> None:
    """Raise `ProfileError` unless the profile has supervisors and actors."""
    if kernel.runtime is None or not kernel.runtime.profile.actors:
        raise ProfileError(f"{what} belongs to the cluster and sovereign profiles; run(..., profile='cluster')")


class _NextEnd(Operation[None]):
    """Wait until a child of a supervised nursery has ended."""

    __slots__ = ("_nursery",)

    def __init__(self, nursery: Nursery) -> None:
        _, self._nursery = nursery._inside()

    def why(self) -> str:
        return f"supervises {counted(len(self._nursery.children), 'task')} of {self._nursery.name}"

    def ready(self, kernel: Kernel, task: LawTask) -> bool:
        return bool(self._nursery.ends)

    def take(self, kernel: Kernel, task: LawTask) -> None:
        """Nothing to do: `Supervisor._watch` reads the ends from the nursery."""

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self._nursery.ends_waiter = entry

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if self._nursery.ends_waiter is entry:
            self._nursery.ends_waiter = None

    def blockers(self) -> Iterable[LawTask]:
        return self._nursery.children.values()


class Supervisor:
    """The handle inside an `async with supervisor():` block."""

    def __init__(
        self,
        strategy: Strategy,
        max_restarts: int,
        within_ns: int,
        budget: Budget | None,
        on_exhausted: OnExhausted,
        recharge: Budget | None,
    ) -> None:
        self._strategy: Strategy = strategy
        self._max_restarts = max_restarts
        self._within_ns = within_ns
        self._on_exhausted: OnExhausted = on_exhausted
        self._recharge = recharge or UNSTATED
        self._budget = budget
        self._outer = NurseryBlock(False, True, "supervisor", UNSTATED, None, None)
        self._children: dict[Child, None] = {}  # in the order of their first start
        self._by_task: dict[int, Child] = {}  # by the id of the task that runs the child now
        self._restarted_ns: deque[int] = deque()
        self._closing = Event()
        self._opened = Event()
        self._inner: Nursery | None = None
        self._kernel: Kernel | None = None

    def _inside(self) -> tuple[Kernel, Nursery]:
        """For Bursar's own parts: the kernel, and the nursery that holds the children."""
        if self._inner is None or self._kernel is None:
            self._outer.mark_used()  # one complaint is enough
            raise ScopeMisuse(
                "start children inside the block of the supervisor: async with supervisor() as s: s.start(...)"
            )
        return self._kernel, self._inner

    @property
    def children(self) -> list[Child]:
        """The children that are alive or will be restarted."""
        return list(self._children)

    def start(
        self,
        fn: Callable[[*Ts], Coroutine[Any, Any, Any]],
        *args: *Ts,
        name: str | None = None,
        budget: Budget | None = None,
        capabilities: Iterable[Capability] | None = None,
        restart: Restart = "transient",
    ) -> Child:
        """Start a child and return its `Child`. Each restart calls `fn(*args)` again, with a fresh budget.

        `restart` is `"transient"` (restart when it fails), `"permanent"` (always) or `"temporary"` (never). Raises
        what `Nursery.spawn` raises, and `ScopeMisuse` outside the block.
        """
        return self._start_child(fn, args, name, budget, capabilities, restart, None)

    def _start_child(
        self,
        fn: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        name: str | None,
        budget: Budget | None,
        capabilities: Iterable[Capability] | None,
        restart: Restart,
        on_task_end: Callable[[bool], None] | None,
    ) -> Child:
        """Do what `start` does. `on_task_end` is called when a task of the child has ended; its argument is True if
        there will be no other task."""
        if restart not in get_args(Restart):
            raise ValueError(f"restart={restart!r}: must be one of {', '.join(get_args(Restart))}")
        require_coroutine_function(fn)
        kernel, inner = self._inside()
        title = brief(name) if name else title_of(fn)
        passed = tuple(capabilities) if capabilities is not None else None
        starter = running(kernel, "Supervisor.start")
        cap = starter.capabilities.get(CapSpawn)
        if isinstance(cap, CapSpawn) and cap.task_budget is not None:
            budget = cap.task_budget if budget is None else budget.clamp(cap.task_budget)
        held: Capabilities | None = None

        def spawn() -> Task[Any]:
            nonlocal held
            task = inner.spawn(fn, *args, name=title, budget=budget, capabilities=passed if held is None else None)
            record = task._inside(kernel)
            if held is None:
                held = record.capabilities
            record.capabilities = held  # those of the first start, whatever the task that restarts it has
            return task

        child = Child(title, restart, spawn, on_task_end)
        self._children[child] = None
        self._by_task[child.task.id] = child
        return child

    def stop(self) -> None:
        """Cancel all children and restart none; the block can then end."""
        if self._kernel is not None:
            require_thread(self._kernel, "Supervisor.stop()")
        self._closing.set()
        for child in self.children:
            child.restart = "temporary"
            child.task.cancel("the supervisor was stopped")

    async def __aenter__(self) -> Self:
        self._outer.mark_used()  # even if the block is refused now, the program did write `async with`
        kernel = await _RequireProfile("supervisor()")
        outer = await self._outer.__aenter__()
        _, nursery = outer._inside()
        try:
            record = kernel.spawn(nursery, name="supervisor", acting=True)
            start(record, self._manage, ())
            await self._opened.wait()
        except BaseException as error:
            await self._outer.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        self._closing.set()
        return self._outer.__aexit__(kind, error, trace)

    # ---- the manager

    async def _manage(self) -> None:
        failure: BaseException | None = None
        try:
            on_exhausted = "end" if self._on_exhausted == "end" else "hold"
            async with nursery(name="supervised", budget=self._budget, on_exhausted=on_exhausted) as inner:
                self._kernel = await _Supervise(inner)
                self._inner = inner
                self._opened.set()
                await self._watch(inner)
        except BaseExceptionGroup as group:
            failure, *more = group.exceptions
            if more:
                raise
        finally:
            for child in self.children:  # the manager failed or was cancelled
                child._note_end(final=True)
        if failure is not None:
            raise failure  # the outer nursery wraps it in a group again

    async def _watch(self, inner: Nursery) -> None:
        """Handle what happens to the children, until the block has ended and no child is left."""
        _, record = inner._inside()
        while not self._closing.is_set() or self._children:
            cases: list[Operation[Any]] = [_NextEnd(inner)]
            if not self._closing.is_set():
                cases.append(self._closing.wait())
            if self._on_exhausted in ("cancel", "recharge"):
                cases.append(inner.wait_exhausted())
            chosen = await select(*cases)
            if isinstance(chosen.value, Task):
                await self._exhausted(inner, cast("Task[Any]", chosen.value))
            while record.ends:
                await self._ended(record.ends.popleft())

    async def _ended(self, record: LawTask) -> None:
        """Handle the end of one task. A task that was stopped because another child failed is not in `_by_task`."""
        child = self._by_task.pop(record.id, None)
        outcome = record.outcome
        if child is None or outcome is None:
            return
        if not child._wants_restart(outcome):
            del self._children[child]
            child._note_end(final=True)
            return
        self._count_restart(child, outcome)
        affected = self._affected(child)
        for other in list(affected):
            done = other.task.outcome
            if done is not None and not other._wants_restart(done):  # it ended for good; its end is in the queue
                affected.remove(other)
        for other in reversed(affected):
            self._by_task.pop(other.task.id, None)
            other.task.cancel(f"restarted together with {child.name!r}")
        for other in reversed(affected):
            await other.task.wait()
            other._note_end(final=False)
        for other in affected:
            if other.restart == "temporary":  # from the start, or since `stop` was called
                del self._children[other]
                other._note_end(final=True)
            else:
                other._start_again()
                self._by_task[other.task.id] = other

    def _affected(self, failed: Child) -> list[Child]:
        match self._strategy:
            case "one_for_one":
                return [failed]
            case "one_for_all":
                return self.children
            case "rest_for_one":
                return self.children[self.children.index(failed) :]

    def _count_restart(self, child: Child, outcome: Outcome) -> None:
        assert self._kernel is not None, "the manager runs"
        now_ns = self._kernel.now_ns
        self._restarted_ns.append(now_ns)
        while self._restarted_ns[0] < now_ns - self._within_ns:
            self._restarted_ns.popleft()
        if len(self._restarted_ns) > self._max_restarts:
            raise RestartLimitExceeded(
                f"supervisor: {child.name!r} ended ({outcome}), and this would be restart {len(self._restarted_ns)} "
                f"within {self._within_ns / NS:g} s; the limit is {self._max_restarts}"
            ) from outcome.error

    async def _exhausted(self, inner: Nursery, task: Task[Any]) -> None:
        """Handle a child that is on hold because it ran out of budget."""
        if self._on_exhausted == "cancel":
            task.cancel("it ran out of budget")
            return
        kernel, nursery = inner._inside()
        record = task._inside(kernel)
        if record.id not in nursery.exhausted:
            return  # it was cancelled in the meantime
        if not dict(self._recharge.limits()).get(short_name(record)):
            task.cancel(f"it ran out of {short_name(record)}, which the supervisor does not recharge")
            return
        try:
            kernel.recharge(record, nursery.pools, self._recharge)
        except BudgetExceeded:
            try:
                await recharge_by_capability(self._recharge, task)
            except CapabilityDenied as denied:
                task.cancel(f"it ran out of budget and the supervisor could not recharge it: {denied}")


def supervisor(
    strategy: Strategy = "one_for_one",
    *,
    max_restarts: int = 3,
    within: float = 5.0,
    budget: Budget | None = None,
    on_exhausted: OnExhausted = "end",
    recharge: Budget | None = None,
) -> Supervisor:
    """A block whose children are restarted when they fail: `async with supervisor() as s: s.start(fn, ...)`.

    The block ends when its children have ended for good. More than `max_restarts` restarts in `within` seconds end it:
    the block raises an `ExceptionGroup` with a `RestartLimitExceeded`. Needs `CapSpawn` and the profile `cluster` or
    `sovereign`.

    Args:
        strategy: `"one_for_one"` restarts the child that failed, `"one_for_all"` all children, `"rest_for_one"` that
            child and those started after it.
        max_restarts: How many restarts are allowed.
        within: In how many seconds.
        budget: The purse of the children. Without it they share the budget of the task that opens the supervisor.
        on_exhausted: What happens to a child that cannot pay: `"end"`, `"hold"`, `"cancel"` or `"recharge"`.
        recharge: What `"recharge"` gives each time.
    """
    if strategy not in get_args(Strategy):
        raise ValueError(f"supervisor({strategy!r}): must be one of {', '.join(get_args(Strategy))}")
    if on_exhausted not in get_args(OnExhausted):
        raise ValueError(f"on_exhausted={on_exhausted!r}: must be one of {', '.join(get_args(OnExhausted))}")
    if type(max_restarts) is not int or max_restarts < 0:
        raise ValueError(f"max_restarts={max_restarts!r}: must be a whole number, not negative")
    if on_exhausted == "recharge" and recharge is None:
        raise ValueError("on_exhausted='recharge' needs recharge=Budget(...): how much to give each time")
    return Supervisor(strategy, max_restarts, to_ns(within, "within"), budget, on_exhausted, recharge)
