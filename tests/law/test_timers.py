"""Timers: fired in the order of (deadline, id, generation), disarmed for nothing, and never fired twice."""

import random

import pytest
from support.kernel import Kernel, Wait
from support.law import UNSTATED, Lane, Nursery, Task, root_pools

from bursar import State
from bursar.law.timers import COMPACT_MIN, Timer, TimerKind, Timers


class Nap(Wait):
    reason = "naps"


def a_task(generation: int = 0) -> Task:
    pools = root_pools(UNSTATED)
    task = Task(1, "one", Nursery(1, "n", None, pools, pools, {}), pools, {})
    task.generation = generation
    return task


def arm(timers: Timers, deadline_ns: int, generation: int = 0) -> Timer:
    return timers.arm(deadline_ns, TimerKind.WAKE, a_task(generation))


def fire_all(timers: Timers, now_ns: int) -> list[Timer]:
    return list(iter(lambda: timers.pop_due(now_ns), None))


def dead_entries(timers: Timers) -> int:
    return len(timers._heap) - len(timers)


# ---- order


def test_timers_fire_by_deadline_then_by_id():
    timers = Timers()
    numbers = random.Random(1)
    deadlines = [numbers.randrange(50) for _ in range(500)]
    armed = [arm(timers, d) for d in deadlines]
    assert fire_all(timers, 50) == sorted(armed, key=lambda t: (t.deadline_ns, t.id))


def test_of_timers_with_one_deadline_the_one_armed_first_fires_first_whatever_its_generation():
    timers = Timers()
    armed = [arm(timers, 10, generation) for generation in (9, 3, 7)]
    assert [t.id for t in armed] == [1, 2, 3]
    assert fire_all(timers, 10) == armed


def test_a_huge_deadline_does_not_disturb_the_order():
    timers, far = Timers(), 1 << 62
    last, first, middle = arm(timers, far + 1), arm(timers, 0), arm(timers, far)
    assert fire_all(timers, far + 1) == [first, middle, last]


def test_a_timer_remembers_what_it_is_for():
    timers, task = Timers(), a_task(generation=4)
    timer = timers.arm(10, TimerKind.DEADLINE, task, scope=task)
    assert (timer.deadline_ns, timer.kind, timer.task, timer.scope, timer.generation, timer.armed) == (
        10,
        TimerKind.DEADLINE,
        task,
        task,
        4,
        True,
    )


def test_only_what_is_due_fires():
    timers = Timers()
    early, late = arm(timers, 10), arm(timers, 11)
    assert timers.pop_due(9) is None
    assert timers.pop_due(10) is early
    assert timers.pop_due(10) is None
    assert timers.pop_due(11) is late
    assert timers.pop_due(10**9) is None


def test_the_next_deadline_is_that_of_the_earliest_armed_timer():
    timers = Timers()
    assert timers.next_deadline_ns() is None
    first, _ = arm(timers, 5), arm(timers, 8)
    assert timers.next_deadline_ns() == 5
    timers.disarm(first)
    assert timers.next_deadline_ns() == 8
    timers.pop_due(8)
    assert timers.next_deadline_ns() is None


# ---- disarming


def test_a_disarmed_timer_never_fires():
    timers = Timers()
    a, b, c = (arm(timers, 10) for _ in range(3))
    timers.disarm(b)
    assert b.armed is False
    assert len(timers) == 2
    assert fire_all(timers, 10) == [a, c]


def test_disarming_again_or_after_firing_changes_nothing():
    timers = Timers()
    fired, stays = arm(timers, 1), arm(timers, 2)
    assert timers.pop_due(1) is fired
    timers.disarm(fired)
    timers.disarm(fired)
    assert len(timers) == 1
    assert fire_all(timers, 2) == [stays]


def test_a_fired_timer_is_no_longer_armed():
    timers = Timers()
    timer = arm(timers, 1)
    assert timers.pop_due(1) is timer
    assert timer.armed is False
    assert len(timers) == 0


def test_disarming_does_not_touch_the_heap():
    """O(1): the entry stays where it is until it comes up or the heap is rebuilt."""
    timers = Timers()
    armed = [arm(timers, d) for d in range(1000)]
    before = list(timers._heap)
    timers.disarm(armed[500])
    assert timers._heap == before


def test_the_heap_is_rebuilt_when_dead_entries_outnumber_live_ones():
    timers = Timers()
    armed = [arm(timers, d) for d in range(1000)]
    kept = armed[::10]
    for timer in armed:
        if timer not in kept:
            timers.disarm(timer)
        assert dead_entries(timers) <= len(timers) + COMPACT_MIN
    assert len(timers._heap) < 400
    assert fire_all(timers, 1000) == kept


def test_a_million_timeouts_that_never_expire_cost_what_the_live_ones_cost():
    timers, task, longest = Timers(), a_task(), 0
    for i in range(100_000):  # each one is disarmed before the next: at most one lives
        timers.disarm(timers.arm(10**12 + i, TimerKind.DEADLINE, task))
        longest = max(longest, len(timers._heap))
    assert longest <= COMPACT_MIN + 2
    assert len(timers) == 0


