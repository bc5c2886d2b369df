"""The invariants: a sound kernel passes, each kind of damage is named, and no sequence of calls does any damage."""

import random
import re
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support.law import (
    CANCEL_STREAK_MAX,
    OPS,
    TIMED_STREAK_MAX,
    UNSTATED,
    Bill,
    CancelScope,
    Kernel,
    Lane,
    Nursery,
    Obligation,
    Pool,
    Settled,
    StealPolicy,
    Task,
    TimerKind,
    Wait,
    WakeState,
    allocation,
    cancel,
)

from bursar import (
    Budget,
    BursarError,
    CancelKind,
    CancelReason,
    CapBudget,
    CapSpawn,
    NurseryState,
    Outcome,
    OutcomeKind,
    State,
)
from bursar.law.invariants import check, queued

STOP = CancelReason(CancelKind.USER, "stop")


class Nap(Wait):
    reason = "naps"


class Sleep(Nap):
    """Waits for a timer, and takes it with it when it is over."""

    def __init__(self, kernel: Kernel, task: Task, deadline_ns: int) -> None:
        super().__init__(task)
        self.timer = kernel.timers.arm(deadline_ns, TimerKind.WAKE, task)

    def withdraw(self, kernel) -> None:
        kernel.timers.disarm(self.timer)


class Join(Nap):
    """Waits for the children of a nursery."""

    def __init__(self, nursery: Nursery) -> None:
        super().__init__(nursery.owner)
        self.nursery = nursery
        nursery.joining = self

    def withdraw(self, kernel) -> None:
        if self.nursery.joining is self:
            self.nursery.joining = None


def scene() -> SimpleNamespace:
    """A kernel with something in every place: running, blocked, held, timed, cancelled, pinned and injected tasks."""
    kernel = Kernel(budget=Budget(ops=10_000, memory=1000), workers=2)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn(max_tasks=50))}
    kernel.root.hold = True

    def start(**keywords) -> Task:
        task = kernel.spawn(kernel.root, **keywords)
        while (running := kernel.step()) is not task:
            if running is not None:
                kernel.yielded(running)
                kernel.step_over(running)
        return task

    blocked = start(name="blocked")
    kernel.blocked(blocked, Nap(blocked))
    kernel.step_over(blocked)
    held = start(name="held", budget=Budget(memory=0, channel_ops=0))
    assert kernel.bill(held, ((3, 1),)) is Bill.SUSPENDED
    kernel.step_over(held)
    timed = start(name="timed")
    kernel.timers.arm(5, TimerKind.WAKE, timed)
    kernel.blocked(timed, Nap(timed))
    kernel.step_over(timed)
    kernel.advance(5)
    cancelled = kernel.spawn(kernel.root, name="cancelled")
    cancel.request(kernel, cancelled, STOP)
    pinned = kernel.spawn(kernel.root, name="pinned", pinned=True)
    injected = kernel.spawn(kernel.root, name="injected")
    owner = kernel.spawn(kernel.root, name="owner", budget=Budget(ops=500))
    worker = kernel.workers[1]
    while (running := kernel._dispatch(worker, any(w.stealable for w in kernel.workers))) is not owner:
        kernel.yielded(running)
        kernel.step_over(running)
    nursery = kernel.open_nursery(owner, budget=Budget(ops=100))
    child = kernel.spawn(nursery, name="child", budget=Budget(ops=10))
    return SimpleNamespace(**{k: v for k, v in locals().items() if k != "start"})


def test_a_sound_kernel_passes():
    at = scene()
    check(at.kernel)
    states = {task.name: task.state.name for task in at.kernel.tasks.values()}
    assert states == {
        "blocked": "BLOCKED",
        "held": "EXHAUSTED",
        "timed": "READY",
        "cancelled": "READY",
        "pinned": "READY",
        "injected": "READY",
        "owner": "RUNNING",
        "child": "READY",
    }
    assert {task.name: lane.name for task, lane in queued(at.kernel)} == {
        "timed": "TIMED",
        "cancelled": "CANCEL",
        "pinned": "READY",
        "injected": "READY",
        "child": "READY",
    }


def test_a_new_kernel_passes():
    check(Kernel())


