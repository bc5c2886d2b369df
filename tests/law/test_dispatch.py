"""Dispatch: who is polled next, on which worker, how a poll ends, and every way in which a task becomes runnable."""

from collections import Counter

import pytest
from support.kernel import Kernel, Task, Wait
from support.law import Bill, Lane, Notice, TimerKind, WakeState, Worker, check, move, request

from bursar import Budget, CancelKind, CancelReason, CapSpawn, Outcome, OutcomeKind, State
from bursar.law.dispatch import REPORTS_MAX, WORKERS_MAX, Report

OK = Outcome(OutcomeKind.OK)
STOP = CancelReason(CancelKind.USER, "stop")


class Nap(Wait):
    reason = "naps"


class Stubborn(Wait):
    reason = "cannot be interrupted"
    interruptible = False


def new_kernel(**keywords) -> Kernel:
    kernel = Kernel(**keywords)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    return kernel


def step(kernel: Kernel) -> Task:
    """The next task, in as many steps as it takes."""
    while (task := kernel.step()) is None:
        assert kernel.runnable
    return task


def run_until(kernel: Kernel, task: Task) -> None:
    """Poll, everyone yielding, until it is this task's turn."""
    while (running := step(kernel)) is not task:
        kernel.yielded(running)
        kernel.step_over(running)


def block(kernel: Kernel, task: Task, wait: type[Wait] = Nap) -> Wait:
    run_until(kernel, task)
    made = wait(task)
    kernel.blocked(task, made)
    kernel.step_over(task)
    return made


def sleep(kernel: Kernel, task: Task, deadline_ns: int) -> None:
    run_until(kernel, task)
    kernel.timers.arm(deadline_ns, TimerKind.WAKE, task)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)


# ---- the kernel as it is made


@pytest.mark.parametrize("workers", [0, -1, WORKERS_MAX + 1])
def test_a_number_of_workers_out_of_range_is_refused(workers):
    with pytest.raises(ValueError, match=f"workers={workers}"):
        Kernel(workers=workers)


def test_the_largest_number_of_workers_fits_the_chain():
    assert len(Kernel(workers=WORKERS_MAX).workers) == WORKERS_MAX < 1 << 16


@pytest.mark.usefixtures("python_law")
def test_every_worker_has_its_own_number_and_stream():
    kernel = Kernel(workers=5)
    assert [worker.id for worker in kernel.workers] == [0, 1, 2, 3, 4]
    assert len({worker.stream.next() for worker in kernel.workers}) == 5


# ---- one step


def test_without_runnable_tasks_there_is_no_decision():
    kernel = Kernel(workers=3)
    chain = kernel.chain
    assert [kernel.step() for _ in range(5)] == [None] * 5
    assert (kernel.decisions, kernel.chain) == (0, chain)


def test_a_step_starts_a_poll():
    kernel = new_kernel(yield_interval=77)
    task = kernel.spawn(kernel.root)
    assert kernel.step() is task
    assert (task.state, task.wake, task.generation) == (State.RUNNING, WakeState.RUNNING, 1)
    assert (task.lane, task.worker, task.turn_left) == (None, 0, 77)
    assert kernel.current is kernel.registry.current is task
    assert kernel.at is kernel.workers[0]
    assert kernel.runnable == 0
    assert kernel.workers[0].stats.dispatched[Lane.READY] == 1


def test_a_second_step_before_the_poll_is_over_is_a_bug():
    kernel = Kernel()
    kernel.spawn(kernel.root)
    kernel.step()
    with pytest.raises(AssertionError, match="DISPATCH-2"):
        kernel.step()


def test_only_the_running_task_can_end_its_poll():
    kernel = Kernel()
    a, b = kernel.spawn(kernel.root), kernel.spawn(kernel.root)
    assert kernel.step() is a
    for end in (kernel.yielded, lambda t: kernel.blocked(t, Nap(t)), lambda t: kernel.finish(t, OK)):
        with pytest.raises(AssertionError, match="DISPATCH-2"):
            end(b)


