"""Replay: a program does the same on its trace, on every host. An error shows both sides of a difference."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from support import programs
from support.evidence import Recorder, Trace, digest_of, verify
from support.evidence import replay_module as replays
from support.hosts import BURST_MAX, SelectorHost, VirtualHost
from support.law import Wait
from support.requests import SUSPENDED, Request
from support.time_limits import WAIT_S

import bursar
from bursar import Budget, Runtime

SCRIPT = Path(sys.executable).parent / "bursar"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.trace"


def record(path, fn, *args, **keywords):
    """Run and record a program. Returns what it returned or raised, and the runtime."""
    runtime = Runtime(record=path, **keywords)
    try:
        return runtime.run(fn, *args), runtime
    except (Exception, BaseExceptionGroup, KeyboardInterrupt, programs.Crash) as error:
        return error, runtime


def replay(path, fn, *args, **keywords):
    return replays.replay(Trace(path), fn, *args, **keywords)


def same(path, fn, *args, **keywords):
    """Record and replay a program, and check that nothing differs. Returns the replay."""
    value, runtime = record(path, fn, *args, **keywords)
    replayed = replay(path, fn, *args)
    assert replayed.events == sum(1 for _ in Trace(path).records())
    assert replayed.fingerprint == runtime.fingerprint
    if isinstance(value, BaseException):
        assert (type(replayed.error), str(replayed.error)) == (type(value), str(value))
    else:
        assert (replayed.value, replayed.error) == (value, None)
    return replayed


def diverge(path, fn, *args) -> bursar.Divergence:
    with pytest.raises(bursar.Divergence) as caught:
        replay(path, fn, *args)
    return caught.value


# ---- programs


async def busy():
    """A program with sleeps, timeouts, channels, select, the clock and random numbers."""
    send, receive = bursar.channel(1)
    late = []

    async def produce():
        for n in range(20):
            await send.send(n)
            if n % 5 == 0:
                await bursar.sleep(0.002)
        send.close()

    async def consume():
        found = []
        with suppress(bursar.ChannelClosed):
            while True:
                picked = await bursar.select(receive.receive(), bursar.sleep(0.001))
                found.append(picked.index)
        return found

    async def patient():
        for _ in range(5):
            with suppress(TimeoutError):
                async with bursar.timeout(0.001 * (await bursar.entropy() % 3)):
                    await bursar.sleep(0.001)
            late.append(await bursar.now())

    async with bursar.nursery() as n:
        n.spawn(produce)
        found = n.spawn(consume)
        for _ in range(3):
            n.spawn(patient)
    return found.result, late


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_program_does_the_same_on_its_trace(path, clock, workers):
    replayed = same(path, busy, clock=clock, workers=workers, seed=5)
    assert replayed.events > 500


def test_the_real_clock_is_read_from_the_trace_and_from_nowhere_else(path, monkeypatch):
    value, _ = record(path, busy)
    monkeypatch.setattr(SelectorHost, "now_ns", None)
    monkeypatch.setattr(SelectorHost, "open", None)
    assert replay(path, busy).value == value


def test_a_program_on_the_selector_host_with_virtual_time(path):
    replayed = same(path, busy, clock="virtual", host=SelectorHost())
    assert replayed.events > 500


@pytest.mark.parametrize("workers", [1, 4])
def test_two_hundred_programs_do_the_same_again(path, workers):
    endings = Counter()
    for number in range(200):
        program = programs.make(Random(number))
        runtime = programs.runtime_for(number, workers)
        recorder = Recorder(runtime.kernel, path, runtime.header())
        runtime.kernel.observe(recorder)
        ending = programs.run(runtime, program)
        recorder.close({"error": ""})
        replayed = replay(path, programs.Interpreter(program, runtime.profile.name).main)
        assert (type(replayed.error).__name__ if replayed.error else "ok") == ending, number
        assert replayed.fingerprint == runtime.fingerprint, number
        endings[ending] += 1
    assert len(endings) > 2, "the programs all end in the same way"


class Unsteady(VirtualHost):
    """The time jumps ahead at each reading of the clock, and the program is cancelled from outside at some time."""

    def __init__(self, chance):
        super().__init__()
        self._chance = chance

    def now_ns(self):
        if self._chance.random() < 0.005:
            self._pump.program.cancel("now and then")
        self._now_ns += self._chance.choice((0, 0, 1, 1_000_000, 300_000_000))
        return super().now_ns()


@pytest.mark.parametrize("workers", [1, 4])
def test_programs_on_an_unsteady_host_do_the_same_again(path, workers):
    names = Counter()
    for number in range(100):
        program = programs.make(Random(number))
        interpreter = programs.Interpreter(program, "cluster")
        value, runtime = record(
            path,
            interpreter.main,
            host=Unsteady(Random(number)),
            workers=workers,
            profile="cluster",
            yield_interval=7,
            cleanup=bursar.Cleanup(ops=200, seconds=2.0),
        )
        replayed = replay(path, programs.Interpreter(program, "cluster").main)
        assert replayed.fingerprint == runtime.fingerprint, number
        assert repr(replayed.value if replayed.error is None else replayed.error) == repr(value), number
        names.update(kind.name for kind, _, _ in Trace(path).records())
    assert names["clock"] > 1000
    assert names["outside"] > 10


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_more_than_fits_into_a_batch_is_replayed_batch_by_batch(path, clock):
    async def nap():
        await bursar.sleep_until(0.01)

    async def main():
        async with bursar.nursery() as n:
            for _ in range(5 * BURST_MAX):
                n.spawn(nap)

    same(path, main, clock=clock)
    handoffs = [event.name for event in Trace(path).events()].count("scheduler_host_handoff")
    assert handoffs > 5


def test_a_host_that_calls_at_a_bad_moment_makes_no_difference(path):
    class Reenter(Request):
        def perform(self, kernel, task):
            if bad:
                kernel.runtime.pump.drain()

    async def main():
        await Reenter()
        await bursar.sleep(0.001)
        await Reenter()

    for bad in (True, False):
        record(path, main)
        noise = [event.name for event in Trace(path).events()].count("scheduler_reentrancy_deferred")
        assert noise == 2 * bad
        bad = not bad
        assert replay(path, main).error is None


def test_a_host_that_cuts_every_batch_makes_no_difference(path):
    class Impatient(SelectorHost):
        def overdue(self):
            return True

    same(path, busy, host=Impatient(), workers=2)
    turns = [event.host_turn_id for event in Trace(path).events() if event.name == "scheduler_step_decision"]
    assert turns == sorted(turns)
    assert len(set(turns)) > len(turns) // 2, "most decisions have a turn of their own"
    assert verify(Trace(path)).decisions == len(turns)


def test_settings_come_from_the_trace(path):
    async def main():
        async with bursar.nursery() as n:
            for _ in range(5):
                n.spawn(spin)

    async def spin():
        for _ in range(100):
            await bursar.charge()

    settings = {
        "budget": Budget(ops=400, spawns=20),
        "profile": "cluster",
        "workers": 3,
        "seed": 99,
        "steal": "round_robin",
        "yield_interval": 7,
        "cleanup": bursar.Cleanup(ops=3, seconds=0.5),
    }
    replayed = same(path, main, **settings)
    assert isinstance(replayed.error, ExceptionGroup)


def test_a_failure_and_a_deadlock_happen_again(path):
    async def fail():
        await bursar.sleep(0.001)
        raise LookupError("as always")

    async def stuck():
        await bursar.Event().wait()

    assert isinstance(same(path, fail).error, LookupError)
    assert isinstance(same(path, stuck).error, bursar.Deadlock)


def test_objects_in_words_may_live_elsewhere(path):
    """Reports quote the result of a task; an address in the text may differ."""

    async def swallow():
        with suppress(bursar.Cancelled):
            await bursar.sleep(1)
        return object()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(swallow)
            await bursar.checkpoint()
            n.cancel()

    record(path, main, clock="virtual")
    assert "object at 0x" in "".join(event.text for event in Trace(path).events())
    keep = [object() for _ in range(1000)]
    assert replay(path, main).error is None
    assert keep


def test_what_the_host_answers_is_given_back(path, monkeypatch):
    async def main():
        return await bursar.host_entropy(16), await bursar.host_entropy(4)

    value, _ = record(path, main)
    monkeypatch.setattr(os, "urandom", None)
    assert replay(path, main).value == value
    assert len(value[0]) == 16


def test_an_error_of_the_host_is_raised_again(path):
    class Poor(SelectorHost):
        def entropy(self, size):
            raise PermissionError(13, "not today")

    async def main():
        try:
            await bursar.host_entropy(1)
        except PermissionError as error:
            return error.errno, str(error)

    value, _ = record(path, main, host=Poor())
    assert value == (13, "[Errno 13] not today")
    assert replay(path, main).value == value


# ---- what happens outside


async def until_cancelled(begun: threading.Event):
    async def child():
        try:
            await bursar.sleep(60)
        finally:
            await bursar.checkpoint()

    async with bursar.nursery() as n:
        n.spawn(child)
        n.spawn(child)
        await bursar.checkpoint()
        begun.set()


def test_a_cancellation_by_another_thread_happens_again(path):
    begun = threading.Event()
    runtime = Runtime(record=path)

    def stop():
        begun.wait()
        runtime.cancel("enough")

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(bursar.TaskCancelled, match="enough"):
        runtime.run(until_cancelled, begun)
    thread.join()
    assert "cancel enough" in [event.text for event in Trace(path).events() if event.name == "outside"]
    replayed = replay(path, until_cancelled, threading.Event())
    assert isinstance(replayed.error, bursar.TaskCancelled)
    assert replayed.fingerprint == runtime.fingerprint


def test_a_late_alarm_happens_again(path):
    """A host may fire an alarm for a timer that was disarmed. The record shows it, and the replay repeats it."""

    class Late(SelectorHost):
        def alarm(self, deadline_ns):
            if deadline_ns is not None:
                super().alarm(deadline_ns)  # an alarm that was taken back rings all the same

    async def main():
        event = bursar.Event()
        async with bursar.nursery() as n:
            n.spawn(other, event)
            with suppress(TimeoutError):
                async with bursar.timeout(0.002):
                    await event.wait()

    async def other(event):
        await bursar.sleep(0.001)
        event.set()

    same(path, main, host=Late())


PROGRAM = """
import bursar

