"""Wakes: all states against all generations, many wakes for one entry, and the queues of those who wait."""

from collections import Counter
from itertools import product

import pytest
from support.kernel import Kernel
from support.kernel import Wait as WaitInUse
from support.law import UNSTATED, Nursery, Task, TimerKind, root_pools

from bursar import Outcome, OutcomeKind, State
from bursar.law.wake import Notice, Wait, WaitList, WakeState, begin_poll, end_poll, notify

NOW = 5  # the generation of the task in these tests


class Nap(Wait):
    """A wait of the law in Python, for tasks that are made by hand: in C only a kernel makes them."""

    reason = "naps"


class NapInUse(WaitInUse):
    """A wait of the kernel in use, which remembers how often it was withdrawn."""

    reason = "naps"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.withdrawn = 0

    def withdraw(self, kernel) -> None:
        self.withdrawn += 1


def task_with(wake: WakeState, generation: int = NOW) -> Task:
    pools = root_pools(UNSTATED)
    task = Task(1, "one", Nursery(1, "n", None, pools, pools, {}), pools, {})
    task.wake, task.generation = wake, generation
    task.wait = Nap(task) if wake is WakeState.IDLE else None
    return task


# wake state → what one wake of the present generation comes to, and the state after it
PRESENT = {
    WakeState.IDLE: (Notice.ENQUEUE, WakeState.QUEUED),
    WakeState.QUEUED: (Notice.MERGED, WakeState.QUEUED),
    WakeState.RUNNING: (Notice.NOTED, WakeState.RUNNING_WOKEN),
    WakeState.RUNNING_WOKEN: (Notice.MERGED, WakeState.RUNNING_WOKEN),
    WakeState.DONE: (Notice.STALE, WakeState.DONE),
}


@pytest.mark.parametrize(("state", "generation"), list(product(WakeState, (NOW - 1, NOW, NOW + 1))))
def test_a_wake_counts_for_the_present_generation_and_for_no_other(state, generation):
    task = task_with(state)
    expected = PRESENT[state] if generation == NOW else (Notice.STALE, state)
    assert (notify(task, generation), task.wake) == expected
    assert task.generation == NOW


def test_a_wake_for_a_task_that_waits_for_nothing_is_stale():
    """It is on hold for want of money: a wake is no recharge."""
    task = task_with(WakeState.IDLE)
    task.wait = None
    assert (notify(task, NOW), task.wake) == (Notice.STALE, WakeState.IDLE)


@pytest.mark.parametrize("state", WakeState)
def test_only_the_first_of_many_wakes_asks_for_anything(state):
    task = task_with(state)
    notices = Counter(notify(task, NOW) for _ in range(10_000))
    first = PRESENT[state][0]
    rest = Notice.STALE if state is WakeState.DONE else Notice.MERGED
    assert notices == Counter({first: 1}) + Counter({rest: 9_999})


def test_a_poll_starts_a_new_generation():
    task = task_with(WakeState.QUEUED)
    begin_poll(task)
    assert (task.wake, task.generation) == (WakeState.RUNNING, NOW + 1)


@pytest.mark.parametrize(
    ("before", "woken", "after"),
    [
        (WakeState.RUNNING, False, WakeState.IDLE),
        (WakeState.RUNNING_WOKEN, True, WakeState.QUEUED),
    ],
)
def test_a_poll_ends_waiting_or_queued_again(before, woken, after):
    task = task_with(before)
    assert end_poll(task) is woken
    assert (task.wake, task.generation) == (after, NOW)


def test_a_wake_held_over_from_an_earlier_poll_is_stale():
    task = task_with(WakeState.IDLE)
    held = task.generation
    assert notify(task, held) is Notice.ENQUEUE
    begin_poll(task)
    end_poll(task)
    assert notify(task, held) is Notice.STALE
    assert task.wake is WakeState.IDLE


# ---- what a task waits for


