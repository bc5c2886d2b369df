"""The law's side of admission, on a bare kernel: a task with a ticket starts only when it is admitted, a paused task
does not run, and the ticket is called when its task is cancelled, fails or ends.
"""

import pytest
from support.kernel import Kernel, Task, Wait
from support.law import Lane, Notice, TimerKind, WakeState, check, link

from bursar import Budget, CancelKind, CancelReason, CapSpawn, Outcome, OutcomeKind, State
from bursar.law.permission import ADMIT, DROP

OK = Outcome(OutcomeKind.OK)
STOP = CancelReason(CancelKind.USER, "stop")


class Ticket:
    """A ticket that records how the law calls it."""

    def __init__(self) -> None:
        self.excused = False
        self.told: list[str] = []

    def stopped(self, kernel) -> None:
        self.told.append("stopped")

    def scope_cancelled(self, kernel) -> None:
        self.told.append("scope_cancelled")

    def failed(self, error) -> None:
        self.told.append("failed")

    def ended(self, kernel, outcome) -> None:
        self.told.append(f"ended {outcome.kind.name.lower()}")

    def expired(self, kernel, timer) -> None:
        self.told.append("expired")


class Nap(Wait):
    reason = "naps"


class Thread(Wait):
    """A wait that cannot be interrupted, and that counts the cancel requests."""

    reason = "runs elsewhere"
    interruptible = False
    asked = 0

    def interrupted(self, kernel) -> None:
        type(self).asked += 1


@pytest.fixture
def kernel() -> Kernel:
    made = Kernel()
    made.root.capabilities = {CapSpawn: made.registry.mint(CapSpawn())}
    return made


def pending(kernel: Kernel, **keywords) -> tuple[Task, Ticket]:
    ticket = Ticket()
    task = kernel.spawn(kernel.root, ticket=ticket, **keywords)
    check(kernel)
    return task, ticket


def running(kernel: Kernel, **keywords) -> tuple[Task, Ticket]:
    task, ticket = pending(kernel, **keywords)
    kernel.admit(task, 50, 50)
    assert kernel.step() is task
    return task, ticket


def blocked(kernel: Kernel, wait=Nap) -> tuple[Task, Ticket]:
    task, ticket = running(kernel)
    kernel.blocked(task, wait(task))
    kernel.step_over(task)
    return task, ticket


def end(kernel: Kernel, task: Task, outcome: Outcome = OK) -> None:
    assert kernel.step() is task
    kernel.finish(task, outcome)
    kernel.step_over(task)
    check(kernel)


# ---- who may start


def test_who_has_to_ask_is_in_no_lane(kernel):
    task, ticket = pending(kernel)
    assert task.state is State.PENDING
    assert task.ticket is ticket
    assert kernel.runnable == 0
    assert kernel.step() is None


def test_admitted_it_is_ready_and_queued(kernel):
    task, ticket = pending(kernel)
    kernel.admit(task, 50, 57)
    assert task.state is State.READY
    check(kernel)
    end(kernel, task)
    assert ticket.told == ["ended ok"]


def test_only_who_waits_for_permission_is_admitted(kernel):
    task, _ = pending(kernel)
    kernel.admit(task, 1, 1)
    with pytest.raises(AssertionError, match="only a PENDING task is admitted"):
        kernel.admit(task, 1, 1)


def test_an_admission_and_a_drop_are_links_of_the_chain(kernel):
    task, _ = pending(kernel)
    chain = kernel.chain
    kernel.admit(task, 1, 1)
    chain = link(chain, task.id, kernel.root.id, ADMIT, 0, 0, 0, 0)
    assert kernel.chain == chain
    other, _ = pending(kernel)
    kernel.drop(other, STOP)
    assert kernel.chain == link(chain, other.id, kernel.root.id, DROP, 0, 0, 0, 0)


def test_admission_is_no_lane():
    assert ADMIT not in set(Lane)
    assert DROP not in set(Lane)


def test_a_dropped_task_is_over_and_everything_of_it_given_back(kernel):
    left = kernel.root.pools[0].left
    task, ticket = pending(kernel, budget=Budget(ops=10))
    reason = CancelReason(CancelKind.DROP, "no room")
    kernel.drop(task, reason)
    assert task.outcome == Outcome(OutcomeKind.DROPPED, reason=reason)
    assert ticket.told == ["ended dropped"]
    assert not kernel.tasks
    assert kernel.root.pools[0].left == left
    check(kernel)