async def child():
    try:
        await bursar.sleep(60)
    finally:
        await bursar.checkpoint()

async def main():
    async with bursar.nursery() as n:
        n.spawn(child)
        await bursar.checkpoint()
        print("ready", flush=True)
"""


def start(tmp_path, source, *options) -> subprocess.Popen:
    (tmp_path / "program.py").write_text(source)
    command = [SCRIPT, "run", *options, "--record", tmp_path / "run.trace", tmp_path / "program.py"]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def command(*args) -> subprocess.CompletedProcess:
    return subprocess.run([str(SCRIPT), *map(str, args)], capture_output=True, text=True, timeout=WAIT_S)


def test_ctrl_c_happens_again(tmp_path, path):
    process = start(tmp_path, PROGRAM)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert any(event.name == "outside" and "Ctrl-C" in event.text for event in Trace(path).events())
    done = command("replay", path)
    assert done.returncode == 0, done.stderr
    assert "did the same again" in done.stderr
    assert "KeyboardInterrupt" in done.stderr


STUBBORN = PROGRAM.replace("await bursar.checkpoint()\n\n", "print('cleaning', flush=True); await bursar.sleep(60)\n\n")


def test_a_run_that_was_torn_down_is_the_same_up_to_there(tmp_path, path):
    process = start(tmp_path, STUBBORN)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "cleaning\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    trace = Trace(path)
    assert [event.name for event in trace.events()]
    assert trace.ending["error"] == "KeyboardInterrupt"
    done = command("replay", path)
    assert done.returncode == 0, done.stderr
    assert "HostLost" in done.stderr


# ---- sockets


async def echo(stream):
    async with stream:
        while data := await stream.receive():
            await stream.send(data)


async def talk(host, port, word):
    async with await bursar.open_tcp(host, port) as stream:
        heard = []
        for size in (1, 100, 200_000):
            await stream.send(word * size)
            got = 0
            while got < size:
                got += len(await stream.receive())
            heard.append(got)
        return heard


async def server_and_clients(host):
    async with bursar.nursery() as outer:
        listener = await bursar.listen_tcp("127.0.0.1")
        serving = outer.spawn(bursar.serve, listener, echo, outer)
        async with bursar.nursery() as n:
            found = [n.spawn(talk, host, listener.port, bytes([65 + k])) for k in range(4)]
        serving.cancel("all were served")
        listener.close()
    return listener.port, [task.result for task in found]


@pytest.fixture
def no_sockets(monkeypatch):
    def refuse(*args, **keywords):
        raise AssertionError("a replay makes no socket and asks for no address")

    def forbid():
        for name in ("socket", "socketpair", "create_connection", "getaddrinfo"):
            monkeypatch.setattr(socket, name, refuse)

    return forbid


@pytest.mark.parametrize("workers", [1, 4])
def test_a_server_and_its_clients_are_replayed_without_any_socket(path, no_sockets, workers):
    value, runtime = record(path, server_and_clients, "127.0.0.1", workers=workers)
    assert value[1] == [[1, 100, 200_000]] * 4
    no_sockets()
    replayed = replay(path, server_and_clients, "127.0.0.1")
    assert replayed.error is None
    assert (replayed.value, replayed.fingerprint) == (value, runtime.fingerprint)


def test_sockets_in_virtual_time_are_replayed_too(path, no_sockets):
    value, _ = record(path, server_and_clients, "127.0.0.1", clock="virtual", host=SelectorHost())
    no_sockets()
    assert replay(path, server_and_clients, "127.0.0.1").value == value


def test_names_are_not_looked_up_again(path, no_sockets):
    value, _ = record(path, server_and_clients, "localhost")
    no_sockets()
    assert replay(path, server_and_clients, "localhost").value == value


def test_a_refused_connection_is_refused_again(path, no_sockets):
    async def main():
        listener = await bursar.listen_tcp("127.0.0.1")
        listener.close()
        try:
            await bursar.open_tcp("127.0.0.1", listener.port)
        except ConnectionRefusedError as error:
            return str(error)

    value, _ = record(path, main)
    assert "refused" in value
    no_sockets()
    assert replay(path, main).value == value


def test_a_host_without_files_is_one_in_the_replay_too(path):
    async def main():
        with pytest.raises(bursar.HostMisuse) as caught:
            await bursar.listen_tcp("127.0.0.1")
        return str(caught.value)

    assert "'virtual' has none" in same(path, main, clock="virtual").value


def test_a_signal_that_a_task_waited_for_comes_again(path):
    async def main():
        async with bursar.nursery() as n:
            n.spawn(wait)
            await bursar.checkpoint()
            if first:
                first.pop()
                signal.raise_signal(signal.SIGUSR2)

    async def wait():
        await bursar.wait_signal(signal.SIGUSR2)
        return await bursar.now()

    first = [True]
    _, runtime = record(path, main)
    assert "signal SIGUSR2" in [event.text for event in Trace(path).events() if event.name == "outside"]
    assert replay(path, main).fingerprint == runtime.fingerprint
    assert not first


# ---- divergences


async def child(n):
    for _ in range(n):
        await bursar.checkpoint()


async def family(*sizes, budget=None):
    async with bursar.nursery() as n:
        for size in sizes:
            n.spawn(child, size, budget=budget)


def test_a_changed_program_is_told_with_both_sides(path):
    record(path, family, 1, 2, 3)
    found = diverge(path, family, 1, 2, 4)
    assert found.recorded.startswith("task_done(")
    assert found.happened.startswith("charged(")
    assert "'child'" in found.recorded
    events = list(Trace(path).events())
    assert events[found.number].name == "task_done"
    assert [line.split(" ")[0] for line in found.before] == [str(found.number - k) for k in range(5, 0, -1)]
    assert f"at event {found.number}" in str(found)
    assert "random" in found.hint


def test_one_task_fewer_is_noticed_at_its_spawn(path):
    record(path, family, 1, 2, 3)
    found = diverge(path, family, 1, 2)
    assert found.recorded.startswith("task_spawned(")
    assert found.happened.startswith("nursery_closing(")


def test_one_task_more_is_noticed_at_its_spawn(path):
    record(path, family, 1, 2)
    found = diverge(path, family, 1, 2, 3)
    assert found.happened.startswith("task_spawned(")


def test_another_budget_is_noticed_where_it_is_granted(path):
    async def main(ops):
        await family(1, 2, budget=Budget(ops=ops))

    record(path, main, 100)
    found = diverge(path, main, 101)
    assert "ops=100" in found.recorded
    assert "ops=101" in found.happened


def test_chance_that_is_not_recorded_is_noticed(path):
    chance = random.Random(1)

    async def main():
        await family(chance.randrange(1000))

    record(path, main)
    found = diverge(path, main)
    assert "random" in found.hint


def test_a_program_that_ends_before_its_trace_is_noticed(path):
    async def main(rest):
        await bursar.checkpoint()
        if rest:
            await bursar.checkpoint()

    record(path, main, True)
    assert diverge(path, main, False).happened.startswith("task_done(")


def test_a_program_that_goes_on_after_its_trace_is_noticed(path):
    async def quick():
        return None

    record(path, quick)
    found = diverge(path, family, 1)
    assert found.number < len(list(Trace(path).events()))


class Rewritten(Trace):
    """A trace with other records and the same end."""

    def __init__(self, path, rewrite):
        super().__init__(path)
        self.rewrite = rewrite

    def records(self):
        yield from self.rewrite(list(super().records()))


def test_what_was_recorded_last_must_happen_too(path):
    """A complete trace with one event more than the program makes."""
    record(path, family, 1)
    with pytest.raises(bursar.Divergence) as caught:
        replays.replay(Rewritten(path, lambda records: [*records, records[-1]]), family, 1)
    found = caught.value
    assert found.recorded.startswith("nursery_closed(")
    assert "the program is over" in found.happened


def test_what_was_not_recorded_must_not_happen(path):
    record(path, family, 1)
    with pytest.raises(bursar.Divergence) as caught:
        replays.replay(Rewritten(path, lambda records: records[:-1]), family, 1)
    found = caught.value
    assert "the run was over" in found.recorded
    assert found.happened.startswith("nursery_closed(")


def test_asking_the_host_for_something_else_is_noticed(path):
    async def main(draws):
        for _ in range(draws):
            await bursar.host_entropy(1)
        await bursar.checkpoint()

    record(path, main, 1)
    found = diverge(path, main, 2)
    assert "charged" in found.happened

    async def ask(what):
        await Ask(what)

    record(path, ask, "colour")
    found = diverge(path, ask, "flavour")
    assert "colour" in found.recorded
    assert "flavour" in found.happened


class Ask(Request):
    def __init__(self, what):
        self.what = what

    def perform(self, kernel, task):
        return kernel.runtime.pump.ask(task, self.what, lambda: 1)


def test_a_divergence_does_not_become_the_programs_own_problem(path):
    """The difference is raised when no task is on the stack, so a task that catches everything cannot catch it."""
    caught = []

    async def main(more):
        async with bursar.nursery() as n:
            task = n.spawn(child, 3)
            try:
                if more:
                    task.cancel("not recorded")
                await bursar.checkpoint()
            except BaseException as error:
                caught.append(error)
                raise

    record(path, main, False)
    found = diverge(path, main, True)
    assert found.happened.startswith("cancel_requested(")
    assert [type(error) for error in caught] in ([], [GeneratorExit])


def test_after_a_divergence_no_task_is_polled(path):
    polled = []

    async def main(more):
        if more:
            await bursar.checkpoint()
        await bursar.checkpoint()
        polled.append(more)

    record(path, main, False)
    polled.clear()
    diverge(path, main, True)
    assert polled == []


def test_a_generator_that_the_collector_finds_gets_its_own_hint(path):
    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await bursar.checkpoint()

    async def main(forget):
        generator = numbers()
        await anext(generator)
        if forget:
            del generator
            await bursar.checkpoint()
        else:
            await generator.aclose()
            await bursar.checkpoint()

    record(path, main, True)
    assert "aclosing" in diverge(path, main, False).hint


# ---- traces that are not what they seem


def refused(path, fn, *args, **keywords) -> str:
    with pytest.raises(bursar.TraceError) as caught:
        replay(path, fn, *args, **keywords)
    return str(caught.value)


def test_a_cut_trace_is_replayed_up_to_the_cut(path):
    record(path, family, 5, 5)
    events = [event.name for event in Trace(path).events()]
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(bursar.TraceCut, match="did the same again") as caught:
        replay(path, family, 5, 5)
    assert 20 < caught.value.record < len(events)
    assert diverge(path, family, 1, 5).number < caught.value.record


def test_a_trace_without_its_end_is_replayed_whole(path):
    """The run was killed after its last event: nothing differs, and the error says that the end is missing."""
    record(path, family, 1)
    count = len(list(Trace(path).events()))
    path.write_bytes(path.read_bytes()[:-32])
    with pytest.raises(bursar.TraceCut, match=f"{count:,} events"):
        replay(path, family, 1)


@pytest.mark.parametrize("where", [0.5, 0.75, 0.99])
def test_a_tampered_trace_is_refused_before_anything_runs(path, where):
    ran = []

    async def main():
        ran.append(1)
        await family(3, 3)

    record(path, main)
    ran.clear()
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(bursar.TraceError) as caught:
        replay(path, main)
    assert not isinstance(caught.value, bursar.TraceCut)
    assert not ran


class Edited(Trace):
    """A trace whose header was made by another version."""

    def __init__(self, path, **changes):
        super().__init__(path)
        self.header = {**self.header, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"cancel_streak_max": 7},
        {"timed_streak_max": None},
        {"burst_limit": "many"},
        {"cleanup_ns": -1},
        {"profile": "feudal"},
        {"steal": "never"},
        {"budget": [1, 2]},
        {"budget": "all"},
        {"workers": 0},
        {"clock": "sundial"},
    ],
)
def test_a_header_that_does_not_fit_is_refused(path, changes):
    record(path, family, 1)
    with pytest.raises(bursar.TraceError, match=re.escape(str(path))) as caught:
        replays.replay(Edited(path, **changes), family, 1)
    assert "version of Bursar" in str(caught.value)


def test_other_capabilities_are_refused(path):
    async def main():
        await bursar.sleep(0.001)

    held = [bursar.CapTimer(), bursar.CapClock()]
    record(path, main, capabilities=held)
    assert "CapTimer" in refused(path, main)
    assert replay(path, main, capabilities=held).error is None
    record(path, main)
    assert "CapTimer" in refused(path, main, capabilities=held)


def test_a_divergence_under_another_version_says_so(path):
    record(path, family, 1)
    with pytest.raises(bursar.Divergence) as caught:
        replays.replay(Edited(path, versions={"bursar": "0.0.1"}), family, 2)
    assert "made with bursar 0.0.1" in caught.value.hint


def test_a_trace_of_another_program_is_told_by_its_digest(path, tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a")
    other.write_text("b")
    runtime = Runtime(record=path)
    runtime.program = {"file": str(one), "sha256": digest_of(one)}
    runtime.run(family)
    replays.require_program(Trace(path), one)
    with pytest.raises(bursar.TraceError, match=r"one\.py.*other\.py.*--force"):
        replays.require_program(Trace(path), other)


def spoil(chance, records):
    """One change to a list of records."""
    records = list(records)
    at = chance.randrange(len(records))
    match chance.randrange(4):
        case 0:
            del records[at]
        case 1:
            records.insert(at, records[chance.randrange(len(records))])
        case 2:
            other = chance.randrange(len(records))
            records[at], records[other] = records[other], records[at]
        case _:
            kind, numbers, text = records[at]
            if numbers:
                field = chance.randrange(len(numbers))
                numbers = (*numbers[:field], numbers[field] + chance.choice((-1, 1, 2**40)), *numbers[field + 1 :])
            records[at] = (kind, numbers, text[:-1])
    return records


def test_whatever_is_changed_in_a_trace_is_noticed_and_nothing_hangs(path, monkeypatch):
    monkeypatch.setattr(replays, "PATIENCE_S", 0.01)
    record(path, busy, seed=3, clock="virtual")
    records = list(Trace(path).records())
    chance, changed = Random(7), 0
    for _ in range(200):
        spoiled = spoil(chance, records)
        if spoiled != records:
            changed += 1
            with pytest.raises((bursar.Divergence, bursar.TraceError)):
                replays.replay(Rewritten(path, lambda _, found=spoiled: found), busy)
    assert changed > 150


def test_ctrl_c_ends_a_replay_at_once(path):
    async def main():
        await bursar.checkpoint()
        if interrupted:
            signal.raise_signal(signal.SIGINT)
        await bursar.checkpoint()

    interrupted = False
    record(path, main)
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        replay(path, main)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---- what the program itself must bring along


class Knock(Request):
    """Wait for a post of one of the program's own threads."""

    def __init__(self, thread):
        self.thread = thread

    def perform(self, kernel, task):
        pump = kernel.runtime.pump
        wait = KnockWait(task, pump)
        pump.sources += 1
        kernel.blocked(task, wait)
        self.thread(lambda word: pump.post(f"knock {word}", lambda: wait.answer(kernel, word)))
        return SUSPENDED


