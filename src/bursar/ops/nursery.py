"""`nursery()`: the block that owns tasks, and the handle to spawn with.

The block ends only when every child is DONE. A child that fails cancels its siblings, unless `cancel_on_failure` is
False. The block raises the errors of its children and of its body in an `ExceptionGroup`, first failure first. A
nursery that was cancelled by its handle ends silently. If it was cancelled from outside, the block raises `Cancelled`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, NoReturn, TypedDict, TypeVar, TypeVarTuple, Unpack, cast, overload

from bursar.backend import Gate, Kernel
from bursar.backend import Nursery as LawNursery
from bursar.backend import Task as LawTask
from bursar.errors import Cancelled, CapabilityDenied, ScopeMisuse
from bursar.law import pool as purse
from bursar.law.admission import graph
from bursar.law.admission.authority import Authority, Priority
from bursar.law.admission.drops import Drops, count_unread, error_of
from bursar.law.admission.resources import Needs
from bursar.law.admission.retry import Retry
from bursar.law.budget import UNSTATED, Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.capability import Capability
from bursar.law.costs import FREE, Cost
from bursar.law.nursery import NurseryState, result_kind
from bursar.law.state import OutcomeKind
from bursar.ops.checkpoint import Checkpoint
from bursar.ops.classify import is_own, is_plain_function, title_of
from bursar.ops.gate_spawn import ask, records_of
from bursar.ops.pause import give_way, take_back
from bursar.ops.start import PLAIN, start
from bursar.ops.task import Task
from bursar.request import Entry, Operation, Request, loop_module, require_thread, running
from bursar.seam import accelerated, expose_to_c, methods_on
from bursar.text import brief, counted
from bursar.tracebacks import hide_own_frames

loop_module(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
OnExhausted = Literal["end", "hold"]
OnDrop = Literal["raise", "record"]


class Stated(TypedDict, total=False):
    """The keyword arguments of a spawn, for type checkers."""

    name: str | None
    budget: Budget | None
    capabilities: Iterable[Capability] | None
    priority: Priority | int
    after: Sequence[Task[Any]]
    needs: Needs | None
    retry: Retry | None


def why_join(record: LawNursery) -> str:
    return f"waits for {counted(len(record.children), 'task')} of {record.name}"


expose_to_c(why_join=why_join)


@accelerated
class _Join(Operation[None]):
    """Wait until no child lives. It is free, so that an empty budget cannot keep a block from ending."""

    __slots__ = ("_record",)
    cost: ClassVar[Cost] = FREE

    def __init__(self, record: LawNursery) -> None:
        self._record = record

    def why(self) -> str:
        return why_join(self._record)

    def ready(self, kernel: Kernel, task: LawTask) -> bool:
        return not self._record.children

    def take(self, kernel: Kernel, task: LawTask) -> None:
        """No child lives."""

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self._record.joining = entry

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        if self._record.joining is entry:
            self._record.joining = None

    def blockers(self) -> Iterable[LawTask]:
        return self._record.children.values()


class _Exhausted(Operation[Task[Any]]):
    """Wait until a child is on hold because it ran out of budget."""

    __slots__ = ("_record",)

    def __init__(self, record: LawNursery) -> None:
        self._record = record

    def why(self) -> str:
        return f"waits for a task of {self._record.name} to run out of budget"

    def ready(self, kernel: Kernel, task: LawTask) -> bool:
        if self._record.exhausted_waiter is not None:
            raise ScopeMisuse(f"another task already waits for exhausted tasks of {self._record.name}")
        return bool(self._record.exhausted)

    def take(self, kernel: Kernel, task: LawTask) -> Task[Any]:
        return Task(kernel, next(iter(self._record.exhausted.values())))

    def enlist(self, kernel: Kernel, entry: Entry) -> None:
        self._record.exhausted_waiter = _HandleEntry(kernel, entry)

    def delist(self, kernel: Kernel, entry: Entry) -> None:
        waiter = self._record.exhausted_waiter
        if isinstance(waiter, _HandleEntry) and waiter.entry is entry:
            self._record.exhausted_waiter = None


class _HandleEntry(Entry):
    """Turns the record that the law answers with into a handle."""

    __slots__ = ("_kernel", "entry")

    def __init__(self, kernel: Kernel, entry: Entry) -> None:
        super().__init__(entry.task, entry.operation)
        self._kernel = kernel
        self.entry = entry

    def answer(self, kernel: Any, value: LawTask) -> None:
        self.entry.answer(kernel, Task(self._kernel, value))


@methods_on("NurseryHandle", replaces={"spawn"})
class Nursery:
    """The handle inside a nursery's block. A task that holds it, and holds `CapSpawn`, may spawn into it.

    The new task is paid from the nursery's purse. If another task than the owner spawns, the new task gets no more
    capabilities than its spawner holds.
    """

    __slots__ = ("_kernel", "_record")

    def __init__(self, kernel: Kernel, record: LawNursery) -> None:
        self._kernel = kernel
        self._record = record

    # The overloads: an `async def`; a function that returns a request, such as `sleep`; a plain function, with or
    # without a checkpoint; and a function that gets tasks for values, whose types no checker can compare.
    @overload
    def spawn(self, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **stated: Unpack[Stated]) -> Task[T]: ...
    @overload
    def spawn(self, fn: Callable[[*Ts], Request[T]], *args: *Ts, **stated: Unpack[Stated]) -> Task[T]: ...
    @overload
    def spawn(self, fn: Callable[[*Ts, Checkpoint], T], *args: *Ts, **stated: Unpack[Stated]) -> Task[T]: ...
    @overload
    def spawn(self, fn: Callable[[Checkpoint, *Ts], T], *args: *Ts, **stated: Unpack[Stated]) -> Task[T]: ...
    @overload
    def spawn(self, fn: Callable[[*Ts], T], *args: *Ts, **stated: Unpack[Stated]) -> Task[T]: ...
    @overload
    def spawn(
        self, fn: Callable[..., Coroutine[Any, Any, T]], first: Task[Any], /, *args: Any, **stated: Unpack[Stated]
    ) -> Task[T]: ...
    @overload
    def spawn(self, fn: Callable[..., T], first: Task[Any], /, *args: Any, **stated: Unpack[Stated]) -> Task[T]: ...
    def spawn(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        budget: Budget | None = None,
        capabilities: Iterable[Capability] | None = None,
        priority: Priority | int = Priority.NORMAL,
        after: Sequence[Task[Any]] = (),
        needs: Needs | None = None,
        retry: Retry | None = None,
    ) -> Task[Any]:
        """Start `fn(*args)` as a task of this nursery and return its `Task` at once. A refused spawn leaves nothing
        behind.

        `fn` is a coroutine function or one of Bursar's own functions, such as `sleep`. A plain function runs on a
        thread of the pool, and its task needs `CapExecutor`. A spawn costs one op and one spawn of the nursery's
        purse. Context variables are copied. A task among the arguments is a dependency, and its value is passed.

        Args:
            fn: The function.
            args: Its arguments.
            name: The task's name; by default the function's.
            budget: The task's own budget, set aside from the purse and cut to what is left.
            capabilities: What the task holds, instead of what it would inherit. The spawner must hold each as
                delegable, or have derived it from such a capability.
            priority: How soon it gets permission to start.
            after: Tasks that must succeed first.
            needs: Resources of the gate that it needs.
            retry: When and how often to try again.

        Raises:
            NurseryClosed: The nursery takes no more tasks.
            CapabilityDenied: The spawner lacks a capability.
            SpawnBudgetExceeded: The purse has no spawns or no ops.
            BadDependency: A dependency is impossible.
            InfeasibleDemand: The needs can never be met.
            ScopeMisuse: The caller is not a task.
        """
        return self._spawn(
            fn,
            *args,
            name=name,
            budget=budget,
            capabilities=capabilities,
            priority=priority,
            after=after,
            needs=needs,
            retry=retry,
        )

    @property
    def name(self) -> str:
        """The name of the nursery."""
        return self._record.name

    @property
    def state(self) -> NurseryState:
        """A `NurseryState`."""
        return self._record.state

    @property
    def result_kind(self) -> OutcomeKind:
        """The outcome of the nursery as a whole so far: the first failure, then cancelled, then dropped, then ok."""
        return result_kind(self._record)

    @property
    def budget(self) -> Budget:
        """What the purse has left."""
        return purse.left(self._record.pools)

    @property
    def tasks(self) -> list[Task[Any]]:
        """The living children, in the order of their spawning."""
        return [Task(self._kernel, child) for child in self._record.children.values()]

    def _spawn(
        self,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        name: str | None = None,
        budget: Budget | None = None,
        capabilities: Iterable[Capability] | None = None,
        priority: Priority | int = Priority.NORMAL,
        after: Sequence[Task[Any]] = (),
        needs: Needs | None = None,
        retry: Retry | None = None,
    ) -> Task[T]:
        """Start `fn(*args)` as a task of this nursery. A refused spawn leaves nothing behind."""
        kernel, nursery, plain = self._kernel, self._record, is_plain_function(fn)
        own = plain and is_own(fn)
        plain = plain and not own
        passed = None if capabilities is None else tuple(capabilities)  # may run user code, so it comes before checks
        title = brief(name) if name else title_of(fn)
        stated = UNSTATED if budget is None else budget
        tasks = graph.in_arguments(args, Task, plain) if args else ()
        follows = records_of(kernel, title, after, tasks) if tasks or after else []
        kernel.require_open(nursery)
        spawner = running(kernel, self.name)
        gate: Gate | None = nursery.gate
        free = gate is None and not plain and not follows and needs is None and retry is None
        run: Callable[..., Coroutine[Any, Any, Any]] = fn
        given: tuple[Any, ...] = args
        if own or (tasks and not plain):
            run, given = (asked_for if own else with_values), (fn, args)
        try:
            if free and priority is Priority.NORMAL:  # the task needs no admission
                record = kernel.spawn(nursery, name=title, budget=stated, capabilities=passed)
                start(record, run, given)
                return Task(kernel, record)
            asked: Gate = gate or kernel.gate
            if plain:
                run, given = PLAIN[bool(tasks)], (fn, args)
                needs = asked.resources.thread_needs if needs is None else needs
            record = ask(
                kernel,
                nursery,
                run,
                given,
                gate=asked,
                name=title,
                budget=stated,
                capabilities=passed,
                priority=priority,
                after=follows,
                needs=needs or {},
                retry=retry,
            )
        except CapabilityDenied as denied:
            kernel.note("capability_denied", spawner, denied)
            raise
        return Task(kernel, record)

    def cancel(self, detail: str = "") -> None:
        """Ask every task of the nursery, and the rest of its block, to stop. Does not wait."""
        require_thread(self._kernel, "Nursery.cancel()")
        by = self._kernel.current
        reason = CancelReason(CancelKind.USER, brief(detail), by.id if by is not None else None)
        self._kernel.cancel_nursery(self._record, reason)

    def close(self) -> None:
        """Take no more tasks. The living ones continue. A second call changes nothing."""
        require_thread(self._kernel, "Nursery.close()")
        self._kernel.seal_nursery(self._record)

    def recharge(self, task: Task[Any], amount: Budget) -> None:
        """Give a child more budget, from the purse and then from the owner's own budget, and wake it if it was on
        hold.

        Only the task that opened the nursery may call it. Other tasks need a `CapBudget` and `bursar.recharge(amount,
        task)`. Raises `BudgetExceeded` if there is not enough, and `ValueError` if `task` is not a living child.
        """
        require_thread(self._kernel, "Nursery.recharge()")
        record, current = task._inside(self._kernel), self._kernel.current
        if record.nursery is not self._record or record.outcome is not None:
            raise ValueError(f"task {task.name!r} is not a living task of {self.name}")
        if current is None or current is not self._record.owner:
            who = f"task {current.name!r}" if current is not None else "code outside any task"
            raise CapabilityDenied(
                f"{who} may not recharge a task from the purse of {self.name}, because it does not own the nursery; "
                "with a CapBudget it can use bursar.recharge(amount, task)"
            )
        owner = self._record.owner
        self._kernel.recharge(record, owner.pools if owner is not None else self._record.pools, amount)

    def wait_exhausted(self) -> Operation[Task[Any]]:
        """Awaited: a child that is on hold because it ran out of budget (`on_exhausted="hold"`). One waiter at a
        time."""
        return _Exhausted(self._record)

    def _inside(self) -> tuple[Kernel, LawNursery]:
        """For Bursar's own modules: the kernel and the record of the nursery."""
        return self._kernel, self._record

    def __repr__(self) -> str:
        return f"<Nursery {self.name} {self.state.name}, {len(self._record.children)} live>"


