"""Context variables while tasks take turns: each has its own, whether or not its kernel made a copy for it.

The native kernel lets tasks run in one context, one at a time, for as long as none of them sets anything, and its
thread stays there from one yield to the next, and from the end of a short task to the next one; what follows is what
could go wrong with that.
"""

import asyncio
import contextvars
import sys
import weakref

import pytest
from support.hosts import SelectorHost
from support.metered import require_meter
from support.requests import Request

import bursar
import bursar.asyncio
from bursar import Event, checkpoint, nursery

variable = contextvars.ContextVar("variable", default="unset")


async def look(seen, times=4):
    for _ in range(times):
        seen.append(variable.get())
        await checkpoint()


def test_what_one_task_sets_no_other_sees():
    async def put(value, seen):
        for i in range(3):
            variable.set((value, i))
            await checkpoint()
            seen.append(variable.get())

    async def main():
        lookers, setters = [], {value: [] for value in "abc"}
        variable.set("outer")
        async with nursery() as n:
            for value, seen in setters.items():
                n.spawn(look, lookers)
                n.spawn(put, value, seen)
        return lookers, setters, variable.get()

    lookers, setters, outer = bursar.run(main)
    assert lookers == ["outer"] * 12
    assert setters == {value: [(value, i) for i in range(3)] for value in "abc"}
    assert outer == "outer"


def test_a_token_is_good_at_a_later_poll_even_if_nothing_was_changed():
    async def reset_later(value):
        token = variable.set(value)
        for _ in range(4):
            await checkpoint()
        variable.reset(token)
        return variable.get()

    async def main():
        outer = object()
        variable.set(outer)
        async with nursery() as n:
            same = [n.spawn(reset_later, outer) for _ in range(3)]  # the value that it has already
            other = [n.spawn(reset_later, "inner") for _ in range(3)]
        return [task.result is outer for task in same + other]

    assert bursar.run(main) == [True] * 6


def test_tasks_of_different_contexts_take_turns():
    async def main():
        seen = {value: [] for value in range(5)}
        async with nursery() as n:
            for _ in range(3):
                for value, list_of in seen.items():
                    variable.set(value)
                    n.spawn(look, list_of)
        return seen

    assert bursar.run(main) == {value: [value] * 12 for value in range(5)}


def test_children_of_a_task_that_set_a_variable_have_it():
    async def main():
        seen = []

        async def parent(value):
            await checkpoint()
            variable.set(value)
            async with nursery() as n:
                n.spawn(look, seen, 2)
                await checkpoint()
                variable.set("too late")
            await look(seen, 1)

        async with nursery() as n:
            n.spawn(look, seen, 5)
            n.spawn(parent, "given")
        return seen

    seen = bursar.run(main)
    assert (seen.count("unset"), seen.count("given"), seen.count("too late")) == (5, 2, 1)


def test_a_cancelled_task_finds_what_it_set_and_leaves_it_to_nobody():
    async def wait(seen, value):
        if value is not None:
            variable.set(value)
        try:
            await Event().wait()
        finally:
            seen.append(variable.get())
            variable.set("from a cleanup")

    async def main():
        seen = []
        async with nursery() as n:
            for value in (None, "own", None, None):
                n.spawn(wait, seen, value)
            await checkpoint()
            await checkpoint()
            n.cancel()
        return seen, variable.get()

    seen, outer = bursar.run(main)
    assert seen == ["unset", "own", "unset", "unset"]
    assert outer == "unset"


def test_the_context_of_a_task_is_the_one_it_runs_in():
    async def child(runtime):
        variable.set("before")
        context = runtime.kernel.current.context
        variable.set("after")
        await checkpoint()
        return context[variable], runtime.kernel.current.context is context

    async def main(runtime):
        async with nursery() as n:
            tasks = [n.spawn(child, runtime), n.spawn(look, [])]
        return tasks[0].result

    runtime = bursar.Runtime()
    assert runtime.run(main, runtime) == ("after", True)


def test_a_host_that_is_asked_between_two_yields_is_in_the_context_of_no_task():
    class Busy(SelectorHost):
        def overdue(self):
            seen.add(variable.get())
            return False

    async def main():
        variable.set("inner")
        async with nursery() as n:
            for _ in range(2):
                n.spawn(look, [])

    seen = set()
    bursar.run(main, host=Busy())
    assert seen == {"unset"}


def test_a_cancellation_is_made_in_the_context_of_no_task(monkeypatch):
    def noted(self, *args):
        seen.append(variable.get())
        BaseException.__init__(self, *args)

    async def stops_itself(n):
        await checkpoint()
        n.cancel()
        await checkpoint()

    async def main():
        variable.set("inner")
        async with nursery() as n:
            n.spawn(stops_itself, n)

    seen = []
    monkeypatch.setattr(bursar.Cancelled, "__init__", noted)
    bursar.run(main)
    assert seen == ["unset"]