def test_tasks_that_came_from_outside_run_in_the_order_of_their_arrival():
    kernel = Kernel()
    made = [kernel.spawn(kernel.root) for _ in range(20)]
    order = []
    for _ in made:
        order.append(kernel.step())
        kernel.finish(order[-1], OK)
        kernel.step_over(order[-1])
    assert order == made


def test_cancelled_goes_before_timed_and_timed_before_ready():
    kernel = new_kernel()
    ready, timed, cancelled = (kernel.spawn(kernel.root, pinned=True) for _ in range(3))
    sleep(kernel, timed, 5)
    request(kernel, cancelled, STOP)
    kernel.advance(5)
    order = []
    for _ in range(3):
        order.append(kernel.step())
        kernel.finish(order[-1], OK)
        kernel.step_over(order[-1])
    assert order == [cancelled, timed, ready]
    stats = kernel.workers[0].stats.dispatched
    assert (stats[Lane.CANCEL], stats[Lane.TIMED]) == (1, 1)


def test_the_lanes_of_a_decision_are_told_to_the_observer():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root, pinned=True)
    seen = []
    kernel.observer = lambda kind, task, detail: seen.append((kind, task, detail))
    kernel.step()
    assert seen == [("scheduler_step_decision", task, (Lane.READY, 0, 0, 16))]


# ---- rounds of workers


@pytest.mark.usefixtures("python_law")
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1, 99])
def test_every_worker_decides_once_in_every_round(workers, seed):
    kernel = Kernel(workers=workers, seed=seed)
    rounds = [[kernel._next_worker().id for _ in range(workers)] for _ in range(100)]
    assert all(sorted(order) == list(range(workers)) for order in rounds)


@pytest.mark.usefixtures("python_law")
def test_the_seed_shuffles_every_round_anew():
    def rounds(seed: int) -> list[tuple[int, ...]]:
        kernel = Kernel(workers=4, seed=seed)
        return [tuple(kernel._next_worker().id for _ in range(4)) for _ in range(500)]

    assert rounds(1) == rounds(1)
    assert rounds(1) != rounds(2)
    counts = Counter(rounds(1))
    assert len(counts) == 24  # every order comes up, none much more often than another
    assert max(counts.values()) < 3 * 500 / 24


@pytest.mark.usefixtures("python_law")
def test_workers_with_equal_work_get_equal_turns():
    kernel = new_kernel(workers=4)
    for worker in kernel.workers:
        kernel.spawn(kernel.root, pinned=True).worker = worker.id
    for task in list(kernel.tasks.values()):
        kernel.workers[0].pinned.pop(task)
        worker = kernel.workers[task.worker]
        worker.pinned[task] = 1
        task.queue = worker.pinned
    for _ in range(400):
        kernel.yielded(step(kernel))
    assert [sum(worker.stats.dispatched) for worker in kernel.workers] == [100] * 4


@pytest.mark.parametrize("workers", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_finds_a_task_whenever_one_is_runnable(workers, seed):
    """None means that nothing is runnable; a host that is told so goes to sleep."""
    kernel = Kernel(workers=workers, seed=seed)
    kernel.spawn(kernel.root, pinned=True)
    for _ in range(100):
        task = kernel.step()
        assert task is not None
        kernel.yielded(task)
        kernel.step_over(task)


# ---- determinism


def history(**keywords) -> list[tuple[int, int]]:
    """A small program with spawns, yields, sleeps and a cancellation: who ran, and where."""
    kernel = new_kernel(**keywords)
    main = kernel.spawn(kernel.root, pinned=True)
    seen = []
    for turn in range(300):
        task = kernel.step()
        if task is None:
            kernel.advance(kernel.now_ns + 1)
            continue
        seen.append((task.id, task.worker))
        if task is main and turn < 40:
            kernel.spawn(kernel.root)
        if task.cancel_pending:
            kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=STOP))
        elif task.generation % 5 == 4:
            kernel.timers.arm(kernel.now_ns + task.id, TimerKind.WAKE, task)
            kernel.blocked(task, Nap(task))
        else:
            kernel.yielded(task)
        kernel.step_over(task)
        if turn == 150:
            request(kernel, kernel.tasks[min(kernel.tasks)], STOP)
    return seen


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_seed_makes_the_same_schedule(workers):
    assert history(seed=7, workers=workers) == history(seed=7, workers=workers)


