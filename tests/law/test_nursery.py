"""Nurseries: the five states and their transitions, the owner and the children, the result, and that no task outlives
its nursery.
"""

from collections import deque
from itertools import permutations, product

import pytest
from support.kernel import Kernel, Wait
from support.law import OPS, UNSTATED, Task, cancel, check, root_pools

from bursar import Budget, CancelKind, CancelReason, CapSpawn, NurseryClosed, Outcome, OutcomeKind, State
from bursar.errors import IllegalTransition
from bursar.law.nursery import Nursery, NurseryState, move, note_end, result_kind

OK = Outcome(OutcomeKind.OK)
STOP = CancelReason(CancelKind.USER, "stop")

# written out by hand from the drawing
LEGAL = {
    (NurseryState.OPEN, NurseryState.CLOSING),
    (NurseryState.OPEN, NurseryState.CANCELLING),
    (NurseryState.CLOSING, NurseryState.CLOSED),
    (NurseryState.CLOSING, NurseryState.CANCELLING),
    (NurseryState.CANCELLING, NurseryState.CANCELLED),
}


class Nap(Wait):
    reason = "naps"


def bare(state: NurseryState = NurseryState.OPEN) -> Nursery:
    pools = root_pools(UNSTATED)
    nursery = Nursery(3, "three", None, pools, pools, {})
    nursery.state = state
    return nursery


def child_of(nursery: Nursery, id: int) -> Task:
    task = Task(id, f"t{id}", nursery, nursery.pools, {})
    nursery.children[id] = task
    return task


def failed(error: BaseException) -> Outcome:
    return Outcome(OutcomeKind.FAILED if isinstance(error, Exception) else OutcomeKind.PANICKED, error=error)


# ---- states


def test_the_states_are_these_five_with_the_numbers_of_the_c_interface():
    assert [(s.name, s.value) for s in NurseryState] == [
        ("OPEN", 0),
        ("CLOSING", 1),
        ("CANCELLING", 2),
        ("CLOSED", 3),
        ("CANCELLED", 4),
    ]
    assert [s.name for s in NurseryState if s.terminal] == ["CLOSED", "CANCELLED"]


@pytest.mark.parametrize(
    ("before", "after"), list(product(NurseryState, NurseryState)), ids=lambda s: getattr(s, "name", s)
)
def test_a_move_is_made_exactly_if_the_drawing_holds_it(before, after):
    nursery = bare(before)
    if (before, after) in LEGAL:
        move(nursery, after)
        assert nursery.state is after
        return
    with pytest.raises(IllegalTransition, match=f"<nursery 3 'three' {before.name}> cannot become {after.name}"):
        move(nursery, after)
    assert nursery.state is before


@pytest.mark.parametrize("state", [NurseryState.CLOSED, NurseryState.CANCELLED], ids=lambda s: s.name)
def test_a_terminal_state_is_not_reached_with_live_children(state):
    nursery = bare(NurseryState.CLOSING if state is NurseryState.CLOSED else NurseryState.CANCELLING)
    child_of(nursery, 1)
    with pytest.raises(AssertionError, match="NURSERY-3"):
        move(nursery, state)


def test_a_new_nursery_is_open_and_empty():
    nursery = bare()
    assert (nursery.state, nursery.children, nursery.spawned, nursery.failures) == (NurseryState.OPEN, {}, 0, [])
    assert (nursery.reason, nursery.joining, nursery.scope, nursery.owner) == (None, None, None, None)
    assert (nursery.cancel_on_failure, nursery.hold, nursery.exhausted, nursery.ends) == (True, False, {}, None)


# ---- what it comes to


def test_without_failures_it_came_out_well():
    assert result_kind(bare()) is OutcomeKind.OK


def test_a_cancelled_one_is_cancelled():
    nursery = bare()
    nursery.reason = STOP
    assert result_kind(nursery) is OutcomeKind.CANCELLED


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ([ValueError()], OutcomeKind.FAILED),
        ([SystemExit()], OutcomeKind.PANICKED),
        ([ValueError(), SystemExit()], OutcomeKind.FAILED),
        ([SystemExit(), ValueError()], OutcomeKind.PANICKED),
    ],
    ids=["failed", "panicked", "failed first", "panicked first"],
)
@pytest.mark.parametrize("cancelled", [False, True])
def test_the_first_failure_wins_keeps_its_kind_and_beats_cancellation(errors, kind, cancelled):
    nursery = bare()
    nursery.reason = STOP if cancelled else None
    for id, error in enumerate(errors):
        note_end(nursery, child_of(nursery, id), failed(error))
    assert result_kind(nursery) is kind
    assert nursery.failures == errors