# ---- damage: what is done to the kernel, and what the check must say


def put(target, **fields) -> None:
    for name, value in fields.items():
        setattr(target, name, value)


def forget(at) -> None:
    del at.kernel.tasks[at.injected.id]


def done_and_listed(at) -> None:
    at.blocked.state = State.DONE


def listed_twice(at) -> None:
    at.kernel.workers[0].stealable[at.pinned] = 99


def lost_entry(at) -> None:
    del at.pinned.queue[at.pinned]


def foreign_entry(at) -> None:
    at.kernel.injector[at.blocked] = 0


def wrong_lane(at) -> None:
    at.pinned.lane = Lane.TIMED


def adopted_twice(at) -> None:
    at.nursery.children[at.pinned.id] = at.pinned


def orphan(at) -> None:
    del at.kernel.root.children[at.pinned.id]


def owner_gone(at) -> None:
    at.nursery.owner = Task(99, "ghost", at.kernel.root, at.kernel.root.pools, {})


def root_with_owner(at) -> None:
    at.kernel.root.owner = at.owner


def over_but_owned(at) -> None:
    at.nursery.children.clear()
    at.nursery.state = NurseryState.CLOSED


def over_with_children(at) -> None:
    at.nursery.state = NurseryState.CLOSED


def root_over_with_children(at) -> None:
    at.kernel.root.state = NurseryState.CLOSED


def orphaned_pool(at) -> None:
    at.child.pools[OPS].parent = Pool(1)


def two_owners(at) -> None:
    at.pinned.pools = at.held.pools


