"""Cancellation: request, drain, finalize; shields; one delivery, outermost first; families of any depth."""

from itertools import pairwise

import pytest
from support.kernel import CancelScope, Kernel, Nursery, Task, Wait
from support.law import OPS, Bill, Lane, Obligation, Settled, TimerKind, check

from bursar import Budget, Cancelled, CapSpawn, NurseryClosed, NurseryState, Outcome, OutcomeKind, ScopeMisuse, State
from bursar.law import cancel
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason, Scope

OK = Outcome(OutcomeKind.OK)
STOP = CancelReason(CancelKind.USER, "enough", 99)
AGAIN = CancelReason(CancelKind.USER, "again")
IDLE, REQUESTED, DRAINING, FINALIZED = CancelPhase


class Nap(Wait):
    reason = "naps"


def new_kernel(**keywords) -> Kernel:
    kernel = Kernel(**keywords)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    return kernel


def run(kernel: Kernel, task: Task) -> Task:
    assert kernel.step() is task
    return task


def running(kernel: Kernel, **keywords) -> Task:
    return run(kernel, kernel.spawn(kernel.root, **keywords))


def nap(kernel: Kernel, task: Task) -> None:
    kernel.blocked(task, Nap(task))


def stopped(kernel: Kernel, **keywords) -> Task:
    """A running task that has been told to stop."""
    task = running(kernel, **keywords)
    cancel.request(kernel, task, STOP)
    cancel.deliver(kernel, task)
    return task


def timeout(kernel: Kernel, task: Task, deadline_ns: int) -> CancelScope:
    block = CancelScope(task)
    block.timer = kernel.timers.arm(deadline_ns, TimerKind.DEADLINE, task, block)
    return block


def shield(task: Task) -> CancelScope:
    block = CancelScope(task)
    block.shielded = True
    return block


def chain(kernel: Kernel, depth: int) -> list[Task]:
    """Tasks, each of which owns a nursery with the next one in it; all of them blocked."""
    tasks = [running(kernel)]
    for _ in range(depth):
        nursery = kernel.open_nursery(tasks[-1])
        child = kernel.spawn(nursery)
        nap(kernel, tasks[-1])
        tasks.append(run(kernel, child))
    nap(kernel, tasks[-1])
    return tasks


def finish_all(kernel: Kernel) -> list[Task]:
    """Let every task that is told to stop do so, and say in which order they ended."""
    ended = []
    while (task := kernel.step()) is not None:
        if task.cancel_pending:
            cancel.deliver(kernel, task)
        outcome = task.ending or Outcome(OutcomeKind.CANCELLED, reason=cancel.why_ended(task))
        if kernel.finish(task, outcome):
            ended.append(task)
        kernel.step_over(task)
    return ended


# ---- reasons


def test_the_kinds_of_reasons():
    assert [str(kind) for kind in CancelKind] == [
        "user",
        "timeout",
        "parent",
        "sibling",
        "budget",
        "drop",
        "shutdown",
        "dependency",
    ]


def test_a_reason_prints_its_kind_and_detail():
    assert str(CancelReason(CancelKind.TIMEOUT)) == "timeout"
    assert str(STOP) == "user: enough"
    assert STOP.by == 99


def test_reasons_are_told_apart_by_identity():
    assert CancelReason(CancelKind.USER) != CancelReason(CancelKind.USER)


# ---- request, drain, finalize


def test_the_phases_of_a_cancellation_in_order():
    kernel = new_kernel()
    task = running(kernel)
    seen = [task.phase]
    nap(kernel, task)
    cancel.request(kernel, task, STOP)
    seen.append(task.phase)
    run(kernel, task)
    cancel.deliver(kernel, task)
    seen.append(task.phase)
    kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    seen.append(task.phase)
    assert seen == [IDLE, REQUESTED, DRAINING, FINALIZED]
    check(kernel)


def test_a_request_carries_its_reason_and_is_told_to_the_observer():
    kernel = new_kernel()
    task = running(kernel)
    seen = []
    kernel.observe(lambda *event: seen.append(event))
    cancel.request(kernel, task, STOP)
    assert (task.reason, task.cancel_pending) == (STOP, True)
    thrown = cancel.deliver(kernel, task)
    assert isinstance(thrown, Cancelled)
    assert thrown.reason is STOP
    assert seen == [
        ("cancel_requested", task, STOP),
        ("cancel_delivered", task, STOP),
        ("timer_armed", task, task.cleanup_timer),
        ("cleanup_begun", task, None),
    ]


