"""`cpu_ns`: the measured counter, charged for the processor time of polls and of functions on threads."""

from __future__ import annotations

import pytest
from tests.support.evidence import Trace, replay, verify

import bursar
from bursar import Budget, BudgetExceeded, Checkpoint
from bursar.drive import cpu_time


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Each reading of the processor's clock is 10 ns after the last one."""
    readings = iter(range(0, 10**9, 10))
    monkeypatch.setattr(cpu_time, "thread_time_ns", lambda: next(readings))


async def work(rounds: int) -> int:
    for _ in range(rounds):
        await bursar.checkpoint()
    return rounds


def test_each_stretch_of_a_poll_is_charged():
    async def main():
        async with bursar.nursery(budget=Budget(cpu_ns=1000)) as n:
            task = n.spawn(work, 4)
            await task
            assert n.budget.cpu_ns == 950
        assert task.spent.cpu_ns == 50

    bursar.run(main)


def test_nothing_is_measured_where_no_budget_states_it(monkeypatch):
    async def main():
        async with bursar.nursery(budget=Budget(tokens=5)) as n:
            await n.spawn(work, 2)
        async with bursar.nursery(budget=Budget(cpu_ns=1000)) as n:
            await n.spawn(work, 1)
        await work(1)

    read = []
    monkeypatch.setattr(cpu_time, "thread_time_ns", lambda: read.append(1) or 0)
    bursar.run(main)
    assert len(read) == 4


def test_a_task_that_has_used_too_much_ends_at_its_next_request():
    async def main():
        with pytest.raises(BaseExceptionGroup) as caught:
            async with bursar.nursery(budget=Budget(cpu_ns=25)) as n:
                task = n.spawn(work, 10, name="busy")
        (error,) = caught.value.exceptions
        assert isinstance(error, BudgetExceeded)
        assert error.component == "cpu_ns"
        assert "'busy'" in str(error)
        assert "needs 5, has 0 left and has spent 25" in str(error)
        assert (task.spent.ops, task.spent.cpu_ns) == (2, 25)

    bursar.run(main)


def test_the_same_for_the_whole_run():
    with pytest.raises(BudgetExceeded, match="out of cpu_ns"):
        bursar.run(work, 10, budget=Budget(cpu_ns=25))


def test_a_task_on_hold_pays_what_is_due_when_it_is_recharged():
    async def main():
        async with bursar.nursery(budget=Budget(cpu_ns=1000), on_exhausted="hold") as n:
            task = n.spawn(work, 4, budget=Budget(cpu_ns=25))
            assert await n.wait_exhausted() == task
            assert "ran out of cpu_ns" in task.explain().reason
            n.recharge(task, Budget(cpu_ns=2))  # less than is due
            assert await n.wait_exhausted() == task
            assert task.spent.ops == 2
            n.recharge(task, Budget(cpu_ns=30))
        assert (task.result, task.spent.cpu_ns) == (4, 50)

    bursar.run(main)


def test_cleanup_owes_nothing():
    async def main():
        async with bursar.nursery(budget=Budget(cpu_ns=15), cancel_on_failure=False) as n:
            n.spawn(cleans_up, 5)

    async def cleans_up(rounds):
        try:
            await work(10)
        finally:
            await work(rounds)
            done.append(rounds)

    done = []
    with pytest.raises(BaseExceptionGroup, match="1 failed"):
        bursar.run(main)
    assert done == [5]


def test_a_function_on_a_thread_is_charged_at_its_end():
    async def main():
        async with bursar.nursery(budget=Budget(cpu_ns=1000)) as n:
            task = n.spawn(abs, -3)
        assert task.result == 3
        assert task.spent.cpu_ns >= 10

    bursar.run(main)


def counts(checkpoint: Checkpoint, rounds: int) -> int:
    for _ in range(rounds):
        checkpoint()
    return rounds


def test_a_function_on_a_thread_is_charged_at_each_checkpoint():
    async def main():
        with pytest.raises(BaseExceptionGroup) as caught:
            async with bursar.nursery(budget=Budget(cpu_ns=200)) as n:
                n.spawn(counts, 100)
        (error,) = caught.value.exceptions
        assert isinstance(error, BudgetExceeded)
        assert error.component == "cpu_ns"
        assert n.budget.cpu_ns == 0

    bursar.run(main)


async def everything() -> list[int]:
    async with bursar.nursery(budget=Budget(cpu_ns=4000), on_exhausted="hold") as n:
        tasks = [n.spawn(work, 6, budget=Budget(cpu_ns=45)), n.spawn(counts, 5), n.spawn(abs, -2)]
        n.recharge(await n.wait_exhausted(), Budget(cpu_ns=500))
    return [task.spent.cpu_ns for task in tasks]


def test_a_run_is_verified_and_replayed_with_the_recorded_times(tmp_path, monkeypatch):
    path = tmp_path / "run.trace"
    spent = bursar.run(everything, record=path)
    verify(Trace(path))
    monkeypatch.setattr(cpu_time, "thread_time_ns", lambda: 0)
    assert replay(Trace(path), everything).value == spent
