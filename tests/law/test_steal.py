"""Stealing: whom a thief tries under each policy, how often, and that it takes only what may be taken."""

from collections import Counter

import pytest
from support.kernel import Kernel, Wait
from support.law import UNSTATED, Lane, Nursery, RandomStream, Task, TimerKind, Worker, lanes, root_pools

from bursar import CapSpawn, State
from bursar.law.steal import STEAL_ATTEMPTS_MAX, StealPolicy, attempts_max, steal, victims

POOLS = root_pools(UNSTATED)
NURSERY = Nursery(1, "n", None, POOLS, POOLS, {})


def workers(n: int, seed: int = 0) -> list[Worker]:
    return [Worker(i, RandomStream(seed, 1 + i)) for i in range(n)]


def give(worker: Worker, *ids: int, queue: str = "stealable") -> list[Task]:
    made = [Task(id, f"t{id}", NURSERY, POOLS, {}) for id in ids]
    for task in made:
        worker.stamp += 1
        lanes.put(getattr(worker, queue), task, Lane.READY, worker.stamp)
    return made


def tried(thief: Worker, crew: list[Worker], policy: StealPolicy) -> list[int]:
    return [victim.id for victim in victims(thief, crew, policy)]


# ---- bounds


@pytest.mark.parametrize(("n", "attempts"), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4), (100, 4)])
def test_attempts_are_bounded_by_the_others_and_by_a_named_limit(n, attempts):
    assert STEAL_ATTEMPTS_MAX == 4
    assert attempts_max(n) == attempts


@pytest.mark.parametrize("policy", StealPolicy)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20])
def test_no_policy_tries_itself_or_too_often(policy, n):
    crew = workers(n)
    for _ in range(100):
        for thief in crew:
            order = tried(thief, crew, policy)
            assert len(order) == attempts_max(n)
            assert thief.id not in order
            assert all(0 <= id < n for id in order)


def test_the_policies_by_name():
    assert [str(policy) for policy in StealPolicy] == ["random", "round_robin", "least_loaded"]


def test_a_kernel_chooses_at_random_unless_told_otherwise():
    assert Kernel().steal_policy is StealPolicy.RANDOM


# ---- random


@pytest.mark.parametrize("thief", range(5))
def test_random_draws_evenly_among_the_others(thief):
    crew = workers(5)
    drawn = Counter(id for _ in range(2500) for id in tried(crew[thief], crew, StealPolicy.RANDOM))
    assert set(drawn) == set(range(5)) - {thief}
    assert all(abs(count - 2500) < 250 for count in drawn.values())


def test_random_is_a_function_of_the_seed():
    def order(seed: int) -> list[int]:
        crew = workers(8, seed)
        return [id for _ in range(20) for id in tried(crew[3], crew, StealPolicy.RANDOM)]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_random_uses_the_numbers_of_the_thief_and_nobody_elses():
    crew, twins = workers(5), workers(5)
    tried(crew[2], crew, StealPolicy.RANDOM)
    assert [w.stream.next() for w in crew if w.id != 2] == [w.stream.next() for w in twins if w.id != 2]


def test_an_attempt_that_is_not_made_costs_no_random_number():
    crew, twin = workers(5), RandomStream(0, 1)
    for worker in crew[1:]:
        give(worker, 10 + worker.id)
    assert steal(crew[0], crew, StealPolicy.RANDOM) is not None
    twin.next()  # the one attempt that succeeded
    assert crew[0].stream.next() == twin.next()


def test_a_failed_search_costs_one_random_number_per_attempt():
    crew, twin = workers(5), RandomStream(0, 1)
    assert steal(crew[0], crew, StealPolicy.RANDOM) is None
    for _ in range(attempts_max(5)):
        twin.next()
    assert crew[0].stream.next() == twin.next()


# ---- round robin


def test_round_robin_goes_on_where_it_stopped():
    crew = workers(7)
    assert [tried(crew[2], crew, StealPolicy.ROUND_ROBIN) for _ in range(3)] == [
        [3, 4, 5, 6],
        [0, 1, 3, 4],
        [5, 6, 0, 1],
    ]


def test_round_robin_starts_with_the_next_worker():
    crew = workers(3)
    assert [tried(thief, crew, StealPolicy.ROUND_ROBIN) for thief in crew] == [[1, 2], [2, 0], [0, 1]]


def test_round_robin_stops_at_the_victim_that_had_something():
    crew = workers(4)
    give(crew[1], 10, 11)
    assert steal(crew[0], crew, StealPolicy.ROUND_ROBIN).id == 10
    assert crew[0].next_victim == 1
    assert steal(crew[0], crew, StealPolicy.ROUND_ROBIN).id == 11  # 2, 3, then 1 again
    assert crew[0].stats.steals_failed == 2


def test_round_robin_with_one_other_always_tries_that_one():
    crew = workers(2)
    assert [tried(crew[0], crew, StealPolicy.ROUND_ROBIN) for _ in range(3)] == [[1], [1], [1]]


# ---- least loaded


