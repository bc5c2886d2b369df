"""The asyncio host: a guest in asyncio's loop, with and without asyncio's debug mode, and in uvloop's."""

import asyncio
import contextlib
import contextvars
import gc
import itertools
import logging
import socket
import sys
import threading
from random import Random

import pytest
from support import programs
from support.evidence import Memory
from support.hosts import BURST_MAX, PumpState, asyncio_bridge, from_asyncio
from support.law import Wait
from support.requests import SUSPENDED, Request

import bursar
from bursar import Budget, CapIO, CapSpawn, CapTimer, Cleanup, Runtime
from bursar.asyncio import guest, run
from bursar.hosts.asyncio import AsyncioHost

LOOPS = ["asyncio", "asyncio in debug mode"]
if sys.platform != "win32":
    import uvloop

    LOOPS.append("uvloop")

color = contextvars.ContextVar("color", default="none")


def new_loop(kind):
    loop = uvloop.new_event_loop() if kind == "uvloop" else asyncio.new_event_loop()
    loop.set_debug("debug" in kind)
    loop.slow_callback_duration = 60  # a slow machine must not cause a warning
    return loop


@pytest.fixture(params=LOOPS)
def kind(request):
    return request.param


@pytest.fixture
def go(kind, caplog):
    """Runs a coroutine in a new loop. asyncio must log no warning, neither then nor at a garbage collection."""
    with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner:
        yield runner.run
    gc.collect()
    assert [r.getMessage() for r in caplog.records if r.name == "asyncio" and r.levelno >= logging.WARNING] == []


async def forever():
    await bursar.sleep(1e9)


async def rounds(n):
    """Let the loop make `n` rounds."""
    for _ in range(n):
        await asyncio.sleep(0)


# ---- a guest


async def family(log):
    async def child(i):
        await bursar.sleep(0.001)
        log.append(i)
        return i

    async with bursar.nursery() as n:
        tasks = [n.spawn(child, i) for i in range(3)]
    return sum(task.result for task in tasks)


def test_a_program_returns_its_value_to_whoever_awaits_it(go):
    log = []
    assert go(run(family, log)) == 3
    assert sorted(log) == [0, 1, 2]


def test_what_a_program_fails_with_arrives(go):
    async def fail():
        raise ValueError("wrong")

    async def two():
        async with bursar.nursery() as n:
            n.spawn(fail)

    async def stuck():
        await bursar.Event().wait()

    async def spend():
        while True:
            await bursar.charge(ops=10)

    with pytest.raises(ValueError, match="wrong"):
        go(run(fail))
    with pytest.raises(ExceptionGroup) as group:
        go(run(two))
    assert group.group_contains(ValueError)
    with pytest.raises(bursar.Deadlock, match="waits for an event"):
        go(run(stuck))
    with pytest.raises(bursar.BudgetExceeded, match="out of ops"):
        go(run(spend, budget=Budget(ops=500)))


def test_several_guests_share_a_loop_and_one_may_sit_inside_another(go):
    async def inner(n):
        for _ in range(n):
            await bursar.checkpoint()
        return n

    async def outer(n):
        return 1 + await from_asyncio(run(inner, n))

    async def main():
        return await asyncio.gather(*(run(outer, n) for n in range(20)))

    assert go(main()) == list(range(1, 21))


def test_cancelling_the_awaiter_cancels_the_program_and_waits_until_it_has_wound_down(go):
    log = []

    async def program():
        try:
            await forever()
        except bursar.Cancelled as cancelled:
            log.append(cancelled.reason.detail)
            await bursar.sleep(0.001)
            await from_asyncio(asyncio.sleep(0))
            log.append("wound down")
            raise

    async def main():
        task = asyncio.create_task(run(program), name="waiter")
        await rounds(3)
        task.cancel("enough")
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        log.append("over")
        assert task.cancelled()

    go(main())
    assert log == ["asyncio task 'waiter' was cancelled: enough", "wound down", "over"]


def test_cancellation_passes_through_a_program_to_what_it_waits_for_in_asyncio(go):
    log = []

    async def program():
        try:
            await from_asyncio(until_cancelled(log))
        finally:
            log.append("Bursar cleaned up")

    async def main():
        task = asyncio.create_task(run(program))
        while not log:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        log.append("over")

    go(main())
    assert log == ["begun", "asyncio cleaned up", "Bursar cleaned up", "over"]


