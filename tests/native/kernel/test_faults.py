"""Every request for memory fails in turn, in every scenario: nothing may be lost, leaked or left half done.

A scenario is run again and again, with the first, the second, the third … request for memory failing, until none is
left to fail. Each time the run either ends with the MemoryError, or goes on, and then every invariant of the law holds
between two calls of the kernel, and all tasks come to an end. Whatever it came to, no record outlives it. The kernel is
called step by step, or a whole run is made as programs have it: recorded, metered, with functions on threads.

This runs in a process of its own (see `main`): the allocator stays in place until the interpreter ends.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import importlib.util
import re
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest
from support.evidence import LAYOUTS, Memory
from support.kernel import NATIVE
from support.law import check
from support.processes import with_tests
from support.requests import start
from support.time_limits import WAIT_S

import bursar
from bursar import Budget

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)

from bursar import _native

SOURCES = Path(__file__).parents[3] / "native" / "python"
BATCH = 7  # decisions
DECISIONS_MAX = 2000  # no scenario needs half of it
EVERY = 20  # runs between two counts of the records
INTERPRETER_RUNS = 5  # after which the interpreter asks for as much memory in one run as in the next


# ---- scenarios

variable = contextvars.ContextVar("variable", default=None)


async def nothing():
    pass


async def spawn_and_join():
    async with bursar.nursery() as nursery:
        for _ in range(3):
            nursery.spawn(nothing)


async def spawn_with_budgets():
    async with bursar.nursery(budget=Budget(ops=500, spawns=5), name="n") as nursery:
        nursery.spawn(nothing, name="a", budget=Budget(ops=20, channel_ops=3))
        nursery.spawn(nothing, budget=Budget(ops=30, spawns=1))


async def nested():
    async def layer(depth):
        async with bursar.nursery() as nursery:
            if depth:
                nursery.spawn(layer, depth - 1)
                nursery.spawn(layer, depth - 1)
            await bursar.checkpoint()

    await layer(2)


async def rendezvous():
    await _talk(0)


async def buffered():
    await _talk(2)


async def _talk(capacity):
    tx, rx = bursar.channel(capacity)

    async def sender():
        for i in range(4):
            await tx.send([i])
        tx.close()

    got = []
    async with bursar.nursery() as nursery:
        nursery.spawn(sender)
        async for value in rx:
            got.append(value)
    assert got == [[0], [1], [2], [3]], f"a value was lost: {got}"


async def closing():
    async with bursar.nursery() as nursery:
        tx, rx = bursar.channel(1)
        await tx.send(1)
        await rx.receive()
        nursery.spawn(nothing)
        tx.close()
        rx.close()


async def _sleep(seconds):
    await bursar.sleep(seconds)


async def sleeping():
    async with bursar.nursery() as nursery:
        nursery.spawn(_sleep, 2)
        nursery.spawn(_sleep, 1)
        try:
            async with bursar.timeout(0.5):
                await bursar.sleep(3)
        except TimeoutError:
            pass


async def cancelling():
    async def cleaned_up():
        try:
            await bursar.sleep(10)
        finally:
            async with bursar.shield():
                await bursar.sleep(1)

    async def parent():
        async with bursar.nursery() as inner:
            inner.spawn(cleaned_up)
            await bursar.Event().wait()

    async with bursar.nursery() as nursery:
        nursery.spawn(parent)
        nursery.spawn(cleaned_up)
        await bursar.sleep(1)
        nursery.cancel("enough")


async def cleaning_up():
    """Whoever is told to stop waits once more, in each of the ways in which one can; while it does, time runs."""
    event, never = bursar.Event(), bursar.Event()
    tx, rx = bursar.channel(0)
    lock = bursar.Lock()

    async def tidies(wait):
        try:
            await never.wait()
        finally:
            await wait()

    async def takes():
        async with lock:
            pass

    async with bursar.nursery() as nursery, lock:
        waits = [event.wait, rx.receive, lambda: tx.send(None), lambda: bursar.sleep(0.5), takes]
        waits.append(lambda: bursar.select(event.wait(), never.wait()))
        for wait in waits:
            nursery.spawn(tidies, wait)
        await bursar.sleep(1)
        nursery.cancel("enough")
        async with bursar.shield():
            await bursar.sleep(0.25)
            event.set()


async def events():
    event = bursar.Event()
    async with bursar.nursery() as nursery:
        for _ in range(3):
            nursery.spawn(_wait_for, event)
        await bursar.checkpoint()
        event.set()


async def _wait_for(event):
    await event.wait()


async def awaiting_tasks():
    async def value():
        await bursar.checkpoint()
        return object()

    async def waits():
        await task

    async with bursar.nursery() as nursery:
        task = nursery.spawn(value)
        nursery.spawn(waits)
        nursery.spawn(waits)
        await task


async def failing_child():
    async def fails():
        raise ValueError("on purpose")

    try:
        async with bursar.nursery() as nursery:
            nursery.spawn(_sleep, 5)
            nursery.spawn(fails)
    except ExceptionGroup:
        pass


async def exhausted():
    async def spends():
        while True:
            await bursar.checkpoint()

    try:
        async with bursar.nursery() as nursery:
            nursery.spawn(spends, budget=Budget(ops=5))
    except ExceptionGroup:
        pass


async def selecting():
    tx, rx = bursar.channel(0)
    event = bursar.Event()

    async def chooses():
        for _ in range(2):
            await bursar.select(rx.receive(), event.wait(), bursar.sleep(5))

    async with bursar.nursery() as nursery:
        nursery.spawn(chooses)
        await bursar.checkpoint()
        await tx.send("x")
        event.set()


async def locking():
    lock = bursar.Lock()

    async def holds():
        async with lock:
            await bursar.checkpoint()

    async with bursar.nursery() as nursery:
        for _ in range(3):
            nursery.spawn(holds)


async def gated():
    async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as nursery:
        first = nursery.spawn(naps)
        second = nursery.spawn(naps, after=[first])
        third = nursery.spawn(naps)
        await bursar.checkpoint()
        first.pause()
        await bursar.sleep(0.25)
        third.cancel()
        first.resume()
        second.cancel()


async def standing():
    """One is asked to stop while it waits to go on, one while it stands."""
    authority = bursar.Authority(max_concurrent=1, resources={"ram": 2})
    async with bursar.nursery(admission=authority) as nursery:
        first, second = nursery.spawn(naps, needs={"ram": 1}), nursery.spawn(naps)
        nursery.spawn(naps)
        await bursar.checkpoint()
        first.pause()
        await bursar.checkpoint()
        first.resume()
        await bursar.checkpoint()
        first.cancel()
        second.pause()
        await bursar.checkpoint()
        second.cancel()


async def queueing():
    """Three classes wait for one slot, and none of them for anything else."""
    authority = bursar.Authority(max_concurrent=1, resources={"ram": 2}, reserve_after=0.75)
    async with bursar.nursery(admission=authority) as nursery:
        first = nursery.spawn(naps)
        for priority in (1, 1, 2):
            nursery.spawn(naps, after=[first], priority=priority)
        nursery.spawn(naps, needs={"ram": 2})


async def contexts():
    """Some yield in a context that they share, some in their own, and some are told to stop there."""

    async def looks(value, sets):
        for i in range(3):
            assert variable.get() == value, "it is another's"
            await bursar.checkpoint()
            if sets:
                variable.set(value := (value, i))

    async with bursar.nursery() as nursery:
        for value in (1, 2):
            variable.set(value)
            for sets in (False, False, True, False):
                nursery.spawn(looks, value, sets)
        async with bursar.nursery() as inner:
            inner.spawn(looks, 2, False)
            inner.spawn(looks, 2, False)
            await bursar.checkpoint()
            inner.cancel()


async def naps():
    await bursar.sleep(0.5)


def double(x):
    return 2 * x


async def functions():
    def works(checkpoint: bursar.Checkpoint):
        for _ in range(3):
            checkpoint()
        return 5

    async with bursar.nursery() as nursery:
        tasks = [nursery.spawn(double, 1), nursery.spawn(works), nursery.spawn(double, 2)]
    assert [task.result for task in tasks] == [2, 5, 4]


async def failing_function():
    def fails():
        raise ValueError("on purpose")

    def works(checkpoint: bursar.Checkpoint):
        while True:
            checkpoint()

    try:
        async with bursar.nursery() as nursery:
            nursery.spawn(works)
            nursery.spawn(fails)
    except* ValueError:
        pass


async def calling():
    made = [False] * 3

    def make(i):
        made[i] = True

    async with bursar.nursery() as outer, bursar.nursery() as nursery:
        with bursar.portal(outer) as portal:

            def comes(_: bursar.Checkpoint):  # without one it would not have a thread of its own
                for i in range(3):
                    portal.call(make, i)

            await nursery.spawn(comes)
            for _ in range(3):
                await nursery.spawn(double, 1)  # calls are made between two batches, so there must be some
    assert made == [True] * 3, f"a call was lost: {made}"


SCENARIOS = [
    spawn_and_join,
    gated,
    standing,
    queueing,
    spawn_with_budgets,
    nested,
    rendezvous,
    buffered,
    closing,
    sleeping,
    cancelling,
    cleaning_up,
    events,
    awaiting_tasks,
    failing_child,
    exhausted,
    selecting,
    locking,
    contexts,
]
WITH_THREADS = [functions, failing_function, calling]


# ---- one run with one failure


class Lost(Exception):
    """A task waits for ever, or an invariant does not hold."""


class Penned:
    """An observer with a pen (see `trace.ring`), whose page is full again and again."""

    def __init__(self):
        from bursar._native import TraceWriter

        self._page = bytearray()
        self.trace_writer = TraceWriter(LAYOUTS, self._page, 300)

    def __call__(self, *_):
        pass

    def flush(self):
        self._page.clear()


OBSERVERS = {"observed": lambda: lambda *_: None, "penned": Penned}
RUNS = {"run": dict, "recorded": lambda: {"record": Memory()}, "metered": lambda: {"meter_memory": True}}


def one_step(runtime):
    """Whether anything was runnable."""
    task = runtime.kernel.step()
    if task is not None:
        runtime.driver.poll(task)
        runtime.kernel.step_over(task)
    return task is not None


def one_batch(runtime):
    """The same as the pump does it."""
    return runtime.driver.run(BATCH, None) != (BATCH, False)


def one_run(failing, scenario, n, observer, kernel_only, in_batches=False, empty=True):
    """(requests for memory, whether one failed, the error that ended the run)."""
    if empty:
        empty_lists(failing)
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel
    kernel.thread = runtime.thread
    if observer is not None:
        kernel.observe(observer())
    main = kernel.spawn(kernel.root, name="main", pinned=True)
    start(main, scenario, ())
    runtime.driver.held = in_batches
    failing.arm(n, kernel_only)
    error = None
    steps = 0
    try:
        while kernel.live:
            steps += 1
            if steps > DECISIONS_MAX:
                raise Lost("the run does not end")
            failing.resume()
            ran = one_batch(runtime) if in_batches else one_step(runtime)
            failing.pause()
            if not ran:
                deadline_ns = kernel.timers.next_deadline_ns()
                if deadline_ns is None:
                    raise Lost(f"{list(kernel.tasks.values())} wait for ever")
                failing.resume()
                kernel.advance(deadline_ns)
                failing.pause()
            try:
                check(kernel)
            except AssertionError as broken:
                raise Lost(f"an invariant does not hold: {broken}") from broken
    except MemoryError as ended:
        error = ended
    count, failed = failing.pause()
    if error is None and failed == 0:
        assert main.outcome.kind.name == "OK", main.outcome
    if error is None and main.outcome is not None and main.outcome.error is not None:
        told(main.outcome.error)
    runtime.pump.stop(error)
    runtime.driver.held = False
    if variable.get() is not None:
        raise Lost("the thread is left in the context of a task")
    return count, failed, error


def whole_run(failing, scenario, n, options):
    """The same of a run as programs have it, from its beginning to its end."""
    empty_lists(failing)
    runtime = bursar.Runtime(clock="virtual", **options())
    failing.arm(n, True)
    failing.resume()
    error = None
    try:
        runtime.run(scenario)
    except Exception as ended:
        error = ended
    count, failed = failing.pause()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()  # a run that broke off does not wait for it
    if error is not None:
        told(error)
    elif runtime.kernel.live:
        raise Lost(f"{runtime.kernel.live} tasks are left")
    else:
        check(runtime.kernel)
    return count, failed, error


def told(error):
    """What the main task failed with is for want of memory, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            told(inner)
    elif not isinstance(error, MemoryError) and "returned NULL without" not in str(error):  # the interpreter's own
        causes = (error.__cause__, error.__context__)
        if not any(isinstance(cause, MemoryError) for cause in causes):
            raise Lost(f"{error!r} is not for want of memory") from error


