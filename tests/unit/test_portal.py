"""Portals: other threads start tasks, on the authority of the owner, and every future gets an answer, whatever ends."""

import contextvars
import threading
from concurrent.futures import CancelledError, Future

import pytest
from support.drive import checked, over
from support.real import real, settled

import bursar
from bursar import (
    Budget,
    CapabilityDenied,
    CapabilityRevoked,
    CapSpawn,
    Deadlock,
    Event,
    HostLost,
    NurseryClosed,
    ScopeMisuse,
    SpawnBudgetExceeded,
    TaskCancelled,
    TaskPanicked,
    WouldBlock,
    nursery,
    portal,
)
from bursar.evidence.replay import replay
from bursar.evidence.trace import Trace
from bursar.portal import PENDING_MAX

WAIT_S = 20  # for what must come; a test that waits so long has failed


async def double(x):
    await bursar.checkpoint()
    return 2 * x


async def finish(event):
    event.set()


class Helper(threading.Thread):
    """Runs `work(portal)` in another thread, and then opens the event that the program waits for."""

    def __init__(self, p, work):
        super().__init__()
        self._portal, self._work = p, work
        self.done = Event()
        self.error = None
        self.result = None
        self.start()

    def run(self):
        try:
            self.result = self._work(self._portal)
        except BaseException as error:
            self.error = error
        self._portal.spawn(finish, self.done)


def with_thread(work, run=real, **keywords):
    """Run a program whose nursery is open to `work(portal)` in another thread; returns what that returned."""

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                helper = Helper(p, work)
                await helper.done.wait()
        helper.join()
        if helper.error is not None:
            raise helper.error
        return helper.result

    return run(main, **keywords)


def test_a_thread_starts_a_task_and_gets_its_value():
    assert with_thread(lambda p: p.spawn(double, 21).result(WAIT_S)) == 42


def test_waiting_for_other_threads_is_no_deadlock_even_in_virtual_time(run):
    assert with_thread(lambda p: p.spawn(double, 21).result(WAIT_S), run=run) == 42


def test_a_closed_portal_is_nobody_to_wait_for(run):
    async def main():
        async with nursery() as n:
            with portal(n):
                pass
            await Event().wait()

    with pytest.raises(Deadlock):
        run(main)


def test_a_portal_closes_with_its_nursery(run):
    async def main():
        async with nursery() as n:
            p = portal(n).__enter__()
            n.spawn(wait_for_ever)
        return p

    async def wait_for_ever():
        await Event().wait()

    with pytest.raises(Deadlock):
        run(main)


def test_what_a_task_fails_with_is_what_the_future_gets():
    async def fails():
        raise KeyError("mine")

    async def panics():
        raise SystemExit(3)

    def work(p):
        for fn, error in ((fails, KeyError), (panics, TaskPanicked)):
            with pytest.raises(error):
                p.spawn(fn).result(WAIT_S)
        return "told"

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            with portal(n) as p:
                helper = Helper(p, work)
                await helper.done.wait()
                helper.join()
                assert helper.result == "told"

    with pytest.raises(BaseExceptionGroup) as caught:
        real(main)
    assert [type(error) for error in caught.value.exceptions] == [KeyError, SystemExit]


def test_cancelling_the_future_cancels_the_task():
    log = []

    async def stubborn(started):
        started.set()
        try:
            await Event().wait()
        except bursar.Cancelled as error:
            log.append(str(error))
            raise

    def work(p):
        started = threading.Event()
        future = p.spawn(stubborn, started)
        assert started.wait(WAIT_S)
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(WAIT_S)

    with_thread(work)
    assert log == ["user: its future was cancelled"]


def test_a_future_that_is_cancelled_before_its_task_is_spawned_spawns_nothing():
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                future = p.spawn(double, 1)
                assert future.cancel()
                await settled()
                assert n.tasks == []

    real(main)
    assert real.runtime.statistics().spawned == 1


def test_a_task_that_is_cancelled_from_inside_is_told_as_such():
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                future = p.spawn(wait_for_ever)
                while not n.tasks:
                    await bursar.checkpoint()
                await settled()
                n.tasks[0].cancel("enough")
                await settled()
        return future

    async def wait_for_ever():
        await Event().wait()

    future = real(main)
    with pytest.raises(TaskCancelled, match="enough"):
        future.result(0)


