"""Dispatch: the lanes of all workers, the decision, and everything that makes a task runnable.

This is the lowest layer of the kernel. It moves tasks between lanes and states, and keeps the chain. It knows nothing
of budgets or nurseries. `step` makes one decision. Only `_ready` makes a task READY and queues it.

DISPATCH-1  a task is QUEUED exactly when READY, and its wake state follows its state
DISPATCH-2  `current` is the one RUNNING task, or None
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bursar.law import lanes
from bursar.law.capability import Registry
from bursar.law.chain import RandomStream, link, seed_chain
from bursar.law.decide import cancel_limit, decide, streaks_after
from bursar.law.lanes import Lane, Worker
from bursar.law.state import State, move
from bursar.law.steal import StealPolicy, steal
from bursar.law.task import Task
from bursar.law.timers import Timers
from bursar.law.wake import Notice, Wait, WakeState, begin_poll, end_poll, notify

WORKERS_MAX: Final = 4096  # the chain gives a worker's number 16 bits; this is far beyond any machine
REPORTS_MAX: Final = 1000  # the newest reports kept; older ones are only counted

Observer = Callable[[str, Task | None, Any], None]


class Report(NamedTuple):
    """Something that went wrong without ending a task: a leak, a swallowed cancellation, cleanup that was cut off.

    Attributes:
        kind: What it is.
        task: The name of the task.
        detail: The details in words.
    """

    kind: str
    task: str
    detail: str


def require_workers(n: int) -> None:
    """Raise unless `n` is a possible number of workers."""
    if not 1 <= n <= WORKERS_MAX:
        raise ValueError(f"workers={n}: must be between 1 and {WORKERS_MAX}")


class Dispatch:
    """The lanes of all workers, and the choice of the task that runs next."""

    def __init__(self, seed: int, workers: int, steal_policy: StealPolicy, yield_interval: int) -> None:
        require_workers(workers)
        self.now_ns = 0
        self.steal_policy = steal_policy
        self.yield_interval = yield_interval
        self.workers = [Worker(i, RandomStream(seed, 1 + i)) for i in range(workers)]
        self.injector: lanes.Queue = OrderedDict()
        self.runnable = 0  # entries in all lanes
        self.current: Task | None = None
        self.at: Worker | None = None  # the worker whose task is being polled
        self.timers = Timers()
        self.registry = Registry()
        # the order of workers, and the chain
        self.decisions = 0
        self.chain = seed_chain(seed, workers)
        self._rounds = RandomStream(seed, 0)
        self._order = list(range(workers))
        self._place = workers  # the position in the current round of workers
        # drain mode
        self.draining_nurseries: int = 0  # nurseries that are CANCELLING
        self.draining_holders: OrderedDict[Task, None] = OrderedDict()  # tasks that clean up and hold obligations
        # evidence
        self.observer: Observer | None = None  # None: evidence is off and costs one comparison
        self.counters: Counter[str] = Counter()
        self.reports: deque[Report] = deque(maxlen=REPORTS_MAX)

    def note(self, kind: str, task: Task | None, detail: Any = None) -> None:
        """Give one event to the observer, if there is one."""
        if self.observer is not None:
            self.observer(kind, task, detail)

    def report(self, kind: str, task: Task, detail: str) -> None:
        """Keep a report, count it, and give it to the observer."""
        self.counters[kind] += 1
        self.reports.append(Report(kind, task.name, detail))
        self.note(kind, task, detail)

    def observe(self, observer: Observer | None) -> None:
        """Give every event from now on to `observer`; None: to no observer."""
        self.observer = self.timers.observer = observer

    # ---- the decision

    def step(self) -> Task | None:
        """Make one decision. Returns the task to poll, which is RUNNING; or None if no task is runnable."""
        assert self.current is None, "DISPATCH-2"
        if self.runnable:
            stealable = len(self.workers) > 1 and any(worker.stealable for worker in self.workers)
            for _ in range(2 * len(self.workers) - 1):  # the rest of this round and a whole one ask every worker
                task = self._dispatch(self._next_worker(), stealable)
                if task is not None:
                    return task
        return None

    def _next_worker(self) -> Worker:
        """The worker that decides next. Each worker decides once per round; the seed shuffles each round."""
        n = len(self.workers)
        if n == 1:
            return self.workers[0]
        if self._place == n:
            self._place = 0
            for i in range(n - 1, 0, -1):
                j = self._rounds.below(i + 1)
                self._order[i], self._order[j] = self._order[j], self._order[i]
        worker = self.workers[self._order[self._place]]
        self._place += 1
        return worker

    def _dispatch(self, worker: Worker, stealable: bool = True) -> Task | None:
        """Let one worker decide, and start a poll if it found a task."""
        limit = cancel_limit(self.draining)
        asked, due = bool(worker.cancel), worker.timed.due(self.now_ns)
        ready = bool(worker.pinned or worker.stealable or self.injector)
        others = stealable and not ready and worker.steal_enabled  # a worker steals only if it has no ready task
        lane = decide(asked, due, ready, others, worker.cancel_streak, limit, worker.timed_streak)
        task = None
        if lane is Lane.STEAL:
            task = steal(worker, self.workers, self.steal_policy)
            if task is None:
                lane = decide(asked, due, ready, False, worker.cancel_streak, limit, worker.timed_streak)
        match lane:
            case Lane.CANCEL | Lane.CANCEL_FALLBACK:
                task = lanes.take_oldest(worker.cancel)
            case Lane.TIMED:
                task = lanes.take_timed(worker)
            case Lane.READY:
                task = lanes.take_ready(worker, self.injector)
            case Lane.STEAL | Lane.IDLE:
                pass
        if task is not None:
            self._begin(worker, task, lane, limit)
        return task

    @property
    def draining(self) -> bool:
        """Whether nurseries or obligations drain. Removes holders that have settled all their obligations."""
        if self.draining_nurseries:
            return True
        while self.draining_holders:
            holder = next(iter(self.draining_holders))
            if holder.obligations:
                return True
            del self.draining_holders[holder]
        return False

    def _begin(self, worker: Worker, task: Task, lane: Lane, limit: int) -> None:
        """Record the decision in the chain and start the poll."""
        self.runnable -= 1
        worker.cancel_streak, worker.timed_streak = streaks_after(lane, worker.cancel_streak, worker.timed_streak)
        assert worker.cancel_streak <= limit, "DECIDE-1"
        worker.stats.dispatched[lane] += 1
        self.decisions += 1
        begin_poll(task)
        move(task, State.RUNNING)
        task.worker = worker.id
        task.turn_left = self.yield_interval
        self.current = self.registry.current = task
        self.at = worker
        self.chain = link(
            self.chain,
            task.id,
            task.nursery.id,
            lane,
            worker.id,
            worker.cancel_streak,
            limit,
            task.generation,
        )
        if self.observer is not None:
            self.observer("scheduler_step_decision", task, (lane, worker.id, worker.cancel_streak, limit))

    def step_over(self, task: Task) -> None:
        """The poll of `task` is over, and so is the step. Changes after this belong to no worker."""
        assert self.current is None, "DISPATCH-2"
        self.at = None
        if self.observer is not None:
            self.observer("scheduler_step_end", task, task.state)

    # ---- how a poll ends (the other two ways, `_exhaust` and `finish`, are in higher layers)

    def yielded(self, task: Task) -> None:
        """The task yielded: it goes to the back of its queue."""
        self._poll_over(task)
        self._discard_answer(task)
        self._ready(task)

    def _discard_answer(self, task: Task) -> None:
        """Discard an answer that came during the poll: the poll did not end in a wait."""
        task.inbox, task.error, task.effect = None, None, False

    def blocked(self, task: Task, wait: Wait) -> None:
        """The task waits. If a wake came while it ran, it is queued again at once."""
        self._poll_over(task)
        move(task, State.BLOCKED)
        task.wait = wait
        task.since_ns = self.now_ns
        if self.observer is not None:
            self.observer("task_blocked", task, wait)
        if end_poll(task):
            self._end_wait(task)
        elif task.cancel_pending or task.cut:
            self.interrupt(task)

    def _poll_over(self, task: Task) -> None:
        assert self.current is task, "DISPATCH-2"
        self.current = self.registry.current = None

    # ---- becoming runnable

    def wake(
        self,
        task: Task,
        generation: int,
        *,
        value: Any = None,
        error: BaseException | None = None,
        effect: bool = False,
    ) -> Notice:
        """Take a wake for the wait that ends poll `generation`. Only the first wake of a generation counts.

        `effect`: the operation took effect, and `value` is its result (CANCEL-3).
        """
        notice = notify(task, generation)
        if self.observer is not None:
            self.observer("stale_wake" if notice is Notice.STALE else "task_woken", task, (generation, notice))
        match notice:
            case Notice.ENQUEUE | Notice.NOTED:
                task.inbox, task.error, task.effect = value, error, effect
                if notice is Notice.ENQUEUE:
                    self._end_wait(task)
            case Notice.MERGED:
                self.counters["wakes_merged"] += 1
            case Notice.STALE:
                self.counters["stale_wake"] += 1
        return notice

    def interrupt(self, task: Task) -> None:
        """Move a task that was asked to stop, or was cut, to the cancel lane (CANCEL-4)."""
        match task.state:
            case State.BLOCKED if task.wake is WakeState.QUEUED:
                pass  # its wait ends right now and ran user code, which came here; `_end_wait` queues the task next
            case State.BLOCKED:
                assert task.wait is not None, "a BLOCKED task has a wait"
                if task.wake is not WakeState.IDLE:  # a paused task is asked to stop (see `law.permission`)
                    self._unpause(task)
                    self.interrupt(task)
                elif task.wait.interruptible:
                    self.wake(task, task.generation)
                else:
                    task.wait.interrupted(self)
            case State.EXHAUSTED | State.PENDING | State.PAUSED:
                task.nursery.exhausted.pop(task.id, None)
                task.error = None
                self._ready(task)
            case State.READY:
                if task.lane is not Lane.CANCEL:
                    self._unqueue(task)
                    self._enqueue(task, None)
            case State.RUNNING | State.DONE:
                pass

    def _unqueue(self, task: Task) -> None:
        """Take a READY task out of its lane."""
        lanes.remove(task)
        self.runnable -= 1
        self.note("task_dequeued", task)

    def _unpause(self, task: Task) -> None:
        """End the pause of a BLOCKED task. Wakes were only noted during the pause; from now on they count."""
        if end_poll(task):
            self._end_wait(task)

    def _end_wait(self, task: Task) -> None:
        """Withdraw the task's wait from its queues, and queue the task.

        Release the wait last: its destructor may run user code, which must not see a BLOCKED task without a wait.
        """
        wait, task.wait = task.wait, None
        if wait is not None:
            wait.withdraw(self)
        self._ready(task)

    def _ready(self, task: Task, deadline_ns: int | None = None) -> None:
        """Make the task READY and queue it (DISPATCH-1)."""
        move(task, State.READY)
        task.wake = WakeState.QUEUED
        task.since_ns = self.now_ns
        self._enqueue(task, deadline_ns)

    def _enqueue(self, task: Task, deadline_ns: int | None) -> None:
        """Put a READY task in its lane."""
        self.runnable += 1
        worker = self._choose_queue(task, deadline_ns)
        if self.observer is not None:
            self.observer("task_enqueued", task, (worker, deadline_ns))

    def _choose_queue(self, task: Task, deadline_ns: int | None) -> Worker | None:
        """Put the task in the right queue. Returns the worker of that queue, or None for the injector.

        Cancelled and timed tasks go to their home worker. A stealable task goes to the worker on which it was spawned
        or woken. If the host woke it, it goes to its home worker, or to the injector if it has none.
        """
        home = self.workers[task.worker] if task.worker >= 0 else self.at
        if task.cancel_pending or task.cut or task.cleanup_left >= 0:
            queue, lane, home = (home or self.workers[0]).cancel, Lane.CANCEL, home or self.workers[0]
        elif deadline_ns is not None and home is not None:
            lanes.put_timed(home, task, deadline_ns)
            return home
        elif task.pinned and home is not None:
            queue, lane = home.pinned, Lane.READY
        elif (home := self.at or home) is not None:
            queue, lane = home.stealable, Lane.READY
        else:
            lanes.put(self.injector, task, Lane.READY, 0)
            return None
        home.stamp += 1
        lanes.put(queue, task, lane, home.stamp)
        return home