def test_it_is_delivered_once():
    kernel = new_kernel()
    task = running(kernel)
    cancel.request(kernel, task, STOP)
    assert cancel.deliver(kernel, task) is not None
    assert (cancel.deliver(kernel, task), task.cancel_pending) == (None, False)


@pytest.mark.parametrize("delivered", [False, True])
def test_only_the_first_request_counts(delivered):
    kernel = new_kernel()
    task = running(kernel)
    cancel.request(kernel, task, STOP)
    if delivered:
        cancel.deliver(kernel, task)
    cancel.request(kernel, task, AGAIN)
    assert task.reason is STOP
    assert task.cancel_pending is not delivered


def test_a_task_that_was_not_asked_is_told_nothing():
    kernel = new_kernel()
    task = running(kernel)
    task.cancel_pending = True  # as after a request that has become moot
    assert cancel.deliver(kernel, task) is None
    assert (task.phase, task.cleanup_left, task.cancel_pending) == (IDLE, -1, False)


def test_a_task_that_has_ended_is_not_asked():
    kernel = new_kernel()
    task = running(kernel)
    kernel.finish(task, OK)
    cancel.request(kernel, task, STOP)
    assert (task.reason, task.cancel_pending, task.state, kernel.runnable) == (None, False, State.DONE, 0)


def test_a_task_that_was_never_asked_ends_without_a_phase():
    kernel = new_kernel()
    task = running(kernel)
    kernel.finish(task, OK)
    assert task.phase is IDLE


# ---- every state ends promptly


@pytest.mark.parametrize("where", ["queued", "pinned", "yielded", "blocked", "sleeping", "timed", "held"])
def test_whatever_a_task_waits_for_a_request_brings_it_to_the_cancel_lane(where):
    kernel = new_kernel()
    task = kernel.spawn(kernel.root, pinned=where == "pinned", budget=Budget(ops=0) if where == "held" else Budget())
    if where not in ("queued", "pinned"):
        run(kernel, task)
    if where == "yielded":
        kernel.yielded(task)
    elif where == "blocked":
        nap(kernel, task)
    elif where in ("sleeping", "timed"):
        kernel.timers.arm(5, TimerKind.WAKE, task)
        nap(kernel, task)
        kernel.advance(5 if where == "timed" else 1)
    elif where == "held":
        kernel.root.hold = True
        assert kernel.bill(task, ((OPS, 1),)) is Bill.SUSPENDED
    cancel.request(kernel, task, STOP)
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)
    check(kernel)
    run(kernel, task)
    assert cancel.deliver(kernel, task).reason is STOP


def test_a_running_task_is_told_at_its_next_await():
    kernel = new_kernel()
    task = running(kernel)
    cancel.request(kernel, task, STOP)
    assert (task.state, task.phase) == (State.RUNNING, REQUESTED)
    nap(kernel, task)
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)


def test_an_operation_that_took_effect_keeps_its_result():
    """CANCEL-3: the answer came first; the task takes it, and is told to stop at the next await."""
    kernel = new_kernel()
    task = running(kernel)
    wait = Nap(task)
    kernel.blocked(task, wait)
    wait.answer(kernel, "the result")
    cancel.request(kernel, task, STOP)
    assert (task.inbox, task.effect, task.lane) == ("the result", True, Lane.CANCEL)
    assert (task.phase, task.cancel_pending) == (REQUESTED, True)


def test_an_operation_that_did_not_take_effect_never_does():
    """The other order: the wait was withdrawn, and a later answer finds nobody."""
    kernel = new_kernel()
    task = running(kernel)
    wait = Nap(task)
    kernel.blocked(task, wait)
    cancel.request(kernel, task, STOP)
    wait.answer(kernel, "too late")
    assert (task.inbox, task.effect) == (None, False)


def test_a_phase_never_goes_back():
    kernel = new_kernel()
    task = stopped(kernel)
    with pytest.raises(AssertionError, match="CANCEL-1"):
        cancel.move(task, REQUESTED)
    cancel.move(task, DRAINING)
    assert task.phase is DRAINING