@pytest.mark.parametrize("order", list(permutations(["failure", "cancel", "ok"])), ids=" ".join)
def test_a_failure_beats_cancellation_whichever_came_first(order):
    nursery = bare()
    for id, event in enumerate(order):
        if event == "cancel":
            nursery.reason = STOP
        else:
            note_end(nursery, child_of(nursery, id), failed(KeyError()) if event == "failure" else OK)
    assert result_kind(nursery) is OutcomeKind.FAILED


# ---- the end of a child


@pytest.mark.parametrize("kind", OutcomeKind, ids=lambda kind: kind.name)
def test_only_a_failure_asks_to_cancel_the_siblings(kind):
    nursery, error = bare(), ValueError()
    task = child_of(nursery, 1)
    bad = kind in (OutcomeKind.FAILED, OutcomeKind.PANICKED)
    assert note_end(nursery, task, Outcome(kind, error=error if bad else None)) is bad
    assert nursery.failures == ([error] if bad else [])


def test_the_failure_of_a_child_may_be_told_not_to_cancel():
    nursery = bare()
    nursery.cancel_on_failure = False
    assert note_end(nursery, child_of(nursery, 1), failed(ValueError())) is False
    assert len(nursery.failures) == 1


def test_each_end_lowers_the_number_of_live_children_by_one():
    nursery = bare()
    tasks = [child_of(nursery, id) for id in range(3)]
    for n, task in enumerate(tasks, start=1):
        note_end(nursery, task, OK)
        assert len(nursery.children) == 3 - n


def test_an_error_that_two_children_pass_on_counts_once():
    nursery, error = bare(), ValueError()
    for id in range(2):
        note_end(nursery, child_of(nursery, id), failed(error))
    note_end(nursery, child_of(nursery, 2), failed(ValueError()))
    assert (len(nursery.failures), nursery.failures[0]) == (2, error)


def test_an_end_is_told_once():
    nursery = bare()
    task = child_of(nursery, 1)
    note_end(nursery, task, OK)
    with pytest.raises(KeyError):
        note_end(nursery, task, OK)


def test_a_failure_without_an_error_is_a_bug():
    nursery = bare()
    with pytest.raises(AssertionError):
        note_end(nursery, child_of(nursery, 1), Outcome(OutcomeKind.FAILED))


def test_a_child_on_hold_is_taken_off_the_list_when_it_ends():
    nursery = bare()
    task = child_of(nursery, 1)
    nursery.exhausted[1] = task
    note_end(nursery, task, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    assert nursery.exhausted == {}


def test_in_a_supervised_nursery_an_end_is_news_and_no_failure():
    nursery = bare()
    nursery.ends = deque()
    tasks = [child_of(nursery, id) for id in range(2)]
    assert note_end(nursery, tasks[0], failed(ValueError())) is False
    assert note_end(nursery, tasks[1], OK) is False
    assert list(nursery.ends) == tasks
    assert (nursery.failures, nursery.children) == ([], {})


# ---- in a kernel


def new_kernel(**keywords) -> Kernel:
    kernel = Kernel(**keywords)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    return kernel


def owner_of(kernel: Kernel, **keywords) -> tuple[Task, Nursery]:
    """A running task that has just opened a nursery."""
    owner = kernel.spawn(kernel.root, name="owner")
    assert kernel.step() is owner
    return owner, kernel.open_nursery(owner, **keywords)


def test_opening_gives_a_purse_out_of_the_owners_own_money():
    kernel = new_kernel()
    owner = kernel.spawn(kernel.root, budget=Budget(ops=100))
    assert kernel.step() is owner
    nursery = kernel.open_nursery(owner, budget=Budget(ops=30))
    assert (nursery.pools[OPS].left, owner.pools[OPS].left) == (30, 70)
    assert nursery.purse_of is owner.pools
    check(kernel)


def test_owner_and_nursery_know_each_other():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel, name="mine")
    assert nursery.owner is owner
    assert owner.owned == {nursery.id: nursery}
    assert (nursery.scope, nursery.scope.body_of, nursery.scope.task) == (owner.inner, nursery, owner)
    assert nursery.name == "nursery 'mine'"


