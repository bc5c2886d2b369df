"""Checks the numbered invariants of the law on the whole state, as far as the state at one moment shows them.

The code asserts each invariant where it could break; this file checks it a second time. A check costs O(everything),
so it runs only in tests, after every step. A violation names the invariant and the task or nursery that breaks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bursar.law.budget import COMPONENTS
from bursar.law.capability import CapSpawn
from bursar.law.costs import Component
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX
from bursar.law.kernel import Kernel
from bursar.law.lanes import Lane
from bursar.law.nursery import Nursery, NurseryState
from bursar.law.pool import Pool, Pools, named_of
from bursar.law.state import State
from bursar.law.task import Task
from bursar.law.wake import WakeState

_WAKE_OF_STATE: dict[State, frozenset[WakeState]] = {
    State.PENDING: frozenset({WakeState.IDLE}),
    State.READY: frozenset({WakeState.QUEUED}),
    State.RUNNING: frozenset({WakeState.RUNNING, WakeState.RUNNING_WOKEN}),
    State.BLOCKED: frozenset({WakeState.IDLE, WakeState.RUNNING, WakeState.RUNNING_WOKEN}),  # the last two: paused
    State.EXHAUSTED: frozenset({WakeState.IDLE}),
    State.PAUSED: frozenset({WakeState.IDLE}),
    State.DONE: frozenset({WakeState.DONE}),
}


def check(kernel: Kernel) -> None:
    """Raise AssertionError if any invariant does not hold between two calls of the kernel."""
    _tasks(kernel)
    _lanes(kernel)
    _families(kernel)
    _money(kernel)
    _capabilities(kernel)


def _tasks(kernel: Kernel) -> None:
    assert kernel.spawned == len(kernel.tasks) + sum(kernel.done.values()), "KERNEL-1: spawned = live + done"
    running = [t for t in kernel.tasks.values() if t.state is State.RUNNING]
    assert running == ([kernel.current] if kernel.current is not None else []), f"DISPATCH-2: {running} run"
    for task in kernel.tasks.values():
        assert task.state is not State.DONE, f"KERNEL-1: {task} is DONE and still listed"
        assert task.wake in _WAKE_OF_STATE[task.state], f"DISPATCH-1: {task} has wake state {task.wake.name}"
        assert (task.wait is not None) == (task.state is State.BLOCKED), f"{task} has wait {task.wait}"
        held = task.state is State.EXHAUSTED
        assert held == (task.id in task.nursery.exhausted), f"{task} is on hold without being listed, or the reverse"


def queued(kernel: Kernel) -> Iterator[tuple[Task, Lane]]:
    """Every entry of every lane."""
    for worker in kernel.workers:
        yield from ((task, Lane.CANCEL) for task in worker.cancel)
        yield from ((task, Lane.TIMED) for task in worker.timed)
        yield from ((task, Lane.READY) for task in worker.pinned)
        yield from ((task, Lane.READY) for task in worker.stealable)
    yield from ((task, Lane.READY) for task in kernel.injector)


def _lanes(kernel: Kernel) -> None:
    entries = Counter(task for task, _ in queued(kernel))
    assert all(n == 1 for n in entries.values()), "LANES-1: more than one entry for one task"
    ready = {t for t in kernel.tasks.values() if t.state is State.READY}
    assert set(entries) == ready, "LANES-1: the lanes hold other tasks than the READY ones"
    assert len(entries) == kernel.runnable, "the count of runnable tasks is wrong"
    for task, lane in queued(kernel):
        assert task.lane is lane, f"LANES-1: {task} has {task.lane} in its record, not {lane}"
        if task.cancel_pending or task.cut or task.cleanup_left >= 0:
            assert lane is Lane.CANCEL, f"CANCEL-4: {task} waits in {lane.name}"
    for worker in kernel.workers:
        assert all(task.pinned for task in worker.pinned), "a task that is not pinned sits in a pinned queue"
        assert not any(task.pinned for task in worker.stealable), "a pinned task can be stolen"
        assert 0 <= worker.cancel_streak <= 2 * CANCEL_STREAK_MAX, "DECIDE-1"
        assert 0 <= worker.timed_streak <= TIMED_STREAK_MAX, "DECIDE-2"


def _nurseries(kernel: Kernel) -> Iterator[Nursery]:
    yield kernel.root
    for task in kernel.tasks.values():
        yield from (task.owned or {}).values()


def _families(kernel: Kernel) -> None:
    members: Counter[Task] = Counter()
    cancelling = 0
    live = set(kernel.tasks)
    for nursery in _nurseries(kernel):
        members.update(nursery.children.values())
        cancelling += nursery.state is NurseryState.CANCELLING
        assert not (nursery.state.terminal and nursery.children), f"NURSERY-3: {nursery} ended with live children"
        exiting = nursery.scope is not None and nursery.scope.exiting
        alone = nursery.state is NurseryState.OPEN and not nursery.children
        assert not (exiting and alone), f"NURSERY-5: the block of {nursery} has ended, no child lives, and it is open"
        assert (nursery.owner is None) == (nursery is kernel.root), f"NURSERY-1: {nursery} has no owner"
        if nursery.owner is not None:
            assert nursery.owner.id in live, f"NURSERY-1: the owner of {nursery} is gone"
            assert not nursery.state.terminal, f"NURSERY-1: {nursery} is over and still owned"
    assert set(members) == set(kernel.tasks.values()), "NURSERY-1: an orphan, or a stranger in a nursery"
    assert all(n == 1 for n in members.values()), "NURSERY-1: a task in two nurseries"
    assert cancelling == kernel.draining_nurseries, "the count of draining nurseries is wrong"


def _pool_pairs(kernel: Kernel) -> Iterator[tuple[Pools, Pools]]:
    """Every live pair (pools, the pools that lent to them)."""
    for task in kernel.tasks.values():
        yield task.pools, task.purse_of
        for nursery in (task.owned or {}).values():
            yield nursery.pools, nursery.purse_of


def _components(pools: Pools) -> dict[Component, Pool]:
    """The pools by component, and by name."""
    return {**dict(enumerate(pools)), **named_of(pools)}


def _money(kernel: Kernel) -> None:
    lent: Counter[Pool] = Counter()
    pools: dict[Pool, Component] = {pool: c for c, pool in _components(kernel.root.pools).items()}
    for mine, makers in _pool_pairs(kernel):
        above = _components(makers)
        assert above.keys() <= _components(mine).keys(), "BUDGET-2: a limit from above is missing"
        for component, pool in _components(mine).items():
            maker = above.get(component, pool.parent)
            if pool is not maker:
                assert maker is not None, "BUDGET-2: a pool has no maker"
                assert pool.parent is maker, "BUDGET-2: a pool was not lent by its maker"
                assert pool not in pools, "BUDGET-2: two makers for one pool"
                lent[maker] += pool.granted - pool.minted
                pools[pool] = component
    for pool, component in pools.items():
        name = COMPONENTS[component] if isinstance(component, int) else component
        assert pool.lent == lent[pool], f"BUDGET-2: {name}: lent {pool.lent}, but sub-pools hold {lent[pool]}"
        if pool.left is not None:
            assert pool.left >= 0, f"BUDGET-3: {name} is overdrawn"
            assert pool.granted == pool.left + pool.spent + pool.lent, (
                f"BUDGET-1: {name}: {pool.granted} granted, {pool.left} left, {pool.spent} spent, {pool.lent} lent"
            )


def _capabilities(kernel: Kernel) -> None:
    used: Counter[CapSpawn] = Counter()
    for task in kernel.tasks.values():
        for capability in task.spawn_cap.ancestors() if task.spawn_cap is not None else ():
            assert isinstance(capability, CapSpawn)
            used[capability] += 1
    for capability, n in used.items():
        assert kernel.registry.in_use(capability) == n, (
            f"CAPABILITY-2: {capability} counts {kernel.registry.in_use(capability)}, not {n}"
        )
        assert capability.max_tasks is None or n <= capability.max_tasks, f"CAPABILITY-2: {capability} is overdrawn"
