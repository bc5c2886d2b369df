"""How a run on the pump ends: errors in a batch, hosts that break, interrupts at any moment, several runtimes at once,
and what is left behind, which is nothing.
"""

import gc
import itertools
import os
import signal
import sys
import threading
import weakref

import pytest
from support.hosts import SelectorHost
from support.hosts import runtime as runtime_module
from support.script import Do, Script, ScriptLoop, forever, nothing

import bursar
from bursar import HostLost, Runtime
from bursar.drive import pump as pump_module
from bursar.drive.pump import BURST_MAX, PumpState

# ---- what goes wrong in a batch


@pytest.mark.parametrize("error", [ValueError("no such file"), KeyboardInterrupt(), AssertionError("EXAMPLE-1")])
def test_a_delivery_that_raises_ends_the_run_and_the_rest_is_still_delivered(started, error):
    log = []

    def fail():
        raise error

    async def main():
        try:
            await bursar.sleep(5)
        finally:
            log.append("closed")

    runtime, host, _ = started(main)
    runtime.on_end = lambda: log.append("told")
    host.rest()
    runtime.pump.post("bad", fail)
    runtime.pump.post("worse", fail)
    runtime.pump.post("good", lambda: log.append("good"))
    host.call()
    assert log == ["good", "closed", "told"]
    assert (runtime.pump.over, host.closed, runtime.pump.state) == (True, 1, PumpState.IDLE)
    with pytest.raises(type(error)) as caught:
        runtime.result()
    assert caught.value is error