def test_who_was_paused_before_it_was_admitted_can_be_dropped(kernel):
    task, _ = pending(kernel)
    kernel.pause(task)
    kernel.drop(task, STOP)
    assert task.outcome.kind is OutcomeKind.DROPPED


def test_who_has_started_is_not_dropped(kernel):
    task, _ = running(kernel)
    with pytest.raises(AssertionError, match="dropped"):
        kernel.drop(task, STOP)


def test_a_dropped_task_wakes_who_waits_for_it_and_who_waits_for_the_last_one(kernel):
    class Waiter(Wait):
        reason = "waits"
        heard = None

        def answer(self, kernel, value):
            type(self).heard = value

    from support.kernel import WaitList

    task, _ = pending(kernel)
    task.waiters = WaitList()
    task.waiters.join(Waiter(task))
    kernel.drop(task, STOP)
    assert Waiter.heard.kind is OutcomeKind.DROPPED


# ---- asked to stop


def test_asked_to_stop_before_it_started_it_comes_to_the_cancel_lane_and_its_ticket_hears_first(kernel):
    task, ticket = pending(kernel)
    kernel.cancel_request(task, STOP)
    assert ticket.told == ["stopped"]
    assert task.state is State.READY
    assert task.lane is Lane.CANCEL
    check(kernel)


@pytest.mark.parametrize("wait", [Nap, Thread])
def test_asked_to_stop_while_it_stands_it_stands_no_more(kernel, wait):
    task, ticket = blocked(kernel, wait)
    kernel.pause(task)
    Thread.asked = 0
    kernel.cancel_request(task, STOP)
    assert set(ticket.told) == {"stopped"}
    assert not kernel.is_paused(task)
    assert Thread.asked == (wait is Thread)
    check(kernel)


def test_a_request_to_a_block_of_it_waits_until_it_goes_on(kernel):
    task, ticket = running(kernel)
    nursery = kernel.open_nursery(task)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    kernel.pause(task)
    kernel.cancel_nursery(nursery, STOP)
    assert kernel.is_paused(task)
    assert ticket.told == ["scope_cancelled"]
    kernel.resume(task, True)
    assert task.state is State.READY
    assert task.lane is Lane.CANCEL
    check(kernel)


def test_of_a_request_to_a_block_of_one_that_does_not_stand_its_ticket_hears(kernel):
    task, ticket = running(kernel)
    nursery = kernel.open_nursery(task)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    kernel.cancel_nursery(nursery, STOP)
    assert ticket.told == ["scope_cancelled"]
    assert task.lane is Lane.CANCEL
    check(kernel)


def test_so_does_one_that_was_ready_when_it_was_paused(kernel):
    task, ticket = running(kernel)
    nursery = kernel.open_nursery(task)
    kernel.yielded(task)
    kernel.step_over(task)
    kernel.pause(task)
    kernel.cancel_nursery(nursery, STOP)
    assert task.state is State.PAUSED
    kernel.resume(task, True)
    assert task.lane is Lane.CANCEL
    assert ticket.told == ["scope_cancelled"]
    check(kernel)


@pytest.mark.parametrize("waits", [True, False])
def test_its_ticket_may_resume_one_that_stands_for_such_a_request(kernel, waits):
    task, ticket = running(kernel)
    nursery = kernel.open_nursery(task)
    kernel.blocked(task, Nap(task)) if waits else kernel.yielded(task)
    kernel.step_over(task)
    kernel.pause(task)
    ticket.scope_cancelled = lambda kernel: kernel.is_paused(task) and kernel.resume(task, True)
    kernel.cancel_nursery(nursery, STOP)
    assert task.lane is Lane.CANCEL
    check(kernel)


def test_one_that_never_had_to_ask_is_interrupted_as_ever(kernel):
    task = kernel.spawn(kernel.root)
    assert kernel.step() is task
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    kernel.cancel_request(task, STOP)
    assert task.lane is Lane.CANCEL


# ---- standing still


def test_a_ready_task_leaves_its_lane(kernel):
    task, _ = pending(kernel)
    kernel.admit(task, 1, 1)
    kernel.pause(task)
    assert task.state is State.PAUSED
    assert kernel.runnable == 0
    check(kernel)
    kernel.resume(task, True)
    end(kernel, task)


def test_a_pending_one_goes_on_waiting_for_permission(kernel):
    task, _ = pending(kernel)
    kernel.pause(task)
    assert task.state is State.PAUSED
    kernel.resume(task, False)
    assert task.state is State.PENDING
    assert kernel.runnable == 0
    check(kernel)


