"""Where there are no threads: plain functions in the loop itself, checkpoints and all."""

import threading

import pytest
from support.drive import checked, over
from support.evidence import Trace, replay, verify
from support.hosts import settings

import bursar
from bursar import Budget, BudgetExceeded, Checkpoint, OutcomeKind, nursery


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(settings, "THREADS", False)
    monkeypatch.setattr(threading.Thread, "start", start)


def go(fn, **keywords):
    runtime = checked(bursar.Runtime(**keywords))
    assert runtime.settings.scheduler == "solo"
    try:
        return runtime.run(fn)
    finally:
        over(runtime)
        assert runtime.pump.sources == 0


def counts(to, checkpoint: Checkpoint):
    for i in range(to):
        checkpoint(progress=i / to)
    return to


def test_it_is_forced(monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", "threadpool")
    assert settings.read().scheduler == "solo"


def test_functions_with_and_without_a_checkpoint():
    async def main():
        async with nursery() as n:
            one = n.spawn(len, "abc")
            two = n.spawn(counts, 200)
            both = n.spawn(sum, [one, two])
        return both.result

    assert go(main) == 203


def test_what_it_pays_is_in_the_books():
    async def main():
        async with nursery(cancel_on_failure=False) as n:
            task = main.task = n.spawn(counts, 200, budget=Budget(ops=300, syscalls=1))
            poor = main.poor = n.spawn(counts, 200, budget=Budget(ops=100, syscalls=1))
            await poor.wait()
            await task.wait()

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert main.task.outcome.kind is OutcomeKind.OK
    assert [type(error) for error in caught.value.exceptions] == [BudgetExceeded]


def test_a_pause_is_kept_before_it_begins():
    order = []

    def works(checkpoint: Checkpoint):
        order.append("began")
        checkpoint()
        return "done"

    async def main():
        async with nursery() as n:
            task = n.spawn(works)
            while "runs on a thread" not in str(task.explain()):
                await bursar.checkpoint()
            assert await task.pause()
            order.append("stands")
            task.resume()
        return task.result

    assert go(main) == "done"
    assert order == ["stands", "began"]


def test_one_that_is_cancelled_before_it_begins_is_not_called():
    called = []

    def works(checkpoint: Checkpoint):
        called.append("called")

    async def main():
        async with nursery() as n:
            task = n.spawn(works)
            while "runs on a thread" not in str(task.explain()):
                await bursar.checkpoint()
            task.cancel()
        return task.outcome.kind

    assert go(main) is OutcomeKind.CANCELLED
    assert not called


def test_an_error_fails_its_task():
    def fails(checkpoint: Checkpoint):
        raise KeyError("lost")

    async def main():
        async with nursery() as n:
            n.spawn(fails)

    with pytest.raises(ExceptionGroup):
        go(main)


def test_it_is_lawful_and_replayed_also_where_there_are_threads(tmp_path, monkeypatch):
    path = tmp_path / "run.trace"

    async def main():
        async with nursery() as n:
            task = n.spawn(counts, 100, budget=Budget(ops=200, syscalls=1))
            while "runs on a thread" not in str(task.explain()):
                await bursar.checkpoint()
            assert await task.pause()
            task.resume()
            other = n.spawn(len, "abc")
        return task.result, other.result

    runtime = bursar.Runtime(record=path)
    value = runtime.run(main)
    verify(Trace(path))
    monkeypatch.undo()
    done = replay(Trace(path), main)
    assert done.value == value == (100, 3)
    assert done.fingerprint == runtime.fingerprint
