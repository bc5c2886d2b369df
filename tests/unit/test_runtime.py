"""`run` and `Runtime`: one program, once; what it returns and raises; signals, deadlocks, evidence, several at once."""

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from textwrap import dedent

import pytest
from support.hosts import AsyncioHost, SelectorHost, VirtualHost
from support.law import check
from support.time_limits import WAIT_S

import bursar
from bursar import Budget, OutcomeKind, Runtime, channel, nursery, sleep

# ---- running


def test_run_returns_the_value_of_its_function():
    async def main(a, b):
        return a + b

    assert bursar.run(main, 1, 2) == 3


def test_run_raises_what_the_main_task_failed_with():
    async def main():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        bursar.run(main)
    assert "in task" in caught.value.__notes__[0]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("own"), GeneratorExit("own")])
def test_run_raises_what_the_main_task_panicked_with(error):
    async def main():
        raise error

    with pytest.raises(type(error)) as caught:
        bursar.run(main, clock="virtual")
    assert caught.value is error


def test_sleeping_in_real_time_takes_real_time():
    async def main():
        before = await bursar.now()
        await sleep(0.02)
        return await bursar.now() - before

    assert bursar.run(main) >= 0.02


def test_cancelling_the_runtime_cancels_the_program(run):
    log = []

    async def child():
        try:
            await sleep(100)
        finally:
            await sleep(1)
            log.append("tidied")

    async def main():
        async with nursery() as n:
            n.spawn(child)
            await sleep(1)
            run.runtime.cancel("enough")
            await sleep(100)

    with pytest.raises(bursar.TaskCancelled, match=r"was cancelled \(user: enough\)"):
        run(main)
    assert log == ["tidied"]


def test_a_runtime_runs_one_program_once(run):
    async def main():
        with pytest.raises(bursar.RuntimeUsed, match="make a new one"):
            run.runtime.run(main)

    run(main)
    with pytest.raises(bursar.RuntimeUsed, match="make a new one"):
        run.runtime.run(main)


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"clock": "sundial"}, ValueError, "one of real, virtual"),
        ({"seed": 1.5}, TypeError, "must be an int"),
        ({"seed": True}, TypeError, "must be an int"),
        ({"workers": 0}, ValueError, "between 1 and"),
        ({"workers": 5000}, ValueError, "between 1 and"),
        ({"steal": "politely"}, ValueError, "random, round_robin, least_loaded"),
        ({"yield_interval": 0}, ValueError, "at least 1"),
        ({"yield_interval": 1.5}, ValueError, "whole number"),
        ({"profile": "imperial"}, ValueError, "core, service, cluster, sovereign"),
        ({"profile": "core"}, bursar.ProfileError, "no scheduler"),
        ({"profile": "sovereign"}, ValueError, "budget="),
    ],
)
def test_keywords_are_checked_at_once(keywords, error, text):
    with pytest.raises(error, match=text):
        Runtime(**{"clock": "virtual"} | keywords)


@pytest.mark.parametrize("keywords", [{"seconds": -1}, {"ops": -1}, {"ops": 1.5}, {"seconds": float("nan")}])
def test_a_cleanup_allowance_is_not_negative(keywords):
    with pytest.raises(ValueError, match="must be"):
        bursar.Cleanup(**keywords)


def test_what_is_run_must_be_a_coroutine_function():
    async def fn():
        pass

    with pytest.raises(bursar.NotBuilt, match="async def"):
        bursar.run(print, clock="virtual")
    with pytest.raises(TypeError, match=r"pass the function and its arguments, not the coroutine"):
        bursar.run(fn(), clock="virtual")
    with pytest.raises(TypeError, match="not a function"):
        bursar.run(5, clock="virtual")


def test_a_runtime_that_never_ran_holds_nothing_open():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runtime = Runtime()
        assert str(runtime.snapshot()).startswith("bursar: 0 tasks")
        del runtime
        gc.collect()
    assert [str(w.message) for w in caught if w.category is ResourceWarning] == []


def test_a_run_that_could_not_start_holds_nothing_open():
    async def main():
        pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(bursar.SpawnBudgetExceeded):
            bursar.run(main, budget=Budget(spawns=0))
        gc.collect()
    assert [str(w.message) for w in caught if w.category is ResourceWarning] == []


# ---- deadlocks