def test_a_timeout_of_asyncio_works_around_a_program(go):
    log = []

    async def program():
        try:
            await forever()
        finally:
            await bursar.checkpoint()
            log.append("wound down")

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await run(program)
        return asyncio.current_task().cancelling()

    assert go(main()) == 0
    assert log == ["wound down"]


def test_a_failure_while_winding_down_is_the_cause_of_the_cancelled_error(go):
    async def program():
        try:
            await forever()
        finally:
            raise ValueError("while cleaning up")

    async def main():
        task = asyncio.create_task(run(program))
        await rounds(3)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as cancelled:
            return cancelled
        return None

    cancelled = go(main())
    assert isinstance(cancelled.__cause__ or cancelled.__context__.__cause__, ValueError)


def test_a_program_that_swallows_its_cancellation_does_not_swallow_asyncios(go):
    async def program():
        try:
            await forever()
        except bursar.Cancelled:
            return "swallowed"

    async def main():
        task = asyncio.create_task(run(program))
        await rounds(3)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert go(main())


def test_a_program_in_a_task_group_goes_down_with_its_siblings(go):
    log = []

    async def program():
        try:
            await forever()
        finally:
            log.append("closed")

    async def fail():
        await rounds(3)
        raise ValueError

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(run(program))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        go(main())
    assert log == ["closed"]


def test_the_main_task_sees_a_copy_of_the_awaiters_context(go):
    async def program():
        seen = color.get()
        color.set("changed inside")
        return seen

    async def main():
        color.set("green")
        seen = await run(program)
        return seen, color.get()

    assert go(main()) == ("green", "green")


def test_system_exit_in_a_task_ends_the_loop(go):
    async def program():
        raise SystemExit(7)

    with pytest.raises(SystemExit) as stopped:
        go(run(program))
    assert stopped.value.code == 7


def test_another_thread_can_stop_a_program_that_waits(go):
    async def main():
        runtime = Runtime(host=AsyncioHost())
        thread = threading.Thread(target=runtime.cancel, args=("from a thread",))
        started = asyncio.create_task(guest(runtime, forever))
        await rounds(3)
        thread.start()
        with pytest.raises(bursar.TaskCancelled, match="from a thread"):
            await started
        thread.join()

    go(main())


def test_a_thousand_posts_from_threads_arrive_in_few_batches(go):
    async def main():
        runtime, seen = Runtime(host=AsyncioHost()), []
        started = asyncio.create_task(guest(runtime, forever))
        await rounds(3)

        def post(base):
            for i in range(250):
                runtime.pump.post("test", lambda i=base + i: seen.append(i))

        await asyncio.gather(*(asyncio.to_thread(post, base) for base in range(0, 1000, 250)))
        runtime.cancel()
        with pytest.raises(bursar.TaskCancelled):
            await started
        assert sorted(seen) == list(range(1000))

    go(main())


# ---- asyncio objects in Bursar tasks


async def double(n):
    await asyncio.sleep(0)
    return n * 2


async def boom():
    await asyncio.sleep(0)
    raise LookupError("from asyncio")


class Awaitable:
    """Neither a coroutine nor a future."""

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return 7


def test_coroutines_tasks_futures_and_other_awaitables_can_be_awaited(go):
    async def program():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, 3)
        done = loop.create_future()
        done.set_result(4)
        return [
            await from_asyncio(double(1)),
            await from_asyncio(loop.create_task(double(2))),
            await from_asyncio(future),
            await from_asyncio(done),
            await from_asyncio(Awaitable()),
            await from_asyncio(asyncio.gather(double(5), double(6))),
        ]

    assert go(run(program)) == [2, 4, 3, 4, 7, [10, 12]]


def test_an_error_of_asyncio_arrives_at_the_await(go):
    async def program():
        with pytest.raises(LookupError, match="from asyncio"):
            await from_asyncio(boom())
        return "went on"

    assert go(run(program)) == "went on"