def test_another_seed_makes_another_schedule_of_several_workers():
    assert len({tuple(history(seed=seed, workers=4)) for seed in range(5)}) == 5


def test_one_worker_needs_no_randomness():
    assert history(seed=1, workers=1) == history(seed=2, workers=1)


# ---- the end of a step


@pytest.mark.usefixtures("python_law")
def test_what_a_poll_wakes_after_it_has_ended_still_happens_on_its_worker():
    """Until the step is over: what a task leaves behind as it ends belongs to its poll."""
    kernel = new_kernel(workers=2)
    a, b = two_tasks_on_two_workers(kernel)
    kernel.finish(b, OK)
    assert (kernel.current, kernel.at) == (None, kernel.workers[1])
    kernel.wake(a, a.generation)
    kernel.step_over(b)
    assert list(kernel.workers[1].stealable) == [a]
    assert kernel.at is None


def test_a_task_that_is_spawned_after_the_step_belongs_to_no_worker():
    kernel = new_kernel(workers=2)
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    inside = kernel.spawn(kernel.root)
    kernel.yielded(task)
    kernel.step_over(task)
    outside = kernel.spawn(kernel.root)
    assert inside in kernel.workers[task.worker].stealable
    assert list(kernel.injector) == [outside]


def test_a_step_is_not_over_while_its_task_runs():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    with pytest.raises(AssertionError, match="DISPATCH-2"):
        kernel.step_over(task)
    assert kernel.at is kernel.workers[0]


# ---- how a poll ends


def test_a_yield_goes_to_the_back_and_costs_nothing():
    kernel = new_kernel(budget=Budget(ops=100))
    a, b = (kernel.spawn(kernel.root, pinned=True) for _ in range(2))
    ops = kernel.root.pools[0].left
    assert kernel.step() is a
    kernel.yielded(a)
    assert (a.state, a.wake, a.lane) == (State.READY, WakeState.QUEUED, Lane.READY)
    assert (kernel.current, kernel.registry.current) == (None, None)
    assert list(kernel.workers[0].pinned) == [b, a]
    assert kernel.root.pools[0].left == ops
    check(kernel)


def test_a_blocked_task_waits_and_is_in_no_lane():
    kernel = new_kernel()
    kernel.advance(9)
    task = kernel.spawn(kernel.root)
    nap = block(kernel, task)
    assert (task.state, task.wake, task.lane, task.wait) == (State.BLOCKED, WakeState.IDLE, None, nap)
    assert task.since_ns == 9
    assert (kernel.current, kernel.at, kernel.runnable) == (None, None, 0)
    check(kernel)


def test_a_task_woken_while_it_runs_is_queued_again_when_it_blocks():
    """The wake that comes between the last look and the wait is not lost."""
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    assert kernel.wake(task, task.generation) is Notice.NOTED
    assert kernel.wake(task, task.generation) is Notice.MERGED
    assert kernel.runnable == 0
    kernel.blocked(task, Nap(task))
    assert (task.state, task.wait, kernel.runnable) == (State.READY, None, 1)
    assert kernel.counters["wakes_merged"] == 1
    check(kernel)
    assert kernel.step() is task
    kernel.blocked(task, Nap(task))
    assert task.state is State.BLOCKED  # the wake was used up


def test_a_task_woken_while_it_runs_and_yields_has_one_entry():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel.wake(task, task.generation)
    kernel.yielded(task)
    assert kernel.runnable == 1
    check(kernel)


def test_what_a_wake_brought_is_thrown_away_if_the_poll_did_not_end_in_a_wait():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel.wake(task, task.generation, value="for nothing", effect=True)
    kernel.yielded(task)
    assert (task.inbox, task.error, task.effect) == (None, None, False)


def test_a_task_cut_off_while_it_runs_does_not_wait():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    task.cut = True
    kernel.blocked(task, Nap(task))
    assert (task.state, task.lane, task.wait) == (State.READY, Lane.CANCEL, None)
    check(kernel)


