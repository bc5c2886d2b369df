"""Functions on threads that return what was to be awaited."""

import asyncio
import gc
import inspect

import pytest
from support.requests import Operation, Request

from bursar import nursery, sleep
from bursar.workflow import Workflow


async def double(x):
    await sleep(0)
    return 2 * x


def test_a_coroutine_that_comes_from_a_thread_fails_the_task(go):
    """And is closed: Python has nothing to complain of later."""

    async def main():
        async with nursery() as n:
            n.spawn(lambda: double(2))

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, TypeError)
    assert "<lambda>': the function ran on a thread and returned the coroutine 'double', which no task" in str(error)
    assert "pass the async function itself: spawn(fn, x), not spawn(lambda: fn(x))" in str(error)
    del error, caught
    gc.collect()


def test_a_request_that_comes_from_a_thread_fails_the_task(go):
    async def main():
        async with nursery() as n:
            n.spawn(lambda: sleep(1))

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, TypeError)
    assert "returned a request, Sleep, which no task awaits; spawn an `async def` that awaits it" in str(error)


def test_one_that_has_begun_is_somebody_s_own_and_is_left_alone(go):
    begun = double(2)
    assert isinstance(begun.send(None), Operation | Request)

    async def main():
        async with nursery() as n:
            n.spawn(lambda: begun)

    with pytest.raises(ExceptionGroup, match="1 failed"):
        go(main)
    assert inspect.getcoroutinestate(begun) == inspect.CORO_SUSPENDED
    begun.close()


def test_other_values_that_can_be_awaited_are_values(go):
    """A handle, or a future of somebody else's: that may be what was wanted."""
    loop = asyncio.new_event_loop()
    future = loop.create_future()

    async def main():
        async with nursery() as n:
            task = n.spawn(double, 1)
            handle = n.spawn(lambda: task_of.append(task) or task_of[0])
            other = n.spawn(lambda: future)
        return handle.result is task, other.result is future

    task_of = []
    assert go(main) == (True, True)
    loop.close()


def test_a_step_of_a_workflow_is_told_the_same():
    workflow = Workflow("w")
    workflow.task("a", lambda: double(1))
    error = workflow.run().tasks["a"].error
    assert "task 'a': the function ran on a thread and returned the coroutine 'double'" in error