def test_context_variables_cross_both_ways(go):
    async def inside():
        seen = color.get()
        await asyncio.sleep(0)
        color.set("set by asyncio")
        return seen

    async def program():
        color.set("set by Bursar")
        seen = await from_asyncio(inside())
        return seen, color.get()

    assert go(run(program)) == ("set by Bursar", "set by asyncio")


async def until_cancelled(log, stop=None):
    """Waits until it is cancelled. Its cleanup takes several rounds of the loop."""
    try:
        log.append("begun")
        await (stop or asyncio.Event()).wait()
    except asyncio.CancelledError:
        await rounds(5)
        log.append("asyncio cleaned up")
        raise


def test_cancellation_crosses_and_the_task_waits_until_the_other_side_has_ended(go):
    log = []

    async def child():
        try:
            await from_asyncio(until_cancelled(log))
        except bursar.Cancelled as cancelled:
            log.append(f"Bursar: {cancelled.reason.kind}")
            raise

    async def program():
        async with bursar.nursery() as n:
            task = n.spawn(child)
            while not log:
                await bursar.checkpoint()
            task.cancel()
        log.append("nursery closed")

    go(run(program))
    assert log == ["begun", "asyncio cleaned up", "Bursar: user", "nursery closed"]


def test_a_timeout_crosses(go):
    log = []

    async def program():
        with pytest.raises(TimeoutError):
            async with bursar.timeout(0.001):
                await from_asyncio(until_cancelled(log))
        log.append("went on")

    go(run(program))
    assert log == ["begun", "asyncio cleaned up", "went on"]


def test_cancellation_waits_behind_a_shield(go):
    async def program():
        stop, log = asyncio.Event(), []

        async def wait():
            await stop.wait()
            return "done"

        async def child():
            async with bursar.shield():
                log.append(await from_asyncio(wait()))
            await bursar.checkpoint()
            log.append("never")

        async with bursar.nursery() as n:
            task = n.spawn(child)
            await bursar.sleep(0.001)
            task.cancel()
            await bursar.sleep(0.001)
            stop.set()
        return log

    assert go(run(program)) == ["done"]


def test_a_result_that_comes_in_spite_of_the_cancellation_is_kept(go):
    log = []

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "took effect"

    async def child():
        log.append(await from_asyncio(stubborn()))
        try:
            await bursar.checkpoint()
        except bursar.Cancelled:
            log.append("cancelled at the next await")
            raise

    async def program():
        async with bursar.nursery() as n:
            task = n.spawn(child)
            await bursar.sleep(0.001)
            task.cancel()

    go(run(program))
    assert log == ["took effect", "cancelled at the next await"]


def test_an_error_that_answers_the_cancellation_is_raised(go):
    async def clumsy():
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("cleanup failed")

    async def program():
        with pytest.raises(LookupError, match="cleanup failed"):
            async with bursar.timeout(0.001):
                await from_asyncio(clumsy())

    go(run(program))


def test_a_block_that_is_left_with_a_result_leaves_no_timer_behind(go):
    """The timer of the cleanup ends with the wait, not with the block that was cancelled."""

    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"

    async def main():
        runtime = Runtime(host=AsyncioHost())

        async def program():
            async with bursar.timeout(0.001):
                value = await from_asyncio(stubborn())
            return value, len(runtime.kernel.timers)

        return await guest(runtime, program)

    assert go(main()) == ("late", 0)


def test_cancelled_by_somebody_else_is_an_error_and_not_a_cancellation(go):
    async def program():
        task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(bursar.TaskCancelled, match=r"task '.*program' waited for Task .* other code cancelled"):
            await from_asyncio(task)
        return "went on"

    assert go(run(program)) == "went on"


def test_what_refuses_to_stop_is_abandoned_and_reported(go):
    release = asyncio.Event()

    async def immortal():
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    async def child():
        await from_asyncio(immortal())

    async def program():
        async with bursar.nursery() as n:
            task = n.spawn(child, name="victim")
            await bursar.sleep(0.001)
            task.cancel()

    async def main():
        runtime = Runtime(host=AsyncioHost(), cleanup=Cleanup(seconds=0.0))
        await guest(runtime, program)
        assert [r.kind for r in runtime.reports] == ["cleanup_cut", "asyncio_abandoned"]
        assert "immortal" in runtime.reports[1].detail
        assert runtime.pump.sources == 0
        release.set()
        await rounds(3)  # it ends by itself, and its end is ignored

    go(main())


