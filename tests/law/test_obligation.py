"""Obligations: settled exactly once, undone unless committed, and no leak that goes unseen."""

import pytest
from support.kernel import Kernel, Wait
from support.law import UNSTATED, Nursery, Task, check, root_pools

from bursar import Outcome, OutcomeKind, State
from bursar.law.obligation import Obligation, Settled, leaked

OK = Outcome(OutcomeKind.OK)


class Nap(Wait):
    reason = "naps"


@pytest.fixture
def task() -> Task:
    pools = root_pools(UNSTATED)
    return Task(1, "holder", Nursery(1, "n", None, pools, pools, {}), pools, {})


class Undo:
    """Counts how often it is called, and in which order with others."""

    def __init__(self, log: list | None = None, name: str = "") -> None:
        self.log = log if log is not None else []
        self.name = name

    def __call__(self) -> None:
        self.log.append(self.name)


def test_a_new_obligation_is_open_and_held(task):
    obligation = Obligation(5, task, "a permit", "file.py:3", Undo())
    assert (obligation.settled, obligation.holder) == (Settled.OPEN, task)
    assert task.obligations == {5: obligation}


def test_it_says_what_it_is_and_where_it_was_made(task):
    assert str(Obligation(5, task, "a permit", "file.py:3 in f", Undo())) == "a permit, made at file.py:3 in f"


@pytest.mark.parametrize(
    ("how", "undone"),
    [(Settled.COMMITTED, 0), (Settled.ABORTED, 1), (Settled.LEAKED, 1)],
    ids=["committed", "aborted", "leaked"],
)
def test_committing_keeps_what_was_done_and_anything_else_undoes_it(task, how, undone):
    undo = Undo()
    obligation = Obligation(5, task, "a permit", "here", undo)
    obligation.settle(how)
    assert (obligation.settled, len(undo.log), task.obligations) == (how, undone, {})


@pytest.mark.parametrize("first", [Settled.COMMITTED, Settled.ABORTED, Settled.LEAKED])
@pytest.mark.parametrize("second", [Settled.COMMITTED, Settled.ABORTED, Settled.LEAKED])
def test_it_is_settled_exactly_once(task, first, second):
    undo = Undo()
    obligation = Obligation(5, task, "a permit", "here", undo)
    obligation.settle(first)
    before = len(undo.log)
    with pytest.raises(AssertionError, match="OBLIGATION-1"):
        obligation.settle(second)
    assert (obligation.settled, len(undo.log)) == (first, before)


def test_it_is_off_the_books_before_it_is_undone(task):
    """What is undone may look at its holder, and must not find itself there."""
    seen = []
    obligation = Obligation(5, task, "a permit", "here", lambda: seen.append(dict(task.obligations)))
    obligation.settle(Settled.ABORTED)
    assert seen == [{}]


def test_the_others_stay_open(task):
    a, b = (Obligation(i, task, "a permit", "here", Undo()) for i in (5, 6))
    a.settle(Settled.COMMITTED)
    assert (task.obligations, b.settled) == ({6: b}, Settled.OPEN)


def test_whatever_is_still_open_is_leaked_newest_first_and_named(task):
    log = []
    made = [Obligation(i, task, f"permit {i}", "here", Undo(log, str(i))) for i in (5, 6, 7)]
    made[1].settle(Settled.COMMITTED)
    assert leaked(task) == [made[0], made[2]]
    assert log == ["7", "5"]
    assert [o.settled for o in made] == [Settled.LEAKED, Settled.COMMITTED, Settled.LEAKED]
    assert task.obligations == {}


def test_a_task_that_never_held_one_leaks_none(task):
    assert leaked(task) == []


# ---- at the end of a task


def running(kernel: Kernel, name: str) -> Task:
    task = kernel.spawn(kernel.root, name=name)
    assert kernel.step() is task
    return task


@pytest.mark.parametrize(
    "outcome",
    [OK, Outcome(OutcomeKind.FAILED, error=ValueError()), Outcome(OutcomeKind.CANCELLED)],
    ids=["ok", "failed", "cancelled"],
)
def test_a_task_that_ends_with_one_open_is_reported_and_the_region_closes(outcome):
    kernel, undo = Kernel(), Undo()
    task = running(kernel, "careless")
    obligation = Obligation(kernel.new_id(), task, "a permit of a lock", "prog.py:7 in main", undo)
    assert kernel.finish(task, outcome) is True
    assert (obligation.settled, len(undo.log), task.obligations) == (Settled.LEAKED, 1, {})
    assert [tuple(report) for report in kernel.reports] == [
        ("obligation_leaked", "careless", "a permit of a lock, made at prog.py:7 in main")
    ]
    assert (task.state, task.outcome) == (State.DONE, outcome)
    check(kernel)


def test_every_leak_is_reported():
    kernel = Kernel()
    task = running(kernel, "careless")
    for i in range(3):
        Obligation(kernel.new_id(), task, f"permit {i}", "here", Undo())
    kernel.finish(task, OK)
    assert kernel.counters["obligation_leaked"] == 3


def test_settled_obligations_are_not_reported():
    kernel = Kernel()
    task = running(kernel, "careful")
    Obligation(kernel.new_id(), task, "a permit", "here", Undo()).settle(Settled.COMMITTED)
    kernel.finish(task, OK)
    assert list(kernel.reports) == []


def test_whoever_waits_behind_a_leak_goes_on():
    kernel = Kernel()
    waiter = running(kernel, "waiter")
    wait = Nap(waiter)
    kernel.blocked(waiter, wait)
    careless = running(kernel, "careless")
    Obligation(kernel.new_id(), careless, "a lock", "here", lambda: wait.answer(kernel, "yours"))
    kernel.finish(careless, OK)
    assert (waiter.state, waiter.inbox) == (State.READY, "yours")
    check(kernel)


# ---- promises of a kernel


def test_a_promise_is_an_obligation_with_a_number_of_the_kernels():
    kernel = Kernel()
    task = running(kernel, "holder")
    undo = Undo()
    first, second = (kernel.promise(task, "a permit", "here", undo) for _ in range(2))
    assert task.obligations == {first.id: first, second.id: second}
    assert first.id != second.id
    assert (first.holder, first.what, first.origin, first.settled) == (task, "a permit", "here", Settled.OPEN)
    first.settle(Settled.ABORTED)
    second.settle(Settled.COMMITTED)
    assert len(undo.log) == 1
    assert task.obligations == {}
