"""Every request for memory fails in turn, in every scenario: nothing may be lost, leaked or left half done.

A scenario runs once for each of its requests for memory: in the n-th run the n-th request fails. A run either ends with
the MemoryError, or continues. If it continues, every invariant of the law must hold between two calls of the kernel,
and every task must end. In both cases no record may outlive the run. The test calls the kernel step by step, or makes a
whole run as a program does: recorded, metered, with functions on threads.

The runs are in a separate process (see `main`), because the allocator stays in place until the interpreter ends.
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
# What the interpreter itself raises where it fails for want of memory and sets no error: the first text after a call
# from C, the second after a call from Python (seen at the call itself, before the called function begins).
ERROR_LOST = ("returned NULL without", "error return without exception set")
INTERPRETER_RUNS = 20  # CPython specializes a function after some calls (3.11: eight), and then requests less memory


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
    """Cancelled tasks wait once more during their cleanup, each in another way, while their cleanup time runs."""
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


async def cancelled_while_paused():
    """One task is cancelled while its ticket is RETURNING, one while it is paused."""
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
    """Tickets of three classes wait for one slot, and for nothing else."""
    authority = bursar.Authority(max_concurrent=1, resources={"ram": 2}, reserve_after=0.75)
    async with bursar.nursery(admission=authority) as nursery:
        first = nursery.spawn(naps)
        for priority in (1, 1, 2):
            nursery.spawn(naps, after=[first], priority=priority)
        nursery.spawn(naps, needs={"ram": 2})


async def contexts():
    """Some tasks yield in a context that they share, some in their own, and some are cancelled there."""

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

            def comes(_: bursar.Checkpoint):  # the parameter gives the function its own thread
                for i in range(3):
                    portal.call(make, i)

            await nursery.spawn(comes)
            for _ in range(3):
                await nursery.spawn(double, 1)  # portal calls are made between two batches: make some batches
    assert made == [True] * 3, f"a call was lost: {made}"


SCENARIOS = [
    spawn_and_join,
    gated,
    cancelled_while_paused,
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
    """A task waits forever, or an invariant does not hold."""


class WritingObserver:
    """An observer with a trace writer (see `trace.ring`), whose page is often full."""

    def __init__(self):
        from bursar._native import TraceWriter

        self._page = bytearray()
        self.trace_writer = TraceWriter(LAYOUTS, self._page, 300)

    def __call__(self, *_):
        pass

    def flush(self):
        self._page.clear()


OBSERVERS = {"observed": lambda: lambda *_: None, "written": WritingObserver}
RUNS = {"run": dict, "recorded": lambda: {"record": Memory()}, "metered": lambda: {"meter_memory": True}}


def one_step(runtime):
    """Make one step. Returns whether a task was runnable."""
    task = runtime.kernel.step()
    if task is not None:
        runtime.driver.poll(task)
        runtime.kernel.step_over(task)
    return task is not None


def one_batch(runtime):
    """Make one batch, as the pump does. Returns whether a task was runnable."""
    return runtime.driver.run(BATCH, None) != (BATCH, False)


def one_run(failing, scenario, n, observer, kernel_only, in_batches=False, empty=True):
    """Run a scenario with the n-th request failing: (requests for memory, whether one failed, the error of the run)."""
    if empty:
        empty_lists(failing)
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel
    kernel.thread = runtime.pump.thread
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
        require_out_of_memory(main.outcome.error)
    runtime.pump.stop(error)
    runtime.driver.held = False
    if variable.get() is not None:
        raise Lost("the thread is left in the context of a task")
    return count, failed, error


def whole_run(failing, scenario, n, options):
    """The same for a whole run, as a program makes it."""
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
            thread.join()  # a run that failed does not wait for its threads
    if error is not None:
        require_out_of_memory(error)
    elif runtime.kernel.live:
        raise Lost(f"{runtime.kernel.live} tasks are left")
    else:
        check(runtime.kernel)
    return count, failed, error


def require_out_of_memory(error):
    """Raise unless the only cause of the error is that there was no memory."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            require_out_of_memory(inner)
    elif not isinstance(error, MemoryError) and not any(text in str(error) for text in ERROR_LOST):
        causes = (error.__cause__, error.__context__)
        if not any(isinstance(cause, MemoryError) for cause in causes):
            raise Lost(f"{error!r} has another cause than missing memory") from error


def empty_lists(failing):
    """Empty the free lists, so that a run must request memory for every record."""
    gc.collect()  # also empties the free lists of the interpreter
    failing.empty(_native)


def records():
    """How many objects of the kernel exist, by type."""
    gc.collect()
    counts = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind.__module__.startswith("bursar"):
            counts[kind.__qualname__] = counts.get(kind.__qualname__, 0) + 1
    return counts


def lists(failing):
    """Check that every free list has records after all scenarios, and none after it was emptied."""
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

    In these modes only requests of the C kernel fail. quiet: step by step, without an observer. batches: in batches.
    observed: with an observer. written: with an observer that has a trace writer. run, recorded, metered: in a whole
    run. In the mode `all`, requests of the interpreter and of Python code fail too; these may then leak, but must not
    lose a task.
    """
    spec = importlib.util.spec_from_file_location("failing", argv[1])
    failing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(failing)
    if argv[2] == "lists":
        return lists(failing)
    scenario = next(s for s in SCENARIOS + WITH_THREADS if s.__name__ == argv[2])
    return max([all_fail_in_turn(failing, scenario, mode) for mode in argv[3:]])


def all_fail_in_turn(failing, scenario, mode):
    """Make a run for every request. Print how many there were and the problems. Returns 1 if there was a problem."""
    kernel_only = mode != "all"
    if mode in RUNS:
        one = functools.partial(whole_run, failing, scenario, options=RUNS[mode])
    else:
        how = {"observer": OBSERVERS.get(mode), "kernel_only": kernel_only, "in_batches": mode == "batches"}
        one = functools.partial(one_run, failing, scenario, **how)
    for _ in range(1 if kernel_only else INTERPRETER_RUNS):
        one(0)  # does the late imports, and lets the interpreter specialize the code
    gc.freeze()  # collections need not visit what was imported, which would take most of the time
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
        error = None  # otherwise it would hold the run
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
    """Run this file as a program (see `main`), with one function at a time: all runs are equal. Returns the output."""
    command = [sys.executable, "-W", "ignore", __file__, *map(str, args)]
    env = {**with_tests(), "BURSAR_SCHEDULER": "simple"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S, env=env)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_request_for_memory_fails_in_turn(failing, scenario):
    every_request_fails(failing, scenario, "quiet", "batches", "observed", "written")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", *RUNS])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_request_fails_in_turn_outside_the_kernel_and_in_whole_runs(failing, scenario, mode):
    every_request_fails(failing, scenario, mode)


@pytest.mark.parametrize("mode", ["run", "metered", pytest.param("recorded", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scenario", WITH_THREADS, ids=lambda scenario: scenario.__name__)
def test_every_request_fails_in_turn_with_functions_on_threads(failing, scenario, mode):
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
def test_every_free_list_is_used_by_a_scenario(failing):
    """For a new free list, add a scenario that uses it. Otherwise no run requests memory for its records."""
    program(failing, "lists")


def test_the_emptied_lists_are_the_free_lists_of_the_module(free_lists):
    opened = re.findall(r"offsetof\(ModuleState, (free_\w+)\)", (SOURCES / "module" / "module.c").read_text())
    assert sorted(free_lists) == sorted(opened)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