def test_a_task_cut_off_while_it_cleans_up_in_asyncio_ends_too(go):
    log = []

    async def child():
        try:
            await forever()
        finally:
            await from_asyncio(until_cancelled(log))

    async def program():
        async with bursar.nursery() as n:
            task = n.spawn(child)
            await bursar.checkpoint()
            await bursar.checkpoint()
            task.cancel()

    async def main():
        runtime = Runtime(host=AsyncioHost(), cleanup=Cleanup(seconds=0.002))
        await guest(runtime, program)
        await rounds(10)
        return [r.kind for r in runtime.reports]

    assert go(main()) == ["cleanup_cut", "asyncio_abandoned"]
    assert log == ["begun", "asyncio cleaned up"]


def test_it_needs_the_capability_for_io_when_it_begins(go):
    async def program():
        with pytest.raises(bursar.CapabilityDenied, match="may not wait for asyncio: it holds no CapIO"):
            await from_asyncio(double(1))

    go(run(program, capabilities=[CapSpawn(), CapTimer()]))


def test_it_needs_the_capability_for_io_when_it_ends(go):
    denied = []

    async def main():
        runtime = Runtime(host=AsyncioHost(), capabilities=[CapIO()])
        io = runtime.kernel.root.capabilities[CapIO]
        stop = asyncio.Event()
        runtime.kernel.observe(lambda name, task, detail: denied.append(detail) if "denied" in name else None)

        async def program():
            with pytest.raises(bursar.CapabilityRevoked, match=r"take the result of Event\.wait"):
                await from_asyncio(stop.wait())

        started = asyncio.create_task(guest(runtime, program))
        await rounds(3)
        runtime.revoke(io)
        stop.set()
        await started

    go(main())
    assert len(denied) == 1


def test_it_is_charged_as_a_system_call(go):
    async def program():
        await from_asyncio(double(1))
        with pytest.raises(bursar.BudgetExceeded) as short:
            await from_asyncio(double(2))  # and no coroutine is left that was never awaited
        return short.value.component

    assert go(run(program, budget=Budget(syscalls=1))) == "syscalls"


def test_a_task_that_is_cancelled_before_its_await_begins_nothing(go):
    log = []

    async def child():
        (await bursar.current_task()).cancel()
        await from_asyncio(until_cancelled(log))

    async def program():
        async with bursar.nursery() as n:
            n.spawn(child)

    go(run(program))
    assert log == []


@pytest.mark.parametrize(
    ("garbage", "hint"),
    [
        (42, "not something that asyncio can await"),
        (None, "not something that asyncio can await"),
        (double, "is a function; call it"),
        (bursar.checkpoint(), "a Bursar operation"),
    ],
)
def test_garbage_is_refused_with_a_hint(garbage, hint):
    with pytest.raises(TypeError, match=hint):
        from_asyncio(garbage)


def test_on_another_host_it_is_refused_with_the_remedy():
    async def program():
        with pytest.raises(bursar.HostMisuse, match=r"on host 'virtual', .* bursar\.asyncio\.run\(main\)"):
            await from_asyncio(double(1))

    bursar.run(program, clock="virtual")


def test_a_coroutine_can_be_awaited_once(go):
    async def program():
        coroutine = double(4)
        request = from_asyncio(coroutine)
        results = [await request]
        for again in (request, from_asyncio(coroutine)):
            with pytest.raises(bursar.ScopeMisuse, match="coroutine 'double' a second time"):
                await again
        return results

    assert go(run(program)) == [8]


def test_a_second_awaiter_does_not_harm_the_first(go):
    async def program():
        coroutine, results = double(4), []

        async def child():
            try:
                results.append(await from_asyncio(coroutine))
            except bursar.ScopeMisuse:
                results.append("refused")

        async with bursar.nursery() as n:
            for _ in range(3):
                n.spawn(child)
        return results

    assert go(run(program)) == ["refused", "refused", 8]


def test_a_task_of_asyncio_can_be_shared(go):
    async def program():
        task = asyncio.get_running_loop().create_task(double(4))

        async def child():
            return await from_asyncio(task)

        async with bursar.nursery() as n:
            tasks = [n.spawn(child) for _ in range(3)]
        return [t.result for t in tasks]

    assert go(run(program)) == [8, 8, 8]