def test_a_task_counts_the_scopes_that_wait_to_be_told_and_those_that_drain():
    kernel = new_kernel()
    task = running(kernel)
    outer, inner = CancelScope(task), CancelScope(task)
    counts = []
    for act in (
        lambda: cancel.request(kernel, inner, STOP),
        lambda: cancel.request(kernel, outer, STOP),
        lambda: cancel.deliver(kernel, task),
        lambda: cancel.leave(kernel, inner),
        lambda: cancel.leave(kernel, outer),
    ):
        act()
        counts.append((task.requested, task.draining))
    assert counts == [(1, 0), (2, 0), (0, 2), (0, 1), (0, 0)]


# ---- blocks


def test_the_scopes_of_a_task_from_the_innermost_to_itself():
    kernel = new_kernel()
    task = running(kernel)
    a, b = CancelScope(task), CancelScope(task)
    assert list(cancel.outward(task)) == [b, a, task]


def test_a_block_can_be_cancelled_without_its_task():
    kernel = new_kernel()
    task = running(kernel)
    block = CancelScope(task)
    cancel.request(kernel, block, STOP)
    assert (block.phase, task.phase) == (REQUESTED, IDLE)
    assert cancel.deliver(kernel, task).reason is STOP
    cancel.leave(kernel, block)
    assert (block.phase, task.phase, task.cancel_pending, task.cleanup_left) == (FINALIZED, IDLE, False, -1)


def test_a_deadline_cancels_its_block():
    kernel = new_kernel()
    task = running(kernel)
    block = timeout(kernel, task, 10)
    nap(kernel, task)
    assert kernel.advance(10) == 1
    assert (block.phase, block.reason.kind) == (REQUESTED, CancelKind.TIMEOUT)
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)


def test_a_block_left_in_time_takes_its_timer_with_it():
    kernel = new_kernel()
    task = running(kernel)
    block = timeout(kernel, task, 10)
    cancel.leave(kernel, block)
    assert len(kernel.timers) == 0
    assert kernel.advance(10) == 0
    assert task.cancel_pending is False


def test_a_request_that_was_not_delivered_goes_with_its_block():
    kernel = new_kernel()
    task = running(kernel)
    block = CancelScope(task)
    cancel.request(kernel, block, STOP)
    cancel.leave(kernel, block)
    assert (task.cancel_pending, cancel.deliver(kernel, task)) == (False, None)


def test_blocks_must_be_left_in_the_reverse_order():
    kernel = new_kernel()
    task = running(kernel, name="careless")
    outer, inner = CancelScope(task), CancelScope(task)
    with pytest.raises(ScopeMisuse, match=r"'careless'.*reverse order"):
        cancel.leave(kernel, outer)
    assert task.inner is inner
    cancel.leave(kernel, inner)
    cancel.leave(kernel, outer)
    with pytest.raises(ScopeMisuse):
        cancel.leave(kernel, outer)


def test_a_block_is_left_by_the_task_that_entered_it():
    kernel = new_kernel()
    a = running(kernel)
    block = CancelScope(a)
    nap(kernel, a)
    running(kernel)
    with pytest.raises(ScopeMisuse):
        cancel.leave(kernel, block)


def test_whatever_blocks_a_task_did_not_leave_end_with_it():
    kernel = new_kernel()
    task = running(kernel)
    blocks = [timeout(kernel, task, 10), shield(task), timeout(kernel, task, 20)]
    kernel.finish(task, OK)
    assert [block.phase for block in blocks] == [FINALIZED] * 3
    assert (task.inner, len(kernel.timers)) == (None, 0)


# ---- outermost first


def test_of_two_requests_the_outermost_is_delivered():
    for order in ((0, 1), (1, 0)):
        kernel = new_kernel()
        task = running(kernel)
        blocks = [CancelScope(task), CancelScope(task)]
        for i in order:
            cancel.request(kernel, blocks[i], (STOP, AGAIN)[i])
        assert cancel.deliver(kernel, task).reason is STOP


def test_what_is_inside_a_block_that_is_unwound_delivers_nothing_more():
    kernel = new_kernel()
    task = running(kernel)
    outer, inner = CancelScope(task), CancelScope(task)
    cancel.request(kernel, inner, AGAIN)
    cancel.request(kernel, outer, STOP)
    cancel.deliver(kernel, task)
    assert (outer.phase, inner.phase, task.phase) == (DRAINING, DRAINING, IDLE)
    assert (cancel.deliver(kernel, task), task.cancel_pending) == (None, False)
    cancel.request(kernel, inner, AGAIN)
    assert task.cancel_pending is False


