"""What looks like a plain function and is none: Bursar's own, and those that return what was to be awaited."""

import asyncio
import gc
import inspect
import re
from functools import partial

import pytest

import bursar
from bursar import Authority, Event, Retry, channel, now, nursery, sleep, sleep_until
from bursar.request import Operation, Request
from bursar.threads.classify import is_own
from bursar.threads.pool import Pool
from bursar.workflow import Workflow


class Mine(Event):
    """A class of the program's."""


class Family(Request[int]):
    """A request of the program's."""

    def perform(self, kernel, task):
        return len(task.nursery.children)


async def double(x):
    await sleep(0)
    return 2 * x


def test_they_are_spawned_like_coroutine_functions_and_take_no_thread():
    async def main():
        event, mine, (send, receive) = Event(), Mine(), channel(1)
        async with nursery() as n:
            tasks = [
                n.spawn(sleep, 1),
                n.spawn(sleep_until, 2),
                n.spawn(partial(sleep, 3)),
                n.spawn(event.wait),
                n.spawn(mine.wait),
                n.spawn(receive.receive),
                n.spawn(send.send, "sent"),
                n.spawn(now),
                n.spawn(Family),
            ]
            n.spawn(event.set, after=[tasks[0]])
            n.spawn(mine.set)
        return [task.name for task in tasks[:2]], [task.result for task in tasks[5:]], await now()

    runtime = bursar.Runtime(clock="virtual")
    assert runtime.run(main) == (["sleep", "sleep_until"], ["sent", None, 0.0, 9], 3.0)
    assert Pool not in runtime.pump.outposts


def test_at_a_gate_and_with_values_they_are_what_they_are():
    async def main():
        async with nursery(admission=Authority(max_concurrent=1)) as n:
            span = n.spawn(double, 2)
            n.spawn(sleep, span, name="nap", retry=Retry(1), after=[n.spawn(sleep, 1)])
        return await now()

    assert bursar.run(main, clock="virtual") == 5.0


def test_whatever_describes_a_request_is_known():
    """By its annotation, which those written in C do not have: the kernel in Python has them all."""
    public = [getattr(bursar, name) for name in bursar.__all__]
    members = [member for kind in filter(inspect.isclass, public) for member in vars(kind).values()]
    functions = filter(inspect.isfunction, [*public, *members])
    asking = [fn for fn in functions if re.match("Request|Operation", str(fn.__annotations__.get("return")))]
    assert len(asking) > 10
    assert [fn for fn in asking if not is_own(fn)] == []


def test_others_of_ours_may_well_run_on_a_thread():
    assert not is_own(bursar.run)
    assert not is_own(Workflow("w").run)
    assert not is_own(bursar.Runtime)
    assert not is_own(bursar.Checkpoint)
    assert not any(is_own(fn) for fn in (len, [].append, print, int, object(), partial(len), double))


def test_a_coroutine_that_comes_from_a_thread_fails_the_task(go):
    """And is closed: Python has nothing to complain of later."""

    async def main():
        async with nursery() as n:
            n.spawn(lambda: double(2))

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, TypeError)
    assert "<lambda>': the function ran on a thread and returned the coroutine 'double', which nobody" in str(error)
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
    assert "returned a request, Sleep, which nobody awaits; spawn an `async def` that awaits it" in str(error)


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