def test_a_future_of_another_loop_is_refused(go):
    other = asyncio.new_event_loop()
    future = other.create_future()

    async def program():
        with pytest.raises(bursar.HostMisuse, match="future of another asyncio loop"):
            await from_asyncio(future)

    try:
        go(run(program))
    finally:
        other.close()


def test_waiting_for_asyncio_is_no_deadlock_and_a_deadlock_after_it_still_is_one(go):
    async def program():
        await from_asyncio(rounds(50))
        await bursar.Event().wait()

    with pytest.raises(bursar.Deadlock):
        go(run(program))


def test_its_end_enters_at_the_beginning_of_a_batch_and_the_wait_explains_itself(go):
    events, reasons = [], []

    async def main():
        runtime = Runtime(host=AsyncioHost())
        runtime.kernel.observe(lambda name, task, detail: events.append((name, detail)))
        stop = asyncio.Event()

        async def program():
            await from_asyncio(stop.wait())

        started = asyncio.create_task(guest(runtime, program))
        await rounds(3)
        reasons.append(str(runtime.snapshot()))
        stop.set()
        await started

    go(main())
    assert "waits for Event.wait of asyncio" in reasons[0]
    names = [name for name, _ in events]
    at = events.index(("outside", "asyncio 2 1"))
    assert names[at - 1] == "host_turn"
    assert "task_woken" in names[at:]


def test_an_await_without_the_bridge_names_the_bridge(go):
    async def program():
        with pytest.raises(bursar.ForeignAwait, match=r"await bursar\.asyncio\.from_asyncio\(\.\.\.\)"):
            await asyncio.get_running_loop().create_future()
        with pytest.raises(bursar.ForeignAwait, match=r"await Bursar's own operations here$"):
            await Other()

    class Other:
        def __await__(self):
            yield object()

    go(run(program))


# ---- async generators


def test_each_side_closes_the_generators_that_it_iterated(go):
    closed = []

    async def ours():
        try:
            yield 1
        finally:
            await bursar.checkpoint()
            closed.append("ours")

    async def theirs():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.append("theirs")

    async def forget(generator):
        async for _ in generator():
            break

    async def program():
        await forget(ours)
        await from_asyncio(forget(theirs))
        gc.collect()
        await from_asyncio(rounds(3))

    async def main():
        hooks = sys.get_asyncgen_hooks()
        await run(program)
        await rounds(3)
        assert sys.get_asyncgen_hooks() == hooks

    go(main())
    assert sorted(closed) == ["ours", "theirs"]


# ---- fairness


@pytest.mark.parametrize("how", ["checkpoint", "charge"])
def test_the_loop_gets_its_turn_after_every_burst(go, how):
    async def spin():
        while True:
            await (bursar.checkpoint() if how == "checkpoint" else bursar.charge(ops=5000))

    async def program():
        async with bursar.nursery() as n:
            for _ in range(10):
                n.spawn(spin)

    async def main():
        runtime = Runtime(host=AsyncioHost())
        loop, ticks = asyncio.get_running_loop(), []

        def tick():
            ticks.append(runtime.kernel.decisions)
            if len(ticks) < 200:
                loop.call_soon(tick)
            else:
                runtime.cancel("enough")

        loop.call_soon(tick)
        with pytest.raises(bursar.TaskCancelled):
            await guest(runtime, program)
        return [b - a for a, b in itertools.pairwise(ticks)]

    steps = go(main())
    assert max(steps) == BURST_MAX
    assert sum(steps) > 150 * BURST_MAX, "and the program gets its turn after every tick"


def test_a_sleeping_program_lets_the_loop_rest(go):
    async def program():
        await bursar.sleep(0.005)

    async def main():
        runtime = Runtime(host=AsyncioHost())
        await guest(runtime, program)
        return runtime.pump.batch

    assert go(main()) < 20