def test_an_outer_request_is_delivered_on_top_of_an_inner_one_that_drains():
    kernel = new_kernel()
    task = running(kernel)
    outer, inner = CancelScope(task), CancelScope(task)
    cancel.request(kernel, inner, AGAIN)
    assert cancel.deliver(kernel, task).reason is AGAIN
    cancel.request(kernel, outer, STOP)
    assert cancel.deliver(kernel, task).reason is STOP


# ---- shields


def test_a_shield_hides_requests_from_outside_until_it_is_left():
    kernel = new_kernel()
    task = running(kernel)
    block = shield(task)
    nap(kernel, task)
    cancel.request(kernel, task, STOP)
    assert (task.state, task.cancel_pending, task.phase) == (State.BLOCKED, False, REQUESTED)
    assert cancel.deliver(kernel, task) is None
    kernel.wake(task, task.generation)
    run(kernel, task)
    cancel.leave(kernel, block)
    assert task.cancel_pending is True
    assert cancel.deliver(kernel, task).reason is STOP


def test_a_shield_does_not_hide_what_is_inside_it():
    kernel = new_kernel()
    task = running(kernel)
    shield(task)
    inner = timeout(kernel, task, 10)
    nap(kernel, task)
    kernel.advance(10)
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)
    run(kernel, task)
    assert cancel.deliver(kernel, task).reason is inner.reason


def test_a_request_from_outside_waits_behind_one_from_inside():
    kernel = new_kernel()
    task = running(kernel)
    hidden = shield(task)
    inner = CancelScope(task)
    cancel.request(kernel, task, STOP)
    cancel.request(kernel, inner, AGAIN)
    assert cancel.deliver(kernel, task).reason is AGAIN
    assert cancel.deliver(kernel, task) is None
    cancel.leave(kernel, inner)
    cancel.leave(kernel, hidden)
    assert cancel.deliver(kernel, task).reason is STOP


def test_two_shields_must_both_be_left():
    kernel = new_kernel()
    task = running(kernel)
    outer, inner = shield(task), shield(task)
    cancel.request(kernel, task, STOP)
    cancel.leave(kernel, inner)
    assert task.cancel_pending is False
    cancel.leave(kernel, outer)
    assert task.cancel_pending is True


def test_a_shield_does_not_keep_a_task_that_is_on_hold():
    """It cannot run, so there is nothing to shield; and nobody may be left to recharge it."""
    kernel = new_kernel()
    kernel.root.hold = True
    task = running(kernel, budget=Budget(ops=0))
    shield(task)
    assert kernel.bill(task, ((OPS, 1),)) is Bill.SUSPENDED
    assert task.state is State.EXHAUSTED
    cancel.request(kernel, task, STOP)
    assert (task.state, task.lane, task.error) == (State.READY, Lane.CANCEL, None)
    check(kernel)
    run(kernel, task)
    assert cancel.deliver(kernel, task).reason is STOP


def test_a_request_reaches_nurseries_outside_a_shield_but_none_behind_it():
    kernel = new_kernel()
    task = running(kernel)
    before = kernel.open_nursery(task)
    shield(task)
    behind = kernel.open_nursery(task)
    reached, hidden = kernel.spawn(before), kernel.spawn(behind)
    cancel.request(kernel, task, STOP)
    assert (before.state, behind.state) == (NurseryState.CANCELLING, NurseryState.OPEN)
    assert (reached.cancel_pending, hidden.cancel_pending) == (True, False)
    assert task.cancel_pending is False


# ---- families


def test_cancelling_a_task_cancels_the_nurseries_it_owns():
    kernel = new_kernel()
    task = running(kernel)
    nurseries = [kernel.open_nursery(task) for _ in range(3)]
    children = [kernel.spawn(nursery) for nursery in nurseries for _ in range(2)]
    cancel.request(kernel, task, STOP)
    assert [(n.state, n.reason) for n in nurseries] == [(NurseryState.CANCELLING, STOP)] * 3
    assert all(child.cancel_pending for child in children)
    assert kernel.draining_nurseries == 3
    check(kernel)


def test_cancelling_a_block_reaches_only_the_nurseries_inside_it():
    kernel = new_kernel()
    task = running(kernel)
    outside = kernel.open_nursery(task)
    block = CancelScope(task)
    inside = kernel.open_nursery(task)
    cancel.request(kernel, block, STOP)
    assert (outside.state, inside.state) == (NurseryState.OPEN, NurseryState.CANCELLING)


