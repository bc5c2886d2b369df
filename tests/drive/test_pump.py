"""The pump, driven call by call: its states, its three rules, its alarms, and hosts that misbehave.

How a run ends, and what goes wrong on the way, is in `test_pump_ends.py`.
"""

import itertools
import sys
import threading

import pytest
from support.hosts import SelectorHost
from support.law import TIMED_STREAK_MAX
from support.script import NS, Await, Do, Script, ScriptLoop, forever, names, nothing

import bursar
from bursar import HostLost, HostMisuse, Runtime
from bursar.drive.pump import BURST_MAX, PumpState

# ---- the states


def test_it_is_idle_then_scheduled_then_running_then_idle():
    seen = []

    async def main():
        await Do(lambda pump: seen.append(pump.state))
        await bursar.sleep(1)

    host = Script()
    runtime = Runtime(host=host)
    pump = runtime.pump
    assert (pump.state, host.owed) == (PumpState.IDLE, [])
    runtime.start(main)
    assert (pump.state, host.owed) == (PumpState.SCHEDULED, ["microtask"])
    host.call()
    assert seen == [PumpState.RUNNING]
    assert (pump.state, host.owed, host.alarm_ns) == (PumpState.IDLE, [], NS)
    host.ring()
    assert (pump.over, host.closed, runtime.result()) == (True, 1, None)


def test_a_pump_that_is_scheduled_asks_for_no_second_call(started):
    _, host, _ = started(nothing)
    for _ in range(10):
        host.pump.nudge()
        host.pump.post("hello", lambda: None)
    assert host.asked == ["microtask"]


def test_nothing_to_do_before_the_start_asks_for_nothing():
    runtime = Runtime(host=(host := Script()))
    runtime.pump.nudge()
    assert (host.asked, runtime.pump.state) == ([], PumpState.IDLE)


def test_batches_and_turns_are_numbered_and_a_microtask_stays_in_its_turn(started):
    async def main():
        await Do(lambda pump: pump.nudge())  # one more batch, at once
        await bursar.sleep(1)

    _, host, notes = started(main)
    host.rest()
    host.ring()
    assert [detail for name, _, detail in notes if name == "host_turn"] == [(1, 1, 0), (1, 2, 0), (2, 3, NS)]


# ---- PUMP-1: never inside itself


@pytest.mark.parametrize("how", ["drain", "rang"])
def test_a_call_that_comes_while_it_runs_is_deferred_recorded_and_not_lost(started, how):
    ran = []

    async def main():
        me = (await bursar.current_task()).id
        await Do(lambda pump: getattr(pump, how)())
        ran.append(me)

    async def other():
        ran.append("other")

    async def both():
        async with bursar.nursery() as n:
            n.spawn(main)
            n.spawn(other)

    runtime, host, notes = started(both)
    host.call()
    deferred = [task.id for name, task, _ in notes if name == "scheduler_reentrancy_deferred"]
    assert deferred == ran[:1]  # told with the task that was running
    assert ran[1:] == ["other"]  # its poll went on, and the others after it
    assert runtime.pump.batch == 1
    host.play()
    assert runtime.result() is None


def test_a_deferred_call_leads_to_one_more_batch_even_if_nothing_is_runnable(started):
    async def main():
        await Do(lambda pump: pump.drain())
        await bursar.sleep(1)

    runtime, host, _ = started(main)
    host.call()
    assert (host.owed, runtime.pump.state) == (["microtask"], PumpState.SCHEDULED)
    host.call()
    assert (host.owed, runtime.pump.batch, host.alarm_ns) == ([], 2, NS)


def test_a_delivery_that_calls_the_pump_is_deferred_too(started):
    runtime, host, notes = started(nothing)
    runtime.pump.post("loop", runtime.pump.drain)
    host.call()
    assert names(notes).count("scheduler_reentrancy_deferred") == 1
    assert runtime.result() == "done"


