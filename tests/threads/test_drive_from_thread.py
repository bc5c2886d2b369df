"""A pool thread drives the run while the loop sleeps: what the thread may do, what it leaves to the loop, and when it
wakes the loop.
"""

import os
import signal
import threading

import pytest
from support.drive import checked
from support.hosts import THREAD_DRIVE_NS_MAX, SelectorHost
from support.requests import ThreadJob
from support.time_limits import WAIT_S

import bursar
from bursar import Authority, OutcomeKind, Priority, TaskDropped, nursery


class Watched(SelectorHost):
    """Records which threads ran batches, and how often the loop was woken."""

    def __init__(self):
        super().__init__()
        self.wakes = 0
        self.stood_in = []  # the threads
        self.still_ns = None  # what its clock shows, if that stands still

    def asleep(self):
        """Called on a pool thread: wait until the loop sleeps. From then on this thread must do all the work."""
        while not self._ownership.free:
            pass
        self.wakes = 0

    def now_ns(self):
        return super().now_ns() if self.still_ns is None else self.still_ns

    def wake(self):
        self.wakes += 1
        super().wake()

    def drive_from_thread(self, drive):
        done = super().drive_from_thread(drive)
        if done:
            self.stood_in.append(threading.current_thread())
        return done


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", "threadpool")
    monkeypatch.setenv("BURSAR_WORKERS", "16")
    return Watched()


@pytest.fixture
def still(host):
    """A host whose clock does not move, for tests that must not depend on the speed of the machine."""
    host.still_ns = 0
    return host


def go(host, fn, **keywords):
    return checked(bursar.Runtime(host=host, **keywords)).run(fn)


def test_functions_that_follow_each_other_wake_nobody_until_the_last(still):
    ran = []

    async def main():
        async with nursery() as n:
            task = n.spawn(still.asleep)
            for i in range(50):
                task = n.spawn(ran.append, i, after=[task])

    go(still, main)
    assert ran == list(range(50))
    assert still.wakes == 1, "the loop is woken for the block that waits"
    assert len(still.stood_in) == 51
    assert len(set(still.stood_in)) == 1, "nobody else is needed"
    assert threading.main_thread() not in still.stood_in


def test_the_loop_has_its_turn_now_and_then(still):
    """Somebody may have to tell it something by a signal, which only its own thread hears of."""

    async def main():
        async with nursery() as n:
            task = n.spawn(still.asleep)
            task = n.spawn(later, after=[task])
            n.spawn(len, "abc", after=[task])

    def later():
        still.still_ns += THREAD_DRIVE_NS_MAX

    go(still, main)
    assert still.wakes == 2, "and once more for the block that waits"


def test_values_are_passed_on_the_way(still):
    async def main():
        async with nursery() as n:
            first = n.spawn(still.asleep)
            one = n.spawn(len, "a", after=[first])
            two = n.spawn(len, "ab", after=[one])
            total = n.spawn(sum, [one, two])
        return total.result

    assert go(still, main) == 3
    assert still.wakes == 1


def test_a_coroutine_that_follows_runs_in_the_thread_of_the_loop(still):
    async def follows():
        return threading.current_thread()

    async def main():
        async with nursery() as n:
            task = n.spawn(still.asleep)
            other = n.spawn(follows, after=[task])
            last = n.spawn(threading.current_thread, after=[other])
        return other.result, last.result

    coroutine, function = go(still, main)
    assert coroutine is threading.main_thread()
    assert function is not coroutine
    assert still.stood_in


def test_a_function_that_fails_is_left_to_the_loop(host, monkeypatch):
    refuse = ThreadJob.refuse

    def fails():
        host.asleep()
        raise KeyError("lost")

    async def main():
        main.told = []
        monkeypatch.setattr(
            ThreadJob, "refuse", lambda job, *args: (main.told.append(threading.current_thread()), refuse(job, *args))
        )
        async with nursery(cancel_on_failure=False) as n:
            task = main.task = n.spawn(fails)
            main.after = n.spawn(len, "abc", after=[task])

    with pytest.raises(ExceptionGroup):
        go(host, main)
    assert main.task.outcome.kind is OutcomeKind.FAILED
    assert main.after.outcome.kind is OutcomeKind.CANCELLED
    assert main.told == [threading.main_thread()]


def test_where_evidence_is_taken_no_thread_drives_the_loop(host, tmp_path):
    def awake():
        return 3

    async def main():
        async with nursery() as n:
            task = n.spawn(awake)
            for _ in range(5):
                task = n.spawn(awake, after=[task])
        return task.result

    assert go(host, main, record=tmp_path / "run.trace") == 3
    assert not host.stood_in


def test_a_timer_that_is_set_meanwhile_is_the_loop_s(host):
    """The gate sets one, when nobody but a worker is awake."""
    release = threading.Event()

    async def main():
        authority = Authority(max_concurrent=1, max_wait=0.01)
        async with nursery(admission=authority, cancel_on_failure=False) as n:
            first = n.spawn(host.asleep)
            holds = n.spawn(release.wait, WAIT_S, after=[first], priority=Priority.HIGH)
            waits = n.spawn(len, "abc", after=[first])
            with pytest.raises(TaskDropped):
                await waits
            release.set()
        return holds.result

    assert go(host, main)


def test_a_sleep_ends_while_functions_follow_each_other(host):
    """Without an end in sight: only the timer ends it."""
    woken = threading.Event()

    async def sleeps():
        await bursar.sleep(0.01)
        woken.set()

    async def main():
        async with nursery() as n:
            n.spawn(sleeps)
            task = n.spawn(host.asleep)
            while not woken.is_set():
                for _ in range(20):
                    task = n.spawn(len, "abc", after=[task])
                await task

    go(host, main)


def test_ctrl_c_while_functions_follow_each_other(host):
    ran = []

    def works(i):
        if i == 20:
            os.kill(os.getpid(), signal.SIGINT)
        ran.append(i)

    async def main():
        async with nursery() as n:
            task = n.spawn(host.asleep)
            for i in range(10_000):
                task = n.spawn(works, i, after=[task])

    with pytest.raises(KeyboardInterrupt):
        bursar.Runtime(host=host).run(main)
    assert ran == list(range(len(ran)))
    assert 20 < len(ran) < 10_000


def test_many_at_once_each_followed_by_another(host):
    """Those who end meanwhile are not forgotten, whoever stands in."""

    async def main():
        async with nursery() as n:
            lasts = []
            for i in range(8):
                task = n.spawn(host.asleep)
                for _ in range(100):
                    task = n.spawn(lambda x: x + 1, i, after=[task])
                lasts.append(task)
        return [task.result for task in lasts]

    assert go(host, main) == list(range(1, 9))


def test_an_error_in_a_thread_that_drives_the_loop_ends_the_run(host, monkeypatch):
    async def main():
        async with nursery() as n:
            task = n.spawn(host.asleep)
            n.spawn(len, "abc", after=[task])

    runtime = bursar.Runtime(host=host)
    plain = runtime.kernel.advance

    class Struck(type(runtime.kernel)):
        def advance(self, *args):
            if threading.current_thread() is not threading.main_thread():
                raise MemoryError("struck")
            return plain(*args)

    runtime.kernel.__class__ = Struck
    with pytest.raises(MemoryError, match="struck"):
        runtime.run(main)
