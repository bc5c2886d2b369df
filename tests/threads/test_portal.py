"""Portals: other threads start tasks, and every future gets an answer, whatever ends; or they have functions called."""

import asyncio
import contextvars
import gc
import threading
import weakref
from collections import Counter
from concurrent.futures import CancelledError, Future, as_completed, wait

import pytest
from support.drive import checked, over
from support.evidence import Trace, replay, replay_module, verify
from support.hosts import BURST_MAX
from support.real_sockets import real, settled
from support.time_limits import WAIT_S

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
from bursar.threads.portal import PENDING_MAX


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
        with pytest.raises(ScopeMisuse, match=r"Portal.close\(\) was used from another thread"):
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


# ---- futures that are made when somebody wants one


def with_future(use, body=double):
    """What `use(future)` gives in another thread, for a task that has ended already and for one that waits."""

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                ended = p.spawn(body, 21)
                await settled()
                helper = Helper(p, lambda p: [use(ended), use(p.spawn(body, 21))])
                await helper.done.wait()
        helper.join()
        if helper.error is not None:
            raise helper.error
        return helper.result

    return real(main)


@pytest.mark.parametrize(
    "use",
    [
        lambda future: future.result(WAIT_S),
        lambda future: (future.exception(WAIT_S), future.result(0))[1],
        lambda future: (wait([future], WAIT_S).done.pop() is future, future.result(0))[1],
        lambda future: next(as_completed([future], WAIT_S)).result(0),
        lambda future: asyncio.run(awaited(future)),
    ],
    ids=["result", "exception", "wait", "as_completed", "asyncio"],
)
def test_a_future_is_one_for_everybody_who_knows_futures(use):
    assert with_future(use) == [42, 42]


async def awaited(future):
    return await asyncio.wrap_future(future)


def test_a_future_that_was_answered_is_done_for_all_who_ask():
    def use(future):
        future.result(WAIT_S)
        called = []
        future.add_done_callback(called.append)
        return future.done(), future.running(), future.cancel(), future.exception(0), called == [future], repr(future)

    for done, running, cancelled, error, called, shown in with_future(use):
        assert (done, running, cancelled, error, called) == (True, False, False, None, True)
        assert "finished returned int" in shown


def test_a_future_that_nobody_keeps_leaves_nothing_behind():
    class Thing:
        pass

    async def take(thing):
        await bursar.checkpoint()

    async def main():
        gone = []
        async with nursery() as n:
            with portal(n) as p:
                for looked_at in (False, True):
                    thing = Thing()
                    gone.append(weakref.ref(thing))
                    future = p.spawn(take, thing)
                    if looked_at:
                        assert not future.done()
                    del thing
                    await settled()
                    assert future.done()
        return gone, future

    gc.disable()
    try:
        gone, _ = real(main)
        assert [thing() for thing in gone] == [None, None]
    finally:
        gc.enable()


def test_an_attribute_that_no_future_has_is_missed(run):
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                future = p.spawn(double, 1)
                for name in ("no_such_thing", "__no_such_thing__"):
                    with pytest.raises(AttributeError, match="no_such_thing"):
                        getattr(future, name)
                n.cancel()

    run(main)


# ---- calls


def test_a_thread_has_functions_called_in_the_thread_of_the_runtime_in_their_order():
    log = []

    def work(p):
        for i in range(2 * BURST_MAX + 7):
            assert p.call(log.append, (i, threading.get_ident())) is None
        p.call(lambda: log.append(("ran in", threading.get_ident())))
        return threading.get_ident()

    other = with_thread(work)
    *numbers, (_, ran_in) = log
    assert [i for i, _ in numbers] == list(range(2 * BURST_MAX + 7))
    assert ran_in == threading.get_ident() != other


@pytest.mark.parametrize("args", [(), (1,), (1, 2, 3), (1, 2, 3, 4), tuple(range(50))])
def test_a_call_has_its_arguments(args, run):
    log = []

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                p.call(lambda *given: log.append(given), *args)
                await bursar.checkpoint()

    run(main)
    assert log == [args]