class KnockWait(Wait):
    __slots__ = ("pump",)
    reason = "waits for a knock"

    def __init__(self, task, pump):
        super().__init__(task)
        self.pump = pump

    def withdraw(self, kernel):
        if self.pump is not None:
            self.pump.sources -= 1
            self.pump = None


async def knocked(words, threads, begin=None):
    def begin_thread(word, knock):
        threads.append(threading.Thread(target=knock, args=(word,)))
        threads[-1].start()

    async def one(word):
        return await Knock(lambda knock: (begin or begin_thread)(word, knock))

    async with bursar.nursery() as n:
        found = [n.spawn(one, word) for word in words]
    return [task.result for task in found]


@pytest.fixture
def threads():
    found = []
    yield found
    for thread in found:
        thread.join()


def test_threads_of_the_program_are_let_in_in_the_recorded_order(path, threads):
    words = [str(n) for n in range(30)]
    value, runtime = record(path, knocked, words, threads)
    assert value == words
    for _ in range(3):
        replayed = replay(path, knocked, words, threads)
        assert (replayed.value, replayed.fingerprint) == (words, runtime.fingerprint)


def test_a_thread_that_does_not_come_is_a_divergence_and_no_hang(path, threads, monkeypatch):
    record(path, knocked, ["a", "b"], threads)
    monkeypatch.setattr(replays, "PATIENCE_S", 0.05)

    async def knocked_by_nobody(words, threads):
        await knocked(words, threads, begin=lambda word, knock: None)

    knocked_by_nobody.__qualname__ = knocked.__qualname__
    found = diverge(path, knocked_by_nobody, ["a", "b"], threads)
    assert "knock" in found.recorded
    assert "did not cause 'knock" in found.happened