async def with_values(fn: Callable[..., Coroutine[Any, Any, T]], args: tuple[Any, ...]) -> T:
    """Run a function whose arguments contain tasks, all of which have succeeded by now."""
    return await fn(*graph.with_values(args, Task, False))


async def asked_for(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run one of Bursar's own functions. If it returns a request, await the request."""
    made: Any = fn(*graph.with_values(args, Task, False))
    if isinstance(made, Request):
        made = await cast("Request[Any]", made)
    return made


expose_to_c(with_values=with_values)


@methods_on(
    "NurseryBlock", replaces={"__aenter__", "__aexit__"}, adds={"__next__", "blockers", "close", "send", "throw", "why"}
)
class NurseryBlock(Request["Nursery"]):
    """The `async with` part of a nursery: the request that opens it, and the code that leaves it."""

    __slots__ = ("_cancel_on_failure", "_hold", "_keywords", "_nursery", "_sealed")
    keyword: ClassVar[str] = "async with"

    def __init__(
        self,
        hold: bool,
        cancel_on_failure: bool,
        name: str,
        budget: Budget,
        capabilities: tuple[Capability, ...] | None,
        sealed: bool | None,
    ) -> None:
        self._hold = hold
        self._sealed = sealed
        self._cancel_on_failure = cancel_on_failure
        self._keywords: dict[str, Any] = {"name": name, "budget": budget, "capabilities": capabilities}
        self._nursery: Nursery | None = None

    def perform(self, kernel: Kernel, task: LawTask) -> Nursery:
        record = kernel.open_nursery(task, **self._keywords)
        record.hold = self._hold
        record.cancel_on_failure = self._cancel_on_failure
        if self._sealed is not None:
            record.sealed = self._sealed
        self._nursery = Nursery(kernel, record)
        return self._nursery

    def __aenter__(self) -> Awaitable[Nursery]:
        if self._nursery is not None:
            entered_twice(self)
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        return self._leave(error)

    def entered(self) -> Nursery:
        """The nursery of a block that was entered."""
        if self._nursery is None:
            self.mark_used()  # one complaint is enough
            raise ScopeMisuse("this nursery was left without having been entered; write `async with nursery() as n:`")
        return self._nursery

    async def _leave(self, error: BaseException | None) -> bool | None:
        """Leave the block. `error` is what its body raised, or None."""
        nursery = self.entered()
        kernel, record = nursery._inside()
        scope, owner = record.scope, record.owner
        assert scope is not None, "a block's nursery has a scope"
        assert owner is not None, "a block's nursery has an owner"
        if kernel.current is not owner:
            if isinstance(error, GeneratorExit):
                return None  # the run is being torn down, and the runtime closes the children
            raise ScopeMisuse(f"{record.name} was left by another task than {owner.name!r}, which opened it")
        if record.sealed:
            kernel.seal_nursery(record)
        kernel.close_nursery(record)
        if owner.cut:  # a cut task cannot await any more; its children have ended before
            if not record.children:
                kernel.end_nursery(record)
            return None
        passing: Cancelled | None = None  # a cancellation of an outer scope
        if isinstance(error, Cancelled):
            passing = error if error.reason is not scope.reason else None
        elif isinstance(error, GeneratorExit):  # an async generator is being closed
            nursery.cancel("its generator was closed")
        elif error is not None:
            kernel.body_failed(record, error)
        lent = give_way(kernel, owner, record)
        try:
            passing = await _quiesce(kernel, record, passing, None)
        except BaseExceptionGroup as failures:
            hide_own_frames(failures)
            raise
        finally:
            if lent is not None:
                await take_back(kernel, lent)
        if passing is not None and passing is not error:
            raise passing
        return isinstance(error, Cancelled) and passing is None

    async def _interrupted(self, thrown: BaseException) -> None:
        """Leave a block whose body ended well, when the wait for its children raised `thrown`."""
        kernel, record = self.entered()._inside()
        try:
            passing = await _quiesce(kernel, record, None, thrown)
        except BaseExceptionGroup as failures:
            hide_own_frames(failures)
            raise
        if passing is not None:
            raise passing


async def _quiesce(
    kernel: Kernel, record: LawNursery, passing: Cancelled | None, thrown: BaseException | None
) -> Cancelled | None:
    """Wait until no child lives, and end the nursery. Returns the `Cancelled` that must go to an outer scope, or None.

    `thrown`: what an earlier wait for the same children raised.
    """
    while record.children or thrown is not None:
        try:
            if thrown is not None:
                raise thrown
            await _Join(record)
        except Cancelled as outer:
            passing = outer
        except GeneratorExit:  # the task was cut while it waited; its children have ended before
            if not record.children:
                kernel.end_nursery(record)
            raise
        thrown = None
    end_failed(kernel, record)
    return passing


def end_failed(kernel: Kernel, record: LawNursery) -> None:
    """End a nursery without live children, and raise the failures and the unread drops of its children, if there are
    any."""
    try:
        _end(kernel, record)
    except BaseExceptionGroup as failures:
        hide_own_frames(failures)
        raise


def _end(kernel: Kernel, record: LawNursery) -> None:
    dropped = error_of(record)
    raised = record.failures if dropped is None else [*record.failures, dropped]
    try:
        kernel.end_nursery(record)
    except ScopeMisuse as misuse:
        if not raised:
            raise
        raise BaseExceptionGroup(f"{record.name} was not left in order", [misuse, *raised]) from None
    if raised:
        counts = [f"{len(record.failures)} failed"] if record.failures else []
        counts += [f"{count_unread(record)} dropped"] if dropped is not None else []
        raise BaseExceptionGroup(f"{record.name}: {', '.join(counts)}", raised) from None


def entered_twice(block: NurseryBlock) -> NoReturn:
    raise ScopeMisuse(f"{block.entered().name} was entered already; make a new one for each block")


expose_to_c(end_failed=end_failed, entered_twice=entered_twice)


def _exposed(function: T) -> T:
    """Expose the Python function to C, before its C twin replaces it."""
    expose_to_c(nursery=function)
    return function


@accelerated  # plain blocks are made in C, all others by this function
@_exposed
def nursery(
    *,
    budget: Budget | None = None,
    name: str = "",
    capabilities: Iterable[Capability] | None = None,
    on_exhausted: OnExhausted = "end",
    cancel_on_failure: bool = True,
    admission: Authority | None = None,
    sealed: bool | None = None,
    on_drop: OnDrop = "raise",
) -> NurseryBlock | GatedBlock:
    """Open a nursery: `async with nursery() as n:` gives a `Nursery`, and the block ends when all its tasks have
    ended.

    If a task or the body fails, the block raises an `ExceptionGroup`, first failure first. If the nursery was
    cancelled with `.cancel()`, the block ends silently; a cancellation from further out passes through. A block object
    can be entered once. Opening needs `CapSpawn`. Waiting at the end of the block is free.

    ```python
    import bursar


    async def double(x):
        await bursar.sleep(1)
        return 2 * x


    async def main():
        async with bursar.nursery() as n:
            one, two = n.spawn(double, 1), n.spawn(double, 2)
        print(one.result + two.result)


    bursar.run(main, clock="virtual")
    ```

    ```text
    6
    ```

    Args:
        budget: Its purse, taken from the budget of the task that opens it, and cut to what that task has left. Without
            it the nursery shares the task's budget.
        name: A name for snapshots and messages.
        capabilities: The capabilities of its tasks. By default those of the opening task, except `CapBudget`; in
            `sovereign` none.
        on_exhausted: `"end"`: a task that cannot pay gets `BudgetExceeded`. `"hold"`: it waits for a recharge.
        cancel_on_failure: Whether the failure of one task cancels the others.
        admission: The rules of its own gate. By default the runtime's gate, or none.
        sealed: Whether it takes no more tasks from the end of its body on. By default it takes tasks while one of its
            tasks lives, so its tasks can spawn others; in `sovereign` it is sealed.
        on_drop: `"raise"`: the block raises `TaskDropped` for tasks that a limit of the gate dropped, unless a program
            has read their outcome. `"record"`: it does not; handles, events and statistics show the drops.
    """
    if on_drop not in ("raise", "record"):
        raise ValueError(f"nursery(on_drop={on_drop!r}): must be 'raise' or 'record'")
    if on_exhausted not in ("end", "hold"):
        raise ValueError(f"nursery(on_exhausted={on_exhausted!r}): must be 'end' or 'hold'")
    if admission is not None and not isinstance(admission, Authority):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"nursery(admission={brief(admission, repr)}): must be an Authority(...)")
    block = NurseryBlock(
        on_exhausted == "hold",
        cancel_on_failure,
        brief(name) if name else "",
        UNSTATED if budget is None else budget,
        None if capabilities is None else tuple(capabilities),
        None if sealed is None else bool(sealed),
    )
    return block if admission is None and on_drop == "raise" else GatedBlock(block, admission, on_drop)


class GatedBlock:
    """The `async with` part of a nursery that has a gate of its own, or does not raise drops."""

    __slots__ = ("_authority", "_block", "_on_drop")

    def __init__(self, block: NurseryBlock, authority: Authority | None, on_drop: OnDrop) -> None:
        self._block = block
        self._authority = authority
        self._on_drop = on_drop

    async def __aenter__(self) -> Nursery:
        nursery = await self._block.__aenter__()
        kernel, record = nursery._inside()
        if self._on_drop == "record":
            record.drops = Drops(raises=False)
        if self._authority is not None:
            record.gate = Gate(record.id, self._authority, kernel.gate.totals)
            kernel.note("gate_opened", record.owner, record.gate)
        return nursery

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        return self._block.__aexit__(kind, error, trace)
