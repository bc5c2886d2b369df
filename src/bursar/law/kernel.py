"""The kernel: one object that holds the whole state of a run. Every change goes through its methods.

The kernel knows no coroutine, no clock and no thread. The driver asks `step()` for the next task and runs that task for
one poll. It bills the task for each request, and reports how the poll ended: `yielded`, `blocked` or `finish`. The pump
reports the time with `advance`. Everything else (channels, timeouts, hosts) is built from these methods and `wake`.

    Dispatch   lanes, decisions, wakes          dispatch.py
    Ledger     billing, exhaustion, recharge    ledger.py
    Permission admission, pauses                permission.py
    Kernel     nurseries, ends, time            this file

Between two calls of the kernel, the invariants of the other files of the law hold (BUDGET, CANCEL, CAPABILITY, DECIDE,
DISPATCH, LANES, NURSERY, OBLIGATION), and

KERNEL-1  spawned = live + done, by outcome

`law.invariants.check` tests the invariants that the state at one moment shows. The asserts in the code cite each
invariant where it could break. The tests of each file cover the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from bursar.errors import Cancelled, NurseryClosed, SpawnBudgetExceeded
from bursar.law import cancel, obligation
from bursar.law import pool as purse
from bursar.law.budget import COMPONENTS, OPS, SPAWNS, UNSTATED, Budget, require_plain
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason, CancelScope, Scope
from bursar.law.capability import Capabilities, Capability, CapSpawn, delegate, inheritable, require
from bursar.law.chain import RandomStream
from bursar.law.cleanup import begin_cleanup, pause_cleanup, resume_cleanup
from bursar.law.costs import SPAWN
from bursar.law.nursery import Nursery, NurseryState, add_failure, close_if_over, note_end
from bursar.law.nursery import move as move_nursery
from bursar.law.obligation import Obligation
from bursar.law.permission import Permission, Ticket
from bursar.law.pool import PAID
from bursar.law.state import Outcome, OutcomeKind, State, end
from bursar.law.steal import StealPolicy
from bursar.law.task import Task
from bursar.law.timers import Timer, TimerKind
from bursar.law.wake import Notice, Wait, WakeState, notify
from bursar.text import brief, type_name

YIELD_INTERVAL: Final = 1024  # ops per turn, unless the profile says otherwise
CLEANUP_OPS: Final = 10_000  # how many ops a cancelled task may spend on its cleanup
CLEANUP_NS: Final = 10_000_000_000  # how long the cleanup may take


class Drain(Wait):
    """The wait of a task whose code has ended but which still owns live children."""

    __slots__ = ()
    interruptible = False

    @property
    def reason(self) -> str:
        return "is over and waits for the children of the nurseries that it left open"


class Kernel(Permission):
    """The law at work on one run. The module's docstring says which part of Bursar calls what."""

    def __init__(
        self,
        *,
        seed: int = 0,
        workers: int = 1,
        budget: Budget = UNSTATED,
        steal_policy: StealPolicy = StealPolicy.RANDOM,
        yield_interval: int = YIELD_INTERVAL,
        cleanup_ops: int = CLEANUP_OPS,
        cleanup_ns: int = CLEANUP_NS,
        inherit: bool = True,
        default_spawns: int | None = None,
    ) -> None:
        super().__init__(seed, workers, steal_policy, yield_interval)
        self.cleanup_ops = cleanup_ops
        self.cleanup_ns = cleanup_ns
        self.inherit = inherit  # children get their nursery's capabilities without being passed them
        self.default_spawns = default_spawns  # the `spawns` of a budget that does not state it
        self.thread = 0  # the thread that drives the run now; 0: there is no run
        self.runtime: Any = None  # the runtime of the run; requests may use it, the law never does
        self.gate: Any = None  # admits tasks that need admission and whose nursery has no gate of its own
        self.choices = RandomStream(seed, -1)  # for select
        self.entropy = RandomStream(seed, -2)  # for programs
        self.tasks: dict[int, Task] = {}  # the live tasks by id
        self.spawned = 0
        self.done: Counter[OutcomeKind] = Counter()
        self._next_id = 1
        pools = purse.root_pools(budget)
        self.root = Nursery(self.new_id(), "the root nursery", None, pools, pools, {})

    @property
    def live(self) -> int:
        """The number of live tasks."""
        return len(self.tasks)

    def new_id(self) -> int:
        """The next id. Tasks, nurseries and obligations share one counter, which begins at 1; 0 means none."""
        id = self._next_id
        self._next_id += 1
        return id

    # ---- spawning

    def require_open(self, nursery: Nursery, again: bool = False) -> None:
        """Raise unless `nursery` takes children now (NURSERY-2). `again`: the child is a new attempt at a task of this
        nursery, which may be CLOSING."""
        if nursery.state is not NurseryState.OPEN and not (again and nursery.state is NurseryState.CLOSING):
            raise NurseryClosed(
                f"{nursery.name} is {nursery.state.name.lower()} and takes no more tasks; "
                "spawn inside its `async with` block, or from a task of the nursery, before it is sealed or cancelled"
            )

    def spawn(
        self,
        nursery: Nursery,
        *,
        name: str = "",
        budget: Budget = UNSTATED,
        capabilities: Iterable[Capability] | None = None,
        pinned: bool = False,
        acting: bool = False,
        spawner: Task | None = None,
        ticket: Ticket | None = None,
        again: bool = False,
    ) -> Task:
        """Make a READY task in `nursery`. The purse of the nursery pays. A refused spawn changes nothing.

        `acting`: the task acts for its spawner, with the same authority and no default limits (a supervisor's manager).
        `spawner`: the task whose authority counts, if that is not the running task.
        `ticket`: the task is PENDING, holds this ticket, and waits for `admit`.
        `again`: the task is a new attempt at a task of this nursery, which may be CLOSING.
        """
        require_plain(budget)
        spawner = spawner or self.current
        self.require_open(nursery, again)
        cap = (
            require(spawner, spawner.capabilities, CapSpawn, f"spawn into {nursery.name}")
            if spawner is not None
            else None  # the runtime itself spawns
        )
        held = spawner.capabilities if acting and spawner else self.capabilities_for(nursery, spawner, capabilities)
        if cap is not None and cap.task_budget is not None:
            budget = budget.clamp(cap.task_budget)
        if budget.spawns is None and self.default_spawns is not None and spawner is not None and not acting:
            budget = budget.clamp(Budget(spawns=self.default_spawns))
        self.check_purse(nursery, budget)
        if cap is not None:
            self.registry.acquire(spawner, cap, "max_tasks", f"spawn into {nursery.name}")
        # Every check has passed: from here on nothing can fail.
        short = purse.pay(nursery.pools, SPAWN)
        assert short == PAID, "BUDGET-3"
        if spawner is not None:
            self._record_spent(spawner, SPAWN)
        id = self.new_id()
        budget = purse.affordable(nursery.pools, budget)
        pools = purse.derive(nursery.pools, budget)
        task = Task(id, brief(name) or f"task-{id}", nursery, pools, held)
        task.spawn_cap = cap
        task.pinned = pinned
        task.worker = 0 if pinned else -1
        task.ticket = ticket
        nursery.children[id] = task
        nursery.spawned += 1
        self.tasks[id] = task
        self.spawned += 1
        self._note_counters(task, budget.named)
        self.note("task_spawned", task, budget)
        if ticket is not None:
            task.since_ns = self.now_ns
        else:
            self._ready(task)
        return task

    def spawn_tidying(self, owner: Task, name: str) -> Task:
        """Make a task that cleans up for `owner`, in the root nursery. It has the authority of `owner` and no budget.

        It does nothing but cleanup, so it shares the cleanup credit of `owner`.
        """
        spawner, self.current = self.current, None  # the runtime itself spawns this
        try:
            task = self.spawn(self.root, name=name, budget=Budget.none(), pinned=True)
        finally:
            self.current = spawner
        task.capabilities = owner.capabilities
        self._tidies(task, owner)
        return task

    def _tidies(self, task: Task, owner: Task) -> None:
        self.note("task_tidies", task, owner)
        task.credit_of = owner.credit_of or owner
        cancel.move(task, CancelPhase.DRAINING)  # from its first poll to its last
        begin_cleanup(self, task)
        self.interrupt(task)

    def capabilities_for(
        self, nursery: Nursery, spawner: Task | None, passed: Iterable[Capability] | None
    ) -> Capabilities:
        """The capabilities of a new task: those passed to it, otherwise those that its nursery passes on and its
        spawner holds."""
        if passed is not None:
            return delegate(self.registry, spawner, spawner.capabilities if spawner is not None else {}, passed)
        if spawner is None or (nursery.explicit and spawner is nursery.owner):
            return nursery.capabilities
        if not (self.inherit or nursery.explicit):
            return {}
        if spawner is nursery.owner or spawner.capabilities is nursery.capabilities:
            return nursery.capabilities
        return {kind: spawner.capabilities[kind] for kind in nursery.capabilities if kind in spawner.capabilities}

    def check_purse(self, nursery: Nursery, budget: Budget) -> None:
        """Raise unless the purse can pay for the spawn and has at least one op left for a task that asks for ops."""
        ops, spawns = nursery.pools[OPS].left, nursery.pools[SPAWNS].left
        if spawns is not None and spawns < 1:
            raise SpawnBudgetExceeded(
                f"{nursery.name} has no spawns left; "
                "give the nursery, or the task that opened it, a larger `spawns` budget",
                component=COMPONENTS[SPAWNS],
            )
        needed = 2 if budget.ops else 1  # one for the spawn, at least one to give away
        if ops is not None and ops < needed:
            raise SpawnBudgetExceeded(
                f"{nursery.name} has {ops} ops left, too few to start a task; recharge it or ask for fewer ops",
                component=COMPONENTS[OPS],
            )

    # ---- nurseries

    def open_nursery(
        self,
        owner: Task,
        *,
        name: str = "",
        budget: Budget = UNSTATED,
        capabilities: Iterable[Capability] | None = None,
    ) -> Nursery:
        """Open a nursery owned by `owner`. The owner's pools fill its purse."""
        require_plain(budget)
        require(owner, owner.capabilities, CapSpawn, "open a nursery")
        held = (
            inheritable(owner.capabilities)
            if capabilities is None
            else delegate(self.registry, owner, owner.capabilities, capabilities)
        )
        budget = purse.affordable(owner.pools, budget)
        pools = purse.derive(owner.pools, budget)
        id = self.new_id()
        title = f"nursery {brief(name)!r}" if name else f"nursery {id} of {owner.name!r}"
        nursery = Nursery(id, title, owner, pools, owner.pools, held)
        nursery.explicit = capabilities is not None
        nursery.gate = self.root.gate
        nursery.sealed = self.root.sealed
        nursery.scope = CancelScope(owner)
        nursery.scope.body_of = nursery
        if owner.owned is None:
            owner.owned = {}
        owner.owned[id] = nursery
        self._note_counters(owner, budget.named)
        self.note("nursery_opened", owner, (nursery, budget))
        return nursery

    def close_nursery(self, nursery: Nursery) -> None:
        """The block has ended, and the owner only waits for the children. The nursery closes with the last of them.
        Idempotent."""
        scope, owner = nursery.scope, nursery.owner
        if nursery.state is not NurseryState.OPEN if scope is None else scope.exiting:
            return
        if scope is None:
            move_nursery(nursery, NurseryState.CLOSING)
        else:
            scope.exiting = True
            close_if_over(nursery)
        self.note("nursery_closing", owner, nursery)
        if owner is not None:
            if nursery.state is NurseryState.CANCELLING:
                pause_cleanup(self, owner)
            cancel.look(owner)

    def seal_nursery(self, nursery: Nursery) -> None:
        """The nursery takes no more children. Idempotent."""
        if nursery.state is NurseryState.OPEN:
            move_nursery(nursery, NurseryState.CLOSING)
            self.note("nursery_sealed", nursery.owner, nursery)

    def end_nursery(self, nursery: Nursery) -> None:
        """The owner waited until no child was left: set the terminal state, refund the purse, leave the scope
        (NURSERY-3)."""
        owner = nursery.owner
        if nursery.scope is not None:
            cancel.require_innermost(self, nursery.scope)
        if nursery.state is NurseryState.CANCELLING:
            move_nursery(nursery, NurseryState.CANCELLED)
            self.draining_nurseries -= 1
        else:
            move_nursery(nursery, NurseryState.CLOSED)
        self.note("nursery_closed", owner, nursery)
        if owner is not None:
            assert nursery.scope is not None, "NURSERY-1"
            assert owner.owned is not None, "NURSERY-1"
            del owner.owned[nursery.id]
            purse.close(nursery.pools, nursery.purse_of)
            cancel.leave(self, nursery.scope)
            resume_cleanup(self, owner)

    def body_failed(self, nursery: Nursery, error: BaseException) -> None:
        """The body of the block raised. This counts like the failure of a child."""
        add_failure(nursery, error)
        why = CancelReason(CancelKind.SIBLING, f"the body of {nursery.name} raised {type_name(error)}")
        self.cancel_nursery(nursery, why)

    def promise(self, task: Task, what: str, origin: str, undo: Callable[[], None]) -> Obligation:
        """Make an obligation of `task`. Aborting the obligation calls `undo`."""
        return Obligation(self.new_id(), task, what, origin, undo, self.note)

    # ---- cancellation, for callers outside the law

    def cancel_request(self, scope: Scope, reason: CancelReason) -> None:
        """Ask a scope (a task or a block) and everything that it owns to stop."""
        cancel.request(self, scope, reason)

    def cancel_nursery(self, nursery: Nursery, reason: CancelReason) -> None:
        """Ask a nursery to stop: its children, and the body of its block in the owner. Idempotent."""
        cancel.request_nursery(self, nursery, reason)

    def leave_scope(self, block: CancelScope) -> None:
        """Close the innermost block of the task that runs."""
        cancel.leave(self, block)

    def deliver_cancel(self, task: Task) -> Cancelled | None:
        """The `Cancelled` to throw into the task now, or None."""
        return cancel.deliver(self, task)

    # ---- the end of a task

    def finish(self, task: Task, outcome: Outcome) -> bool:
        """End a RUNNING task, or a PENDING one that is not to begin.

        Returns False if the task still owns live children, which must end first. The task then waits for them. When it
        is polled again, the driver finishes it with the outcome kept in `ending`.
        """
        if task.has_children():
            self.drain_owned(task, outcome)
            return False
        if task.state is not State.PENDING:
            self._poll_over(task)
        self.release_leftovers(task)
        cancel.leave_all(self, task)
        end(task, outcome)
        task.wake = WakeState.DONE
        purse.close(task.pools, task.purse_of)
        if task.spawn_cap is not None:
            self.registry.release(task.spawn_cap)
        del self.tasks[task.id]
        self.done[outcome.kind] += 1
        self.note("task_done", task, outcome)
        if task.ticket is not None:
            task.ticket.ended(self, outcome)
        self._notify_parent(task, outcome)
        waiters, task.waiters = task.waiters, None
        for waiter in list(waiters or ()):
            waiter.answer(self, outcome)
        task.work = task.context = task.unpaid_request = task.inbox = task.error = task.ending = None
        return True

    def release_leftovers(self, task: Task) -> None:
        """Release the leftovers of an ended task: open obligations, and nurseries that it never left."""
        for leak in obligation.leaked(task):
            self.report("obligation_leaked", task, str(leak))
        for nursery in reversed(list((task.owned or {}).values())):
            self._end_abandoned(task, nursery)

    def drain_owned(self, task: Task, outcome: Outcome) -> None:
        """Cancel the live children of a task whose code has ended, and wait for them: no task is orphaned
        (NURSERY-1)."""
        task.ending = outcome
        why = CancelReason(CancelKind.PARENT, f"task {task.name!r} ended inside the block of a nursery", task.id)
        for nursery in list((task.owned or {}).values()):
            self.close_nursery(nursery)
            self.cancel_nursery(nursery, why)
        self.blocked(task, Drain(task))

    def _end_abandoned(self, task: Task, nursery: Nursery) -> None:
        """End a nursery whose block was never left. It has no children now. Its failures are reported, because no
        block is left to raise them."""
        for error in nursery.failures:
            self.report(
                "failure_unraised", task, f"left {nursery.name} without seeing that {brief(error, repr)} happened in it"
            )
        while task.inner is not nursery.scope and task.inner is not None:
            self.leave_scope(task.inner)
        self.close_nursery(nursery)
        self.end_nursery(nursery)

    def _notify_parent(self, task: Task, outcome: Outcome) -> None:
        """Remove the task from its nursery; cancel its siblings if it failed; wake the owner after the last child."""
        nursery = task.nursery
        if note_end(nursery, task, outcome):
            why = CancelReason(CancelKind.SIBLING, f"task {task.name!r} {outcome}", task.id)
            self.cancel_nursery(nursery, why)
        if nursery.ends_waiter is not None:
            waiter, nursery.ends_waiter = nursery.ends_waiter, None
            waiter.answer(self, None)
        if nursery.children:
            return
        close_if_over(nursery)
        owner = nursery.owner
        if nursery.joining is not None:
            joiner, nursery.joining = nursery.joining, None
            joiner.answer(self, None)
        elif owner is not None and isinstance(owner.wait, Drain) and not owner.has_children():
            owner.wait.answer(self, None)

    # ---- time

    def advance(self, now_ns: int, most: int | None = None) -> int:
        """Set the time, which never goes back, and fire the due timers in order, at most `most`. Returns how many
        fired."""
        self.now_ns = max(self.now_ns, now_ns)
        fired = 0
        while fired != most and (timer := self.timers.pop_due(self.now_ns)) is not None:
            self._fire(timer)
            fired += 1
        return fired

    def timer_fired(self, id: int, generation: int) -> bool:
        """A host reports one timer. A timer that is no longer armed becomes a `stale_timer` record."""
        timer = self.timers.find(id, generation)
        if timer is None:
            self._stale_timer(None, id, generation)
            return False
        self.timers.disarm(timer)
        self.now_ns = max(self.now_ns, timer.deadline_ns)  # the report says that the deadline has come
        self._fire(timer)
        return True

    def _fire(self, timer: Timer) -> None:
        """Wake the task or request the cancellation that the timer was armed for. No task runs here."""
        task = timer.task
        self.note("timer_fired", task, timer)
        match timer.kind:
            case TimerKind.WAKE:
                notice = notify(task, timer.generation)
                if notice is Notice.ENQUEUE:
                    wait, task.wait = task.wait, None
                    if wait is not None:
                        wait.expired(self, timer)
                    self._ready(task, timer.deadline_ns)
                elif notice is Notice.NOTED and task.wait is not None:  # it is paused
                    task.wait.expired(self, timer)
                elif notice is Notice.STALE:
                    self._stale_timer(task, timer.id, timer.generation)
            case TimerKind.DEADLINE:
                assert timer.scope is not None, "a deadline belongs to a scope"
                cancel.request(self, timer.scope, CancelReason(CancelKind.TIMEOUT, "the time is up"))
            case TimerKind.CLEANUP:
                cancel.cut(self, task, f"cleanup took longer than {self.cleanup_ns / 1e9:g} s")
            case TimerKind.PERMIT:
                if task.ticket is not None:
                    task.ticket.expired(self, timer)

    def _stale_timer(self, task: Task | None, id: int, generation: int) -> None:
        self.counters["stale_timer"] += 1
        self.note("stale_timer", task, (id, generation))
