"""Coroutine tasks: one poll at a time, cancellation at the await, foreign awaits thrown back, endings of every kind."""

import asyncio
import types
from contextlib import suppress

import pytest
from support.law import check
from support.requests import start, where

import bursar
from bursar import OutcomeKind, Runtime, State, nursery, sleep
from bursar.drive.coroutine import CLOSE_ATTEMPTS_MAX


def drive(fn, *args, **keywords):
    """Run a program step by step, with every invariant checked after every poll."""
    runtime = Runtime(clock="virtual", **keywords)
    kernel = runtime.kernel
    main = kernel.spawn(kernel.root, name="main", pinned=True)
    start(main, fn, args)
    polls = 0
    while kernel.tasks:
        task = kernel.step()
        if task is None:
            kernel.advance(kernel.timers.next_deadline_ns())
        else:
            assert task.state is State.RUNNING
            runtime.driver.poll(task)
            polls += 1
        check(kernel)
    return main.outcome, polls, runtime


def test_a_task_runs_until_it_waits_and_each_dispatch_is_one_poll():
    async def main():
        await bursar.now()
        await bursar.charge(ops=5)
        await bursar.checkpoint()
        await sleep(1)
        return "value"

    outcome, polls, _ = drive(main)
    assert (outcome.kind, outcome.value) == (OutcomeKind.OK, "value")
    assert polls == 3


def test_every_invariant_holds_after_every_poll_of_a_busy_program():
    async def worker(send, lock, i):
        async with lock:
            await send.send(i)
        async with bursar.timeout(2):
            await sleep(i % 3)
        if i == 7:
            raise ValueError("one fails")

    async def main():
        send, receive = bursar.channel(2)
        lock = bursar.Lock()
        try:
            async with nursery(budget=bursar.Budget(ops=5000)) as n:
                for i in range(10):
                    n.spawn(worker, send.clone(), lock, i, budget=bursar.Budget(ops=100))
                send.close()
                for _ in range(10):
                    await receive.receive()
        except* ValueError:
            pass

    for workers in (1, 3):
        outcome, _, runtime = drive(main, workers=workers)
        assert outcome.kind is OutcomeKind.OK
        assert runtime.kernel.root.pools[0].lent == 0


# ---- foreign awaits


class Foreign:
    """Yields something that is no request."""

    def __init__(self, thing):
        self.thing = thing

    def __await__(self):
        return (yield self.thing)


@pytest.mark.parametrize("thing", [None, 5, "x", object(), [1]])
def test_what_bursar_cannot_drive_is_thrown_back_where_it_was_awaited(thing):
    async def child():
        with pytest.raises(bursar.ForeignAwait, match=r"task 'child' awaited something that yielded") as caught:
            await Foreign(thing)
        assert "await Bursar's own operations" in str(caught.value)
        assert isinstance(caught.value, TypeError)
        await bursar.checkpoint()
        return "went on"

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="child")
        return task.result

    assert bursar.run(main, clock="virtual") == "went on"


def test_a_future_of_asyncio_is_named_in_the_refusal():
    async def main():
        loop = asyncio.new_event_loop()
        try:
            with pytest.raises(bursar.ForeignAwait, match=r"_asyncio\.Future"):
                await loop.create_future()
        finally:
            loop.close()

    bursar.run(main, clock="virtual")


def test_a_generator_based_coroutine_may_yield_requests():
    @types.coroutine
    def old_style():
        yield bursar.checkpoint()
        return (yield bursar.now())

    async def main():
        return await old_style()

    assert bursar.run(main, clock="virtual") == 0.0


def test_a_retry_loop_around_a_foreign_await_does_not_stop_the_world():
    async def stubborn():
        while True:
            with suppress(bursar.ForeignAwait):
                await Foreign(None)

    async def main():
        async with nursery() as n:
            task = n.spawn(stubborn)
            await bursar.checkpoint()
            task.cancel()
        return task.outcome.kind

    assert bursar.run(main, clock="virtual", budget=bursar.Budget(ops=100_000)) is OutcomeKind.CANCELLED


# ---- endings


