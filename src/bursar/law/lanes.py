"""The lanes of one logical worker, and the injector that all workers share.

    cancel   tasks that are asked to stop, and those that clean up          oldest first
    timed    tasks whose timer has fired                                    (deadline, task id, generation)
    ready    pinned tasks and stealable tasks, together                     oldest first
    injector tasks that came from outside any worker                        oldest first

LANES-1  a task has an entry in exactly one lane while READY, and none otherwise
LANES-2  of a worker's own ready tasks, the one that has waited longest is next, pinned or not
LANES-3  a task at the head of the injector is taken within INJECTOR_INTERVAL ready turns of any worker

Both the owner and a thief take the oldest ready task.

Rejected: the classical deque, whose owner takes the newest task because its data is still in the cache. A task that
yields in a loop, or a tree that keeps spawning, would then starve the older tasks, and no bound could be stated. (The
native engine's deque does that, for fork-join work.)

Every queue but the timed one is an ordered dictionary. It appends, takes the oldest and removes from the middle in O(1)
each, like an intrusive list in C.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bursar.law.chain import MASK64
from bursar.text import NamedInt

if TYPE_CHECKING:
    from bursar.law.chain import RandomStream
    from bursar.law.task import Task

INJECTOR_INTERVAL: Final = 61  # a prime, so that it does not fall in step with programs that work in rounds of 2ⁿ


class Lane(NamedInt):
    """The lane from which a decision took its task. The numbers are part of the chain."""

    IDLE = 0
    CANCEL = 1
    TIMED = 2
    READY = 3
    STEAL = 4
    CANCEL_FALLBACK = 5


Queue = OrderedDict["Task", int]  # task → the stamp of its arrival


class TimedLane:
    """Tasks that were woken by a timer, earliest (deadline, task id, generation) first.

    An entry is one number that holds all three (see `law.timers`). An entry that was taken out stays in the heap until
    it is the earliest. It is then dead: its task is not in `_live`, or has another generation.
    """

    __slots__ = ("_heap", "_live")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._live: dict[int, Task] = {}  # task id → task

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._live.values())

    def push(self, deadline_ns: int, task: Task) -> None:
        self._live[task.id] = task
        heapq.heappush(self._heap, deadline_ns << 128 | task.id << 64 | task.generation)

    def __delitem__(self, task: Task) -> None:
        del self._live[task.id]

    def due(self, now_ns: int) -> bool:
        """Whether the earliest live entry is due. Drops the dead entries before it."""
        heap = self._heap
        while heap:
            task = self._live.get(heap[0] >> 64 & MASK64)
            if task is not None and task.generation == heap[0] & MASK64:
                return heap[0] >> 128 <= now_ns
            heapq.heappop(heap)
        return False

    def pop(self) -> Task:
        """Take the earliest task. Call it only after `due` returned True."""
        return self._live.pop(heapq.heappop(self._heap) >> 64 & MASK64)


class WorkerStats:
    """Counts of what one worker did."""

    __slots__ = ("dispatched", "injected", "steals", "steals_failed", "stolen_from")

    def __init__(self) -> None:
        self.dispatched = [0] * len(Lane)  # by lane
        self.injected = 0
        self.steals = 0
        self.steals_failed = 0
        self.stolen_from = 0


class Worker:
    """One logical worker: its lanes, its streaks, its random stream."""

    __slots__ = (
        "cancel",
        "cancel_streak",
        "id",
        "next_victim",
        "pinned",
        "ready_turns",
        "stamp",
        "stats",
        "steal_enabled",
        "stealable",
        "stream",
        "timed",
        "timed_streak",
    )

    def __init__(self, id: int, stream: RandomStream) -> None:
        self.id = id
        self.stream = stream
        self.cancel: Queue = OrderedDict()
        self.timed = TimedLane()
        self.pinned: Queue = OrderedDict()
        self.stealable: Queue = OrderedDict()
        self.stamp = 0
        self.cancel_streak = 0
        self.timed_streak = 0  # timed dispatches since the last ready one
        self.ready_turns = 0
        self.next_victim = id
        self.steal_enabled = True
        self.stats = WorkerStats()


def put(queue: Queue, task: Task, lane: Lane, stamp: int) -> None:
    """Append a task to a queue (LANES-1)."""
    assert task.lane is None, "LANES-1"
    queue[task] = stamp
    task.queue = queue
    task.lane = lane


def put_timed(worker: Worker, task: Task, deadline_ns: int) -> None:
    """Enter a task in the timed lane of its worker (LANES-1)."""
    assert task.lane is None, "LANES-1"
    worker.timed.push(deadline_ns, task)
    task.queue = worker.timed
    task.lane = Lane.TIMED


def remove(task: Task) -> None:
    """Take a queued task out of its queue."""
    del task.queue[task]
    task.queue = None
    task.lane = None


def take_oldest(queue: Queue) -> Task:
    """The task that has been in this queue longest."""
    task, _ = queue.popitem(last=False)
    task.queue = None
    task.lane = None
    return task


def take_timed(worker: Worker) -> Task:
    """The earliest due task of the timed lane."""
    task = worker.timed.pop()
    task.queue = None
    task.lane = None
    return task


def take_ready(worker: Worker, injector: Queue) -> Task:
    """The next ready task of a worker that has one (LANES-2, LANES-3)."""
    worker.ready_turns += 1
    pinned, stealable = worker.pinned, worker.stealable
    own = bool(pinned or stealable)
    if injector and (not own or worker.ready_turns % INJECTOR_INTERVAL == 0):
        worker.stats.injected += 1
        return take_oldest(injector)
    if not pinned:
        return take_oldest(stealable)
    if not stealable:
        return take_oldest(pinned)
    older = next(iter(pinned.values())) < next(iter(stealable.values()))
    return take_oldest(pinned if older else stealable)