def test_a_blocked_one_waits_on_and_its_wake_is_kept(kernel):
    task, _ = blocked(kernel)
    kernel.pause(task)
    assert task.state is State.BLOCKED
    assert kernel.is_paused(task)
    assert kernel.wake(task, task.generation, value=7, effect=True) is Notice.NOTED
    assert kernel.wake(task, task.generation, value=8, effect=True) is Notice.MERGED
    assert kernel.runnable == 0
    check(kernel)
    kernel.resume(task, True)
    assert task.state is State.READY
    assert task.inbox == 7
    check(kernel)


def test_without_a_wake_it_is_blocked_as_before(kernel):
    task, _ = blocked(kernel)
    kernel.pause(task)
    kernel.resume(task, True)
    assert task.state is State.BLOCKED
    assert task.wake is WakeState.IDLE
    assert kernel.wake(task, task.generation) is Notice.ENQUEUE
    check(kernel)


def test_a_wake_for_a_task_that_waits_for_nothing_is_stale(kernel):
    task, _ = pending(kernel)
    kernel.admit(task, 1, 1)
    kernel.pause(task)
    assert kernel.wake(task, task.generation) is Notice.STALE


def test_one_on_hold_asks_again_for_what_it_could_not_pay(kernel):
    kernel.root.hold = True
    task, _ = running(kernel, budget=Budget(ops=3))
    kernel.bill(task, ((0, 10),))
    kernel.step_over(task)
    assert task.state is State.EXHAUSTED
    kernel.pause(task)
    assert not kernel.root.exhausted
    check(kernel)
    kernel.resume(task, True)
    assert task.state is State.READY
    check(kernel)


def test_only_who_stands_goes_on(kernel):
    task, _ = blocked(kernel)
    with pytest.raises(AssertionError, match="only a paused task is resumed"):
        kernel.resume(task, True)


# ---- timers


def test_its_timers_are_told_to_the_ticket(kernel):
    task, ticket = pending(kernel)
    kernel.timers.arm(100, TimerKind.PERMIT, task)
    kernel.advance(99)
    assert ticket.told == []
    kernel.advance(100)
    assert ticket.told == ["expired"]
    assert task.state is State.PENDING


def test_a_sleep_that_is_over_while_it_stands_counts_when_it_goes_on(kernel):
    task, _ = running(kernel)
    kernel.timers.arm(100, TimerKind.WAKE, task)
    kernel.blocked(task, Nap(task))
    kernel.step_over(task)
    kernel.pause(task)
    kernel.advance(200)
    assert kernel.runnable == 0
    check(kernel)
    kernel.resume(task, True)
    assert task.state is State.READY
    check(kernel)


# ---- failures that count for nothing


@pytest.mark.parametrize("excused", [False, True])
def test_a_failure_that_is_excused_counts_for_nothing(kernel, excused):
    owner = kernel.spawn(kernel.root)
    assert kernel.step() is owner
    nursery = kernel.open_nursery(owner)
    ticket = Ticket()
    ticket.excused = excused
    task = kernel.spawn(nursery, ticket=ticket)
    sibling = kernel.spawn(nursery)
    kernel.admit(task, 1, 1)
    kernel.yielded(owner)
    kernel.step_over(owner)
    polled = kernel.step()
    while polled is not task:
        kernel.yielded(polled)
        kernel.step_over(polled)
        polled = kernel.step()
    kernel.finish(task, Outcome(OutcomeKind.FAILED, error=ValueError()))
    kernel.step_over(task)
    assert len(nursery.failures) == (not excused)
    assert sibling.cancel_pending is not excused
    assert kernel.done[OutcomeKind.FAILED] == 1
    check(kernel)


def test_another_attempt_may_enter_a_closing_nursery_and_nobody_else(kernel):
    from bursar import NurseryClosed

    owner = kernel.spawn(kernel.root)
    kernel.step()
    nursery = kernel.open_nursery(owner)
    kernel.spawn(nursery, ticket=Ticket())
    kernel.seal_nursery(nursery)
    with pytest.raises(NurseryClosed):
        kernel.spawn(nursery, ticket=Ticket())
    again = kernel.spawn(nursery, ticket=Ticket(), again=True)
    assert again.state is State.PENDING
    kernel.cancel_nursery(nursery, STOP)
    with pytest.raises(NurseryClosed):
        kernel.spawn(nursery, ticket=Ticket(), again=True)