def test_between_two_batches_nobody_is_in_the_context_of_a_task():
    """Yields of more than a batch, in a loop whose other callbacks have variables of their own."""

    async def yields():
        for _ in range(2000):
            await checkpoint()
        return variable.get()

    async def program():
        variable.set("inside")
        async with nursery() as n:
            tasks = [n.spawn(yields) for _ in range(3)]
        return {task.result for task in tasks}

    async def outside():
        seen = []

        def look_in():
            seen.append((variable.get(), contextvars.copy_context().get(variable)))
            if len(seen) < 50:
                loop.call_soon(look_in)

        loop = asyncio.get_running_loop()
        variable.set("outside")
        loop.call_soon(look_in)
        inside = await bursar.asyncio.run(program)
        return inside, set(seen), variable.get()

    assert asyncio.run(outside()) == ({"inside"}, {("outside", "outside")}, "outside")


def test_a_batch_that_ends_in_an_error_leaves_the_context():
    class Odd(Request):
        __slots__ = ()

        def perform(self, kernel, task):
            raise AssertionError("a rule")  # a bug of ours: it ends the run

    async def breaks():
        await checkpoint()
        await Odd()

    async def main():
        variable.set("inside")
        async with nursery() as n:
            n.spawn(look, [], 100)
            n.spawn(breaks)

    with pytest.raises(AssertionError, match="a rule"):
        bursar.run(main)
    assert variable.get() == "unset"
    assert contextvars.copy_context().run(variable.get) == "unset"


def test_code_that_ends_between_two_yields_has_its_own_context():
    """A budget that is used up at a yield cuts the task off there, and its cleanup runs in its context."""

    async def spends(seen):
        try:
            while True:
                await checkpoint()
        finally:
            seen.append(variable.get())
            variable.set("cut")

    async def main():
        variable.set("main")
        try:
            async with nursery(cancel_on_failure=False) as n:
                n.spawn(look, looked, 20)
                n.spawn(spends, seen, budget=bursar.Budget(ops=7))
        except* bursar.BudgetExceeded:
            seen.append(variable.get())

    seen, looked = [], []
    bursar.run(main)
    assert seen == ["main", "main"]
    assert looked == ["main"] * 20


def test_what_goes_with_a_short_task_goes_in_the_context_of_no_task():
    seen = []

    class Loud:
        def __del__(self):
            seen.append(("result", variable.get()))

    async def short():
        pass

    async def loud():
        return Loud()

    def gone(_):
        seen.append(("code", variable.get()))

    async def main():
        variable.set("task")
        async with nursery() as n:
            n.spawn(short)
            n.spawn(loud)
            n.spawn(short)
            watched = weakref.ref(n.spawn(short)._record.work, gone)
            n.spawn(short)
        assert watched() is None
        return variable.get()

    assert bursar.run(main) == "task"
    assert seen == [("result", "unset"), ("code", "unset")]


def test_a_short_task_leaves_what_it_set_to_nobody():
    async def put(tokens):
        tokens.append(variable.set("mine"))

    async def touch(tokens):
        tokens.append(variable.set(variable.get()))

    async def main():
        variable.set("outer")
        seen, tokens = [], []
        for _ in range(3):
            async with nursery() as n:
                for code in (put, touch, put):
                    n.spawn(look, seen, 1)
                    n.spawn(code, tokens)
                seen.append(variable.get())
            seen.append(variable.get())
        return seen, len({id(token) for token in tokens})

    assert bursar.run(main) == (["outer"] * 15, 9)


@pytest.mark.parametrize("options", [{}, {"profile": "cluster"}, {"meter_memory": True}])
def test_our_own_code_between_two_polls_runs_in_the_context_of_no_task(options):
    """Whoever traces or profiles sees it there; so would a signal handler, or the destructors of garbage."""
    if "meter_memory" in options:
        require_meter()
    runtime, seen = bursar.Runtime(**options), set()

    def profiler(frame, event, _):
        ours = frame.f_globals.get("__name__", "").startswith("bursar.")
        if ours and event == "call" and (runtime.kernel.current is None or frame.f_code.co_qualname in within):
            seen.add((frame.f_code.co_qualname, variable.get()))

    async def short():
        return 1

    async def spawns():
        async with nursery() as n:
            n.spawn(short)
            await checkpoint()
            n.spawn(short)

    async def main():
        await checkpoint()
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=9)
        variable.set("task")
        async with nursery() as n:
            n.spawn(look, [])
            n.spawn(spawns)
            n.spawn(spawns, capabilities=[narrow])

    within = {"inheritable", "MemoryMeter.enter"}  # of a poll, before and after the task's code
    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        runtime.run(main)
    finally:
        sys.setprofile(before)
    assert ("Registry.release", "unset") in seen
    assert {value for _, value in seen} == {"unset"}