def test_cancelling_a_nursery_cancels_its_children_and_its_body_but_not_its_owner():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    child = kernel.spawn(nursery)
    nap(kernel, owner)
    cancel.request_nursery(kernel, nursery, STOP)
    assert (nursery.scope.phase, owner.phase) == (REQUESTED, IDLE)
    assert [(t.state, t.lane) for t in (owner, child)] == [(State.READY, Lane.CANCEL)] * 2
    assert (child.reason.kind, child.reason.by) == (CancelKind.PARENT, owner.id)
    assert child.reason.detail == f"{nursery.name} is cancelled (user: enough)"
    check(kernel)


def test_a_body_that_only_waits_for_its_children_is_not_interrupted():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    child = kernel.spawn(nursery)
    kernel.close_nursery(nursery)
    nap(kernel, owner)
    cancel.request_nursery(kernel, nursery, STOP)
    assert (owner.state, owner.cancel_pending, child.cancel_pending) == (State.BLOCKED, False, True)


def test_a_request_that_the_body_has_not_heard_yet_is_moot_once_the_body_is_over():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    cancel.request_nursery(kernel, nursery, STOP)
    assert owner.cancel_pending is True
    kernel.close_nursery(nursery)
    assert (owner.cancel_pending, cancel.deliver(kernel, owner)) == (False, None)


def test_the_root_nursery_can_be_cancelled():
    kernel = new_kernel()
    tasks = [kernel.spawn(kernel.root) for _ in range(3)]
    cancel.request_nursery(kernel, kernel.root, STOP)
    assert (kernel.root.state, kernel.draining_nurseries) == (NurseryState.CANCELLING, 1)
    assert [(t.reason.kind, t.reason.by, t.lane) for t in tasks] == [(CancelKind.PARENT, None, Lane.CANCEL)] * 3
    finish_all(kernel)
    kernel.end_nursery(kernel.root)
    assert kernel.root.state is NurseryState.CANCELLED


def test_a_whole_family_hears_of_the_root_cause():
    kernel = new_kernel()
    tasks = chain(kernel, 5)
    cancel.request(kernel, tasks[0], STOP)
    first = tasks[0].owned[next(iter(tasks[0].owned))]
    assert tasks[0].reason is STOP
    for parent, task in pairwise(tasks):
        assert (task.reason.kind, task.reason.by) == (CancelKind.PARENT, parent.id)
        assert task.reason.detail == f"{first.name} is cancelled (user: enough)"


def test_a_failing_sibling_is_the_reason_of_its_siblings_and_their_children_hear_of_their_parent():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    culprit, sibling = kernel.spawn(nursery), kernel.spawn(nursery)
    nap(kernel, owner)
    run(kernel, culprit)
    nap(kernel, culprit)
    below = [run(kernel, sibling)]
    for _ in range(50):
        child = kernel.spawn(kernel.open_nursery(below[-1]))
        nap(kernel, below[-1])
        below.append(run(kernel, child))
    nap(kernel, below[-1])
    kernel.wake(culprit, culprit.generation)
    run(kernel, culprit)
    kernel.finish(culprit, Outcome(OutcomeKind.FAILED, error=ValueError("no")))
    assert below[0].reason.kind is CancelKind.SIBLING
    assert {task.reason.kind for task in below[1:]} == {CancelKind.PARENT}
    assert len({task.reason.detail for task in below[1:]}) == 1  # it does not grow on its way down


def test_siblings_in_the_root_nursery_hear_of_each_other_too():
    kernel = new_kernel()
    culprit, sibling = running(kernel), kernel.spawn(kernel.root)
    kernel.finish(culprit, Outcome(OutcomeKind.FAILED, error=ValueError("no")))
    assert (sibling.reason.kind, sibling.lane) == (CancelKind.SIBLING, Lane.CANCEL)


def test_a_failure_below_is_no_request_above():
    kernel = new_kernel()
    tasks = chain(kernel, 3)
    cancel.request(kernel, tasks[2], STOP)
    assert [task.phase for task in tasks] == [IDLE, IDLE, REQUESTED, REQUESTED]


def test_a_family_ends_from_the_bottom_up():
    kernel = new_kernel()
    tasks = chain(kernel, 20)
    cancel.request(kernel, tasks[0], STOP)
    assert finish_all(kernel) == tasks[::-1]
    assert (kernel.tasks, kernel.draining_nurseries, len(kernel.timers)) == ({}, 0, 0)
    check(kernel)