# ---- PUMP-2: from outside only at the beginning of a batch


def test_what_comes_in_the_middle_of_a_batch_waits_for_the_next_one(started):
    log = []

    def bring(pump):
        pump.post("own thread", lambda: log.append("own thread"))
        thread = threading.Thread(target=pump.post, args=("another", lambda: log.append("another")))
        thread.start()
        thread.join()

    async def main():
        await Do(bring)
        for i in range(5):
            await bursar.checkpoint()
            log.append(i)

    _, host, notes = started(main)
    host.call()
    assert log == [0, 1, 2, 3, 4]
    assert "outside" not in names(notes)
    host.play()
    assert log == [0, 1, 2, 3, 4, "own thread", "another"]
    told = [detail for name, _, detail in notes if name == "outside"]
    assert told == ["own thread", "another"]


def test_what_came_in_is_delivered_in_order_after_the_time_and_before_any_step(started):
    runtime, host, notes = started(forever)
    host.call()
    del notes[:]
    for label in "abc":
        runtime.pump.post(label, lambda: None)
    host.call()
    assert [name for name in names(notes) if not name.startswith("task")][:5] == [
        "host_turn",
        "outside",
        "outside",
        "outside",
        "scheduler_step_begin",
    ]
    assert [detail for name, _, detail in notes if name == "outside"] == ["a", "b", "c"]


def test_what_a_delivery_posts_is_delivered_in_the_next_batch_and_a_turn_has_so_many(started):
    count = []

    def again():
        count.append(host.pump.batch)
        host.pump.post("again", again)

    async def main():
        await bursar.sleep(1)

    runtime, host, _ = started(main)
    runtime.pump.post("again", again)
    for _ in range(2 * BURST_MAX):
        host.call()
    assert count == list(range(1, 2 * BURST_MAX + 1))
    turn = ["microtask"] * (BURST_MAX - 1) + ["handoff"]
    assert host.asked == ["microtask", *turn, *turn]


# ---- PUMP-3: a bounded number of decisions


def between_handoffs(notes) -> list[int]:
    """How many decisions were made between one handoff and the next."""
    counts = [0]
    for name in names(notes):
        counts[-1] += name == "scheduler_step_decision"
        if name == "scheduler_host_handoff":
            counts.append(0)
    return counts


def test_a_burst_ends_in_a_handoff_that_is_told(started):
    _, host, notes = started(forever)
    host.call()
    assert host.owed == ["handoff"]
    assert names(notes)[-2:] == ["scheduler_burst_limit_reached", "scheduler_host_handoff"]
    for _ in range(5):
        host.call()
    assert between_handoffs(notes) == [BURST_MAX] * 6 + [0]


@pytest.mark.parametrize("limit", [1, 7, 64])
def test_a_task_that_is_answered_at_once_for_ever_still_lets_the_host_have_its_turn(limit):
    """Each answer makes a batch of its own: together they count as one burst."""

    async def main():
        for _ in range(200):
            await Await(lambda arrive: arrive())

    host = Script()
    runtime = Runtime(host=host)
    runtime.pump.burst_limit = limit
    notes = []
    runtime.kernel.observe(lambda *note: notes.append(note))
    runtime.start(main)
    host.play()
    counts = between_handoffs(notes)
    assert max(counts) == limit
    assert sum(counts) == 201


def test_a_burst_that_ends_with_nothing_left_is_no_handoff(started):
    async def main():
        for _ in range(BURST_MAX - 1):
            await bursar.checkpoint()

    runtime, host, notes = started(main)
    host.call()
    assert runtime.pump.over
    assert runtime.kernel.decisions == BURST_MAX
    assert "scheduler_host_handoff" not in names(notes)


# ---- hosts that misbehave