DAMAGE = {
    # KERNEL-1: every task that was spawned lives or is counted as done
    "a task is forgotten": (forget, "KERNEL-1"),
    "a spawn is not counted": (lambda at: put(at.kernel, spawned=at.kernel.spawned - 1), "KERNEL-1"),
    "an end is counted twice": (lambda at: at.kernel.done.update([OutcomeKind.OK]), "KERNEL-1"),
    "a DONE task is listed": (done_and_listed, "KERNEL-1"),
    # DISPATCH-1: the wake state follows the state
    "a blocked task says that it is queued": (lambda at: put(at.blocked, wake=WakeState.QUEUED), "DISPATCH-1"),
    "a queued task says that it is idle": (lambda at: put(at.pinned, wake=WakeState.IDLE), "DISPATCH-1"),
    "a running task says that it is idle": (lambda at: put(at.owner, wake=WakeState.IDLE), "DISPATCH-1"),
    "a held task says that it is queued": (lambda at: put(at.held, wake=WakeState.QUEUED), "DISPATCH-1"),
    "a live task says that it is done": (lambda at: put(at.blocked, wake=WakeState.DONE), "DISPATCH-1"),
    # DISPATCH-2: one task runs
    "nobody is current": (lambda at: put(at.kernel, current=None), "DISPATCH-2"),
    "another task is current": (lambda at: put(at.kernel, current=at.pinned), "DISPATCH-2"),
    "two tasks run": (lambda at: put(at.blocked, state=State.RUNNING), "DISPATCH-2"),
    # LANES-1: one entry, while READY
    "a task has two entries": (listed_twice, "LANES-1"),
    "a ready task has no entry": (lost_entry, "LANES-1"),
    "a blocked task has an entry": (foreign_entry, "LANES-1"),
    "a task believes to be in another lane": (wrong_lane, "LANES-1"),
    # CANCEL-4: who is asked to stop waits in the cancel lane
    "a task asked to stop waits among the ready": (lambda at: put(at.pinned, cancel_pending=True), "CANCEL-4"),
    "a task cut off waits among the timed": (lambda at: put(at.timed, cut=True), "CANCEL-4"),
    "a task that cleans up waits among the stealable": (lambda at: put(at.child, cleanup_left=5), "CANCEL-4"),
    # DECIDE-1, DECIDE-2: the streaks are bounded
    "too many cancels in a row": (
        lambda at: put(at.kernel.workers[1], cancel_streak=2 * CANCEL_STREAK_MAX + 1),
        "DECIDE-1",
    ),
    "a negative cancel streak": (lambda at: put(at.kernel.workers[0], cancel_streak=-1), "DECIDE-1"),
    "too many timed between two ready": (
        lambda at: put(at.kernel.workers[1], timed_streak=TIMED_STREAK_MAX + 1),
        "DECIDE-2",
    ),
    # NURSERY-1: one family for each
    "a task is in two nurseries": (adopted_twice, "NURSERY-1"),
    "a task is in no nursery": (orphan, "NURSERY-1"),
    "the owner of a nursery is gone": (owner_gone, "NURSERY-1"),
    "a nursery has no owner": (lambda at: put(at.nursery, owner=None), "NURSERY-1"),
    "the root has an owner": (root_with_owner, "NURSERY-1"),
    "a nursery is over and still owned": (over_but_owned, "NURSERY-1"),
    # NURSERY-3: no end before quiescence
    "a nursery is closed over its children": (over_with_children, "NURSERY-3"),
    "the root is closed over its children": (root_over_with_children, "NURSERY-3"),
    # BUDGET-1, BUDGET-2, BUDGET-3: the books
    "money appears": (lambda at: put(at.kernel.root.pools[OPS], left=10**6), "BUDGET-1"),
    "money is lost": (lambda at: put(at.child.pools[OPS], left=9), "BUDGET-1"),
    "spending is not written down": (lambda at: put(at.kernel.root.pools[OPS], spent=0), "BUDGET-1"),
    "more is lent than is out": (lambda at: put(at.nursery.pools[OPS], lent=11, left=88), "BUDGET-2"),
    "a child was granted more than was lent": (lambda at: put(at.child.pools[OPS], granted=11, left=11), "BUDGET-2"),
    "a pool hangs on a stranger": (orphaned_pool, "BUDGET-2"),
    "a pool has two owners": (two_owners, "BUDGET-2"),
    "a pool is overdrawn": (lambda at: put(at.child.pools[OPS], left=-1, spent=11), "BUDGET-3"),
    # CAPABILITY-2: uses
    "a use is not counted": (lambda at: at.kernel.registry.release(at.owner.capabilities[CapSpawn]), "CAPABILITY-2"),
    "a use is counted twice": (
        lambda at: at.kernel.registry.acquire(None, at.owner.capabilities[CapSpawn], "max_tasks", "spawn"),
        "CAPABILITY-2",
    ),
    "a limit is overdrawn": (
        lambda at: object.__setattr__(at.owner.capabilities[CapSpawn], "max_tasks", 0),
        "CAPABILITY-2",
    ),
    # and what has no number
    "a blocked task waits for nothing": (lambda at: put(at.blocked, wait=None), "has wait None"),
    "a ready task waits": (lambda at: put(at.pinned, wait=Nap(at.pinned)), "has wait"),
    "a held task is not listed": (lambda at: at.kernel.root.exhausted.clear(), "on hold"),
    "a blocked task is listed as held": (
        lambda at: at.kernel.root.exhausted.update({at.blocked.id: at.blocked}),
        "hold",
    ),
    "the runnable are miscounted": (lambda at: put(at.kernel, runnable=0), "count of runnable"),
    "the draining nurseries are miscounted": (lambda at: put(at.kernel, draining_nurseries=1), "draining nurseries"),
    "a pinned task can be stolen": (lambda at: put(at.child, pinned=True), "can be stolen"),
    "a task in a pinned queue is not pinned": (lambda at: put(at.pinned, pinned=False), "not pinned"),
}