def test_a_task_asked_to_stop_while_it_runs_does_not_wait():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    request(kernel, task, STOP)
    assert task.state is State.RUNNING
    kernel.blocked(task, Nap(task))
    assert (task.state, task.lane, task.wait) == (State.READY, Lane.CANCEL, None)
    check(kernel)


# ---- waking


def test_a_wake_makes_a_blocked_task_ready_and_queued():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    kernel.advance(5)
    assert kernel.wake(task, task.generation) is Notice.ENQUEUE
    assert (task.state, task.wake, task.wait, task.since_ns) == (State.READY, WakeState.QUEUED, None, 5)
    assert (task.inbox, task.effect, task.error) == (None, False, None)
    assert kernel.step() is task


def test_a_storm_of_wakes_makes_one_entry():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    notices = Counter(kernel.wake(task, task.generation) for _ in range(1000))
    assert notices == {Notice.ENQUEUE: 1, Notice.MERGED: 999}
    assert kernel.runnable == 1
    check(kernel)


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wake_of_another_generation_is_a_record_and_nothing_else(off):
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    seen = []
    kernel.observer = lambda *event: seen.append(event)
    assert kernel.wake(task, task.generation + off) is Notice.STALE
    assert (task.state, kernel.runnable, kernel.counters["stale_wake"]) == (State.BLOCKED, 0, 1)
    assert seen == [("stale_wake", task, (task.generation + off, Notice.STALE))]


def test_a_wake_of_a_finished_task_is_a_record_and_nothing_else():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel.finish(task, OK)
    assert kernel.wake(task, task.generation) is Notice.STALE
    assert (task.state, kernel.runnable, kernel.counters["stale_wake"]) == (State.DONE, 0, 1)


def test_an_ended_wait_is_withdrawn_exactly_once():
    withdrawn = []

    class Counted(Nap):
        def withdraw(self, kernel) -> None:
            withdrawn.append(self)

    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    wait = block(kernel, task, Counted)
    for _ in range(3):
        kernel.wake(task, task.generation)
    assert withdrawn == [wait]


# ---- interrupting, by state


def test_an_interrupt_ends_the_wait_of_a_blocked_task():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    task.cancel_pending = True
    kernel.interrupt(task)
    assert (task.state, task.lane, task.wait) == (State.READY, Lane.CANCEL, None)
    check(kernel)


def test_a_wait_that_cannot_be_interrupted_is_not():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    wait = block(kernel, task, Stubborn)
    task.cancel_pending = True
    kernel.interrupt(task)
    assert (task.state, task.wait, kernel.runnable) == (State.BLOCKED, wait, 0)


def test_an_interrupt_takes_a_held_task_off_the_list():
    kernel = new_kernel(budget=Budget(ops=3))
    task = kernel.spawn(kernel.root)
    kernel.root.hold = True
    run_until(kernel, task)
    assert kernel.bill(task, ((0, 3),)) is Bill.SUSPENDED
    assert task.state is State.EXHAUSTED
    task.cancel_pending = True
    kernel.interrupt(task)
    assert (task.state, task.lane, kernel.root.exhausted) == (State.READY, Lane.CANCEL, {})
    check(kernel)


@pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
def test_an_interrupt_makes_a_task_that_stands_still_runnable(state):
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel._poll_over(task)
    move(task, State.PAUSED)
    if state is State.PENDING:
        move(task, State.PENDING)
    task.wake = WakeState.IDLE
    task.cancel_pending = True
    kernel.interrupt(task)
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)
    check(kernel)


@pytest.mark.parametrize("where", ["injector", "pinned", "stealable", "timed"])
def test_an_interrupt_moves_a_queued_task_to_the_cancel_lane(where):
    kernel = new_kernel()
    task = kernel.spawn(kernel.root, pinned=where == "pinned")
    if where == "stealable":
        run_until(kernel, task)
        kernel.yielded(task)
    if where == "timed":
        sleep(kernel, task, 5)
        kernel.advance(5)
    home = {"injector": kernel.injector}.get(where) or getattr(kernel.workers[0], where)
    assert task in home
    task.cancel_pending = True
    kernel.interrupt(task)
    assert task not in home
    assert (task.state, task.lane, list(kernel.workers[0].cancel)) == (State.READY, Lane.CANCEL, [task])
    assert kernel.runnable == 1
    check(kernel)