def test_firing_keeps_the_bound_on_dead_entries_too():
    """Invariant of the heap: dead entries never outnumber the armed ones by more than COMPACT_MIN."""
    timers = Timers()
    for d in range(300):
        arm(timers, d)
    for timer in [arm(timers, 10**9) for _ in range(300)]:
        timers.disarm(timer)
    fire_all(timers, 298)
    assert len(timers) == 1
    assert dead_entries(timers) <= len(timers) + COMPACT_MIN


def test_rebuilding_keeps_the_order():
    rng, timers = random.Random(2), Timers()
    armed = [arm(timers, rng.randrange(100)) for _ in range(2000)]
    gone = set(rng.sample(range(2000), 1800))
    for i in gone:
        timers.disarm(armed[i])
    left = [t for i, t in enumerate(armed) if i not in gone]
    assert fire_all(timers, 100) == sorted(left, key=lambda t: (t.deadline_ns, t.id))


# ---- what a host reports


def test_an_armed_timer_is_found_by_id_and_generation():
    timers = Timers()
    timer = arm(timers, 10, generation=3)
    assert timers.find(timer.id, 3) is timer


@pytest.mark.parametrize("generation", [2, 4])
def test_another_generation_is_another_timer(generation):
    timers = Timers()
    timer = arm(timers, 10, generation=3)
    assert timers.find(timer.id, generation) is None


def test_a_timer_that_is_no_more_is_not_found():
    timers = Timers()
    fired, disarmed = arm(timers, 1), arm(timers, 2)
    timers.pop_due(1)
    timers.disarm(disarmed)
    assert timers.find(fired.id, 0) is None
    assert timers.find(disarmed.id, 0) is None
    assert timers.find(99, 0) is None


def test_ids_are_never_used_again():
    timers = Timers()
    ids = []
    for _ in range(5):
        timer = arm(timers, 1)
        ids.append(timer.id)
        timers.disarm(timer)
    assert ids == [1, 2, 3, 4, 5]


# ---- firing in a kernel


def sleeper(kernel: Kernel, deadline_ns: int) -> tuple[Task, Timer]:
    task = kernel.spawn(kernel.root)
    assert kernel.step() is task
    timer = kernel.timers.arm(deadline_ns, TimerKind.WAKE, task)
    kernel.blocked(task, Nap(task))
    return task, timer


def test_a_timer_queues_its_task_and_polls_nothing():
    kernel = Kernel()
    task, _ = sleeper(kernel, 10)
    generation, decisions = task.generation, kernel.decisions
    assert kernel.advance(10) == 1
    assert (task.state, task.lane, task.generation) == (State.READY, Lane.TIMED, generation)
    assert (kernel.current, kernel.decisions) == (None, decisions)


def test_a_timer_after_cancellation_is_a_stale_timer_record():
    kernel = Kernel()
    task, timer = sleeper(kernel, 10)
    kernel.timers.disarm(timer)  # what the wait does when cancellation withdraws it
    kernel.wake(task, task.generation)
    assert kernel.timer_fired(timer.id, timer.generation) is False
    assert kernel.counters["stale_timer"] == 1
    assert kernel.runnable == 1


# ---- the one that is due first


def test_the_next_timer_is_the_first_by_deadline_then_by_id_and_stays_armed():
    timers = Timers()
    late, first, _ = arm(timers, 20), arm(timers, 10), arm(timers, 10)
    assert (timers.next(), timers.next()) == (first, first)
    assert (first.armed, len(timers)) == (True, 3)
    timers.disarm(first)
    assert timers.next().id == 3
    timers.pop_due(10)
    assert timers.next() is late


def test_without_timers_there_is_no_next_one():
    timers = Timers()
    assert timers.next() is None
    timers.disarm(arm(timers, 5))
    assert timers.next() is None


def test_the_next_timer_is_found_among_many_dead_ones():
    timers = Timers()
    dead = [arm(timers, i) for i in range(COMPACT_MIN)]
    alive = arm(timers, COMPACT_MIN)
    for timer in dead:
        timers.disarm(timer)
    assert timers.next() is alive


# ---- a limit


def sleepers(kernel: Kernel, count: int) -> list[Task]:
    tasks = []
    for i in range(count):
        task = kernel.spawn(kernel.root)
        assert kernel.step() is task
        kernel.timers.arm(i, TimerKind.WAKE, task)
        kernel.blocked(task, Nap(task))
        kernel.step_over(task)
        tasks.append(task)
    return tasks


def test_time_can_be_advanced_with_a_limit_and_the_rest_fires_later_in_the_same_order():
    kernel = Kernel()
    tasks = sleepers(kernel, 10)
    assert kernel.advance(100, 4) == 4
    assert (kernel.now_ns, len(kernel.timers)) == (100, 6)
    assert [task.state for task in tasks] == [State.READY] * 4 + [State.BLOCKED] * 6
    assert [kernel.advance(100, 4), kernel.advance(100, 4), kernel.advance(100, 4)] == [4, 2, 0]
    assert len(kernel.timers) == 0


def test_a_limit_of_nothing_fires_nothing_and_time_passes_all_the_same():
    kernel = Kernel()
    sleepers(kernel, 3)
    assert kernel.advance(100, 0) == 0
    assert (kernel.now_ns, len(kernel.timers), kernel.runnable) == (100, 3, 0)


def test_without_a_limit_everything_that_is_due_fires():
    kernel = Kernel()
    sleepers(kernel, 200)
    assert kernel.advance(100) == 101