@pytest.mark.parametrize("workers", [1, 4])
def test_fifty_programs_have_the_fingerprints_that_they_have_on_the_virtual_host(kind, workers):
    async def as_guest(runtime, program):
        try:
            await guest(runtime, programs.Interpreter(program, runtime.profile.name).main)
        except (bursar.BursarError, programs.Boom, programs.Crash, TimeoutError, BaseExceptionGroup) as error:
            return type(error).__name__
        return "ok"

    async def main():
        found = {}
        for number in range(50):
            runtime = programs.runtime_for(number, workers, host=AsyncioHost())
            ending = await as_guest(runtime, programs.make(Random(number)))
            found[f"{number}/{workers}"] = [runtime.fingerprint, runtime.kernel.decisions, ending]
        return found

    expected = programs.fingerprints(0, 50, [workers])
    with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner:
        assert runner.run(main()) == expected


# ---- files


class _Ready(Wait):
    __slots__ = ()
    reason = "waits for a file"


class _Readable(Request):
    """The shortest request that waits for a file."""

    def __init__(self, fd, write):
        self.fd, self.write = fd, write

    def perform(self, kernel, task):
        pump = kernel.runtime.pump
        wait = _Ready(task)
        assert hasattr(pump.host, "watch")
        pump.sources += 1

        def deliver():
            pump.sources -= 1
            wait.answer(kernel, None)

        pump.host.watch(self.fd, self.write, lambda: pump.post("file", deliver))
        kernel.blocked(task, wait)
        return SUSPENDED


def test_a_watch_calls_once_and_each_direction_has_its_own(go):
    a, b = socket.socketpair()

    async def reader():
        for _ in range(3):
            await _Readable(a.fileno(), write=False)
            assert a.recv(1) == b"x"

    async def program():
        async with bursar.nursery() as n:
            n.spawn(reader)
            for _ in range(3):
                await _Readable(a.fileno(), write=True)
                await _Readable(b.fileno(), write=True)
                b.send(b"x")

    with a, b:
        go(run(program))


def test_what_is_still_watched_at_the_end_is_forgotten_and_unwatching_twice_is_fine(go):
    a, b = socket.socketpair()
    told = []

    async def main():
        host = AsyncioHost()

        async def program():
            host.watch(a.fileno(), False, lambda: told.append("a"))
            host.watch(b.fileno(), False, lambda: told.append("b"))
            host.unwatch(b.fileno(), False)
            host.unwatch(b.fileno(), False)

        await guest(Runtime(host=host), program)
        a.send(b"x")
        b.send(b"x")
        await rounds(5)
        assert not asyncio.get_running_loop().remove_reader(a.fileno())

    with a, b:
        go(main())
    assert told == []


def test_a_file_that_the_loop_does_not_watch_is_refused_and_one_that_was_closed_can_be_unwatched(go):
    async def main():
        host = AsyncioHost()
        a, b = socket.socketpair()
        a.setblocking(False)
        _, writer = await asyncio.open_connection(sock=a)
        with pytest.raises(ValueError, match="used by transport"):
            host.watch(a.fileno(), False, print)
        writer.close()
        await writer.wait_closed()
        fd = b.fileno()
        host.watch(fd, False, print)
        host.watch(fd, True, print)
        b.close()
        host.unwatch(fd, False)
        host.unwatch(fd, True)

    go(main())


# ---- loops that misbehave


def test_a_loop_may_be_stopped_and_run_again(kind):
    loop, log = new_loop(kind), []

    async def program():
        for i in range(5):
            log.append(i)
            loop.stop()
            await bursar.checkpoint()
            await bursar.sleep(0.0001)
        return "done"

    task, starts = loop.create_task(run(program)), 0
    while len(log) < 5:
        starts += 1
        loop.run_forever()
    assert starts == 5
    assert loop.run_until_complete(task) == "done"
    loop.close()


def lost_in_the_middle(kind, log):
    """A runtime whose loop was closed while its tasks waited."""
    loop = new_loop(kind)

    async def child():
        try:
            await bursar.sleep(1e6)
        finally:
            log.append("closed")

    async def program():
        async with bursar.nursery() as n:
            n.spawn(child)
            n.spawn(child)

    def begin():
        made.append(Runtime(host=AsyncioHost()))
        made[0].start(program)

    made = []
    loop.call_soon(begin)
    loop.run_until_complete(rounds(20))
    assert made[0].live == 3
    loop.close()
    return made[0]


