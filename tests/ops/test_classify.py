"""Bursar's own functions, such as `sleep`, look like plain functions, but a spawn must not run them on a thread."""

import inspect
import re
from functools import partial

from support.requests import Request, ThreadPool

import bursar
from bursar import Authority, Event, Retry, channel, now, nursery, sleep, sleep_until
from bursar.ops.classify import is_own
from bursar.workflow import Workflow


class Mine(Event):
    """A class that the program defines."""


class Family(Request[int]):
    """A request that the program defines."""

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
    assert ThreadPool not in runtime.pump.outposts


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