# ---- portals


async def square(n):
    await bursar.checkpoint()
    return n * n


async def through_portals(threads, results):
    done = bursar.Event()

    def work(portal, k):
        first = portal.spawn(square, k, name=f"square {k}").result(timeout=WAIT_S)
        results.append(portal.spawn(square, first, name=f"again {k}").result(timeout=WAIT_S))

    def wait_for_all(portal):
        for thread in threads[-4:]:
            thread.join()
        portal.spawn(set_event, done)

    async with bursar.nursery() as n:
        with bursar.portal(n) as portal:
            threads.extend(threading.Thread(target=work, args=(portal, k)) for k in range(4))
            for thread in threads[-4:]:
                thread.start()
            last = threading.Thread(target=wait_for_all, args=(portal,))
            last.start()
            await done.wait()
    last.join()
    return sorted(results)


async def set_event(event):
    event.set()


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_what_threads_hand_in_through_a_portal_is_replayed(path, threads, clock):
    value, runtime = record(path, through_portals, threads, [], clock=clock, workers=2)
    assert value == [0, 1, 16, 81]
    for _ in range(3):
        replayed = replay(path, through_portals, threads, [])
        assert replayed.error is None
        assert (replayed.value, replayed.fingerprint) == (value, runtime.fingerprint)