def test_the_context_of_the_calling_thread_is_copied():
    who = contextvars.ContextVar("who", default="nobody")

    async def ask():
        before = who.get()
        who.set("the task")
        return before

    def work(p):
        who.set("the thread")
        return p.spawn(ask).result(WAIT_S), who.get()

    assert with_thread(work) == ("the thread", "the thread")


def test_names_and_budgets_are_those_that_were_asked_for():
    async def look():
        task = await bursar.current_task()
        return task.name, task.budget.ops

    assert with_thread(lambda p: p.spawn(look, name="mine", budget=Budget(ops=50)).result(WAIT_S)) == ("mine", 49)


def test_the_nursery_pays():
    async def main():
        async with nursery(budget=Budget(spawns=2)) as n:
            with portal(n) as p:
                futures = [p.spawn(double, i) for i in range(3)]
                await settled()
        return futures

    *fine, refused = real(main)
    assert [future.result(0) for future in fine] == [0, 2]
    with pytest.raises(SpawnBudgetExceeded, match="has no spawns left"):
        refused.result(0)


def test_the_owner_s_authority_counts():
    async def main():
        mine = (await bursar.capabilities())[CapSpawn]
        async with nursery() as n:
            with portal(n) as p:
                futures = [p.spawn(hold) for _ in range(3)]
                await settled()
                main.runtime.revoke(mine)
                futures.append(p.spawn(double, 1))
                await settled()
                n.cancel()
        return futures

    async def hold():
        await Event().wait()

    runtime = checked(bursar.Runtime(capabilities=[CapSpawn(max_tasks=2)]))
    main.runtime = runtime
    one, two, three, four = runtime.run(main)
    over(runtime)
    for future in (one, two):
        with pytest.raises(TaskCancelled):
            future.result(0)
    with pytest.raises(CapabilityDenied, match=r"max_tasks=2\) is used up"):
        three.result(0)
    with pytest.raises(CapabilityRevoked):
        four.result(0)


def test_only_the_owner_of_a_nursery_opens_it_to_others(run):
    async def main():
        async with nursery() as n:
            n.spawn(intruder, n)

    async def intruder(n):
        with pytest.raises(ScopeMisuse, match=r"cannot open a portal to nursery .*, which it did not open"), portal(n):
            pass

    run(main)


def test_a_portal_is_opened_in_a_running_task_of_its_runtime(run):
    async def main():
        async with nursery() as n:
            n.cancel()
            with pytest.raises(NurseryClosed), portal(n):
                pass
            return n

    n = run(main)
    with pytest.raises(ScopeMisuse, match="outside any task"), portal(n):
        pass


def test_a_portal_is_opened_once_at_a_time(run):
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                with pytest.raises(ScopeMisuse, match="is open already"):
                    p.__enter__()
                assert repr(p) == f"<Portal to {n.name}, open>"
            assert repr(p) == f"<Portal to {n.name}, closed>"

    run(main)


def test_after_the_portal_the_nursery_or_the_run_ended_futures_are_refused():
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                pass
            futures = [p.spawn(double, 1)]
            await settled()
            with portal(n) as p:
                async with bursar.shield():
                    n.cancel()
                    futures.append(p.spawn(double, 1))
                    await settled()
        return futures, p

    futures, p = real(main)
    futures.append(p.spawn(double, 1))
    for future, why in zip(futures, ("its portal is closed", "is cancelling", "the run is over"), strict=True):
        with pytest.raises(NurseryClosed, match=why):
            future.result(0)


def test_what_cannot_be_spawned_is_refused_in_the_calling_thread(run):
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                with pytest.raises(bursar.NotBuilt, match="use `async def`"):
                    p.spawn(print)
                with pytest.raises(TypeError, match="pass the function and its arguments"):
                    p.spawn(double(1))
                with pytest.raises(TypeError, match="is not a Budget"):
                    p.spawn(double, 1, budget=5)

    run(main)