def empty_lists(failing):
    """A run finds no record to use again, and has to ask for memory for every one."""
    gc.collect()  # which also empties the interpreter's own lists
    failing.empty(_native)


def records():
    """How many objects of the kernel live, by type."""
    gc.collect()
    counts = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind.__module__.startswith("bursar"):
            counts[kind.__qualname__] = counts.get(kind.__qualname__, 0) + 1
    return counts


def lists(failing):
    """Every list of free records has some after all scenarios, and none after it was emptied."""
    for scenario in SCENARIOS:
        one_run(failing, scenario, 0, None, True, empty=False)
    gc.collect()
    unused = [name for name, n in failing.lengths(_native).items() if n == 0]
    failing.empty(_native)
    left = {name: n for name, n in failing.lengths(_native).items() if n > 0}
    print(f"no scenario uses {unused}; not emptied: {left}")
    return 1 if unused or left else 0


def main(argv):
    """Run as a program: `test_faults.py <the built extension> <scenario> <mode>...`, or with `lists` instead of these.

    quiet, batches, observed, penned: the kernel's own requests fail, without an observer, the same in batches by
    whoever holds the kernel, with an observer, or with one that has a pen. all: also those of the interpreter and of
    the Python parts, which may leak then, but lose nobody. run, recorded, metered: the kernel's own in a whole run.
    """
    spec = importlib.util.spec_from_file_location("failing", argv[1])
    failing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(failing)
    if argv[2] == "lists":
        return lists(failing)
    scenario = next(s for s in SCENARIOS + WITH_THREADS if s.__name__ == argv[2])
    return max([all_fail_in_turn(failing, scenario, mode) for mode in argv[3:]])