def test_a_host_that_calls_too_often_does_no_harm(started):
    async def main():
        await bursar.sleep(1)
        await bursar.checkpoint()
        return await bursar.now()

    def run(extra: int) -> tuple:
        runtime, host, _ = started(main)
        while not host.pump.over:
            for _ in range(extra):
                host.pump.drain()
            if host.owed:
                host.call()
            elif not host.pump.over:
                host.ring()
        return runtime.result(), runtime.fingerprint, runtime.kernel.decisions

    assert run(0) == run(3) == (1.0, run(0)[1], 3)


def test_a_call_after_the_end_is_counted_and_nothing_else(started):
    runtime, host, notes = started(nothing)
    host.call()
    before = len(notes)
    host.pump.drain()
    host.pump.rang()
    host.pump.nudge()
    assert runtime.kernel.counters["late_host_calls"] == 2
    assert (len(notes), host.closed, host.owed, runtime.result()) == (before, 1, [], "done")


@pytest.mark.parametrize("how", ["drain", "rang"])
def test_a_call_from_another_thread_is_refused_there_and_made_again_here(started, how):
    runtime, host, _ = started(nothing)
    refused = []

    def call():
        try:
            getattr(host.pump, how)()
        except HostMisuse as error:
            refused.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    (text,) = refused
    assert text.startswith("host 'script' called the pump from another thread")
    assert "Host.wake" in text
    assert (runtime.pump.batch, runtime.pump.state) == (0, PumpState.SCHEDULED)
    host.owed.remove("microtask")  # the host has lost the call that it owed
    host.call()  # the wake
    assert runtime.result() == "done"


def test_a_loop_that_returns_early_is_found_out_and_its_tasks_are_closed():
    log = []

    class Quitter(ScriptLoop):
        def run_until(self, over):
            self.rest()

    async def child():
        try:
            await bursar.sleep(5)
        finally:
            log.append("child")

    async def main():
        try:
            async with bursar.nursery() as n:
                n.spawn(child)
        finally:
            log.append("main")

    runtime = Runtime(host=(host := Quitter()))
    with pytest.raises(HostLost, match="host 'script' returned while 2 tasks lived"):
        runtime.run(main)
    assert log == ["child", "main"]
    assert (runtime.pump.over, host.closed) == (True, 1)