def test_a_wrong_call_is_the_failure_of_its_task():
    async def main():
        async with nursery(cancel_on_failure=False) as n:
            with portal(n) as p:
                future = p.spawn(double)
                await settled()
        return future

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    assert "missing 1 required positional argument" in str(caught.value.exceptions[0])


def test_a_callback_of_a_future_may_do_what_it_likes():
    """It runs between batches, never inside the law: here it spawns, and cancels everything."""
    seen = []

    async def main():
        async with nursery() as n:
            with portal(n) as p:

                def again(future: Future):
                    seen.append(future.result())
                    if future.result() < 32:
                        p.spawn(double, future.result()).add_done_callback(again)
                    else:
                        n.cancel()

                p.spawn(double, 1).add_done_callback(again)
                await Event().wait()

    real(main)
    assert seen == [2, 4, 8, 16, 32]


def test_a_run_that_is_torn_down_answers_its_futures():
    """Something that is no affair of the tasks, here a bug in an observer, ends the run at once."""
    futures = []

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                futures.extend(p.spawn(hold) for _ in range(3))
                await settled()
                futures.append(p.spawn(hold))
                runtime.kernel.observe(broken)
                await bursar.checkpoint()

    async def hold():
        await Event().wait()

    def broken(kind, task, detail):
        runtime.kernel.observe(None)
        raise AssertionError("a bug")

    runtime = bursar.Runtime()
    with pytest.raises(AssertionError, match="a bug"):
        runtime.run(main)
    for future in futures[:3]:
        with pytest.raises(HostLost, match="the run was torn down before it ended"):
            future.result(0)
    with pytest.raises(NurseryClosed, match="the run is over"):
        futures[3].result(0)


def test_a_thread_that_never_waits_is_stopped_by_a_limit(run):
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                futures = [p.spawn(double, i) for i in range(PENDING_MAX + 1)]
                assert futures[-1].done()
                with pytest.raises(WouldBlock, match="10,000 tasks wait to be spawned"):
                    futures[-1].result(0)
                n.cancel()

    run(main)


def test_eight_threads_submit_a_thousand_tasks_each():
    def submit(p, number):
        futures = [p.spawn(double, number * 1000 + i) for i in range(1000)]
        return sum(future.result(WAIT_S) for future in futures)

    def work(p):
        sums = {}
        threads = [
            threading.Thread(target=lambda number=number: sums.update({number: submit(p, number)}))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sums

    unchecked = bursar.run  # checking everything after each of so many polls takes a minute
    sums = with_thread(work, run=unchecked)
    assert sums == {number: sum(2 * (number * 1000 + i) for i in range(1000)) for number in range(8)}


@pytest.mark.parametrize("seed", range(5))
def test_submissions_that_race_the_end_of_the_run_are_all_answered(seed):
    go_on = threading.Event()
    futures = [[] for _ in range(8)]

    def submit(p, mine):
        assert go_on.wait(WAIT_S)
        mine.extend(p.spawn(double, i) for i in range(1000))

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                for mine in futures:
                    threads.append(threading.Thread(target=submit, args=(p, mine)))
                    threads[-1].start()
                go_on.set()
                for _ in range(seed * 20):
                    await bursar.checkpoint()

    threads = []
    bursar.run(main, seed=seed)
    for thread in threads:
        thread.join()
    answered = refused = 0
    for future in (future for mine in futures for future in mine):
        try:
            future.result(0)
            answered += 1
        except NurseryClosed:
            refused += 1
    assert answered + refused == 8000
    assert refused > 0


def test_a_portal_is_not_closed_from_another_thread():
    def work(p):
        with pytest.raises(ScopeMisuse, match="closed from another thread than the one that runs its runtime"):
            p.close()
        return p.spawn(double, 1).result(WAIT_S)

    assert with_thread(work) == 2


def test_whether_a_future_was_cancelled_in_time_is_on_record(tmp_path):
    cancels = [True, False]

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                future = p.spawn(double, 1)
                if cancels.pop(0):
                    future.cancel()
                await settled()
                return len(n.tasks), future.cancelled()

    trace = tmp_path / "cancelled.trace"
    assert bursar.run(main, record=str(trace)) == (0, True)
    assert replay(Trace(trace), main).value == (0, True)
    assert cancels == []
