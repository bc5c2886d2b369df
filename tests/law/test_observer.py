"""The observer of the kernel gets each event once, in order and with its detail. Without an observer no detail is made.

Each test attaches the observer immediately before the action, and compares all events of the action. So an event that
comes twice, too early or with another detail fails the test.
"""

from contextlib import contextmanager

import pytest
from support.kernel import CancelScope, Kernel, Task, Wait
from support.law import CHANNEL, OPS, UNSTATED, Bill, Lane, Notice, Settled, TimerKind, cancel, end_cleanup

from bursar import Budget, CancelKind, CancelReason, CapBudget, CapSpawn, NurseryState, Outcome, OutcomeKind, State

OK = Outcome(OutcomeKind.OK)
STOP = CancelReason(CancelKind.USER, "stop")
OP = ((OPS, 1),)


class Nap(Wait):
    reason = "naps"


class Mute(Wait):
    """Fails whoever asks it for its reason."""

    @property
    def reason(self):
        raise AssertionError("nobody listens, and the reason was worked out")


def new_kernel(**keywords) -> Kernel:
    kernel = Kernel(**keywords)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    return kernel


def running(kernel: Kernel, **keywords) -> Task:
    task = kernel.spawn(kernel.root, **keywords)
    assert kernel.step() is task
    return task


def sleeping(kernel: Kernel) -> Task:
    task = running(kernel)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    return task


@contextmanager
def heard(kernel: Kernel):
    """Everything that the kernel tells while the block lasts."""
    notes = []
    kernel.observe(lambda *note: notes.append(note))
    yield notes
    kernel.observe(None)


# ---- steps


def test_a_decision_is_told_with_lane_worker_streak_and_limit():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    with heard(kernel) as notes:
        kernel.step()
    assert notes == [("scheduler_step_decision", task, (Lane.READY, 0, 0, 16))]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda kernel, task: kernel.yielded(task), State.READY),
        (lambda kernel, task: kernel.blocked(task, Nap(task)), State.BLOCKED),
        (lambda kernel, task: kernel.finish(task, OK), State.DONE),
    ],
    ids=["yielded", "blocked", "finished"],
)
def test_the_end_of_a_step_is_told_after_all_that_the_poll_led_to(end, state):
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        end(kernel, task)
        before = len(notes)
        kernel.step_over(task)
    assert notes[before:] == [("scheduler_step_end", task, state)]


# ---- tasks


def test_a_spawn_is_told_with_what_the_budget_came_to_and_then_the_queue():
    kernel = new_kernel(budget=Budget(ops=100))
    with heard(kernel) as notes:
        task = kernel.spawn(kernel.root, budget=Budget(ops=40, memory=7))
    assert notes == [("task_spawned", task, Budget(ops=40, memory=7)), ("task_enqueued", task, (None, None))]


def test_a_spawn_that_asks_for_more_than_there_is_tells_what_it_got():
    kernel = new_kernel(budget=Budget(ops=100))
    left = kernel.root.pools[OPS].left
    with heard(kernel) as notes:
        kernel.spawn(kernel.root, budget=Budget(ops=1000))
    (told,) = (detail for name, _, detail in notes if name == "task_spawned")
    assert told.ops <= left


def test_a_refused_spawn_tells_nothing():
    kernel = new_kernel(budget=Budget(spawns=0))
    with heard(kernel) as notes, pytest.raises(Exception, match="spawn"):
        kernel.spawn(kernel.root)
    kernel.observe(None)
    assert notes == []


def test_a_yield_tells_only_which_queue_the_task_goes_to():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        kernel.yielded(task)
    assert notes == [("task_enqueued", task, (kernel.workers[0], None))]


def test_a_task_that_is_woken_by_a_timer_is_told_with_its_deadline():
    kernel = new_kernel()
    task = sleeping(kernel)
    timer = kernel.timers.arm(50, TimerKind.WAKE, task)
    with heard(kernel) as notes:
        kernel.advance(60)
    assert [note for note in notes if note[0] in ("timer_fired", "task_enqueued")] == [
        ("timer_fired", task, timer),
        ("task_enqueued", task, (kernel.workers[0], 50)),
    ]
    assert [name for name, _, _ in notes].count("timer_disarmed") == 0  # it fired