def test_a_hundred_thousand_nested_nurseries_are_cancelled_without_recursion():
    kernel = new_kernel()
    tasks = chain(kernel, 100_000)
    cancel.request(kernel, tasks[0], STOP)
    assert all(task.cancel_pending for task in tasks)
    assert kernel.draining_nurseries == 100_000
    assert len({task.reason.detail for task in tasks}) == 2  # that of the first, and one for all below it


def test_ten_thousand_nested_tasks_end_without_recursion():
    kernel = new_kernel()
    tasks = chain(kernel, 10_000)
    cancel.request(kernel, tasks[0], STOP)
    assert finish_all(kernel) == tasks[::-1]
    assert (kernel.tasks, kernel.draining_nurseries) == ({}, 0)


def test_a_hundred_thousand_siblings_too():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    children = [kernel.spawn(nursery) for _ in range(100_000)]
    nap(kernel, owner)
    cancel.request_nursery(kernel, nursery, STOP)
    assert list(kernel.workers[0].cancel) == [owner, *children]


# ---- cutting off


def test_cutting_a_task_off_cuts_off_everything_below_it():
    kernel = new_kernel()
    tasks = chain(kernel, 10)
    cancel.cut(kernel, tasks[3], "out of patience")
    assert [task.cut for task in tasks] == [False] * 3 + [True] * 8
    assert [task.lane for task in tasks[3:]] == [Lane.CANCEL] * 8
    assert [(r.kind, r.detail) for r in kernel.reports] == [("cleanup_cut", "out of patience")]
    check(kernel)


def test_nobody_spawns_into_the_nursery_of_a_task_that_was_cut_off():
    kernel = new_kernel()
    owner = running(kernel)
    nursery = kernel.open_nursery(owner)
    nap(kernel, owner)
    cancel.cut(kernel, owner, "out of patience")
    assert nursery.state is NurseryState.CANCELLING
    with pytest.raises(NurseryClosed):
        kernel.spawn(nursery)
    check(kernel)


def test_ten_thousand_nested_tasks_are_cut_off_without_recursion():
    kernel = new_kernel()
    tasks = chain(kernel, 10_000)
    cancel.cut(kernel, tasks[0], "out of patience")
    assert all(task.cut for task in tasks)


def test_cutting_off_goes_through_shields():
    kernel = new_kernel()
    task = running(kernel)
    shield(task)
    child = kernel.spawn(kernel.open_nursery(task))
    nap(kernel, task)
    cancel.cut(kernel, task, "out of patience")
    assert (task.cut, child.cut, task.lane, child.lane) == (True, True, Lane.CANCEL, Lane.CANCEL)


def test_while_a_task_that_cleans_up_holds_an_obligation_the_kernel_drains():
    kernel = new_kernel()
    task = running(kernel)
    obligation = Obligation(kernel.new_id(), task, "a permit", "here", lambda: None)
    cancel.request(kernel, task, STOP)
    assert kernel.draining is False
    cancel.deliver(kernel, task)
    assert kernel.draining is True
    kernel.finish(task, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    assert (kernel.draining, obligation.settled) == (False, Settled.LEAKED)


def test_once_it_has_settled_the_last_one_nothing_drains():
    kernel = new_kernel()
    task = running(kernel)
    obligation = Obligation(kernel.new_id(), task, "a permit", "here", lambda: None)
    cancel.request(kernel, task, STOP)
    cancel.deliver(kernel, task)
    obligation.settle(Settled.ABORTED)
    assert kernel.draining is False


# ---- what it ends with


def test_a_cancelled_task_ends_with_the_reason_of_its_outermost_scope():
    kernel = new_kernel()
    task = running(kernel)
    inner = CancelScope(task)
    cancel.request(kernel, inner, AGAIN)
    assert cancel.why_ended(task) is AGAIN
    cancel.request(kernel, task, STOP)
    assert cancel.why_ended(task) is STOP


def test_a_task_that_was_closed_without_a_request_says_so():
    kernel = new_kernel()
    task = running(kernel)
    reason = cancel.why_ended(task)
    assert (reason.kind, reason.detail) == (CancelKind.SHUTDOWN, "the task was closed")


def test_a_bare_scope_belongs_to_no_task():
    with pytest.raises(NotImplementedError):
        _ = Scope(None).task


def test_nursery_scopes_know_their_nursery():
    kernel = new_kernel()
    task = running(kernel)
    nursery = kernel.open_nursery(task)
    assert isinstance(nursery, Nursery)
    assert [scope.body_of for scope in cancel.outward(task)] == [nursery, None]