async def cancelled_future(threads, told):
    def work(portal):
        future = portal.spawn(forever)
        told.wait(WAIT_S)
        future.cancel()

    async def forever():
        told.set()
        try:
            await bursar.sleep(60)
        finally:
            ended.set()

    ended = bursar.Event()

    async with bursar.nursery() as n:
        with bursar.portal(n) as portal:
            threads.append(threading.Thread(target=work, args=(portal,)))
            threads[-1].start()
            await ended.wait()


def test_a_future_that_a_thread_cancels_is_cancelled_again(path, threads):
    value, runtime = record(path, cancelled_future, threads, threading.Event())
    assert value is None
    assert "withdrawn" in [event.text.split()[0] for event in Trace(path).events() if event.name == "outside"]
    replayed = replay(path, cancelled_future, threads, threading.Event())
    assert (replayed.error, replayed.fingerprint) == (None, runtime.fingerprint)


# ---- the command


SMALL = """
import bursar

async def main(rounds="3"):
    for _ in range(int(rounds)):
        await bursar.sleep(0.001)
    print("rounds", rounds)
"""


@pytest.fixture
def recorded(tmp_path, path):
    (tmp_path / "program.py").write_text(SMALL)
    done = command("run", "--record", path, tmp_path / "program.py", "2")
    assert done.returncode == 0, done.stderr
    return tmp_path / "program.py"