def test_nested_nurseries_of_one_task_are_listed_outermost_first():
    kernel = new_kernel()
    owner, outer = owner_of(kernel)
    inner = kernel.open_nursery(owner)
    assert list(owner.owned.values()) == [outer, inner]
    assert inner.scope.parent is outer.scope


def test_spawning_keeps_it_open_and_makes_the_task_its_child():
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    children = [kernel.spawn(nursery) for _ in range(3)]
    assert nursery.state is NurseryState.OPEN
    assert list(nursery.children.values()) == children
    assert nursery.spawned == 3
    assert all(child.nursery is nursery for child in children)


def test_an_empty_one_that_is_closed_and_awaited_is_closed_at_once():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    kernel.close_nursery(nursery)
    assert nursery.state is NurseryState.CLOSING
    kernel.end_nursery(nursery)
    assert nursery.state is NurseryState.CLOSED
    assert (bool(owner.owned), owner.inner) == (False, None)
    check(kernel)


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_it_takes_children_only_while_open(how):
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    kernel.spawn(nursery)
    if how == "close":
        kernel.seal_nursery(nursery)
    else:
        cancel.request_nursery(kernel, nursery, STOP)
    with pytest.raises(NurseryClosed, match=f"is {nursery.state.name.lower()} and takes no more tasks"):
        kernel.spawn(nursery)
    assert len(nursery.children) == 1


def finish_child(kernel: Kernel, child: Task, outcome: Outcome = OK) -> None:
    assert kernel.step() is child
    kernel.finish(child, outcome)


def test_it_closes_with_its_last_child_once_its_block_has_ended():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    first = kernel.spawn(nursery)
    kernel.close_nursery(nursery)
    assert nursery.state is NurseryState.OPEN
    kernel.blocked(owner, Nap(owner))
    second = kernel.spawn(nursery)
    finish_child(kernel, first)
    assert nursery.state is NurseryState.OPEN
    check(kernel)
    finish_child(kernel, second)
    assert nursery.state is NurseryState.CLOSING
    check(kernel)
    with pytest.raises(NurseryClosed):
        kernel.spawn(nursery)
    kernel.end_nursery(nursery)


def test_closing_becomes_closed_only_in_the_await_and_only_when_every_child_has_ended():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    a, b = kernel.spawn(nursery), kernel.spawn(nursery)
    kernel.seal_nursery(nursery)
    kernel.close_nursery(nursery)
    with pytest.raises(AssertionError, match="NURSERY-3"):
        kernel.end_nursery(nursery)
    kernel.blocked(owner, Nap(owner))
    finish_child(kernel, a)
    finish_child(kernel, b)
    assert nursery.state is NurseryState.CLOSING
    kernel.end_nursery(nursery)
    assert nursery.state is NurseryState.CLOSED


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("children", [0, 2])
def test_cancelling_starts_from_open_or_closing_even_when_empty(closed, children):
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    made = [kernel.spawn(nursery) for _ in range(children)]
    if closed:
        kernel.close_nursery(nursery)
    cancel.request_nursery(kernel, nursery, STOP)
    assert (nursery.state, nursery.reason) == (NurseryState.CANCELLING, STOP)
    assert kernel.draining_nurseries == 1
    assert all(child.cancel_pending for child in made)


def test_cancelling_again_changes_nothing():
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    cancel.request_nursery(kernel, nursery, STOP)
    cancel.request_nursery(kernel, nursery, CancelReason(CancelKind.USER, "again"))
    assert (nursery.state, nursery.reason, kernel.draining_nurseries) == (NurseryState.CANCELLING, STOP, 1)