def all_fail_in_turn(failing, scenario, mode):
    """Make a run for every request; say how many there were, and what went wrong. 1 if anything did."""
    kernel_only = mode != "all"
    if mode in RUNS:
        one = functools.partial(whole_run, failing, scenario, options=RUNS[mode])
    else:
        how = {"observer": OBSERVERS.get(mode), "kernel_only": kernel_only, "in_batches": mode == "batches"}
        one = functools.partial(one_run, failing, scenario, **how)
    for _ in range(1 if kernel_only else INTERPRETER_RUNS):
        one(0)  # imports what is imported late, and shows the interpreter the code
    gc.freeze()  # what was imported stays: no collection has to look at it, which would be most of the time
    counts = [one(0)[0] for _ in range(5)]
    before = records()
    n, ended, went_on, problems = 1, 0, 0, []

    def ignored(unraisable):
        if kernel_only and not issubclass(unraisable.exc_type, MemoryError):
            problems.append(f"request {n}: ignored {unraisable.exc_value!r} in {unraisable.object!r}")

    sys.unraisablehook = ignored
    if len(set(counts)) != 1:
        problems.append(f"the same run makes {counts} requests: something is kept from one for the next")
    while True:
        try:
            count, failed, error = one(n)
        except Lost as lost:
            failing.pause()
            problems.append(f"request {n}: {lost}")
            failed, error = 1, lost
            lost.__traceback__ = None
        if not failed and n > count:
            break
        ended += error is not None
        went_on += error is None
        error = None  # or it would hold the run
        if n % EVERY == 0 and kernel_only:
            after = records()
            if after != before:
                grown = {k: (before.get(k, 0), v) for k, v in after.items() if v != before.get(k, 0)}
                problems.append(f"up to request {n}: leaked {grown}")
                before = after
        n += 1
    after = records()
    if after != before and kernel_only:
        problems.append(f"leaked { ({k: (before.get(k, 0), v) for k, v in after.items() if v != before.get(k, 0)}) }")
    print(f"{scenario.__name__}, {mode}: {n - 1} requests failed in turn; {ended} ended the run, {went_on} did not")
    print("\n".join(problems))
    return 1 if problems else 0