def test_the_command_says_that_it_was_the_same(recorded, path):
    done = command("replay", path)
    assert (done.returncode, done.stdout) == (0, "rounds 2\n")
    assert "did the same again" in done.stderr


def test_the_command_says_where_it_was_not(recorded, path):
    done = command("replay", path, recorded, "3")
    assert done.returncode == 1
    assert "recorded: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_refuses_a_changed_program_unless_it_is_forced(recorded, path):
    recorded.write_text(SMALL + "# changed")
    done = command("replay", path)
    assert done.returncode == 2
    assert "--force" in done.stderr
    done = command("replay", "--force", path)
    assert done.returncode == 0, done.stderr


def test_the_command_finds_a_program_that_was_moved(recorded, path, tmp_path):
    moved = recorded.rename(tmp_path / "moved.py")
    done = command("replay", path)
    assert done.returncode == 2
    assert "name the file of the program" in done.stderr
    assert command("replay", path, moved).returncode == 0


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("x" * 300, "there is no such file"),
        pytest.param(
            "/proc/self/mem",
            "/proc/self/mem: the program cannot be read: Input/output error",
            marks=pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no such file here"),
        ),
    ],
)
def test_the_command_refuses_a_program_that_cannot_be_read(recorded, path, program, told):
    done = command("replay", path, program)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_refuses_what_is_no_trace(recorded, path):
    path.write_bytes(path.read_bytes()[:100])
    done = command("replay", path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