def test_cancelling_becomes_cancelled_in_the_await():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    child = kernel.spawn(nursery)
    cancel.request_nursery(kernel, nursery, STOP)
    kernel.close_nursery(nursery)
    assert nursery.state is NurseryState.CANCELLING
    kernel.blocked(owner, Nap(owner))
    finish_child(kernel, child, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    assert nursery.state is NurseryState.CANCELLING
    kernel.end_nursery(nursery)
    assert (nursery.state, kernel.draining_nurseries) == (NurseryState.CANCELLED, 0)
    assert result_kind(nursery) is OutcomeKind.CANCELLED


@pytest.mark.parametrize("state", [NurseryState.CLOSED, NurseryState.CANCELLED], ids=lambda s: s.name)
def test_a_nursery_that_is_over_is_not_cancelled_any_more(state):
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    if state is NurseryState.CANCELLED:
        cancel.request_nursery(kernel, nursery, STOP)
    kernel.close_nursery(nursery)
    kernel.end_nursery(nursery)
    cancel.request_nursery(kernel, nursery, STOP)
    assert (nursery.state, kernel.draining_nurseries) == (state, 0)


def test_the_failure_of_a_child_cancels_its_siblings_and_leads_to_cancelling():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    a, b, c = (kernel.spawn(nursery) for _ in range(3))
    kernel.blocked(owner, Nap(owner))
    error = ValueError("first")
    finish_child(kernel, a, failed(error))
    assert nursery.state is NurseryState.CANCELLING
    assert (nursery.failures, nursery.reason.kind) == ([error], CancelKind.SIBLING)
    assert [(t.cancel_pending, t.reason.kind) for t in (b, c)] == [(True, CancelKind.SIBLING)] * 2
    check(kernel)


def test_unless_it_is_told_not_to():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    nursery.cancel_on_failure = False
    a, b = kernel.spawn(nursery), kernel.spawn(nursery)
    kernel.blocked(owner, Nap(owner))
    finish_child(kernel, a, failed(ValueError()))
    assert (nursery.state, b.cancel_pending) == (NurseryState.OPEN, False)
    assert result_kind(nursery) is OutcomeKind.FAILED


def test_the_failures_are_kept_in_the_order_in_which_they_happened():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    nursery.cancel_on_failure = False
    children = [kernel.spawn(nursery) for _ in range(3)]
    kernel.blocked(owner, Nap(owner))
    errors = [ValueError(i) for i in range(3)]
    for child, error in zip(children, errors, strict=True):
        finish_child(kernel, child, failed(error))
    assert nursery.failures == errors


def test_an_error_of_the_body_counts_like_that_of_a_child():
    kernel = new_kernel()
    _, nursery = owner_of(kernel)
    child, error = kernel.spawn(nursery), ValueError("body")
    kernel.body_failed(nursery, error)
    assert (nursery.state, nursery.failures) == (NurseryState.CANCELLING, [error])
    assert child.reason.detail == f"the body of {nursery.name} raised ValueError"
    assert child.cancel_pending


def test_a_body_that_passes_on_the_error_of_a_child_adds_no_second_one():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    child, error = kernel.spawn(nursery), ValueError()
    kernel.blocked(owner, Nap(owner))
    finish_child(kernel, child, failed(error))
    kernel.body_failed(nursery, error)
    assert nursery.failures == [error]


def test_the_money_that_is_left_goes_back_when_it_ends():
    kernel = new_kernel(budget=Budget(ops=100))
    owner, nursery = owner_of(kernel, budget=Budget(ops=50))
    child = kernel.spawn(nursery, budget=Budget(ops=10))
    kernel.blocked(owner, Nap(owner))
    finish_child(kernel, child)
    kernel.close_nursery(nursery)
    kernel.end_nursery(nursery)
    assert kernel.root.pools[OPS].left == 100 - 2  # the two spawns
    check(kernel)


def test_no_task_outlives_its_nursery():
    """A task that ends inside its block does not leave its children behind: it waits for them."""
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    child = kernel.spawn(nursery)
    assert kernel.finish(owner, OK) is False
    assert (owner.state, child.cancel_pending) == (State.BLOCKED, True)
    check(kernel)
    finish_child(kernel, child, Outcome(OutcomeKind.CANCELLED, reason=STOP))
    assert kernel.step() is owner
    assert kernel.finish(owner, owner.ending) is True
    assert (nursery.state, kernel.tasks) == (NurseryState.CANCELLED, {})
    check(kernel)


def test_every_task_belongs_to_exactly_one_nursery():
    kernel = new_kernel()
    owner, nursery = owner_of(kernel)
    child = kernel.spawn(nursery)
    assert [n for n in (kernel.root, nursery) if owner.id in n.children] == [kernel.root]
    assert [n for n in (kernel.root, nursery) if child.id in n.children] == [nursery]
    check(kernel)


def test_a_nursery_introduces_itself_with_number_name_and_state():
    assert repr(bare()) == "<nursery 3 'three' OPEN>"
