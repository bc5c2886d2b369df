"""`Checkpoint`: progress, money in slices and exact in the end, and where it may be used."""

import threading

import pytest
from support.real_sockets import settled
from support.time_limits import WAIT_S

import bursar
from bursar import Budget, BudgetExceeded, Checkpoint, ScopeMisuse, nursery
from bursar.threads.checkpoint import SLICE


def calls(n, checkpoint: Checkpoint):
    for _ in range(n):
        checkpoint()
    return n


def alone(group):
    """The one error of a group."""
    (error,) = group.value.exceptions
    return error


def one(go, fn, *args, **keywords):
    """Run one function as a task; returns the task."""

    async def main():
        async with nursery() as n:
            return n.spawn(fn, *args, **keywords)

    return go(main)


# ---- what it says


@pytest.mark.parametrize(("said", "kept"), [(0.5, 0.5), (-1, 0.0), (7, 1.0), (0, 0.0), (1, 1.0), (float("inf"), 1.0)])
def test_progress_is_cut_to_0_and_1(go, said, kept):
    def says(checkpoint: Checkpoint):
        checkpoint(progress=said)
        return checkpoint._control.progress

    assert one(go, says).result == kept


def test_progress_may_go_back(go):
    def says(checkpoint: Checkpoint):
        for progress in (0.9, 0.2):
            checkpoint(progress)
        return checkpoint._control.progress

    assert one(go, says).result == 0.2


@pytest.mark.parametrize(("progress", "error"), [(float("nan"), ValueError), ("half", TypeError)])
def test_what_is_no_progress(go, progress, error):
    def says(checkpoint: Checkpoint):
        checkpoint(progress)

    with pytest.raises(ExceptionGroup) as caught:
        one(go, says)
    assert isinstance(alone(caught), error)


def test_a_message_is_kept_and_short(go):
    def says(checkpoint: Checkpoint):
        checkpoint(message="x" * 10_000)
        long = checkpoint._control.message
        checkpoint(0.5, "half of it")
        return len(long), checkpoint._control.message

    length, message = one(go, says).result
    assert length < 1000
    assert message == "half of it"


def test_the_wait_of_the_task_shows_it(pool):
    said, go_on = threading.Event(), threading.Event()

    def works(checkpoint: Checkpoint):
        checkpoint(0.25, "a quarter")
        said.set()
        assert go_on.wait(WAIT_S)

    async def main():
        async with nursery() as n:
            task = n.spawn(works)
            while not said.is_set():
                await bursar.checkpoint()
            wait = task._inside(pool.runtime.kernel).wait
            seen = wait.progress, wait.message
            go_on.set()
        return seen

    assert pool(main) == (0.25, "a quarter")


# ---- where


def test_it_belongs_to_the_thread_of_its_function(pool):
    refused = []

    def lends(checkpoint: Checkpoint):
        def borrows(use):
            try:
                use()
            except ScopeMisuse as error:
                refused.append(str(error))

        for use in (checkpoint, lambda: checkpoint.charge(1)):
            other = threading.Thread(target=borrows, args=(use,))
            other.start()
            other.join()

    one(pool, lends)
    assert len(refused) == 2
    assert "in another thread than its own" in refused[0]


def test_it_is_of_no_use_after_the_function(go):
    kept = []

    def keeps(checkpoint: Checkpoint):
        kept.append(checkpoint)

    one(go, keeps)
    with pytest.raises(ScopeMisuse, match="after it had ended"):
        kept[0]()
    with pytest.raises(ScopeMisuse, match="after it had ended"):
        kept[0].charge(1)


# ---- what it costs


@pytest.mark.parametrize("n", [0, 1, SLICE - 1, SLICE, SLICE + 1, 5 * SLICE])
def test_every_call_costs_one_op_exactly(go, n):
    for budget in (None, Budget(ops=10 * SLICE)):
        assert one(go, calls, n, budget=budget).spent.ops == n + 1  # and one for the call of the function