def blocked_task(kernel: Kernel, name: str = "sleeper") -> tuple[Task, NapInUse]:
    task = kernel.spawn(kernel.root, name=name)
    assert kernel.step() is task
    nap = NapInUse(task)
    kernel.blocked(task, nap)
    return task, nap


def test_an_answer_ends_the_wait_with_a_result():
    kernel = Kernel()
    task, nap = blocked_task(kernel)
    nap.answer(kernel, "value")
    assert (task.state, task.wait, task.inbox, task.effect, task.error) == (State.READY, None, "value", True, None)
    assert nap.withdrawn == 1


def test_a_refusal_ends_the_wait_with_an_error():
    kernel = Kernel()
    task, nap = blocked_task(kernel)
    error = ValueError("no")
    nap.refuse(kernel, error)
    assert (task.state, task.wait, task.inbox, task.effect, task.error) == (State.READY, None, None, False, error)
    assert nap.withdrawn == 1


def test_a_wait_whose_timer_fired_is_withdrawn():
    kernel = Kernel()
    task, nap = blocked_task(kernel)
    kernel.timers.arm(10, TimerKind.WAKE, task)
    kernel.advance(10)
    assert nap.withdrawn == 1
    assert (task.state, task.wait) == (State.READY, None)


def test_a_late_answer_does_not_end_another_wait():
    """The first wait was withdrawn; what its holder says later must not pass for an answer to the second."""
    kernel = Kernel()
    task, first = blocked_task(kernel)
    kernel.wake(task, task.generation)
    assert kernel.step() is task
    second = NapInUse(task)
    kernel.blocked(task, second)
    first.answer(kernel, "too late")
    assert (task.state, task.wait, task.inbox, task.effect) == (State.BLOCKED, second, None, False)


def test_a_second_answer_does_not_replace_the_first():
    kernel = Kernel()
    task, nap = blocked_task(kernel)
    nap.answer(kernel, "first")
    nap.answer(kernel, "second")
    assert task.inbox == "first"


def test_an_answer_to_a_finished_task_leaves_no_trace_but_a_record():
    kernel = Kernel()
    task, nap = blocked_task(kernel)
    kernel.wake(task, task.generation)
    assert kernel.step() is task
    kernel.finish(task, Outcome(OutcomeKind.OK))
    nap.answer(kernel, "too late")
    assert kernel.counters["stale_wake"] == 1
    assert (task.state, task.inbox, task.effect) == (State.DONE, None, False)


def test_a_wait_belongs_to_the_poll_in_which_it_was_made():
    task = task_with(WakeState.RUNNING)
    assert Wait(task).generation == NOW


def test_a_wait_can_be_interrupted_and_blocks_on_nobody_unless_it_says_so():
    wait = Wait(task_with(WakeState.IDLE))
    assert wait.interruptible is True
    assert list(wait.blockers()) == []


def test_every_kind_of_wait_must_give_a_reason():
    with pytest.raises(NotImplementedError):
        _ = Wait(task_with(WakeState.IDLE)).reason


# ---- the queue of those who wait


def waits(n: int) -> list[Wait]:
    return [Wait(task_with(WakeState.IDLE)) for _ in range(n)]


def test_a_wait_list_serves_the_oldest_first():
    queue, (a, b, c) = WaitList(), waits(3)
    for wait in (a, b, c):
        queue.join(wait)
    assert queue.oldest() is a
    assert [queue.take_oldest() for _ in range(3)] == [a, b, c]
    assert not queue


def test_leaving_from_the_middle_keeps_the_order_of_the_others():
    queue, (a, b, c) = WaitList(), waits(3)
    for wait in (a, b, c):
        queue.join(wait)
    queue.leave(b)
    assert list(queue) == [a, c]


def test_leaving_twice_or_without_having_joined_is_harmless():
    queue, (a, b) = WaitList(), waits(2)
    queue.join(a)
    queue.leave(b)
    queue.leave(a)
    queue.leave(a)
    assert not queue