@pytest.mark.parametrize("thread", ["the same thread", "another thread"])
def test_a_loop_that_is_closed_under_a_program_is_found_out_at_the_next_call(kind, thread):
    log = []
    runtime = lost_in_the_middle(kind, log)
    if thread == "the same thread":
        runtime.cancel()
    else:
        other = threading.Thread(target=runtime.cancel)
        other.start()
        other.join()
    assert log == ["closed", "closed"]
    assert runtime.pump.over
    with pytest.raises(bursar.HostLost, match="the asyncio loop was closed while 3 tasks lived"):
        runtime.result()
    runtime.cancel()
    runtime.pump.post("late", lambda: log.append("late"))
    assert log[2:] == ["late"], "what comes too late still learns that it did"


def test_closing_the_coroutine_that_awaits_a_program_closes_its_tasks_and_stops_what_they_wait_for(go):
    log = []

    async def program():
        try:
            await from_asyncio(until_cancelled(log))
        finally:
            log.append("closed")

    async def main():
        runtime = Runtime(host=AsyncioHost())
        waiting = guest(runtime, program)
        waiting.send(None)
        await rounds(5)
        waiting.close()
        with pytest.raises(bursar.HostLost, match="was closed; cancel it instead"):
            runtime.result()
        await rounds(10)

    go(main())
    assert log == ["begun", "closed", "asyncio cleaned up"]


def test_where_no_loop_runs_it_says_how_to_start_one():
    waiting = run(forever)
    with pytest.raises(bursar.HostMisuse, match=r"no asyncio loop runs; .* call asyncio\.run\(start\(\)\)"):
        waiting.send(None)

    async def program():
        await run(forever)

    with pytest.raises(bursar.HostMisuse, match="no asyncio loop runs"):
        bursar.run(program)


def test_a_bursar_task_does_not_await_run_directly(go):
    async def program():
        with pytest.raises(bursar.HostMisuse, match=r"await from_asyncio\(run\(main\)\)"):
            await run(forever)

    go(run(program))


def test_a_runtime_with_another_host_is_no_guest(go):
    with pytest.raises(bursar.HostMisuse, match="host 'virtual' does not run in this asyncio loop"):
        go(guest(Runtime(clock="virtual"), forever))


def test_a_host_is_started_in_the_loop_where_it_was_made(kind):
    async def make():
        return Runtime(host=AsyncioHost())

    loop = new_loop(kind)
    runtime = loop.run_until_complete(make())
    with asyncio.Runner() as runner, pytest.raises(bursar.HostMisuse, match="does not run in this asyncio loop"):
        runner.run(guest(runtime, forever))
    loop.close()


def test_a_guest_has_no_loop_to_run(go):
    async def main():
        Runtime(host=AsyncioHost()).run(forever)

    with pytest.raises(bursar.HostMisuse, match=r"bursar\.asyncio\.run\(main\)"):
        go(main())


def test_calls_after_the_end_do_nothing(go):
    async def program():
        return 1

    async def main():
        host = AsyncioHost()
        runtime = Runtime(host=host)
        await guest(runtime, program)
        batches = runtime.pump.batch
        host.wake()
        host._drain()
        host._rang()
        await rounds(3)
        return runtime.pump.batch - batches

    assert go(main()) == 0


def test_what_ends_when_the_run_is_torn_down_wakes_nobody(go):
    async def main():
        return await from_asyncio(future)

    def tear_down(_):
        runtime.pump.post("cancel", fail)

    def fail():
        raise bursar.HostLost("torn down")

    async def start():
        nonlocal future, runtime
        runtime = Runtime(host=AsyncioHost(), record=memory)
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(tear_down)  # before the run's own callback, so this post enters first
        running = asyncio.ensure_future(guest(runtime, main))
        while not runtime.pump.host.bridges:
            await asyncio.sleep(0)
        future.set_result(1)
        with pytest.raises(bursar.HostLost, match="torn down"):
            await running

    future = runtime = None
    memory = Memory()
    go(start())
    assert [event.name for event in memory.events()][-1] == "run_torn_down"


def test_a_host_drives_one_run_at_a_time(go):
    async def outer():
        with pytest.raises(bursar.HostMisuse, match="this AsyncioHost drives another run already"):
            await from_asyncio(guest(Runtime(host=host), forever))
        return "went on"

    async def start():
        nonlocal host
        host = AsyncioHost()
        return await guest(Runtime(host=host), outer)

    host = None
    assert go(start()) == "went on"