def test_a_call_runs_outside_any_task_and_may_set_events_and_cancel(run):
    async def main():
        seen = []
        happened = Event()
        async with nursery() as n:
            with portal(n) as p:
                victim = n.spawn(wait_for, Event())
                await bursar.checkpoint()
                p.call(lambda: seen.append(p._kernel.current))
                p.call(victim.cancel, "by a call")
                p.call(happened.set)
                await happened.wait()
        return seen, str(victim.outcome.reason)

    async def wait_for(event):
        await event.wait()

    seen, reason = run(main)
    assert seen == [None]
    assert "by a call" in reason


def test_a_call_cannot_send_for_nobody_would_pay(run):
    async def main():
        sender, _receiver = await bursar.channel(1)
        async with nursery() as n:
            with portal(n) as p:
                p.call(sender.send_nowait, 1)
        return p

    (report,) = run(main)._kernel.reports
    assert report.kind == "call_failed"
    assert "ScopeMisuse" in report.detail
    assert "outside any task" in report.detail


def test_calls_that_fail_are_reported_and_stop_nobody(run):
    log = []

    def fails(what):
        raise KeyError(what)

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                p.call(fails, "mine")
                p.call(log.append, "after it")
                p.call(len)
        return p

    first, second = run(main)._kernel.reports
    assert (first.kind, second.kind) == ("call_failed", "call_failed")
    assert log == ["after it"]
    assert first.task.endswith("main")
    assert "fails raised KeyError: 'mine'" in first.detail
    assert "len raised TypeError" in second.detail


def test_a_call_that_wants_the_process_to_end_ends_the_run():
    def leave():
        raise SystemExit(3)

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                p.call(leave)
                p.call(log.append, "never")
                await Event().wait()

    log = []
    with pytest.raises(SystemExit):
        bursar.run(main)
    assert log == []


def test_what_cannot_be_called_is_refused_in_the_calling_thread(run):
    async def main():
        async with nursery() as n:
            with portal(n) as p:
                with pytest.raises(TypeError, match="takes a function and its arguments, not a int"):
                    p.call(5)
                with pytest.raises(TypeError):
                    p.call()

    run(main)


def test_calls_after_the_portal_or_the_run_ended_are_refused(run):
    log = []

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                p.call(log.append, "taken before the end")
            with pytest.raises(NurseryClosed, match="its portal is closed"):
                p.call(log.append, "too late")
        return p

    p = run(main)
    with pytest.raises(NurseryClosed, match="the run is over"):
        p.call(log.append, "much too late")
    assert log == ["taken before the end"]


def test_a_portal_that_was_never_opened_takes_no_calls(run):
    async def main():
        async with nursery() as n:
            with pytest.raises(NurseryClosed, match="its portal is closed"):
                portal(n).call(print)

    run(main)


def test_a_thread_that_never_waits_is_stopped_by_a_limit_for_calls_too(run):
    log = []

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                for i in range(PENDING_MAX):
                    p.call(log.append, i)
                with pytest.raises(WouldBlock, match="10,000 calls wait to be made"):
                    p.call(log.append, "too many")
                await settled()
                p.call(log.append, "room again")

    real(main)
    assert log == [*range(PENDING_MAX), "room again"]


def test_calls_do_not_keep_the_tasks_from_running(run):
    """Calls that call again, for ever: each batch makes a limited number, and then it is the turn of the tasks."""
    made = Counter()

    async def main():
        def again():
            made[p._pump.batch] += 1
            if not over:
                p.call(again)

        over = False
        async with nursery() as n:
            with portal(n) as p:
                for _ in range(BURST_MAX + 50):
                    p.call(again)
                while len(made) < 5:
                    await bursar.checkpoint()
                over = True

    run(main)
    assert BURST_MAX <= max(made.values()) < 2 * BURST_MAX