def test_charges_are_added(go):
    def works(checkpoint: Checkpoint):
        checkpoint.charge(1000)
        checkpoint()
        checkpoint.charge(0)
        checkpoint.charge(500)

    for budget in (None, Budget(ops=5000)):
        assert one(go, works, budget=budget).spent.ops == 1502


@pytest.mark.parametrize("ops", [-1, 1.5, "1", True, None])
def test_what_is_no_charge(go, ops):
    def works(checkpoint: Checkpoint):
        checkpoint.charge(ops)

    with pytest.raises(ExceptionGroup) as caught:
        one(go, works)
    assert "give a whole number" in str(alone(caught))


@pytest.mark.parametrize("ops", [1, 2, SLICE, 300])
def test_a_dry_purse_is_told_in_the_thread_and_nothing_is_overdrawn(go, ops):
    done = []

    def works(checkpoint: Checkpoint):
        while True:
            checkpoint()
            done.append(1)

    async def main():
        async with nursery() as n:
            main.task = n.spawn(works, budget=Budget(ops=ops))

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    error = alone(caught)
    assert isinstance(error, BudgetExceeded)
    assert error.component == "ops"
    assert len(done) == ops - 1  # one for the call of the function
    assert main.task.spent.ops == ops


def test_a_charge_is_paid_whole_or_not_at_all(go):
    def works(checkpoint: Checkpoint):
        with pytest.raises(BudgetExceeded, match="it needs 101"):
            checkpoint.charge(101)
        checkpoint.charge(100)
        with pytest.raises(BudgetExceeded):
            checkpoint()
        return "tidied up"

    task = one(go, works, budget=Budget(ops=101))
    assert task.result == "tidied up"
    assert task.spent.ops == 101


def test_what_is_not_used_goes_back_to_the_purse_it_was_shared_from(go):
    async def main():
        async with nursery(budget=Budget(ops=1000)) as n:
            await n.spawn(calls, 10)
            await n.spawn(calls, 20, budget=Budget(ops=500))
            return n.budget.ops

    assert go(main) == 1000 - 2 - 11 - 21


def test_no_more_than_a_slice_is_kept_from_the_others(pool):
    """While one thread works, the purse that it shares has all the rest."""
    asked, go_on = threading.Event(), threading.Event()

    def works(checkpoint: Checkpoint):
        checkpoint()
        asked.set()
        assert go_on.wait(WAIT_S)

    async def main():
        async with nursery(budget=Budget(ops=1000)) as n:
            n.spawn(works)
            while not asked.is_set():
                await bursar.checkpoint()
            await settled()
            left = n.budget.ops
            go_on.set()
        return left

    assert pool(main) == 1000 - 2 - SLICE


def test_many_share_a_purse_and_none_of_it_is_lost(go):
    async def main():
        async with nursery(budget=Budget(ops=1000)) as n:
            tasks = [n.spawn(calls, 60) for _ in range(8)]
        return sum(task.spent.ops for task in tasks)

    assert go(main) == 8 * 61


def test_a_checkpoint_without_limits_asks_nobody(pool):
    outside = []

    async def main():
        pool.runtime.kernel.observe(lambda kind, task, detail: outside.append(detail) if kind == "outside" else None)
        async with nursery() as n:
            task = n.spawn(calls, 10_000)
        return task.result

    assert pool(main) == 10_000
    assert [label.partition(" ")[0] for label in outside] == ["thread"]


def test_with_a_limit_one_message_brings_a_slice(pool):
    outside = []

    async def main():
        pool.runtime.kernel.observe(lambda kind, task, detail: outside.append(detail) if kind == "outside" else None)
        async with nursery() as n:
            task = n.spawn(calls, 10 * SLICE, budget=Budget(ops=100 * SLICE))
        return task.result

    pool(main)
    assert [label.partition(" ")[0] for label in outside] == ["charge"] * 10 + ["thread"]
