"""The worker pool: how many threads there are, what happens when one dies, and how a run lets them go."""

import ctypes
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from support.hosts import SelectorHost
from support.requests import ControlledJob, ThreadJob, on_thread
from support.time_limits import WAIT_S

import bursar
from bursar import Checkpoint, Event, OutcomeKind, State, ThreadLost, nursery
from bursar.threads.pool import ThreadPool


def strike(ident, error=SystemExit):
    """Raise an error in a thread, wherever it is; in one that waits, as soon as it goes on."""
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error)) == 1


def alone(group):
    """The one error of a group."""
    (error,) = group.value.exceptions
    return error


def threads_of(go):
    return go.runtime.pump.outposts[ThreadPool].threads


# ---- how many


def test_there_are_as_many_threads_as_functions_ran_at_once(pool):
    async def main():
        for n_tasks in (3, 5, 2):
            barrier = threading.Barrier(n_tasks, timeout=WAIT_S)
            async with nursery() as n:
                for _ in range(n_tasks):
                    n.spawn(barrier.wait)

    pool(main)
    assert threads_of(pool) == 5


def test_a_run_without_functions_has_no_threads(pool):
    async def main():
        await bursar.checkpoint()

    pool(main)
    assert ThreadPool not in pool.runtime.pump.outposts


def test_no_function_waits_for_another_to_end(pool):
    """However many block: each new one runs."""
    release = threading.Event()

    async def main():
        async with nursery() as n:
            blocked = [n.spawn(release.wait, WAIT_S) for _ in range(10)]
            assert await n.spawn(len, "abc") == 3
            release.set()
        return [task.result for task in blocked]

    assert pool(main) == [True] * 10


def test_no_job_is_left_lying_when_they_come_in_crowds(pool):
    """Jobs that wake each other: each of a crowd waits until all of it is there."""

    async def main():
        for size in [1, 2, 3, 7, 8] * 20:
            barrier = threading.Barrier(size, timeout=WAIT_S)
            async with nursery() as n:
                for _ in range(size):
                    n.spawn(barrier.wait)

    pool(main)


# ---- death


def test_a_worker_that_dies_while_idle_is_replaced_and_the_next_function_runs(pool):
    async def main():
        idents = [await on_thread(threading.get_ident, ())]
        for _ in range(3):
            strike(idents[-1])
            idents.append(await on_thread(threading.get_ident, ()))
        return idents

    pool(main)
    assert pool.runtime.statistics().counters["workers_replaced"] == 3


def test_one_that_dies_in_a_function_fails_that_function(pool):
    """To Python, an error that strikes inside a function is one that the function raised."""
    begun = threading.Event()

    def works():
        begun.set()
        while True:
            pass

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            task = main.task = n.spawn(works)
            while not begun.is_set():
                await bursar.checkpoint()
            (worker,) = [thread for thread in threading.enumerate() if thread.name.startswith("bursar worker")]
            strike(worker.ident)
            await task.wait()
            assert await n.spawn(len, "abc") == 3

    with pytest.raises(BaseExceptionGroup) as caught:
        pool(main)
    assert isinstance(alone(caught), SystemExit)
    assert main.task.outcome.kind is OutcomeKind.PANICKED
    assert "workers_replaced" not in pool.runtime.statistics().counters


def break_once(monkeypatch, moment):
    """The first job has its thread struck: before its function is called, or after."""
    struck = []

    def broken(kind):
        plain = kind.work

        def breaks(self):
            if struck:
                plain(self)
                return
            struck.append(self)
            if moment == "after":
                self.call()
            raise SystemExit("struck")

        monkeypatch.setattr(kind, "work", breaks)

    broken(ThreadJob)
    broken(ControlledJob)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_thread_that_dies_around_a_function_fails_its_task(pool, monkeypatch, moment):
    break_once(monkeypatch, moment)

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            task = main.task = n.spawn(len, "abc")
            await task.wait()
            assert await n.spawn(len, "abcd") == 4

    with pytest.raises(ExceptionGroup) as caught:
        pool(main)
    error = alone(caught)
    assert isinstance(error, ThreadLost)
    assert "lost its thread: SystemExit was raised outside the function" in str(error)
    assert isinstance(error.__cause__, SystemExit)
    assert pool.runtime.statistics().counters["workers_replaced"] == 1