# ---- the tests


def program(*args):
    """Run this file as one: see `main`. What it said. Functions alternate there, so that every run is the same."""
    command = [sys.executable, "-W", "ignore", __file__, *map(str, args)]
    env = {**with_tests(), "BURSAR_SCHEDULER": "simple"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S, env=env)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_request_for_memory_fails_in_turn(failing, scenario):
    every_request_fails(failing, scenario, "quiet", "batches", "observed", "penned")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", *RUNS])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_does_also_outside_the_kernel_and_in_whole_runs(failing, scenario, mode):
    every_request_fails(failing, scenario, mode)


@pytest.mark.parametrize("mode", ["run", "metered", pytest.param("recorded", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", WITH_THREADS, ids=lambda scenario: scenario.__name__)
def test_it_does_where_other_threads_work(failing, scenario, mode):
    every_request_fails(failing, scenario, mode)


def every_request_fails(failing, scenario, *modes):
    if "metered" in modes:
        from support.metered import require_meter

        require_meter()
    assert program(failing, scenario.__name__, *modes).count("requests failed in turn") == len(modes)


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")) or not _native.build_info()["private_layouts"],
    reason="has no lists of free records",
)
def test_no_list_of_free_records_was_forgotten(failing):
    """Whoever adds one adds a scenario that uses it, or its records are never asked for where memory fails."""
    program(failing, "lists")


def test_the_lists_that_are_emptied_are_those_of_the_module(free_lists):
    opened = re.findall(r"offsetof\(ModuleState, (free_\w+)\)", (SOURCES / "module" / "module.c").read_text())
    assert sorted(free_lists) == sorted(opened)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