def test_a_deadlock_is_raised_with_the_wait_graph_after_cleanup(run):
    log = []

    async def one(mine, other):
        try:
            await mine.receive()
            await other.send(1)
        finally:
            await sleep(1)
            log.append("tidied")

    async def main():
        (send_a, receive_a), (send_b, receive_b) = channel(), channel()
        async with nursery() as n:
            n.spawn(one, receive_a, send_b, name="left")
            n.spawn(one, receive_b, send_a, name="right")

    with pytest.raises(bursar.Deadlock, match="every task waits") as caught:
        run(main)
    graph = caught.value.graph
    assert re.search(r"task 'left' \(\d+\) waits to receive from channel", graph)
    assert re.search(r"task 'right' \(\d+\) waits to receive from channel", graph)
    assert "waits for 2 tasks of" in graph
    assert "← 'left', 'right'" in graph
    assert graph in str(caught.value)
    assert log == ["tidied", "tidied"]


def test_a_long_list_of_blockers_is_cut_short(run):
    async def stuck(event):
        await event.wait()

    async def main():
        event = bursar.Event()
        async with nursery() as n:
            for i in range(20):
                n.spawn(stuck, event, name=f"t{i}")

    with pytest.raises(bursar.Deadlock) as caught:
        run(main)
    assert "'t7' and more" in caught.value.graph


def test_waiting_for_a_timer_is_no_deadlock(run):
    async def main():
        with pytest.raises(TimeoutError):
            async with bursar.timeout(1e6):
                await bursar.Event().wait()

    run(main)


# ---- evidence


def test_the_fingerprint_is_16_hex_digits_and_a_function_of_program_seed_and_workers():
    async def child(i):
        for _ in range(i):
            await bursar.checkpoint()

    async def main(count):
        async with nursery() as n:
            for i in range(count):
                n.spawn(child, i)

    def fingerprint(count=5, **keywords):
        runtime = Runtime(clock="virtual", **keywords)
        runtime.run(main, count)
        return runtime.fingerprint

    assert re.fullmatch("[0-9a-f]{16}", fingerprint())
    assert fingerprint() == fingerprint()
    assert fingerprint(workers=4, seed=9) == fingerprint(workers=4, seed=9)
    different = {fingerprint(), fingerprint(seed=1), fingerprint(workers=2), fingerprint(count=6)}
    assert len(different) == 4


def test_statistics_count_what_happened(run):
    async def bad():
        raise ValueError

    async def main():
        try:
            async with nursery(cancel_on_failure=False) as n:
                n.spawn(sleeper)
                n.spawn(bad)
                n.spawn(sleeper).cancel()
                during = run.runtime.statistics()
        except* ValueError:
            pass
        return during

    async def sleeper():
        await sleep(3)

    during = run(main)
    assert (during.spawned, during.live, during.decisions) == (4, 4, 1)
    after = run.runtime.statistics()
    assert (after.spawned, after.live, after.seconds) == (4, 0, 3.0)
    assert after.done == {"ok": 2, "dropped": 0, "failed": 1, "cancelled": 1, "panicked": 0}
    assert sum(after.by_lane.values()) == after.decisions
    assert after.by_lane["cancel"] == 1
    assert after.by_lane["timed"] == 1
    text = str(after)
    assert "4 tasks: 0 live" in text
    assert "1 failed" in text
    assert "3 s" in text


def test_workers_steal_from_each_other(run):
    async def child():
        for _ in range(5):
            await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            for _ in range(20):
                n.spawn(child)

    run(main, workers=4)
    assert run.runtime.statistics().steals > 0


@pytest.mark.parametrize("steal", ["random", "round_robin", "least_loaded"])
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_policy_runs_everything(run, steal, workers):
    async def child(i):
        await bursar.checkpoint()
        return i

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(child, i) for i in range(30)]
        return [t.result for t in tasks]

    assert run(main, workers=workers, steal=steal, seed=3) == list(range(30))


# ---- authority


def test_grant_mints_and_revoke_takes_back(run):
    async def child():
        return await bursar.now()

    async def main():
        (spawn, clock) = main.granted
        async with nursery() as n:
            task = n.spawn(child, capabilities=[clock])
            await task
            main.runtime.revoke(clock)
            with pytest.raises(bursar.CapabilityRevoked, match="revoked"):
                n.spawn(child, capabilities=[clock])
            with pytest.raises(bursar.CapabilityRevoked, match="CapClock has been revoked"):
                await bursar.now()
            main.runtime.revoke(spawn)
            with pytest.raises(bursar.CapabilityRevoked, match="CapSpawn has been revoked"):
                n.spawn(child)
        return task.result

    runtime = Runtime(clock="virtual", profile="cluster", capabilities=[])
    main.runtime = runtime
    main.granted = (runtime.grant(bursar.CapSpawn()), runtime.grant(bursar.CapClock()))
    runtime.kernel.root.capabilities = {type(c): c for c in main.granted}
    assert runtime.run(main) == 0.0
    check(runtime.kernel)


