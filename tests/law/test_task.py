"""The record of a task: the fields of a new record, the task as its own outermost scope, whether it has children."""

import pytest
from support.law import UNSTATED, CancelPhase, CancelScope, Nursery, Scope, WakeState, root_pools

from bursar import State
from bursar.law.task import Task

POOLS = root_pools(UNSTATED)


def new_nursery(id: int = 1, owner: Task | None = None) -> Nursery:
    return Nursery(id, f"n{id}", owner, POOLS, POOLS, {})


def new_task(id: int = 7, nursery: Nursery | None = None) -> Task:
    return Task(id, f"t{id}", nursery or new_nursery(), POOLS, {})


def test_a_new_task_carries_who_it_is_and_what_it_may_spend():
    nursery, capabilities = new_nursery(), {}
    task = Task(7, "seven", nursery, POOLS, capabilities)
    assert (task.id, task.name, task.nursery) == (7, "seven", nursery)
    assert task.pools is POOLS
    assert task.purse_of is nursery.pools
    assert task.capabilities is capabilities


# what every field says before anything has happened
FRESH = {
    "state": State.PENDING,
    "named_spent": None,
    "cpu_due": 0,
    "outcome": None,
    "wake": WakeState.IDLE,
    "generation": 0,
    "lane": None,
    "queue": None,
    "worker": -1,
    "pinned": False,
    "started": False,
    "wait": None,
    "since_ns": 0,
    "inbox": None,
    "error": None,
    "effect": False,
    "waiters": None,
    "owned": None,
    "obligations": None,
    "inner": None,
    "requested": 0,
    "draining": 0,
    "cancel_pending": False,
    "cleanup_left": -1,
    "cleanup_left_ns": 0,
    "cleanup_timer": None,
    "cut": False,
    "ending": None,
    "credit_used": 0,
    "credit_of": None,
    "turn_left": 0,
    "short_of": -1,
    "spawn_cap": None,
    "ticket": None,
    "work": None,
    "context": None,
    "unpaid_request": None,
}


@pytest.mark.parametrize(("field", "value"), FRESH.items(), ids=FRESH.keys())
def test_a_new_task_has_done_nothing(field, value):
    assert getattr(new_task(), field) == value


def test_every_field_is_listed_here_or_given_to_the_constructor():
    given = {"id", "name", "nursery", "pools", "capabilities"}
    assert set(Task.__slots__) == set(FRESH) | given | {"purse_of", "spent"}


def test_a_new_task_has_spent_nothing_and_keeps_its_own_account():
    a, b = new_task(1), new_task(2)
    assert list(a.spent) == [0, 0, 0, 0, 0]
    a.spent[0] += 1
    assert list(b.spent) == [0, 0, 0, 0, 0]


def test_a_record_takes_no_other_fields():
    assert not hasattr(new_task(), "__dict__")
    with pytest.raises(AttributeError):
        new_task().colour = "red"


def test_a_task_is_the_outermost_of_its_own_scopes():
    task = new_task()
    assert isinstance(task, Scope)
    assert task.task is task
    assert task.parent is None
    assert (task.phase, task.reason, task.shielded, task.exiting) == (CancelPhase.IDLE, None, False, False)


def test_a_block_opened_in_a_task_lies_inside_it():
    task = new_task()
    outer = CancelScope(task)
    inner = CancelScope(task)
    assert (outer.parent, inner.parent) == (task, outer)
    assert task.inner is inner
    assert outer.task is inner.task is task


def test_a_task_without_nurseries_has_no_children():
    assert new_task().has_children() is False


def test_a_task_has_children_while_any_of_its_nurseries_does():
    task = new_task()
    first, second = new_nursery(2, task), new_nursery(3, task)
    task.owned = {2: first, 3: second}
    assert task.has_children() is False
    second.children[9] = new_task(9, second)
    assert task.has_children() is True
    del second.children[9]
    assert task.has_children() is False


def test_a_task_introduces_itself_with_number_name_and_state():
    assert repr(new_task()) == "<task 7 't7' PENDING>"
