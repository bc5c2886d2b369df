"""Runtimes that are checked after every step, and a watch that counts decisions from a task's spawn to its end.

`checked(runtime)` makes a runtime verify every invariant of the law after each poll; it still runs in its own pump, so
deadlock detection, the host and the end of the run are the real ones. `Watch` is an observer of the kernel. `bound`
is what the law promises about waiting, in the form in which the attack tests assert it.
"""

from __future__ import annotations

from collections import Counter

import bursar
from bursar import OutcomeKind, Runtime
from support.hosts import Coroutines
from support.law import OPS, SPAWNS, Lane, cancel_limit, check, named_of, wait_max

LIMIT_MAX = cancel_limit(draining=True)
DECISIONS_MAX = 400_000  # a generated program that needs more than this does not end


class CheckedCoroutines(Coroutines):
    """The executor of a runtime, with the whole law checked after every poll."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.polls = 0
        self.checked = True

    def poll(self, task):
        super().poll(task)
        self.polls += 1
        assert self.polls < DECISIONS_MAX, "the program does not come to an end"
        check(self.kernel)
        conserved(self.kernel)


def checked(runtime: Runtime) -> Runtime:
    """The same runtime, checking itself after every poll."""
    plain, runtime.driver = runtime.driver, CheckedCoroutines(runtime.kernel)
    for name in ("clock", "collected", "close_collected"):
        setattr(runtime.driver, name, getattr(plain, name))
    return runtime


def pools_of(kernel):
    """Every live pool of every component and named counter, once: [(component, pool)]."""
    found = by_component(kernel.root.pools)
    for task in kernel.tasks.values():
        found.update(by_component(task.pools))
        for nursery in (task.owned or {}).values():
            found.update(by_component(nursery.pools))
    return [(i, pool) for pool, i in found.items()]


def by_component(pools):
    return {pool: i for i, pool in (*enumerate(pools), *named_of(pools).items())}


def conserved(kernel):
    """Money, counted without looking at who lent what to whom: what is left and what was spent is what was granted.

    Open pools never run dry and are left out; a program whose root is open conserves nothing there.
    """
    for root, component in by_component(kernel.root.pools).items():
        if root.left is None:
            continue
        pools = [pool for i, pool in pools_of(kernel) if i == component]
        original = root.granted - root.minted
        minted = sum(pool.minted for pool in pools)
        held = sum(pool.left + pool.spent for pool in pools)
        assert held == original + minted, f"component {component}: {held} left and spent of {original} + {minted}"


def over(runtime: Runtime, dropped: int = 0) -> None:
    """What holds when a run has ended: nobody lives, nothing is lent, queued, armed or draining."""
    kernel = runtime.kernel
    check(kernel)
    conserved(kernel)
    assert not kernel.tasks
    assert kernel.runnable == 0
    assert len(kernel.timers) == 0
    assert kernel.draining_nurseries == 0
    assert not kernel.draining_holders
    assert not kernel.registry._in_use or all(n >= 0 for n in kernel.registry._in_use.values())
    for pool in (*kernel.root.pools, *named_of(kernel.root.pools).values()):
        assert pool.lent == 0
    assert kernel.root.state.terminal
    assert kernel.spawned == sum(kernel.done.values())
    assert kernel.done[OutcomeKind.DROPPED] == dropped


class Watch:
    """Sees every event of a kernel; counts decisions between the spawn and the end of tasks by name."""

    def __init__(self, runtime: Runtime) -> None:
        self.kernel = runtime.kernel
        self.kernel.observe(self)
        self.spawned_at: dict[str, int] = {}
        self.done_at: dict[str, int] = {}
        self.polls: Counter[str] = Counter()
        self.records: list = []  # every task that was ever spawned
        self.by_runtime = 0  # those that no task spawned: the main one, and the closing of stray generators
        self.runnable_max = 0
        self.streaks: Counter[int] = Counter()  # cancel dispatches in a row, by worker
        self.streak_max = 0
        self.kinds: Counter[str] = Counter()

    def __call__(self, kind, task, detail) -> None:
        self.kinds[kind] += 1
        if kind == "scheduler_step_decision":
            lane, worker, _, limit = detail
            self.polls[str(task.name)] += 1
            self.runnable_max = max(self.runnable_max, self.kernel.runnable + 1)
            self.streaks[worker] = self.streaks[worker] + 1 if lane is Lane.CANCEL else 0
            self.streak_max = max(self.streak_max, self.streaks[worker])
            assert self.streaks[worker] <= limit, "DECIDE-1"
        elif kind == "task_spawned":
            self.records.append(task)
            self.by_runtime += self.kernel.current is None
            self.spawned_at.setdefault(str(task.name), self.kernel.decisions)
        elif kind == "task_done":
            self.done_at[str(task.name)] = self.kernel.decisions
        elif kind == "nursery_closed":
            assert not detail.children, "NURSERY-3"

    def took(self, name: str) -> int:
        """How many decisions passed from the spawn of a task to its end."""
        return self.done_at[name] - self.spawned_at[name]


def bound(polls: int, runnable: int, workers: int = 1, limit: int = LIMIT_MAX) -> int:
    """In how many decisions a task of `polls` polls must be done while `runnable` tasks compete with it.

    Queues are first in, first out: between two of its polls every other ready task runs at most once, and each of
    these ready dispatches, its own included, waits for at most `wait_max(limit)` others of its worker.
    """
    return polls * (runnable + 1) * (wait_max(limit) + 1) * workers


def bound_ready(polls: int, runnable: int) -> int:
    """The same where nothing is cancelled and no timer fires: one round of the queue for every poll."""
    return polls * (runnable + 1)


def paid(kernel, records, by_runtime=1) -> None:
    """What the pools say was spent is what the tasks say they spent, plus the spawns that no task paid for.

    Operations of a cleanup come out of the allowance and not out of a pool, so for them there is only an inequality.
    """
    for component in range(5):
        by_pools = sum(pool.spent for i, pool in pools_of(kernel) if i == component)
        by_tasks = sum(task.spent[component] for task in records)
        if component == OPS:
            assert by_pools <= by_tasks + by_runtime, f"{by_pools} ops left the pools, {by_tasks} were billed"
        else:
            unbilled = by_runtime if component == SPAWNS else 0
            assert by_pools == by_tasks + unbilled, f"component {component}: {by_pools} paid, {by_tasks} billed"


HONEST_POLLS = 20


async def honest(polls: int = HONEST_POLLS) -> str:
    """A task that wants nothing but its turn: it is polled once for its start and once for each checkpoint."""
    for _ in range(polls - 1):
        await bursar.checkpoint()
    return "honest work done"