def test_a_capability_of_another_runtime_is_not_accepted():
    foreign = Runtime(clock="virtual").grant(bursar.CapClock())

    async def main():
        return await bursar.now()

    with pytest.raises(bursar.CapabilityForged, match="not minted by this runtime"):
        bursar.run(main, clock="virtual", capabilities=[foreign])


# ---- several at once


def test_runtimes_may_be_nested(run):
    async def inner(x):
        async with nursery() as n:
            task = n.spawn(double, x)
        await sleep(5)
        return task.result

    async def double(x):
        await sleep(100)
        return 2 * x

    async def main():
        values = [bursar.run(inner, i, clock="virtual") for i in range(3)]
        async with nursery() as n:
            task = n.spawn(double, 5)
        return values, task.result, await bursar.now()

    assert run(main) == ([0, 2, 4], 10, 100.0)


def test_runtimes_may_run_in_threads():
    results = {}

    async def child(i):
        await sleep(0.001)
        return i

    async def main(i):
        async with nursery() as n:
            tasks = [n.spawn(child, i) for _ in range(20)]
        return sum(t.result for t in tasks)

    def work(i):
        runtime = Runtime(seed=i)
        results[i] = runtime.run(main, i)
        check(runtime.kernel)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: 20 * i for i in range(8)}


def test_a_handle_of_another_runtime_cannot_be_awaited_even_if_its_number_is_known_here(run):
    async def forever():
        await sleep(100)

    async def waiter(box):
        with pytest.raises(bursar.ScopeMisuse, match="belongs to another runtime"):
            await box[0]

    async def inner(box):
        async with nursery() as n:
            n.spawn(waiter, box)

    async def main():
        async with nursery() as n:
            task = n.spawn(forever)
            bursar.run(inner, [task], clock="virtual")
            n.cancel()

    run(main)


# ---- signals, in a process of its own


@pytest.fixture
def process():
    """Start a program; it must print `started` when it is ready for its signal."""
    started = []

    def start(text):
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", dedent(text)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        started.append(child)
        assert child.stdout.readline() == "started\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


INTERRUPTED = """
    import bursar

    async def child(name):
        try:
            await bursar.sleep(60)
        finally:
            await bursar.sleep(0.01)
            print("tidied", name, flush=True)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(child, "a")
            n.spawn(child, "b")
            await bursar.sleep(0.01)
            print("started", flush=True)
            await bursar.sleep(60)

    try:
        bursar.run(main)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_the_first_ctrl_c_cancels_cleans_up_and_then_raises(process):
    child = process(INTERRUPTED)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=WAIT_S)
    assert out.split("\n")[:3] == ["tidied a", "tidied b", "interrupted"]
    assert err == ""
    assert child.returncode == 0


def test_ctrl_c_reaches_a_program_that_computes(process):
    child = process("""
        import bursar

        async def main():
            print("started", flush=True)
            while True:
                await bursar.checkpoint()

        try:
            bursar.run(main)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=WAIT_S)
    assert out == "interrupted\n"


def test_ctrl_c_reaches_a_run_inside_a_run(process):
    child = process("""
        import bursar

        async def inner():
            print("started", flush=True)
            await bursar.sleep(60)

        async def main():
            try:
                bursar.run(inner)
            finally:
                await bursar.sleep(0.01)
                print("tidied", flush=True)

        try:
            bursar.run(main)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=WAIT_S)
    assert out == "tidied\ninterrupted\n"


def test_the_second_ctrl_c_is_immediate_even_in_a_shield(process):
    child = process("""
        import bursar

        async def main():
            async with bursar.nursery() as n:
                n.spawn(stubborn)
                n.spawn(listens)
                await bursar.sleep(0.01)
                print("started", flush=True)

        async def listens():
            try:
                await bursar.sleep(60)
            finally:
                print("asked", flush=True)

        async def stubborn():
            try:
                async with bursar.shield():
                    await bursar.sleep(60)
            except bursar.Cancelled:
                print("cancelled", flush=True)

        async def outer():
            try:
                await main()
            finally:
                print("unwound", flush=True)

        try:
            bursar.run(outer)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "asked\n"  # else the two signals might come as one
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=WAIT_S)
    assert out == "unwound\ninterrupted\n"