def test_an_interrupt_leaves_the_cancel_lane_in_its_order():
    kernel = new_kernel()
    tasks = [kernel.spawn(kernel.root) for _ in range(3)]
    for task in tasks:
        request(kernel, task, STOP)
    kernel.interrupt(tasks[0])
    assert list(kernel.workers[0].cancel) == tasks


def test_an_interrupt_does_nothing_to_a_task_that_runs_or_has_ended():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel.interrupt(task)
    assert (task.state, task.wake, kernel.runnable) == (State.RUNNING, WakeState.RUNNING, 0)
    kernel.finish(task, OK)
    kernel.interrupt(task)
    assert (task.state, kernel.runnable) == (State.DONE, 0)


# ---- where a runnable task is queued


def test_a_task_from_outside_any_worker_goes_to_the_injector():
    kernel = new_kernel(workers=3)
    task = kernel.spawn(kernel.root)
    assert list(kernel.injector) == [task]
    assert (task.lane, task.worker) == (Lane.READY, -1)


def test_a_pinned_task_goes_to_its_worker_from_anywhere():
    kernel = new_kernel(workers=3)
    task = kernel.spawn(kernel.root, pinned=True)
    assert list(kernel.workers[0].pinned) == [task]


@pytest.mark.parametrize("seed", range(4))
def test_a_child_goes_to_the_worker_on_which_it_was_spawned(seed):
    kernel = new_kernel(workers=3, seed=seed)
    parent = kernel.spawn(kernel.root)
    run_until(kernel, parent)
    child = kernel.spawn(kernel.root)
    assert list(kernel.workers[parent.worker].stealable) == [child]


def decide_for(kernel: Kernel, worker: Worker) -> Task | None:
    """Let this worker decide, and no other."""
    return kernel._dispatch(worker, any(w.stealable for w in kernel.workers))


def two_tasks_on_two_workers(kernel: Kernel) -> tuple[Task, Task]:
    """(blocked on one worker, running on the other)"""
    a, b = kernel.spawn(kernel.root), kernel.spawn(kernel.root)
    first, second = kernel.workers
    assert decide_for(kernel, first) is a
    kernel.blocked(a, Nap(a))
    kernel.step_over(a)
    assert decide_for(kernel, second) is b
    return a, b


@pytest.mark.usefixtures("python_law")
def test_a_task_woken_by_another_goes_to_that_ones_worker():
    kernel = new_kernel(workers=2)
    a, b = two_tasks_on_two_workers(kernel)
    kernel.wake(a, a.generation)
    assert list(kernel.workers[1].stealable) == [a]
    kernel.yielded(b)
    check(kernel)


@pytest.mark.usefixtures("python_law")
def test_a_task_woken_by_the_host_goes_home():
    kernel = new_kernel(workers=2)
    a, b = two_tasks_on_two_workers(kernel)
    kernel.yielded(b)
    kernel.step_over(b)
    kernel.wake(a, a.generation)
    assert list(kernel.workers[0].stealable) == [a]


@pytest.mark.usefixtures("python_law")
def test_a_timed_and_a_cancelled_task_go_home_whoever_woke_them():
    kernel = new_kernel(workers=2)
    a, b = two_tasks_on_two_workers(kernel)
    a.wait = None
    kernel._ready(a, deadline_ns=0)
    assert list(kernel.workers[0].timed) == [a]
    request(kernel, a, STOP)
    assert list(kernel.workers[0].cancel) == [a]
    kernel.yielded(b)
    check(kernel)