def test_eight_threads_call_ten_thousand_times_each():
    log = []

    def submit(p, number):
        room = threading.Semaphore(1000)  # of those that are under way

        def arrive(i):
            log.append((number, i))
            room.release()

        for i in range(10_000):
            assert room.acquire(timeout=WAIT_S)
            p.call(arrive, i)
        for _ in range(1000):
            assert room.acquire(timeout=WAIT_S)

    def work(p):
        threads = [threading.Thread(target=submit, args=(p, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with_thread(work, run=bursar.run)
    for number in range(8):
        assert [i for n, i in log if n == number] == list(range(10_000))


@pytest.mark.parametrize("seed", range(5))
def test_calls_that_race_the_end_of_the_run_are_made_or_refused(seed):
    go_on = threading.Event()
    made, taken = [], [0] * 4

    def submit(p, number):
        assert go_on.wait(WAIT_S)
        for i in range(2000):
            try:
                p.call(made.append, (number, i))
            except WouldBlock:
                pass
            except NurseryClosed:
                return
            else:
                taken[number] += 1

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                for number in range(4):
                    threads.append(threading.Thread(target=submit, args=(p, number)))
                    threads[-1].start()
                go_on.set()
                for _ in range(seed * 20):
                    await bursar.checkpoint()

    threads = []
    bursar.run(main, seed=seed)
    for thread in threads:
        thread.join()
    assert [sum(n == number for n, _ in made) for number in range(4)] == taken


def test_a_run_that_is_torn_down_forgets_its_calls():
    class Thing:
        def touch(self):
            raise SystemExit("the run is over, and nobody is called any more")

    async def main():
        async with nursery() as n:
            with portal(n) as p:
                thing = Thing()
                gone.append(weakref.ref(thing))
                p.call(thing.touch)
                del thing
                runtime.kernel.observe(broken)
                await bursar.checkpoint()

    def broken(kind, task, detail):
        runtime.kernel.observe(None)
        raise AssertionError("a bug")

    gone = []
    runtime = bursar.Runtime()
    with pytest.raises(AssertionError, match="a bug"):
        runtime.run(main)
    gc.collect()
    assert gone[0]() is None


def test_a_run_with_calls_follows_the_law_and_is_replayed(tmp_path):
    """The threads run again; as many calls are made at each place as then, however fast the threads are now."""
    patience = [False, True]  # whether the thread waits for what it has handed in: another rhythm in the replay

    async def main():
        patient = patience.pop()
        total, enough = [], Event()

        def add(i):
            total.append(i)
            if i == 999:
                enough.set()
            if i == 500:
                raise ValueError(i)

        def work(p):
            for i in range(1000):
                p.call(add, i)
                if i % 50 == 0:
                    came = threading.Event()
                    p.call(came.set)
                    assert not patient or came.wait(WAIT_S)

        async with nursery() as n:
            with portal(n) as p:
                thread = threading.Thread(target=work, args=(p,))
                thread.start()
                await enough.wait()
                seen = len(total)
        thread.join()
        return seen, sum(total)

    trace = tmp_path / "calls.trace"
    recorded = bursar.run(main, record=str(trace))
    assert recorded == (1000, sum(range(1000)))
    assert verify(Trace(trace)).decisions > 0
    kinds = [kind.name for kind, _, _ in Trace(trace).records()]
    assert kinds.count("call_failed") == 1
    assert 20 <= kinds.count("outside") <= 1020
    assert replay(Trace(trace), main).value == recorded


def test_a_replay_tells_that_a_thread_no_longer_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_module, "PATIENCE_S", 0.0)
    calls = [1, 2]

    async def main():
        n_calls = calls.pop()
        enough = Event()
        async with nursery() as n:
            with portal(n) as p:
                for _ in range(n_calls - 1):
                    p.call(int)
                p.call(enough.set)
                await enough.wait()

    trace = tmp_path / "calls.trace"
    bursar.run(main, record=str(trace), clock="virtual")
    with pytest.raises(bursar.Divergence, match=r"did not cause .calls nursery"):
        replay(Trace(trace), main)


def test_what_comes_through_a_portal_asks_the_gate_of_its_nursery(run):
    async def main():
        running = most = 0

        async def work():
            nonlocal running, most
            running += 1
            most = max(most, running)
            await bursar.checkpoint()
            running -= 1

        async with nursery(admission=bursar.Authority(max_concurrent=1, max_queue=2)) as n:
            with portal(n) as p:
                futures = [p.spawn(work) for _ in range(4)]
                while not all(future.done() for future in futures):
                    await bursar.checkpoint()
        return most, [type(future.exception()).__name__ for future in futures]

    assert run(main) == (1, ["NoneType", "NoneType", "NoneType", "TaskDropped"])