def test_a_signal_prints_the_tree_and_the_program_goes_on(process):
    child = process("""
        import signal
        import bursar

        async def worker():
            await bursar.sleep(1000)

        async def main():
            async with bursar.nursery(name="family") as n:
                n.spawn(worker, name="worker")
                n.spawn(herald, n)
            return "went on"

        async def herald(n):
            await bursar.sleep(0.01)
            print("started", flush=True)
            await bursar.wait_readable(0)
            n.cancel()

        print(bursar.run(main, dump_signal=signal.SIGUSR1))
    """)
    child.send_signal(signal.SIGUSR1)
    err = ""
    while "worker" not in err:
        err += child.stderr.readline()
    out, rest = child.communicate(timeout=WAIT_S)  # which ends its input
    err += rest
    assert out == "went on\n"
    assert child.returncode == 0
    assert err.startswith("bursar: 3 tasks at")
    assert "the root nursery: OPEN, 1 live of 1" in err
    assert re.search(r"- main \(\d+\) BLOCKED: waits for 2 tasks of nursery 'family'", err)
    assert re.search(r"- worker \(\d+\) BLOCKED: sleeps for 1000 s", err)


def test_a_dump_signal_is_refused_where_none_can_be_heard():
    async def main():
        return "ran"

    async def guest():
        with pytest.raises(bursar.HostMisuse, match="dump_signal: host 'asyncio' is a guest"):
            bursar.Runtime(host=AsyncioHost(), dump_signal=signal.SIGUSR1)

    def elsewhere():
        with pytest.raises(bursar.HostMisuse, match="dump_signal: only the main thread"):
            bursar.run(main, dump_signal=signal.SIGUSR1)
        heard.append(True)

    heard = []
    asyncio.run(guest())
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert heard == [True]


def test_the_handlers_are_given_back(run):
    async def main():
        return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)
    during = run(main, dump_signal=signal.SIGUSR1)
    assert during[1] != before[1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)) == before


def test_a_handler_of_the_program_is_left_alone(run):
    def mine(number, frame):
        """The program's own."""

    async def main():
        return signal.getsignal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, mine)
    try:
        assert run(main) is mine
    finally:
        signal.signal(signal.SIGINT, before)


# ---- contexts of failure


def test_a_cleanup_that_takes_too_many_ops_is_cut_off(run):
    async def child():
        try:
            await sleep(100)
        finally:
            while True:
                await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="slow")
            await sleep(1)
            task.cancel()
        return task.outcome.kind, task.spent.ops

    kind, ops = run(main, cleanup=bursar.Cleanup(ops=50))
    assert kind is OutcomeKind.CANCELLED
    assert ops == 51
    (report,) = run.runtime.reports
    assert report == ("cleanup_cut", "slow", "cleanup took more than 50 ops")


def test_a_cleanup_that_takes_too_long_is_cut_off(run):
    async def child():
        try:
            await sleep(100)
        finally:
            await sleep(100)

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="slow")
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert run(main, cleanup=bursar.Cleanup(seconds=3)) == (OutcomeKind.CANCELLED, 4.0)
    assert run.reports == ["cleanup_cut"]


def test_cancel_from_another_thread_ends_a_sleep():
    async def main():
        await bursar.sleep(1000)

    runtime = Runtime()
    thread = threading.Timer(0.05, runtime.cancel, ["from outside"])
    thread.start()
    with pytest.raises(bursar.TaskCancelled, match="from outside"):
        runtime.run(main)
    thread.join()


@pytest.mark.parametrize("receiver", ["the loop's thread", "another thread"])
@pytest.mark.parametrize("watching", [False, True])
def test_a_signal_ends_a_sleep(receiver, watching):
    """Its handler runs in the thread of the loop, which sleeps. If another thread receives the signal, the system call
    of the loop's thread is not interrupted: as if the signal had arrived just before that call."""
    host = SelectorHost()
    runtime = Runtime(host=host)

    def when_asleep():
        while not (host._files and host._asleep if watching else host._ownership.free):
            pass
        thread = threading.main_thread() if receiver == "the loop's thread" else threading.current_thread()
        signal.pthread_kill(thread.ident, signal.SIGUSR1)

    async def main():
        thread.start()
        if watching:
            async with await bursar.listen_tcp("127.0.0.1", 0) as listener:
                await listener.accept()
        await bursar.sleep(1000)

    thread = threading.Thread(target=when_asleep)
    before = signal.signal(signal.SIGUSR1, lambda *_: runtime.cancel("by a signal"))
    try:
        with pytest.raises(bursar.TaskCancelled, match="by a signal"):
            runtime.run(main)
    finally:
        signal.signal(signal.SIGUSR1, before)
    thread.join()


def test_deadlines_are_set_by_the_clock_and_not_by_the_last_look_at_it():
    """A poll may take long: what it asks for afterwards counts from then."""

    class Clock(VirtualHost):
        def work(self, ns):
            self._now_ns += ns

    clock = Clock()

    async def main():
        clock.work(5_000_000_000)
        await bursar.sleep(1)
        return await bursar.now()

    assert Runtime(host=clock).run(main) == 6.0