@pytest.mark.parametrize(
    ("error", "kind", "raised"),
    [
        (ValueError("x"), OutcomeKind.FAILED, ValueError),
        (StopIteration(5), OutcomeKind.FAILED, RuntimeError),
        (StopAsyncIteration(), OutcomeKind.FAILED, StopAsyncIteration),
        (BaseException("x"), OutcomeKind.PANICKED, BaseException),
        (SystemExit(1), OutcomeKind.PANICKED, SystemExit),
        (GeneratorExit(), OutcomeKind.PANICKED, GeneratorExit),
        (KeyboardInterrupt(), OutcomeKind.PANICKED, KeyboardInterrupt),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, BaseException) else "",
)
def test_what_a_task_raises_is_its_outcome(error, kind, raised):
    async def child():
        await bursar.checkpoint()
        raise error

    async def main():
        try:
            async with nursery() as n:
                task = n.spawn(child, name="child")
        except* BaseException:
            pass
        return task.outcome

    outcome = bursar.run(main, clock="virtual")
    assert outcome.kind is kind
    assert type(outcome.error) is raised
    assert "in task 'child'" in outcome.error.__notes__[-1]


def test_a_cancel_that_is_swallowed_once_is_reported_and_the_outcome_is_cancelled():
    async def child():
        try:
            await sleep(100)
        except bursar.Cancelled:
            return "pretends"

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="pretender")
            await sleep(1)
            task.cancel("enough")
        return task.outcome

    runtime = Runtime(clock="virtual")
    outcome = runtime.run(main)
    assert outcome.kind is OutcomeKind.CANCELLED
    (report,) = runtime.reports
    assert (report.kind, report.task) == ("cancel_swallowed", "pretender")
    assert "returned 'pretends' instead of letting Cancelled pass" in report.detail


def test_a_call_with_wrong_arguments_fails_the_task_not_the_spawner():
    async def child(a, b):
        pass

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            main.task = n.spawn(child, 1)
            await sleep(1)

    with pytest.raises(ExceptionGroup):
        bursar.run(main, clock="virtual")
    assert isinstance(main.task.outcome.error, TypeError)
    assert "missing 1 required positional argument" in str(main.task.outcome.error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_refuses_to_close_is_abandoned_and_reported():
    attempts = 0

    async def child():
        nonlocal attempts
        while True:
            try:
                await sleep(100)
            except GeneratorExit:
                attempts += 1
            except BaseException:
                pass

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="undead")
            await sleep(1)
            task.cancel()
        return task.outcome.kind

    runtime = Runtime(clock="virtual")
    assert runtime.run(main) is OutcomeKind.CANCELLED
    assert attempts >= CLOSE_ATTEMPTS_MAX
    assert [r.kind for r in runtime.reports] == ["cleanup_cut", "cleanup_ignored"]
    assert f"closed {CLOSE_ATTEMPTS_MAX} times" in runtime.reports[-1].detail
    check(runtime.kernel)


def test_an_error_while_being_closed_is_reported_and_stops_nobody():
    async def child():
        try:
            try:
                await sleep(100)
            finally:
                await sleep(100)
        finally:
            raise ValueError("while closed")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()
        return task.outcome.kind

    runtime = Runtime(clock="virtual")
    assert runtime.run(main) is OutcomeKind.CANCELLED
    assert [r.kind for r in runtime.reports] == ["cleanup_cut", "cleanup_failed"]
    assert "ValueError('while closed')" in runtime.reports[-1].detail


def test_a_cut_task_takes_its_family_with_it_children_first():
    ended = []

    async def stubborn(name):
        try:
            while True:
                with suppress(bursar.Cancelled):
                    await sleep(100)
        finally:
            ended.append(name)

    async def parent():
        try:
            async with nursery() as n:
                n.spawn(stubborn, "child")
                await stubborn("body")
        finally:
            ended.append("parent")

    async def main():
        async with nursery() as n:
            task = n.spawn(parent)
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    runtime = Runtime(clock="virtual", cleanup=bursar.Cleanup(seconds=5))
    assert runtime.run(main) == (OutcomeKind.CANCELLED, 6.0)
    assert ended == ["child", "body", "parent"]
    check(runtime.kernel)


# ---- where


def test_where_names_the_innermost_line_of_the_program():
    async def inner():
        await bursar.Event().wait()

    async def outer():
        await inner()

    async def main():
        async with nursery() as n:
            task = n.spawn(outer)
            await sleep(1)
            place = where(task._inside(main.runtime.kernel))
            n.cancel()
            return place

    main.runtime = Runtime(clock="virtual")
    place = main.runtime.run(main)
    assert place.endswith(".inner")
    assert "test_coroutine.py:" in place