# ---- neither side runs inside the other


class OwnFuture(asyncio.Future):
    """A future with code of its own, which must not run inside a batch."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def cancel(self, msg=None):
        self.note()
        return super().cancel(msg)


def code_inside_the_other_side(go):
    """Run a program that crosses in every way. Returns how often asyncio code ran inside a batch, and how often Bursar
    code ran inside an asyncio task."""
    states, tasks = [], []

    def note_asyncio(*_):
        states.append(runtime.pump.state)

    def note_bursar():
        tasks.append(asyncio.current_task())

    def factory(loop, coro, **keywords):
        note_asyncio()
        return asyncio.Task(coro, loop=loop, **keywords)

    async def asyncio_side():
        note_asyncio()
        try:
            await asyncio.sleep(0)
            note_asyncio()
            await asyncio.sleep(1e6)
        finally:
            note_asyncio()

    async def wait_for(awaitable):
        note_bursar()
        try:
            await from_asyncio(awaitable)
        finally:
            note_bursar()
            async with bursar.shield():
                await from_asyncio(double(1))
            note_bursar()

    async def program():
        note_bursar()
        async with bursar.nursery() as n:
            future = OwnFuture(note_asyncio)
            future.add_done_callback(note_asyncio)
            n.spawn(wait_for, asyncio_side())
            n.spawn(wait_for, future)
            await bursar.sleep(0.001)
            await from_asyncio(double(2))
            n.cancel()
        note_bursar()

    async def start():
        nonlocal runtime
        runtime = Runtime(host=AsyncioHost())
        asyncio.get_running_loop().set_task_factory(factory)
        await guest(runtime, program)

    runtime = None
    go(start())
    assert len(states) >= 5
    assert len(tasks) == 8
    return states.count(PumpState.RUNNING), len(tasks) - tasks.count(None)


def test_asyncio_code_runs_outside_batches_and_bursar_code_outside_asyncio_tasks(go):
    """ASYNCIO-2."""
    assert code_inside_the_other_side(go) == (0, 0)


def cancel_at_once(bridge):
    bridge._asked = True
    bridge._future.cancel()


def begin_by_the_factory(request, host, task):
    request._begun = True
    is_future = asyncio.isfuture(request._awaitable)
    return request._awaitable if is_future else host.asyncio_loop.create_task(request._awaitable)


@pytest.mark.parametrize(
    ("kind_of_object", "method", "fault", "inside"),
    [
        (asyncio_bridge.AsyncioBridge, "_ask_to_stop", cancel_at_once, 0),
        (asyncio_bridge._FromAsyncio, "_begin", begin_by_the_factory, 0),
        (AsyncioHost, "microtask", AsyncioHost._drain, 1),
    ],
    ids=["a future is cancelled at once", "the factory makes the task", "the pump is drained at once"],
)
def test_code_that_runs_inside_the_other_side_is_found(go, monkeypatch, kind_of_object, method, fault, inside):
    monkeypatch.setattr(kind_of_object, method, fault)
    assert code_inside_the_other_side(go)[inside] > 0


class CountedDrains:
    """Takes the place of a pump, and counts the drains."""

    def __init__(self):
        self.count = 0

    def drain(self):
        self.count += 1


def drains(go, kind_of_host, ask):
    """How many drains a host makes that was asked three times."""

    async def start():
        host, pump = kind_of_host(), CountedDrains()
        host.open(pump)
        for _ in range(3):
            ask(host)
        await rounds(5)
        host.close()
        return pump.count

    return go(start())


@pytest.mark.parametrize("ask", ["microtask", "handoff", "wake"])
def test_at_most_one_drain_and_one_wake_are_queued(go, ask):
    """ASYNCIO-3."""
    assert drains(go, AsyncioHost, lambda host: getattr(host, ask)()) == 1


def test_a_second_drain_in_the_queue_is_found(go):
    class Careless(AsyncioHost):
        def microtask(self):
            self.asyncio_loop.call_soon(self._drain)

    assert drains(go, Careless, lambda host: host.microtask()) == 3
