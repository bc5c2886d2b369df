"""The lanes of a worker: one entry per task, oldest first, a bound for the injector, timed tasks by deadline."""

import random

import pytest
from support.kernel import Kernel
from support.law import UNSTATED, Nursery, RandomStream, Task, root_pools

from bursar import CapSpawn, Outcome, OutcomeKind
from bursar.law import lanes
from bursar.law.lanes import INJECTOR_INTERVAL, Lane, TimedLane, Worker

POOLS = root_pools(UNSTATED)
NURSERY = Nursery(1, "n", None, POOLS, POOLS, {})


def task(id: int, generation: int = 0) -> Task:
    made = Task(id, f"t{id}", NURSERY, POOLS, {})
    made.generation = generation
    return made


def tasks(n: int) -> list[Task]:
    return [task(i) for i in range(1, n + 1)]


@pytest.fixture
def worker() -> Worker:
    return Worker(0, RandomStream(0, 1))


def enter(worker: Worker, queue: lanes.Queue, task: Task) -> None:
    """As the kernel does it: every arrival at a worker has a later stamp."""
    worker.stamp += 1
    lanes.put(queue, task, Lane.READY, worker.stamp)


def drain(worker: Worker, injector: lanes.Queue, n: int) -> list[Task]:
    return [lanes.take_ready(worker, injector) for _ in range(n)]


def test_the_numbers_of_the_lanes_are_part_of_the_chain():
    assert [(lane.name, lane.value) for lane in Lane] == [
        ("IDLE", 0),
        ("CANCEL", 1),
        ("TIMED", 2),
        ("READY", 3),
        ("STEAL", 4),
        ("CANCEL_FALLBACK", 5),
    ]


def test_a_new_worker_has_nothing_and_has_done_nothing():
    worker = Worker(3, stream := RandomStream(0, 4))
    assert (worker.id, worker.stream) == (3, stream)
    assert [len(queue) for queue in (worker.cancel, worker.timed, worker.pinned, worker.stealable)] == [0] * 4
    assert (worker.cancel_streak, worker.timed_streak, worker.ready_turns) == (0, 0, 0)
    assert worker.steal_enabled is True
    stats = worker.stats
    assert stats.dispatched == [0] * len(Lane)
    assert (stats.injected, stats.steals, stats.steals_failed, stats.stolen_from) == (0, 0, 0, 0)


# ---- one entry


def test_a_queued_task_knows_where_it_is(worker):
    a = task(1)
    enter(worker, worker.pinned, a)
    assert (a.lane, a.queue) == (Lane.READY, worker.pinned)
    assert list(worker.pinned) == [a]


@pytest.mark.parametrize("lane", ["pinned", "stealable", "cancel"])
def test_a_queued_task_is_not_queued_again(worker, lane):
    a = task(1)
    enter(worker, worker.stealable, a)
    with pytest.raises(AssertionError, match="LANES-1"):
        enter(worker, getattr(worker, lane), a)
    with pytest.raises(AssertionError, match="LANES-1"):
        lanes.put_timed(worker, a, 5)
    assert list(worker.stealable) == [a]


def test_a_removed_task_is_nowhere(worker):
    a, b, c = tasks(3)
    for t in (a, b, c):
        enter(worker, worker.stealable, t)
    lanes.remove(b)
    assert (b.lane, b.queue) == (None, None)
    assert list(worker.stealable) == [a, c]
    enter(worker, worker.stealable, b)
    assert list(worker.stealable) == [a, c, b]


def test_a_taken_task_is_nowhere(worker):
    a = task(1)
    enter(worker, worker.stealable, a)
    assert lanes.take_oldest(worker.stealable) is a
    assert (a.lane, a.queue) == (None, None)
    assert not worker.stealable


# ---- ready work: oldest first


def test_ready_tasks_are_taken_in_the_order_of_their_arrival(worker):
    made = tasks(100)
    for t in made:
        enter(worker, worker.stealable, t)
    assert drain(worker, lanes.OrderedDict(), 100) == made


def test_pinned_and_stealable_tasks_are_taken_by_age_together(worker):
    rng, made = random.Random(1), tasks(200)
    for t in made:
        enter(worker, worker.pinned if rng.random() < 0.5 else worker.stealable, t)
    assert drain(worker, lanes.OrderedDict(), 200) == made


def test_a_gap_in_one_queue_does_not_change_the_order(worker):
    a, b, c, d, e = tasks(5)
    for t, queue in zip((a, b, c, d, e), "pssps", strict=True):
        enter(worker, worker.pinned if queue == "p" else worker.stealable, t)
    lanes.remove(b)
    assert drain(worker, lanes.OrderedDict(), 4) == [a, c, d, e]


def test_who_yields_goes_behind_all_others(worker):
    made = tasks(3)
    for t in made:
        enter(worker, worker.stealable, t)
    order = []
    for _ in range(9):
        t = lanes.take_ready(worker, lanes.OrderedDict())
        order.append(t)
        enter(worker, worker.stealable, t)
    assert order == made * 3