def test_a_wait_is_told_as_it_begins():
    kernel = new_kernel()
    task = running(kernel)
    nap = Nap(task)
    with heard(kernel) as notes:
        kernel.blocked(task, nap)
    assert notes == [("task_blocked", task, nap)]


def test_a_wake_is_told_and_then_the_queue():
    kernel = new_kernel()
    task = sleeping(kernel)
    with heard(kernel) as notes:
        kernel.wake(task, 1)
    assert notes == [
        ("task_woken", task, (1, Notice.ENQUEUE)),
        ("task_enqueued", task, (kernel.workers[0], None)),
    ]


def test_a_second_wake_is_told_as_merged_and_queues_nobody():
    kernel = new_kernel()
    task = sleeping(kernel)
    kernel.wake(task, 1)
    with heard(kernel) as notes:
        kernel.wake(task, 1)
    assert notes == [("task_woken", task, (1, Notice.MERGED))]


def test_a_wake_of_a_running_task_is_told_at_once_and_the_queue_when_it_blocks():
    kernel = new_kernel()
    task = running(kernel)
    nap = Nap(task)
    with heard(kernel) as notes:
        kernel.wake(task, 1)
        kernel.blocked(task, nap)
    assert notes == [
        ("task_woken", task, (1, Notice.NOTED)),
        ("task_blocked", task, nap),
        ("task_enqueued", task, (kernel.workers[0], None)),
    ]


def test_a_stale_wake_is_told_as_such_and_not_as_a_wake():
    kernel = new_kernel()
    task = sleeping(kernel)
    with heard(kernel) as notes:
        kernel.wake(task, 0)
    assert notes == [("stale_wake", task, (0, Notice.STALE))]


def test_a_ready_task_that_is_cancelled_leaves_its_queue_and_enters_another():
    kernel = new_kernel()
    task = kernel.spawn(kernel.root)
    with heard(kernel) as notes:
        cancel.request(kernel, task, STOP)
    assert notes == [
        ("cancel_requested", task, STOP),
        ("task_dequeued", task, None),
        ("task_enqueued", task, (kernel.workers[0], None)),
    ]
    assert task.lane is Lane.CANCEL


def test_an_end_is_told_with_its_outcome():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        kernel.finish(task, OK)
    assert notes == [("task_done", task, OK)]


# ---- money


def test_a_bill_that_is_paid_is_told_with_its_cost():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        assert kernel.bill(task, CHANNEL) is Bill.PAID
    assert notes == [("charged", task, CHANNEL)]


def test_a_bill_of_nothing_is_not_told():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        assert kernel.bill(task, ()) is Bill.PAID
    assert notes == []


def test_what_is_paid_without_waiting_is_told_too():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        kernel.charge_now(task, OP)
    assert notes == [("charged", task, OP)]


def test_a_turn_that_is_over_is_told_as_short_of_nothing_and_then_the_queue():
    kernel = new_kernel(yield_interval=1)
    task = running(kernel)
    kernel.bill(task, OP)
    with heard(kernel) as notes:
        assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert notes == [("task_exhausted", task, (-1, OP)), ("task_enqueued", task, (kernel.workers[0], None))]


def test_a_task_that_is_put_on_hold_is_told_with_what_it_lacks():
    kernel = new_kernel()
    kernel.root.hold = True
    task = running(kernel, budget=Budget(ops=0))
    with heard(kernel) as notes:
        assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert notes == [("task_exhausted", task, (OPS, OP)), ("budget_held", task, "ops")]


def test_money_that_is_made_is_told_before_the_recharge():
    kernel = new_kernel()
    holder = running(kernel)
    holder.capabilities = {CapBudget: kernel.registry.mint(CapBudget(Budget(ops=100)))}
    with heard(kernel) as notes:
        kernel.recharge_by_capability(holder, holder, Budget(ops=5))
    assert notes == [("minted", holder, Budget(ops=5)), ("recharged", holder, Budget(ops=5))]