@pytest.mark.parametrize("error", [ValueError("the loop broke"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_loop_raises_ends_the_run_and_closes_its_tasks(error):
    log = []

    class Broken(ScriptLoop):
        def run_until(self, over):
            self.rest()
            raise error

    async def main():
        try:
            await bursar.sleep(5)
        finally:
            log.append("closed")

    runtime = Runtime(host=(host := Broken()))
    with pytest.raises(type(error)) as caught:
        runtime.run(main)
    assert caught.value is error
    assert (log, host.closed, runtime.pump.error) == (["closed"], 1, error)


def test_a_guest_is_not_run_like_a_loop_and_nothing_has_begun():
    runtime = Runtime(host=(host := Script()))
    with pytest.raises(HostMisuse, match="host 'script' is a guest"):
        runtime.run(nothing)
    assert (host.opened, runtime.live) == (0, 0)
    runtime.start(nothing)  # it can still be used as what it is
    host.play()
    assert runtime.result() == "done"


def test_the_result_of_a_run_that_is_not_over_is_refused(started):
    runtime, host, _ = started(nothing)
    with pytest.raises(bursar.ResultNotReady, match="not ended yet"):
        runtime.result()
    host.play()
    assert runtime.result() == "done"


# ---- alarms


def test_one_alarm_is_set_for_the_earliest_deadline_only(started):
    async def main():
        async with bursar.nursery() as n:
            for seconds in (30, 10, 20):
                n.spawn(bursar_sleep, seconds)

    async def bursar_sleep(seconds):
        await bursar.sleep(seconds)

    runtime, host, _ = started(main)
    seen = []
    while not runtime.pump.over:
        host.rest()
        seen.append(host.alarm_ns)
        if not runtime.pump.over:
            host.ring()
            host.rest()
    assert [ns for ns in seen if ns is not None][:3] == [10 * NS, 20 * NS, 30 * NS]


def test_the_alarm_follows_when_its_timer_is_cancelled_and_goes_when_there_is_none(started):
    gate = bursar.Event()
    arrivals = []

    async def main():
        async with bursar.timeout(5):
            await Await(arrivals.append)
        async with bursar.timeout(50):
            await Await(arrivals.append)
        await Await(arrivals.append)
        gate.set()

    _, host, _ = started(main)
    seen = []
    for _ in range(3):
        host.rest()
        seen.append(host.alarm_ns)
        arrivals.pop()()
    host.rest()
    assert seen == [5 * NS, 50 * NS, None]
    assert gate.is_set()


def test_an_alarm_that_rings_too_early_is_set_again(started):
    async def main():
        await bursar.sleep(1)

    runtime, host, _ = started(main)
    host.rest()
    host.pump.rang()
    host.rest()
    assert (host.alarm_ns, runtime.live) == (NS, 1)
    host.play()
    assert runtime.result() is None


def test_a_late_alarm_of_a_cancelled_timer_is_a_record_and_nothing_else(started):
    arrivals = []

    async def main():
        async with bursar.timeout(5):
            await Await(arrivals.append)
        await forever()

    runtime, host, notes = started(main)
    host.rest()
    assert host.alarm_ns == 5 * NS
    arrivals.pop()()
    host.call()  # the block is left, its timer is gone, and the pump is too busy to take the alarm back
    decisions = runtime.kernel.decisions
    host.ring()
    assert [detail[0] for name, _, detail in notes if name == "stale_timer"] == [1]
    assert "alarm 1" in next(detail for name, _, detail in reversed(notes) if name == "outside")
    assert runtime.kernel.counters["stale_timer"] == 1
    assert runtime.kernel.decisions == decisions + BURST_MAX


def test_a_suspension_is_caught_up_in_bounded_batches_and_ready_work_keeps_its_turn(started):
    count, polls = 10_000, []

    async def sleeper():
        await bursar.sleep(1)

    async def busy():
        while len(polls) < 100:
            await bursar.checkpoint()
            polls.append(runtime.kernel.decisions)

    arrivals = []

    async def main():
        async with bursar.nursery() as n:
            for _ in range(count):
                n.spawn(sleeper)
            await Await(arrivals.append)
            n.spawn(busy)

    runtime, host, notes = started(main)
    host.rest()
    del notes[:]
    arrivals.pop()()
    host.now = 3600 * NS  # the tab was hidden for an hour, and something comes in as it is shown again
    host.play()
    fired = [0]
    for name in names(notes):
        fired[-1] += name == "timer_fired"
        if name == "scheduler_host_handoff":
            fired.append(0)
    assert sum(fired) == count
    assert max(fired) <= BURST_MAX
    assert max(between_handoffs(notes)) <= BURST_MAX
    assert len(fired) >= count // BURST_MAX
    waits = [b - a for a, b in itertools.pairwise(polls)]
    assert max(waits) <= TIMED_STREAK_MAX + 1


# ---- things outside


def test_while_something_outside_is_awaited_a_run_without_timers_is_no_deadlock(started):
    arrivals = []

    async def main():
        await Await(arrivals.append)
        return "arrived"

    runtime, host, _ = started(main)
    host.rest()
    assert (host.owed, host.alarm_ns, runtime.pump.state) == ([], None, PumpState.IDLE)
    arrivals.pop()()
    assert host.owed == ["microtask"]
    host.play()
    assert runtime.result() == "arrived"


def test_with_nothing_outside_it_is_one(started):
    async def main():
        await bursar.Event().wait()

    runtime, host, _ = started(main)
    host.rest()
    with pytest.raises(bursar.Deadlock):
        runtime.result()


def test_virtual_time_stands_still_while_something_outside_is_awaited():
    arrivals = []

    async def main():
        async with bursar.timeout(5):
            await Await(arrivals.append)
        await bursar.sleep(1)
        return await bursar.now()

    host = Script()
    host.virtual = True
    runtime = Runtime(host=host)
    runtime.start(main)
    host.rest()
    assert host.alarm_ns is None
    arrivals.pop()()
    host.rest()
    assert host.alarm_ns == NS
    host.play()
    assert runtime.result() == 1.0


def test_what_is_posted_before_the_start_is_delivered_before_the_first_step():
    log = []

    async def main():
        log.append("main")

    runtime = Runtime(host=(host := Script()))
    runtime.pump.post("early", lambda: log.append("early"))
    thread = threading.Thread(target=runtime.pump.post, args=("earlier", lambda: log.append("other thread")))
    thread.start()
    thread.join()
    assert host.asked == []
    runtime.start(main)
    host.play()
    assert log == ["early", "other thread", "main"]


def test_eight_threads_post_and_everything_arrives_once_in_the_order_of_each(started):
    log: list[tuple[int, int]] = []
    each = 500

    async def main():
        await Await(lambda arrive: done.append(arrive))

    done: list = []
    runtime, host, _ = started(main)
    host.rest()

    def post(who: int) -> None:
        for i in range(each):
            runtime.pump.post("mail", lambda i=i: log.append((who, i)))

    threads = [threading.Thread(target=post, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert host.owed == ["wake"] * 8 * each
    assert log == []
    del host.owed[1:]  # one is enough
    host.rest()
    assert len(log) == 8 * each
    for who in range(8):
        assert [i for w, i in log if w == who] == list(range(each))
    done.pop()()
    host.play()


def test_eight_threads_wake_a_loop_that_sleeps():
    log: list[tuple[int, int]] = []
    each, threads = 200, []

    async def main():
        for who in range(8):
            threads.append(threading.Thread(target=post, args=(who,)))
        await Await(lambda arrive: [arrivals.append(arrive), [thread.start() for thread in threads]])

    arrivals: list = []

    def post(who: int) -> None:
        for i in range(each):
            runtime.pump.post("mail", lambda i=i: take(who, i))

    def take(who: int, i: int) -> None:
        log.append((who, i))
        assert threading.get_ident() == runtime.pump.thread
        if len(log) == 8 * each:
            arrivals.pop()()

    runtime = Runtime(host=SelectorHost())
    runtime.run(main)
    for thread in threads:
        thread.join()
    assert sorted(log) == [(who, i) for who in range(8) for i in range(each)]


def test_what_is_posted_after_the_end_is_delivered_at_once_to_whoever_posts(started):
    runtime, host, _ = started(nothing)
    host.play()
    where = []
    runtime.pump.post("late", lambda: where.append(threading.get_ident()))
    thread = threading.Thread(target=runtime.pump.post, args=("later", lambda: where.append(threading.get_ident())))
    thread.start()
    ident = thread.ident
    thread.join()
    assert where == [threading.get_ident(), ident]
    assert host.owed == []


def test_eight_threads_post_after_the_end_and_each_is_told_once(started):
    runtime, host, _ = started(nothing)
    host.play()
    log: list[tuple[int, int]] = []
    failed = []

    def post(who: int) -> None:
        try:
            for i in range(2000):
                runtime.pump.post("late", lambda i=i: log.append((who, i)))
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=post, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
    assert sorted(log) == [(who, i) for who in range(8) for i in range(2000)]


def test_a_cancel_that_comes_too_late_changes_nothing(started):
    """The run was torn down: its tasks are closed, but the kernel still knows them."""
    runtime, host, notes = started(forever)
    host.call()
    runtime.pump.stop(HostLost("enough"))
    before = len(notes)
    runtime.cancel("too late")
    assert names(notes)[before:] == []