@pytest.mark.parametrize("pinned", [False, True])
def test_a_task_that_yields_in_a_loop_runs_once_per_round(pinned):
    kernel = Kernel()
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    parent = kernel.spawn(kernel.root, pinned=True)
    assert kernel.step() is parent
    made = [kernel.spawn(kernel.root, pinned=pinned) for _ in range(5)]
    kernel.finish(parent, Outcome(OutcomeKind.OK))
    kernel.step_over(parent)
    ran = []
    for _ in range(50):
        ran.append(kernel.step())
        kernel.yielded(ran[-1])
        kernel.step_over(ran[-1])
    assert ran == made * 10


# ---- the injector


def test_a_worker_without_work_of_its_own_takes_from_the_injector_at_once(worker):
    injector, (a, b) = lanes.OrderedDict(), tasks(2)
    for t in (a, b):
        lanes.put(injector, t, Lane.READY, 0)
    assert drain(worker, injector, 2) == [a, b]
    assert worker.stats.injected == 2


@pytest.mark.parametrize("turns", range(0, 3 * INJECTOR_INTERVAL, 7))
def test_the_head_of_the_injector_is_taken_within_the_interval(worker, turns):
    """Whenever it arrives, and however much the worker has to do."""
    injector, busy, guest = lanes.OrderedDict(), task(1), task(2)
    enter(worker, worker.pinned, busy)
    for _ in range(turns):
        enter(worker, worker.pinned, lanes.take_ready(worker, injector))
    lanes.put(injector, guest, Lane.READY, 0)
    waited = 1
    while (taken := lanes.take_ready(worker, injector)) is not guest:
        enter(worker, worker.pinned, taken)
        waited += 1
    assert waited <= INJECTOR_INTERVAL
    assert worker.ready_turns % INJECTOR_INTERVAL == 0


def test_the_injector_gets_one_turn_in_the_interval_and_no_more(worker):
    injector = lanes.OrderedDict()
    for t in tasks(1000):
        enter(worker, worker.stealable, t)
    for t in [task(i) for i in range(2000, 3000)]:
        lanes.put(injector, t, Lane.READY, 0)
    taken = drain(worker, injector, 10 * INJECTOR_INTERVAL)
    assert sum(t.id >= 2000 for t in taken) == worker.stats.injected == 10
    assert [i + 1 for i, t in enumerate(taken) if t.id >= 2000] == [INJECTOR_INTERVAL * k for k in range(1, 11)]


def test_the_interval_is_a_prime():
    assert INJECTOR_INTERVAL == 61
    assert all(INJECTOR_INTERVAL % n for n in range(2, INJECTOR_INTERVAL))


# ---- the timed lane


def pop_all(lane: TimedLane, now_ns: int) -> list[Task]:
    taken = []
    while lane.due(now_ns):
        taken.append(lane.pop())
    return taken


def test_timed_tasks_are_taken_by_deadline_then_by_id():
    rng, lane = random.Random(3), TimedLane()
    made = [(rng.randrange(20), t) for t in tasks(300)]
    for deadline, t in rng.sample(made, len(made)):
        lane.push(deadline, t)
    assert len(lane) == 300
    assert pop_all(lane, 20) == [t for _, t in sorted(made, key=lambda entry: (entry[0], entry[1].id))]
    assert len(lane) == 0


def test_a_huge_deadline_or_number_does_not_disturb_the_order():
    lane, far = TimedLane(), 1 << 62
    made = [(far, task(1)), (far, task(1 << 40, generation=1 << 30)), (far + 1, task(2)), (0, task(3))]
    for deadline, t in made:
        lane.push(deadline, t)
    assert pop_all(lane, far + 1) == [made[3][1], made[0][1], made[1][1], made[2][1]]


def test_a_timed_task_waits_for_its_deadline():
    lane, t = TimedLane(), task(1)
    assert lane.due(10**9) is False
    lane.push(10, t)
    assert [lane.due(now) for now in (9, 10, 11)] == [False, True, True]


def test_a_task_taken_out_of_the_timed_lane_does_not_come_up():
    lane, (a, b, c) = TimedLane(), tasks(3)
    for t in (a, b, c):
        lane.push(5, t)
    del lane[a]
    del lane[c]
    assert len(lane) == 1
    assert list(lane) == [b]
    assert pop_all(lane, 5) == [b]


def test_a_task_that_comes_back_in_a_later_generation_has_one_entry():
    lane, t = TimedLane(), task(1)
    lane.push(5, t)
    del lane[t]
    t.generation += 1
    lane.push(9, t)
    assert len(lane) == 1
    assert lane.due(5) is False
    assert pop_all(lane, 9) == [t]


def test_the_timed_lane_keeps_to_its_order_through_removals():
    rng, lane = random.Random(4), TimedLane()
    live = {}
    for t in tasks(500):
        live[t] = rng.randrange(50)
        lane.push(live[t], t)
        if rng.random() < 0.5:
            gone = rng.choice(list(live))
            del lane[gone], live[gone]
    assert set(lane) == set(live)
    assert pop_all(lane, 50) == sorted(live, key=lambda t: (live[t], t.id))


def test_a_timed_task_knows_where_it_is_and_can_be_removed(worker):
    a, b = tasks(2)
    lanes.put_timed(worker, a, 5)
    lanes.put_timed(worker, b, 6)
    assert (a.lane, a.queue) == (Lane.TIMED, worker.timed)
    lanes.remove(a)
    assert (a.lane, a.queue) == (None, None)
    assert worker.timed.due(6)
    assert lanes.take_timed(worker) is b
    assert (b.lane, b.queue) == (None, None)