def test_least_loaded_takes_from_the_busiest_first_and_of_equals_from_the_lower_number():
    crew = workers(6)
    for worker, load in zip(crew, (0, 2, 5, 2, 0, 7), strict=True):
        give(worker, *range(10 * worker.id, 10 * worker.id + load))
    assert tried(crew[0], crew, StealPolicy.LEAST_LOADED) == [5, 2, 1, 3]
    assert tried(crew[5], crew, StealPolicy.LEAST_LOADED) == [2, 1, 3, 0]


def test_least_loaded_counts_only_what_can_be_stolen():
    crew = workers(3)
    give(crew[1], 1, 2, 3, queue="pinned")
    give(crew[2], 4)
    assert tried(crew[0], crew, StealPolicy.LEAST_LOADED) == [2, 1]


# ---- what is taken


@pytest.mark.parametrize("policy", StealPolicy)
def test_a_thief_takes_the_oldest_task_of_its_victim_and_only_that(policy):
    crew = workers(2)
    oldest, *rest = give(crew[1], 1, 2, 3)
    assert steal(crew[0], crew, policy) is oldest
    assert (oldest.lane, oldest.queue) == (None, None)
    assert list(crew[1].stealable) == rest
    assert not crew[0].stealable


@pytest.mark.parametrize("policy", StealPolicy)
def test_only_stealable_tasks_are_stolen(policy):
    crew = workers(2)
    give(crew[1], 1, 2, queue="pinned")
    give(crew[1], 3, 4, queue="cancel")
    timed = Task(5, "t5", NURSERY, POOLS, {})
    lanes.put_timed(crew[1], timed, 0)
    for _ in range(10):
        assert steal(crew[0], crew, policy) is None
    assert (len(crew[1].pinned), len(crew[1].cancel), len(crew[1].timed)) == (2, 2, 1)


@pytest.mark.parametrize("policy", StealPolicy)
def test_hits_and_misses_are_counted_on_both_sides(policy):
    crew = workers(2)
    give(crew[1], 1)
    assert steal(crew[0], crew, policy) is not None
    assert steal(crew[0], crew, policy) is None
    assert (crew[0].stats.steals, crew[0].stats.steals_failed, crew[0].stats.stolen_from) == (1, 1, 0)
    assert (crew[1].stats.steals, crew[1].stats.steals_failed, crew[1].stats.stolen_from) == (0, 0, 1)


def test_one_worker_alone_steals_nothing_and_tries_nothing():
    crew = workers(1)
    give(crew[0], 1)
    for policy in StealPolicy:
        assert steal(crew[0], crew, policy) is None
    assert crew[0].stats.steals_failed == 0


# ---- in a kernel


class Nap(Wait):
    reason = "naps"


def spawner_and_children(kernel: Kernel, n: int, pinned: bool) -> list[Task]:
    """A task that spawns `n` others on its worker and then sleeps."""
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    parent = kernel.spawn(kernel.root, pinned=True)
    while kernel.step() is not parent:
        pass
    children = [kernel.spawn(kernel.root, pinned=pinned) for _ in range(n)]
    kernel.blocked(parent, Nap(parent))
    kernel.step_over(parent)
    return children


@pytest.mark.parametrize("policy", StealPolicy)
@pytest.mark.parametrize("seed", range(5))
def test_work_spreads_over_all_workers(policy, seed):
    kernel = Kernel(workers=4, seed=seed, steal_policy=policy)
    spawner_and_children(kernel, 200, pinned=False)
    for _ in range(400):
        if (task := kernel.step()) is not None:
            kernel.yielded(task)
            kernel.step_over(task)
    assert all(worker.stats.steals > 0 for worker in kernel.workers[1:])
    assert sum(w.stats.steals for w in kernel.workers) == sum(w.stats.stolen_from for w in kernel.workers)


@pytest.mark.parametrize("policy", StealPolicy)
def test_pinned_tasks_never_leave_their_worker(policy):
    kernel = Kernel(workers=4, steal_policy=policy)
    children = spawner_and_children(kernel, 20, pinned=True)
    for _ in range(400):
        if (task := kernel.step()) is not None:
            assert task.worker == 0
            kernel.yielded(task)
            kernel.step_over(task)
    assert all(child.generation > 1 for child in children)
    assert sum(w.stats.steals for w in kernel.workers) == 0


def test_a_worker_whose_stealing_is_off_takes_only_its_own():
    kernel = Kernel(workers=2)
    kernel.workers[1].steal_enabled = False
    spawner_and_children(kernel, 20, pinned=False)
    for _ in range(100):
        if (task := kernel.step()) is not None:
            kernel.yielded(task)
            kernel.step_over(task)
    assert kernel.workers[1].stats.dispatched == [0] * len(Lane)


def test_a_task_woken_by_a_timer_is_not_stolen():
    kernel = Kernel(workers=4, seed=2)
    task = kernel.spawn(kernel.root)
    assert kernel.step() is task
    home = task.worker
    kernel.timers.arm(5, TimerKind.WAKE, task)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    kernel.advance(5)
    while (taken := kernel.step()) is None:
        assert task.state is State.READY
    assert (taken, task.worker) == (task, home)