def test_a_late_delivery_that_raises_is_the_affair_of_whoever_posts(started):
    runtime, host, _ = started(nothing)
    host.play()
    with pytest.raises(ZeroDivisionError):
        runtime.pump.post("late", lambda: 1 // 0)
    assert runtime.result() == "done"


def test_a_bug_of_ours_ends_the_run_and_does_not_leave_it_to_the_host(started):
    def fail(pump):
        raise AssertionError("EXAMPLE-1")

    async def main():
        await Do(fail)

    runtime, host, _ = started(main)
    host.call()  # a loop that is not ours would only log what is raised here
    with pytest.raises(AssertionError, match="EXAMPLE-1"):
        runtime.result()
    assert host.closed == 1


@pytest.mark.parametrize("call", ["microtask", "handoff", "alarm"])
def test_a_host_that_raises_when_it_is_asked_for_a_call_ends_the_run(call):
    ended = []

    class Brittle(Script):
        broken = False

    def broken(self, *args):
        if self.broken:
            raise OSError(f"no {call}")
        return getattr(super(Brittle, self), call)(*args)

    setattr(Brittle, call, broken)

    async def main():
        host.broken = True
        if call == "handoff":
            await forever()
        if call == "microtask":
            await Do(lambda pump: pump.nudge())
        await bursar.sleep(1)

    host = Brittle()
    runtime = Runtime(host=host)
    runtime.on_end = lambda: ended.append(True)
    runtime.start(main)
    host.call()
    assert (runtime.pump.over, host.closed, ended) == (True, 1, [True])
    with pytest.raises(OSError, match=f"no {call}"):
        runtime.result()


def test_a_host_that_cannot_be_closed_is_reported_and_whoever_waits_is_told_all_the_same():
    ended = []

    class Stuck(Script):
        def close(self):
            raise OSError("it does not close")

    runtime = Runtime(host=(host := Stuck()))
    runtime.on_end = lambda: ended.append(True)
    runtime.start(nothing)
    host.call()
    assert ended == [True]
    with pytest.raises(OSError, match="it does not close"):
        runtime.result()


def test_whoever_waits_and_raises_is_heard_by_whoever_asks_for_the_result(started):
    def fail():
        raise ZeroDivisionError

    runtime, host, _ = started(nothing)
    runtime.on_end = fail
    host.call()
    assert (runtime.pump.over, host.closed) == (True, 1)
    with pytest.raises(ZeroDivisionError):
        runtime.result()


def test_of_two_errors_the_first_is_the_one_that_is_raised():
    class Stuck(Script):
        def close(self):
            raise OSError("second")

    async def main():
        await bursar.sleep(1)

    runtime = Runtime(host=(host := Stuck()))
    runtime.start(main)
    host.rest()
    host.pump.post("bad", lambda: 1 // 0)
    host.call()
    with pytest.raises(ZeroDivisionError):
        runtime.result()


def test_a_pump_that_is_stopped_in_the_middle_of_a_batch_makes_no_more_decisions(started):
    log = []

    async def other():
        log.append("never")

    async def main():
        async with bursar.nursery() as n:
            await Do(lambda pump: pump.stop(HostLost("the loop is gone")))
            n.spawn(other)

    runtime, host, _ = started(main)
    host.call()
    assert (log, host.owed, host.closed, runtime.kernel.decisions) == ([], [], 1, 1)
    with pytest.raises(HostLost, match="the loop is gone"):
        runtime.result()


def test_a_pump_that_is_stopped_by_a_delivery_makes_no_decision_and_asks_for_no_call(started):
    runtime, host, _ = started(forever)
    host.call()
    runtime.pump.post("the end", lambda: runtime.pump.stop(HostLost("the loop is gone")))
    host.call()
    assert (host.owed, host.closed, runtime.kernel.decisions) == ([], 1, BURST_MAX)
    assert [report.kind for report in runtime.reports] == []


def test_a_pump_is_stopped_once(started):
    ended = []
    runtime, host, _ = started(forever)
    runtime.on_end = lambda: ended.append(True)
    for text in ("first", "second"):
        runtime.pump.stop(HostLost(text))
    assert (ended, host.closed, str(runtime.pump.error)) == ([True], 1, "first")


def test_a_host_that_cannot_be_opened_leaves_nothing_behind():
    """The main task's coroutine is closed, or Python would warn that it was never awaited."""

    class Shut(Script):
        def open(self, pump):
            raise OSError("no descriptors left")

    runtime = Runtime(host=(host := Shut()))
    with pytest.raises(OSError, match="no descriptors left"):
        runtime.start(nothing)
    assert (host.closed, host.owed, runtime.pump.over) == (0, [], True)
    with pytest.raises(bursar.RuntimeUsed):
        runtime.start(nothing)


def test_a_main_task_that_may_not_be_spawned_opens_no_host():
    runtime = Runtime(host=(host := Script()), budget=bursar.Budget(spawns=0))
    with pytest.raises(bursar.SpawnBudgetExceeded):
        runtime.start(nothing)
    assert (host.opened, host.closed) == (0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_hooks_of_async_generators_are_there_for_a_batch_and_no_longer(started, fails):
    before = sys.get_asyncgen_hooks()
    inside = []

    def look(pump):
        inside.append(sys.get_asyncgen_hooks())
        assert not fails, "EXAMPLE-1"

    async def main():
        await Do(look)

    runtime, host, _ = started(main)
    host.call()
    assert sys.get_asyncgen_hooks() == before
    assert inside[0] != before
    assert (runtime.pump.error is not None) is fails


# ---- interrupts


class Strike:
    """Raises KeyboardInterrupt at the nth call or return of a function of the pump or the runtime.

    These are the places where Python sees to signals. A trace function reaches each of them, a real signal does not.
    """

    FILES = (pump_module.__file__, runtime_module.__file__)

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.struck = ""

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename not in self.FILES:
            return None
        if event in ("call", "return"):
            self.left -= 1
            if self.left == 0:
                self.struck = frame.f_code.co_name
                raise KeyboardInterrupt
        return self


def struck_run(nth: int) -> str:
    """Run a program that is struck once, check what is left of it, and return where: in which function."""
    log = []

    async def child():
        await bursar.sleep(2)

    async def main():
        log.append("begun")
        try:
            async with bursar.nursery() as n:
                n.spawn(child)
                await bursar.sleep(3)
        finally:
            log.append("closed")
        return "done"

    strike, runtime = Strike(nth), Runtime(host=(host := ScriptLoop()))
    handler, hooks, trace = signal.getsignal(signal.SIGINT), sys.get_asyncgen_hooks(), sys.gettrace()
    ended = None
    sys.settrace(strike)
    try:
        ended = runtime.run(main)
    except KeyboardInterrupt:
        ended = "interrupted"
    finally:
        sys.settrace(trace)
        signal.signal(signal.SIGINT, handler)
    assert sys.get_asyncgen_hooks() == hooks, strike.struck
    assert log in ([], ["begun", "closed"]), strike.struck
    assert ended == "interrupted" or strike.struck in ("", "stop", "_go_on"), strike.struck  # those: it was over
    assert host.closed == host.opened or strike.struck in ("_end", "_ended"), strike.struck  # on their threshold
    return strike.struck


def test_an_interrupt_at_any_moment_closes_the_tasks_and_the_host_and_takes_back_the_hooks():
    places = set()
    for nth in itertools.count(1):
        where = struck_run(nth)
        if not where:
            break
        places.add(where)
    assert nth > 90  # polls are the driver's, which a bare KeyboardInterrupt takes for a task's own
    assert places >= {"run", "start", "drain", "_run_batch", "_take_in", "_go_on", "_rest", "stop", "nudge"}


def test_an_interrupt_before_the_host_is_open_cancels_the_program():
    class Slow(ScriptLoop):
        def open(self, pump):
            signal.raise_signal(signal.SIGINT)
            super().open(pump)

        def wake(self):
            assert self.opened, "nobody is there to be woken"
            super().wake()

    async def main():
        await bursar.sleep(5)

    runtime = Runtime(host=(host := Slow()))
    with pytest.raises(KeyboardInterrupt):
        runtime.run(main)
    assert (host.closed, runtime.kernel.now_ns) == (1, 0)


# ---- several runtimes


def test_runtimes_run_inside_each_other_in_one_thread():
    def nest(depth: int) -> list[int]:
        async def numbers():
            yield depth
            yield -1

        async def main():
            async for number in numbers():
                await bursar.sleep(1)
                found = [*(nest(depth - 1) if depth else []), number]
                break
            await bursar.sleep(1)
            return found

        return Runtime(host=ScriptLoop()).run(main)

    before = sys.get_asyncgen_hooks()
    assert nest(4) == [0, 1, 2, 3, 4]
    assert sys.get_asyncgen_hooks() == before


def test_runtimes_of_several_threads_know_nothing_of_each_other():
    async def child(i):
        await bursar.sleep(i % 3)
        return i

    async def main():
        async with bursar.nursery() as n:
            tasks = [n.spawn(child, i) for i in range(50)]
        return sum([await task for task in tasks])

    found = []

    def work():
        runtime = Runtime(host=ScriptLoop(), seed=7, workers=3)
        found.append((runtime.run(main), runtime.fingerprint))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()
    assert found == [(sum(range(50)), found[0][1])] * 5


def test_two_guests_take_turns_in_one_thread(started):
    log = []

    async def main(who):
        for i in range(3):
            log.append((who, i))
            await bursar.sleep(1)
        return who

    a, host_a, _ = started(main, "a")
    b, host_b, _ = started(main, "b")
    while not (host_a.pump.over and host_b.pump.over):
        for host in (host_a, host_b):
            host.call() if host.owed else host.ring()
    assert log == [(who, i) for i in range(3) for who in "ab"]
    assert (a.result(), b.result()) == ("a", "b")


def test_a_runtime_made_in_one_thread_runs_in_another():
    runtime = Runtime(host=(host := ScriptLoop()))
    found = []
    thread = threading.Thread(target=lambda: found.append(runtime.run(nothing)))
    thread.start()
    ident = thread.ident
    thread.join()
    assert (found, runtime.pump.thread, host.closed) == (["done"], ident, 1)


# ---- nothing is left behind


@pytest.mark.parametrize("host", [Script, SelectorHost])
def test_a_runtime_that_is_never_run_leaks_nothing(host):
    descriptors = len(os.listdir("/dev/fd"))
    runtime = Runtime(host=host())
    runtime.cancel("never mind")
    gone = weakref.ref(runtime), weakref.ref(runtime.kernel)
    assert len(os.listdir("/dev/fd")) == descriptors
    del runtime
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_run_that_is_over_keeps_nothing_of_its_tasks(started):
    class Load:
        pass

    load = Load()
    gone = weakref.ref(load)

    async def main(load):
        await bursar.sleep(1)

    runtime, host, _ = started(main, load)
    runtime.kernel.observe(None)
    host.play()
    del load
    gc.collect()
    assert gone() is None
    assert runtime.result() is None