@pytest.mark.parametrize(("damage", "name"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_found_and_named(damage, name):
    at = scene()
    check(at.kernel)
    damage(at)
    with pytest.raises(AssertionError, match=name):
        check(at.kernel)


def test_every_numbered_invariant_that_a_look_at_the_state_can_check_is_here():
    named = {name for _, name in DAMAGE.values() if re.fullmatch(r"[A-Z]+-\d+", name)}
    assert named == {
        "BUDGET-1",
        "BUDGET-2",
        "BUDGET-3",
        "CAPABILITY-2",
        "DECIDE-1",
        "DECIDE-2",
        "KERNEL-1",
        "DISPATCH-1",
        "DISPATCH-2",
        "LANES-1",
        "NURSERY-1",
        "NURSERY-3",
        "CANCEL-4",
    }


# ---- no sequence of calls does any damage


class Program:
    """Drives a kernel with random but legal calls, as an executor would, and checks it after each."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.kernel = kernel = Kernel(
            seed=seed,
            workers=pick([1, 1, 2, 4]),
            steal_policy=pick(list(StealPolicy)),
            budget=pick([UNSTATED, Budget(ops=2000, memory=500, spawns=80, channel_ops=100)]),
            yield_interval=pick([1, 3, 50]),
            cleanup_ops=pick([2, 20]),
            cleanup_ns=pick([10, 1000]),
        )
        minted = [kernel.registry.mint(c) for c in (CapSpawn(max_tasks=40), CapBudget(Budget(ops=300, memory=300)))]
        kernel.root.capabilities = {type(c): c for c in minted}
        kernel.root.hold = pick([False, True])
        kernel.root.cancel_on_failure = False
        self.open: list[Obligation] = []

    def budget(self) -> Budget:
        amounts = [self.random.choice([None, None, self.random.randrange(60)]) for _ in range(5)]
        return Budget(*amounts)

    # ---- what a running task may do; each says whether its poll is over

    def spawn(self, task: Task) -> bool:
        nurseries = [self.kernel.root, *(task.owned or {}).values()]
        with suppress(BursarError):
            self.kernel.spawn(self.random.choice(nurseries), budget=self.budget(), pinned=self.random.random() < 0.3)
        return False

    def open_nursery(self, task: Task) -> bool:
        nursery = self.kernel.open_nursery(task, budget=self.budget())
        nursery.hold = self.random.random() < 0.3
        return False

    def open_block(self, task: Task) -> bool:
        block = CancelScope(task)
        if self.random.random() < 0.5:
            block.shielded = True
        else:
            deadline_ns = self.kernel.now_ns + self.random.randrange(30)
            block.timer = self.kernel.timers.arm(deadline_ns, TimerKind.DEADLINE, task, block)
        return False

    def leave(self, task: Task) -> bool:
        """Leave the innermost block; a nursery with children is joined first."""
        block = task.inner
        if not isinstance(block, CancelScope):
            return False
        nursery = block.body_of
        if nursery is None:
            cancel.leave(self.kernel, block)
            return False
        self.kernel.close_nursery(nursery)
        if nursery.children:
            self.kernel.blocked(task, Join(nursery))
            return True
        self.kernel.end_nursery(nursery)
        return False

    def pay(self, task: Task) -> bool:
        cost = self.random.choice([((OPS, self.random.randrange(1, 40)),), allocation(30), ((OPS, 1), (3, 1))])
        match self.kernel.bill(task, cost):
            case Bill.SUSPENDED:
                return True
            case Bill.CUT:
                self.end(task)
                return True
        return False

    def give_way(self, task: Task) -> bool:
        self.kernel.yielded(task)
        return True

    def wait(self, task: Task) -> bool:
        asleep = self.random.random() < 0.6
        until_ns = self.kernel.now_ns + self.random.randrange(20)
        self.kernel.blocked(task, Sleep(self.kernel, task, until_ns) if asleep else Nap(task))
        return True

    def promise(self, task: Task) -> bool:
        self.open.append(Obligation(self.kernel.new_id(), task, "a promise", "here", lambda: None))
        return False

    def settle(self, task: Task) -> bool:
        for obligation in [o for o in self.open if o.holder is task and o.settled is Settled.OPEN][:1]:
            obligation.settle(self.random.choice([Settled.COMMITTED, Settled.ABORTED]))
        return False

    def mint(self, task: Task) -> bool:
        target = self.random.choice(list(self.kernel.tasks.values()))
        with suppress(BursarError):
            self.kernel.recharge_by_capability(task, target, self.budget())
        return False

    def wake_itself(self, task: Task) -> bool:
        self.kernel.wake(task, task.generation)
        return False

    def end(self, task: Task) -> bool:
        kind = self.random.choice([OutcomeKind.OK, OutcomeKind.FAILED, OutcomeKind.CANCELLED])
        error = ValueError() if kind is OutcomeKind.FAILED else None
        self.kernel.finish(task, task.ending or Outcome(kind, error=error, reason=STOP))
        return True

    # ---- what happens around it

    def someone(self) -> Task | None:
        return self.random.choice(list(self.kernel.tasks.values()) or [None])

    def outside(self) -> None:
        kernel, task = self.kernel, self.someone()
        what = self.random.randrange(6)
        if what == 0 and len(kernel.tasks) < 30 and kernel.root.state is NurseryState.OPEN:
            with suppress(BursarError):
                kernel.spawn(kernel.root, budget=self.budget())
        elif what == 1:
            kernel.advance(kernel.now_ns + self.random.randrange(15))
        elif task is None:
            return
        elif what == 2:
            kernel.wake(task, task.generation - self.random.choice([0, 0, 0, 1]))
        elif what == 3 and self.random.random() < 0.3:
            cancel.request(kernel, task, STOP)
        elif what == 4 and task.owned and self.random.random() < 0.3:
            cancel.request_nursery(kernel, self.random.choice(list(task.owned.values())), STOP)
        elif what == 5:
            owner = task.nursery.owner
            with suppress(BursarError):
                kernel.recharge(task, owner.pools if owner is not None else kernel.root.pools, self.budget())

    def poll(self) -> bool:
        """One step and the poll that follows, checked after every call. False: nothing was runnable."""
        kernel = self.kernel
        task = kernel.step()
        check(kernel)
        if task is None:
            return False
        self.act(task)
        kernel.step_over(task)
        return True

    def act(self, task: Task) -> None:
        """What a task does in one poll."""
        kernel = self.kernel
        if task.cut or task.ending is not None:
            self.end(task)
            check(kernel)
            return
        if task.cancel_pending and not task.effect:
            cancel.deliver(kernel, task)
        task.inbox, task.error, task.effect = None, None, False
        acts = [self.spawn, self.open_nursery, self.open_block, self.leave, self.leave, self.pay, self.pay]
        acts += [self.give_way, self.wait, self.promise, self.settle, self.mint, self.wake_itself, self.end]
        for _ in range(20):
            over = self.random.choice(acts)(task)
            check(kernel)
            if over:
                return
        kernel.yielded(task)

    def stop(self) -> None:
        """Cancel everything and let it end."""
        kernel = self.kernel
        cancel.request_nursery(kernel, kernel.root, STOP)
        for _ in range(20_000):
            if not kernel.tasks:
                break
            task = kernel.step()
            if task is None:
                for stuck in list(kernel.tasks.values()):
                    cancel.cut(kernel, stuck, "stuck")
                continue
            self.end(task)
            kernel.step_over(task)
            check(kernel)
        kernel.close_nursery(kernel.root)
        kernel.end_nursery(kernel.root)


def test_the_random_programs_go_everywhere():
    seen = set()
    for seed in range(20):
        program = Program(seed)
        program.kernel.observer = lambda kind, task, detail: seen.add(
            detail[0] if kind == "scheduler_step_decision" else kind
        )
        for _ in range(60):
            program.outside()
            program.poll()
        program.stop()
        seen.update(program.kernel.counters)
    assert seen >= {Lane.CANCEL, Lane.TIMED, Lane.READY, Lane.STEAL}
    assert seen >= {"turns_over", "budget_held", "budget_exceeded", "recharged", "cleanup_cut", "cancel_delivered"}
    assert seen >= {"timer_fired", "stale_wake", "wakes_merged", "nursery_opened", "obligation_leaked", "task_done"}


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_every_invariant_and_give_everything_back(seed):
    program = Program(seed)
    kernel = program.kernel
    for _ in range(60):
        program.outside()
        check(kernel)
        program.poll()
    program.stop()
    check(kernel)
    assert (kernel.tasks, kernel.runnable, kernel.draining, len(kernel.timers)) == ({}, 0, False, 0)
    assert kernel.root.state is NurseryState.CANCELLED
    for pool in kernel.root.pools:
        assert pool.lent == 0
        assert pool.left is None or pool.granted == pool.left + pool.spent
    assert kernel.registry._in_use == {}
    assert all(obligation.settled is not Settled.OPEN for obligation in program.open)
