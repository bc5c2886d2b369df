"""The cleanup of a cancelled task: an allowance of ops and time."""

from law.test_cancel import AGAIN, STOP, Nap, nap, new_kernel, run, running, stopped
from support.kernel import CancelScope
from support.law import OPS, Lane, TimerKind, cancel, check

from bursar import Outcome, OutcomeKind, State


def test_a_delivery_starts_the_cleanup():
    kernel = new_kernel(cleanup_ops=50, cleanup_ns=1000)
    kernel.advance(7)
    task = stopped(kernel)
    assert task.cleanup_left == 50
    assert (task.cleanup_timer.kind, task.cleanup_timer.deadline_ns) == (TimerKind.CLEANUP, 1007)


def test_who_cleans_up_waits_in_the_cancel_lane():
    kernel = new_kernel()
    task = stopped(kernel)
    kernel.yielded(task)
    assert task.lane is Lane.CANCEL
    run(kernel, task)
    wait = Nap(task)
    kernel.blocked(task, wait)
    assert task.state is State.BLOCKED  # cleanup code may await
    wait.answer(kernel, None)
    assert task.lane is Lane.CANCEL
    check(kernel)


def test_who_cleans_up_longer_than_it_may_is_cut_off():
    kernel = new_kernel(cleanup_ns=1_500_000_000)
    task = stopped(kernel, name="slow")
    nap(kernel, task)
    kernel.advance(1_499_999_999)
    assert (task.cut, task.state) == (False, State.BLOCKED)
    kernel.advance(1_500_000_000)
    assert (task.cut, task.state, task.lane) == (True, State.READY, Lane.CANCEL)
    assert [tuple(report) for report in kernel.reports] == [("cleanup_cut", "slow", "cleanup took longer than 1.5 s")]
    check(kernel)


def test_a_cleanup_that_ends_in_time_leaves_no_timer():
    kernel = new_kernel()
    task = stopped(kernel)
    kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    assert (task.cleanup_timer, task.cleanup_left, len(kernel.timers)) == (None, -1, 0)


def test_waiting_for_children_that_were_told_to_stop_is_not_cleaning_up():
    """They have allowances of their own; the clock of their owner stands still meanwhile."""
    kernel = new_kernel(cleanup_ns=100)
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    child = kernel.spawn(nursery)
    cancel.request(kernel, owner, STOP)
    cancel.deliver(kernel, owner)
    kernel.close_nursery(nursery)
    nap(kernel, owner)
    assert child.cancel_pending
    kernel.advance(10_000)
    assert owner.cut is False


def test_the_clock_goes_on_where_it_stood():
    """Closing a nursery is no way to more time."""
    kernel = new_kernel(cleanup_ns=100)
    task = stopped(kernel)
    for _ in range(5):
        kernel.advance(kernel.now_ns + 10)
        nursery = kernel.open_nursery(task)
        kernel.close_nursery(nursery)
        kernel.end_nursery(nursery)
    assert task.cleanup_timer.deadline_ns == 100


def test_waiting_for_children_that_nobody_told_to_stop_is_part_of_the_cleanup():
    """A nursery opened while cleaning up must not put off the end for ever."""
    kernel = new_kernel(cleanup_ns=100)
    owner = stopped(kernel)
    nursery = kernel.open_nursery(owner)
    child = kernel.spawn(nursery)
    kernel.close_nursery(nursery)
    nap(kernel, owner)
    run(kernel, child)
    nap(kernel, child)
    kernel.advance(100)
    assert (owner.cut, child.cut) == (True, True)


def test_a_cleanup_goes_on_until_the_last_draining_block_is_left():
    kernel = new_kernel(cleanup_ops=10)
    task = running(kernel)
    outer, inner = CancelScope(task), CancelScope(task)
    cancel.request(kernel, inner, AGAIN)
    cancel.deliver(kernel, task)
    kernel.bill(task, ((OPS, 3),))
    cancel.request(kernel, outer, STOP)
    cancel.deliver(kernel, task)
    assert task.cleanup_left == 7  # one allowance, not two
    cancel.leave(kernel, inner)
    assert task.cleanup_left == 7
    cancel.leave(kernel, outer)
    assert (task.cleanup_left, task.cleanup_timer, len(kernel.timers)) == (-1, None, 0)


def test_an_allowance_that_is_used_up_is_not_given_again():
    kernel = new_kernel(cleanup_ops=3)
    task = running(kernel)
    outer = CancelScope(task)
    cancel.request(kernel, CancelScope(task), AGAIN)
    cancel.deliver(kernel, task)
    kernel.bill(task, ((OPS, 3),))
    cancel.request(kernel, outer, STOP)
    cancel.deliver(kernel, task)
    assert task.cleanup_left == 0