# ---- timers


def test_a_timer_is_told_when_it_is_armed_and_when_it_is_disarmed_once():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        timer = kernel.timers.arm(5, TimerKind.WAKE, task)
        kernel.timers.disarm(timer)
        kernel.timers.disarm(timer)
    assert notes == [("timer_armed", task, timer), ("timer_disarmed", task, timer)]


def test_a_timer_that_fired_is_not_told_as_disarmed():
    kernel = new_kernel()
    task = sleeping(kernel)
    timer = kernel.timers.arm(5, TimerKind.WAKE, task)
    kernel.advance(5)
    with heard(kernel) as notes:
        kernel.timers.disarm(timer)
    assert notes == []


def test_a_late_report_of_a_timer_is_told_as_stale():
    kernel = new_kernel()
    task = sleeping(kernel)
    timer = kernel.timers.arm(5, TimerKind.WAKE, task)
    kernel.timers.disarm(timer)
    with heard(kernel) as notes:
        assert not kernel.timer_fired(timer.id, timer.generation)
    assert [(name, detail) for name, _, detail in notes] == [("stale_timer", (timer.id, timer.generation))]


# ---- nurseries


def test_a_nursery_is_told_with_its_budget_as_it_opens_closes_and_ends():
    kernel = new_kernel(budget=Budget(ops=100))
    owner = running(kernel)
    with heard(kernel) as notes:
        nursery = kernel.open_nursery(owner, budget=Budget(ops=9))
        kernel.close_nursery(nursery)
        kernel.close_nursery(nursery)
        kernel.end_nursery(nursery)
    assert notes == [
        ("nursery_opened", owner, (nursery, Budget(ops=9))),
        ("nursery_closing", owner, nursery),
        ("nursery_closed", owner, nursery),
    ]


def test_a_nursery_without_a_budget_of_its_own_says_so():
    kernel = new_kernel()
    with heard(kernel) as notes:
        nursery = kernel.open_nursery(running(kernel))
    assert notes[-1][2] == (nursery, UNSTATED)


def test_a_nursery_that_is_cancelled_tells_so_before_its_children_hear_of_it():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    child = kernel.spawn(nursery)
    with heard(kernel) as notes:
        cancel.request_nursery(kernel, nursery, STOP)
        cancel.request_nursery(kernel, nursery, STOP)
    names = [(name, task) for name, task, _ in notes]
    assert names.count(("nursery_cancelling", owner)) == 1
    assert names.index(("nursery_cancelling", owner)) < names.index(("cancel_requested", child))
    assert nursery.state is NurseryState.CANCELLING


# ---- cleanups


def test_a_cleanup_is_told_as_it_begins_and_as_it_ends():
    kernel = new_kernel()
    task = running(kernel)
    cancel.request(kernel, task, STOP)
    with heard(kernel) as notes:
        cancel.deliver(kernel, task)
        timer = task.cleanup_timer
        end_cleanup(kernel, task)
        end_cleanup(kernel, task)
    assert notes == [
        ("cancel_delivered", task, STOP),
        ("timer_armed", task, timer),
        ("cleanup_begun", task, None),
        ("cleanup_ended", task, None),
        ("timer_disarmed", task, timer),
    ]


def test_a_block_that_is_left_is_told_before_its_timer_goes():
    kernel = new_kernel()
    task = running(kernel)
    block = CancelScope(task)
    block.timer = timer = kernel.timers.arm(5, TimerKind.DEADLINE, task, block)
    with heard(kernel) as notes:
        cancel.leave(kernel, block)
    assert notes == [("scope_left", task, None), ("timer_disarmed", task, timer)]


def test_a_task_that_tidies_up_for_another_is_told_with_the_other():
    kernel = new_kernel()
    owner = running(kernel)
    with heard(kernel) as notes:
        task = kernel.spawn_tidying(owner, "tidy")
    assert [note for note in notes if note[0] in ("task_spawned", "task_tidies", "cleanup_begun")] == [
        ("task_spawned", task, Budget.none()),
        ("task_tidies", task, owner),
        ("cleanup_begun", task, None),
    ]