@pytest.mark.usefixtures("python_law")
def test_a_task_cancelled_before_it_ever_ran_goes_to_the_worker_that_cancelled_it_or_the_first():
    kernel = new_kernel(workers=2)
    a, b = kernel.spawn(kernel.root), kernel.spawn(kernel.root)
    request(kernel, a, STOP)
    assert list(kernel.workers[0].cancel) == [a]
    canceller = kernel.spawn(kernel.root)
    for task in (b, canceller):
        assert decide_for(kernel, kernel.workers[1]) is task
        if task is b:
            kernel.blocked(b, Nap(b))
    c = kernel.spawn(kernel.root)
    request(kernel, c, STOP)
    assert list(kernel.workers[1].cancel) == [c]


def test_pinned_and_stealable_tasks_of_one_worker_run_by_age():
    kernel = new_kernel()
    parent = kernel.spawn(kernel.root)
    run_until(kernel, parent)
    made = [kernel.spawn(kernel.root, pinned=i % 3 == 0) for i in range(12)]
    kernel.finish(parent, OK)
    order = []
    for _ in made:
        order.append(kernel.step())
        kernel.finish(order[-1], OK)
        kernel.step_over(order[-1])
    assert order == made


# ---- results


def test_a_wake_may_bring_the_result_of_an_operation_that_took_place():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    kernel.wake(task, task.generation, value=42, effect=True)
    assert (task.state, task.inbox, task.effect, task.error) == (State.READY, 42, True, None)


def test_a_wake_may_bring_an_error():
    kernel = new_kernel()
    task, error = kernel.spawn(kernel.root), ValueError()
    block(kernel, task)
    kernel.wake(task, task.generation, error=error)
    assert (task.state, task.inbox, task.effect, task.error) == (State.READY, None, False, error)


def test_what_the_first_wake_brought_is_not_replaced_by_a_later_one():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    generation = task.generation
    kernel.wake(task, generation, value="first", effect=True)
    kernel.wake(task, generation, value="second", effect=True)
    kernel.wake(task, generation, error=ValueError())
    assert (task.inbox, task.effect, task.error) == ("first", True, None)


def test_what_a_stale_wake_brought_is_thrown_away():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    kernel.wake(task, task.generation - 1, value="old", effect=True)
    assert (task.state, task.inbox, task.effect) == (State.BLOCKED, None, False)


def test_what_a_wake_brought_while_the_task_ran_is_there_when_it_blocks():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    run_until(kernel, task)
    kernel.wake(task, task.generation, value=42, effect=True)
    kernel.blocked(task, Nap(task))
    assert (task.state, task.inbox, task.effect) == (State.READY, 42, True)


# ---- evidence


def test_without_an_observer_a_note_goes_nowhere():
    kernel = Kernel()
    kernel.note("something", None)
    assert (list(kernel.reports), kernel.counters) == ([], {})


def test_a_report_is_kept_counted_and_told():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root, name="culprit")
    seen = []
    kernel.observer = lambda *event: seen.append(event)
    kernel.report("leak", task, "of water")
    assert list(kernel.reports) == [Report("leak", "culprit", "of water")]
    assert kernel.counters["leak"] == 1
    assert seen == [("leak", task, "of water")]


def test_only_the_newest_reports_are_kept_but_all_are_counted():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    for i in range(REPORTS_MAX + 10):
        kernel.report("leak", task, str(i))
    assert len(kernel.reports) == REPORTS_MAX
    assert (kernel.reports[0].detail, kernel.reports[-1].detail) == ("10", str(REPORTS_MAX + 9))
    assert kernel.counters["leak"] == REPORTS_MAX + 10


def test_drain_mode_lasts_while_regions_or_holders_drain():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    assert kernel.draining is False
    kernel.draining_nurseries = 1
    assert kernel.draining is True
    kernel.draining_nurseries = 0
    kernel.draining_holders[task] = None
    task.obligations = {1: object()}
    assert kernel.draining is True
    task.obligations = {}
    assert kernel.draining is False
    assert not kernel.draining_holders


def test_a_step_without_a_runnable_task_leaves_the_holders_alone():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    block(kernel, task)
    kernel.draining_holders[task] = None
    assert kernel.step() is None
    assert list(kernel.draining_holders) == [task]