def test_also_where_it_alternates_with_the_loop(monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", "simple")
    break_once(monkeypatch, "before")

    def takes(checkpoint: Checkpoint):
        checkpoint()
        return "done"

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            await n.spawn(takes).wait()
            assert await n.spawn(takes) == "done"

    runtime = bursar.Runtime()
    with pytest.raises(ExceptionGroup) as caught:
        runtime.run(main)
    assert isinstance(alone(caught), ThreadLost)
    assert runtime.statistics().counters["workers_replaced"] == 1


def test_a_thread_that_the_system_refuses_fails_the_task_and_nothing_else(go, monkeypatch):
    plain, refused = threading.Thread.start, []

    def start(self):
        if not refused:
            refused.append(self.name)
            raise RuntimeError("can't start new thread")
        plain(self)

    def takes(checkpoint: Checkpoint):
        return "done"

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            task = main.task = n.spawn(takes)
            await task.wait()
            assert await n.spawn(takes) == "done"

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(ExceptionGroup):
        go(main)
    assert refused == ["bursar worker 1"]
    assert main.task.outcome.kind is OutcomeKind.FAILED


# ---- the end


def test_a_run_leaves_no_thread_behind(go):
    """The fixture looks; here is something to look for."""

    async def main():
        async with nursery() as n:
            for x in range(20):
                n.spawn(len, "x" * x)

    go(main)


def test_a_run_that_fails_waits_for_its_functions_first(pool):
    begun, left = threading.Event(), []

    def works(checkpoint: Checkpoint):
        begun.set()
        try:
            while True:
                checkpoint()
        finally:
            left.append("left")

    async def main():
        async with nursery() as n:
            n.spawn(works)
            while not begun.is_set():
                await bursar.checkpoint()
            raise KeyError("lost")

    with pytest.raises(ExceptionGroup):
        pool(main)
    assert left == ["left"]


def test_a_run_that_is_torn_down_asks_its_functions_to_stop(pool):
    """By a second Ctrl-C. They are not waited for."""
    begun, go_on, left = threading.Event(), threading.Event(), threading.Event()
    told = []

    def works(checkpoint: Checkpoint):
        begun.set()
        assert go_on.wait(WAIT_S)
        try:
            checkpoint()
        except bursar.Cancelled as cancelled:
            told.append(str(cancelled.reason))
        left.set()

    async def main():
        async with nursery() as n:
            n.spawn(works)
            while not begun.is_set():
                await bursar.checkpoint()
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            await Event().wait()

    runtime = bursar.Runtime()
    with pytest.raises(KeyboardInterrupt):
        runtime.run(main)
    go_on.set()
    assert left.wait(WAIT_S)
    assert told == ["shutdown: the run was torn down"]


def test_a_function_that_ends_after_its_run_was_torn_down_wakes_nobody(pool):
    """Its thread would do that, in records that are not its own."""
    begun, go_on, threads = threading.Event(), threading.Event(), []

    class Leaves(SelectorHost):
        def run_until(self, over):
            super().run_until(lambda: over() or begun.is_set())

    def works():
        threads.append(threading.current_thread())
        begun.set()
        assert go_on.wait(WAIT_S)

    async def main():
        async with nursery() as n:
            main.task = n.spawn(works)
            while True:
                await bursar.checkpoint()

    with pytest.raises(bursar.HostLost):
        bursar.Runtime(host=Leaves()).run(main)
    go_on.set()
    threads[0].join(WAIT_S)
    assert main.task.state is State.BLOCKED


def test_the_interpreter_does_not_wait_for_a_function_of_a_run_that_was_torn_down():
    program = """
        import signal, threading, bursar
        begun = threading.Event()
        def for_ever():
            begun.set()
            threading.Event().wait()
        async def main():
            async with bursar.nursery() as n:
                n.spawn(for_ever)
                while not begun.is_set():
                    await bursar.checkpoint()
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                await bursar.Event().wait()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            bursar.run(main)
        except KeyboardInterrupt:
            print("interrupted")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_first_ctrl_c_asks_and_waits(go, checkpoint):
    begun, left = threading.Event(), []

    def plain():
        signal_when_possible()
        begun.set()
        left.append("left")

    def takes(checkpoint: Checkpoint):
        begun.set()
        try:
            while True:
                checkpoint()
        finally:
            left.append("left")

    def signal_when_possible():
        signal.raise_signal(signal.SIGINT)

    async def main():
        async with nursery() as n:
            n.spawn(takes if checkpoint else plain)
            if checkpoint:
                while not begun.is_set():
                    await bursar.checkpoint()
                signal.raise_signal(signal.SIGINT)
            await Event().wait()

    with pytest.raises(KeyboardInterrupt):
        go(main)
    assert left == ["left"]


def test_several_runtimes_have_threads_of_their_own(pool):
    def inner():
        async def main():
            async with nursery() as n:
                return await n.spawn(len, "abc")

        return bursar.run(main)

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(inner) for _ in range(3)]
        return [task.result for task in tasks]

    assert pool(main) == [3, 3, 3]


def test_in_asyncio():
    import asyncio

    from bursar.asyncio import run as run_in_asyncio

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(len, "x" * x) for x in range(10)]
        return [task.result for task in tasks]

    assert asyncio.run(run_in_asyncio(main)) == list(range(10))