# ---- obligations


@pytest.mark.parametrize("how", [Settled.COMMITTED, Settled.ABORTED])
def test_an_obligation_is_told_as_it_is_made_and_as_it_is_settled(how):
    kernel = new_kernel()
    task = running(kernel)
    undone = []
    with heard(kernel) as notes:
        promise = kernel.promise(task, "a turn", "here", lambda: undone.append(len(notes)))
        promise.settle(how)
    assert notes == [("obligation_made", task, promise), ("obligation_settled", task, promise)]
    assert promise.settled is how
    assert undone == ([] if how is Settled.COMMITTED else [2])  # told first, undone then


def test_an_obligation_that_is_leaked_is_told_before_the_report():
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        promise = kernel.promise(task, "a turn", "here", lambda: None)
        kernel.finish(task, OK)
    assert [name for name, _, _ in notes] == ["obligation_made", "obligation_settled", "obligation_leaked", "task_done"]
    assert promise.settled is Settled.LEAKED


def test_an_obligation_that_was_made_in_silence_is_still_told_when_it_is_settled():
    """Whoever starts to listen in the middle hears everything from there on."""
    kernel = new_kernel()
    task = running(kernel)
    promise = kernel.promise(task, "a turn", "here", lambda: None)
    with heard(kernel) as notes:
        promise.settle(Settled.COMMITTED)
    assert notes == [("obligation_settled", task, promise)]


# ---- who listens


def test_observe_is_for_the_timers_too_and_nobody_is_nobody():
    kernel = new_kernel()
    observer = lambda *note: None  # noqa: E731
    kernel.observe(observer)
    assert (kernel.observer, kernel.timers.observer) == (observer, observer)
    kernel.observe(None)
    assert (kernel.observer, kernel.timers.observer) == (None, None)


def test_a_second_observer_replaces_the_first():
    kernel = new_kernel()
    first, second = [], []
    kernel.observe(lambda *note: first.append(note))
    kernel.observe(lambda *note: second.append(note))
    kernel.spawn(kernel.root)
    assert first == []
    assert len(second) == 2


def test_an_observer_sees_the_state_after_the_change():
    kernel = new_kernel()
    task = running(kernel)
    states = []
    kernel.observe(lambda name, about, _: states.append((name, about.state, kernel.runnable)))
    kernel.yielded(task)
    assert states == [("task_enqueued", State.READY, 1)]


def test_nobody_works_out_what_nobody_hears():
    """A whole life without an observer: no reason of a wait is asked for, and no detail is made."""
    kernel = new_kernel()
    task = running(kernel)
    wait = Mute(task)
    kernel.blocked(task, wait)
    kernel.step_over(task)
    wait.answer(kernel, None)
    assert kernel.step() is task
    kernel.finish(task, OK)
    kernel.step_over(task)
    assert kernel.tasks == {}


def test_the_law_itself_never_asks_for_a_reason_even_when_somebody_listens():
    """The wait itself is told; putting it into words is the affair of whoever writes it down."""
    kernel = new_kernel()
    task = running(kernel)
    with heard(kernel) as notes:
        kernel.blocked(task, Mute(task))
    assert [name for name, _, _ in notes] == ["task_blocked"]


def test_who_listens_changes_no_decision():
    def chain(observer) -> int:
        kernel = new_kernel(seed=3, workers=3, yield_interval=2)
        kernel.observe(observer)
        for _ in range(5):
            kernel.spawn(kernel.root)
        for _ in range(200):
            task = kernel.step()
            if task is None:
                kernel.advance(kernel.now_ns + 1)
                continue
            if task.generation % 3:
                while kernel.bill(task, OP) is Bill.PAID:
                    pass
            else:
                kernel.timers.arm(kernel.now_ns + task.id, TimerKind.WAKE, task)
                kernel.blocked(task, Nap(task))
            kernel.step_over(task)
        return kernel.chain

    notes = []
    assert chain(None) == chain(lambda *note: notes.append(note))
    assert len(notes) > 500
