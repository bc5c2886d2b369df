"""Native tasks: C functions in any nursery, which run without the GIL and look like every other task."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import weakref

import pytest
from support.evidence import Trace, verify
from support.evidence import replay_module as replays
from support.hosts import SelectorHost
from support.native import Meeting, functions, meeting
from support.real_sockets import real, settled
from support.requests import library, mailbox
from support.trace_forgery import Forgery

import bursar
from bursar import Budget, CapExecutor, CapSpawn, OutcomeKind, Runtime, State, native, nursery
from bursar.asyncio import run as run_in_asyncio


@pytest.fixture
def lib():
    return functions()


async def nap(seconds):
    await bursar.sleep(seconds)


def outcome(function, *args, **keywords):
    """Run a function as a task, and return its value."""
    ended = []

    async def main():
        try:
            async with nursery() as n:
                ended.append(n.spawn(function, *args, **keywords))
        except* (Exception, bursar.NativePanic):
            pass

    real(main)
    return ended[0].outcome


# ---- what it is and what it is handed


def test_a_native_function_is_a_task_beside_coroutines(lib):
    async def main():
        async def double():
            return 2 * await task

        async with nursery() as n:
            task = n.spawn(native(lib.echo), 21)
            doubled = n.spawn(double)
        return task.result, doubled.result, task.name, task.state

    assert real(main) == (21, 42, "echo", State.DONE)


def test_it_can_be_awaited_in_the_task_itself(lib):
    async def main():
        return await native(lib.echo)(7)

    assert real(main) == 7


def test_it_can_be_the_whole_program(lib):
    assert bursar.run(native(lib.echo), 9) == 9


def test_an_address_will_do(lib):
    address = ctypes.cast(lib.echo, ctypes.c_void_p).value
    assert outcome(native(address), 3).value == 3
    assert native(address).name == f"native function at {address:#x}"
    assert native(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)).address == address


def test_arguments(lib):
    number = ctypes.c_int64(41)
    assert outcome(native(lib.echo)).value == 0
    assert outcome(native(lib.echo), None).value == 0
    assert outcome(native(lib.echo), 2**62).value == 2**62
    assert outcome(native(lib.echo), -3).error.code == -3
    assert outcome(native(lib.add_one), number).value == 42
    assert outcome(native(lib.add_one), ctypes.pointer(number)).value == 42
    assert outcome(native(lib.add_one), ctypes.addressof(number)).value == 42
    assert outcome(native(lib.length), b"four").value == 4
    assert outcome(native(lib.length), ctypes.c_char_p(b"three")).value == 5
    buffer = bytearray(b"abc\0")
    assert outcome(native(lib.reverse), buffer).value == 0
    assert buffer == b"cba\0"
    assert outcome(native(lib.reverse), memoryview(buffer)).value == 0
    assert buffer == b"abc\0"


@pytest.mark.parametrize("wrong", ["text", 1.5, object(), 2**64, memoryview(b"read only")])
def test_an_argument_that_is_no_pointer_fails_the_task(lib, wrong):
    ended = outcome(native(lib.echo), wrong)
    assert ended.kind is OutcomeKind.FAILED
    assert isinstance(ended.error, (TypeError, ValueError))


def test_a_buffer_cannot_be_resized_while_the_function_has_it(lib):
    async def main():
        with meeting() as (there, reader):
            held = bytearray(bytes(there))
            async with nursery() as n:
                task = n.spawn(native(lib.park), held)
                await bursar.wait_readable(reader)
                with pytest.raises(BufferError):
                    held.extend(b"more")
                task.cancel()
            held.extend(b"more")
            return len(held)

    assert real(main) == ctypes.sizeof(Meeting) + 4


def test_what_it_was_handed_lives_as_long_as_it_does(lib):
    async def main():
        with meeting() as (there, reader):
            gone = weakref.ref(there)
            async with nursery() as n:
                task = n.spawn(native(lib.park), there)
                del there
                await bursar.wait_readable(reader)
                gc.collect()
                assert gone() is not None
                assert gone().ended == 0
                task.cancel()
            gc.collect()
            return gone()

    assert real(main) is None


def test_names(lib):
    async def main():
        out = ctypes.create_string_buffer(64)
        async with nursery() as n:
            task = n.spawn(native(lib.name), out)
        assert (task.name, out.value) == ("name", b"name")
        async with nursery() as n:
            task = n.spawn(native(lib.name, name="other"), out)
        assert (task.name, out.value) == ("other", b"other")
        async with nursery() as n:
            task = n.spawn(native(lib.name), out, name="given")
        assert (task.name, out.value) == ("given", b"given")

    real(main)
    assert "other" in repr(native(lib.echo, name="other"))


def test_what_cannot_be_a_native_function_is_refused(lib):
    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(lambda _: 0)
    with pytest.raises(TypeError, match="Python code behind a C pointer"):
        native(callback)
    with pytest.raises(TypeError, match="PyDLL"):
        native(ctypes.pythonapi.PyErr_Clear)
    with pytest.raises(TypeError, match="spawned as it is"):
        native(test_names)
    with pytest.raises(ValueError, match="null"):
        native(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)())
    for address in (0, -1, 2**64):
        with pytest.raises(ValueError, match="not the address"):
            native(address)
    for stack in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="stack"):
            native(lib.echo, stack=stack)


def test_without_the_library_it_says_so(lib, monkeypatch):
    monkeypatch.setattr(library, "FILE", "libnone.so")
    monkeypatch.setattr(library._Loaded, "library", None)
    with pytest.raises(bursar.NativeUnavailable, match="was not built"):
        native(lib.echo)


def test_it_is_admitted_like_any_other(lib):
    async def plus_one(x):
        return x + 1

    async def main():
        async with nursery() as n:
            first = n.spawn(native(lib.echo), 5)
            second = n.spawn(native(lib.echo), first, priority=bursar.Priority.HIGH)
            last = n.spawn(plus_one, second, after=[first])
        return second.result, last.result

    assert real(main) == (5, 6)


# ---- how it ends


def test_a_negative_value_is_a_failure_with_its_code(lib):
    ended = outcome(native(lib.echo), -7)
    assert ended.kind is OutcomeKind.FAILED
    assert isinstance(ended.error, bursar.NativeFailed)
    assert (ended.error.code, ended.error.task) == (-7, "echo")


def test_a_panic_ends_the_task_as_panicked_and_nobody_else(lib):
    async def main():
        async with nursery() as n:
            other = n.spawn(native(lib.ticks), 100_000)
            with pytest.raises(BaseExceptionGroup) as caught:
                async with nursery() as inner:
                    task = inner.spawn(native(lib.panic), 11)
        assert other.result == 100_000
        assert task.outcome.kind is OutcomeKind.PANICKED
        assert isinstance(caught.value.exceptions[0], bursar.NativePanic)
        return caught.value.exceptions[0].code

    assert real(main) == 11


def test_an_overflow_of_the_stack_ends_the_task_as_panicked(lib):
    ended = outcome(native(lib.overflow))
    assert ended.kind is OutcomeKind.PANICKED
    assert "native function overflow was ended: it ran out of stack" in str(ended.error)
    assert outcome(native(lib.echo), 1).value == 1


def test_an_error_names_the_task_and_not_only_the_function(lib):
    async def main():
        async with nursery(cancel_on_failure=False) as n:
            deep, poor = n.spawn(native(lib.overflow), name="deep"), n.spawn(native(lib.echo), -7, name="poor")
        return deep, poor

    with pytest.raises(BaseExceptionGroup) as caught:
        real(main)
    told = {error.task: str(error) for error in caught.value.exceptions}
    assert told["deep"].startswith("task 'deep': native function overflow was ended: it ran out of stack; give it more")
    assert told["poor"] == "task 'poor': native function echo returned -7, which means that it failed"


def test_a_larger_stack_can_be_asked_for(lib):
    assert outcome(native(lib.frame), 1).kind is OutcomeKind.PANICKED
    assert outcome(native(lib.frame, stack=2 << 20), 1).value == 2
    ended = outcome(native(lib.frame, stack=1 << 50), 1)
    assert isinstance(ended.error, bursar.NativeUnavailable)
    assert "stack" in str(ended.error)


def test_its_failure_cancels_its_siblings_and_theirs_cancels_it(lib):
    async def fail():
        raise ValueError

    async def main():
        tasks = []
        try:
            async with nursery() as n:
                tasks += n.spawn(nap, 1e9), n.spawn(native(lib.park_quietly))
                n.spawn(native(lib.echo), -1)
        except* bursar.NativeFailed:
            tasks.append(None)
        try:
            async with nursery() as n:
                tasks.append(n.spawn(native(lib.park_quietly)))
                await settled()
                n.spawn(fail)
        except* ValueError:
            tasks.append(None)
        return [task and task.outcome.reason.kind for task in tasks]

    sibling = bursar.CancelKind.SIBLING
    assert real(main) == [sibling, sibling, None, sibling, None]


# ---- cancellation


def test_a_parked_function_is_woken_and_told(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.park), there)
                await bursar.wait_readable(reader)
                task.cancel("enough")
                with pytest.raises(bursar.TaskCancelled, match="enough"):
                    await task
            return there.ended, task.outcome.kind, task.outcome.reason.detail

    assert real(main) == (-1, OutcomeKind.CANCELLED, "enough")


def test_a_busy_function_is_told_at_its_next_tick(lib):
    async def main():
        async with nursery() as n:
            task = n.spawn(native(lib.spin))
            await settled()
            task.cancel()
        return task.outcome.kind

    assert real(main) is OutcomeKind.CANCELLED


def test_one_that_has_not_begun_is_never_run(lib):
    before = ctypes.c_int64.in_dll(lib, "counted").value

    async def main():
        async with nursery() as n:
            task = n.spawn(native(lib.count))
            task.cancel()
        return task.outcome.kind

    assert real(main) is OutcomeKind.CANCELLED
    assert ctypes.c_int64.in_dll(lib, "counted").value == before


def test_it_is_shown_as_cancelling_until_it_has_left(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.deaf_at_first), there)
                await bursar.wait_readable(reader)
                assert "runs deaf_at_first on the native workers" in str(task.explain())
                task.cancel()
                await settled()
                assert task.state is State.BLOCKED
                assert "was asked to stop and has not left yet" in str(task.explain())
                assert there.ended == 0
                there.go = 1
            return there.ended, task.outcome.kind

    assert real(main) == (1, OutcomeKind.CANCELLED)


def test_a_function_that_ends_before_it_was_told_has_its_value(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.deaf), there)
                await bursar.wait_readable(reader)
                task.cancel()
                there.go = 1  # also: the interpreter runs while the function does
            return task.result

    assert real(main) == 5


def test_a_timeout_ends_it(lib):
    async def main():
        with pytest.raises(TimeoutError):
            async with bursar.timeout(0.001):
                await native(lib.park_quietly)()
        async with nursery() as n:
            n.spawn(native(lib.spin))
            n.spawn(native(lib.park_quietly))
            await settled()
            n.cancel("over")

    real(main)


def test_a_shield_keeps_it_running(lib):
    async def shielded(there):
        async with bursar.shield():
            return await native(lib.deaf)(there)

    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(shielded, there)
                await bursar.wait_readable(reader)
                task.cancel()
                there.go = 1
            return there.ended

    assert real(main) == 1


def test_a_task_that_is_cut_off_still_waits_for_its_function(lib):
    async def main():
        with meeting() as (there, reader):
            try:
                async with nursery(cancel_on_failure=False) as n:
                    broke = n.spawn(native(lib.spin), budget=Budget(ops=5000))
                    late = n.spawn(native(lib.deaf_at_first), there)
                    await bursar.wait_readable(reader)
                    late.cancel()
                    await settled()
                    there.go = 1
            except* bursar.BudgetExceeded:
                pass
            return there.ended, late.outcome.kind, broke.outcome.kind

    kinds = OutcomeKind.CANCELLED, OutcomeKind.FAILED
    assert real(main, cleanup=bursar.Cleanup(ops=0, seconds=0)) == (1, *kinds)


# ---- money


def spent_ops(task):
    return task.spent.ops


def test_what_it_spends_is_booked_to_its_task(lib):
    async def main():
        async with nursery() as n:
            task = n.spawn(native(lib.ticks), 12_345)
        return spent_ops(task)

    assert real(main) == 12_345 + 1  # the wait


def test_a_budget_of_its_own_is_lent_to_it_and_the_rest_comes_back(lib):
    async def main():
        async with nursery(budget=Budget(ops=100_000)) as n:
            before = n.budget.ops
            task = n.spawn(native(lib.ticks), 3000, budget=Budget(ops=5000))
            await task
            return before - n.budget.ops - spent_ops(task), spent_ops(task)

    assert real(main) == (1, 3002)  # the spawn; and two waits: one to learn from whom, one with the money


def test_one_that_cannot_pay_ends_with_budget_exceeded(lib):
    async def main():
        async with nursery(budget=Budget(ops=100_000)) as n:
            task = n.spawn(native(lib.spin), budget=Budget(ops=5000))
            with pytest.raises(bursar.BudgetExceeded, match=r"task 'spin' .* is out of ops"):
                await task

    with pytest.raises(BaseExceptionGroup) as caught:
        real(main)
    assert caught.value.exceptions[0].component == "ops"


def test_a_held_one_goes_on_when_it_is_recharged(lib):
    async def main():
        async with nursery(on_exhausted="hold", budget=Budget(ops=100_000)) as n:
            task = n.spawn(native(lib.ticks), 9000, budget=Budget(ops=5000))
            held = await n.wait_exhausted()
            assert held.name == "ticks"
            assert task.state is State.EXHAUSTED
            n.recharge(task, Budget(ops=5000))
            await task
        return task.result, spent_ops(task)

    value, spent = real(main)
    assert value == 9000
    assert 9000 < spent < 9010


def test_a_held_one_can_be_cancelled(lib):
    async def main():
        async with nursery(on_exhausted="hold") as n:
            task = n.spawn(native(lib.spin), budget=Budget(ops=5000))
            await n.wait_exhausted()
            task.cancel()
        return task.outcome.kind

    assert real(main) is OutcomeKind.CANCELLED


def test_a_shared_purse_is_drawn_from_in_portions(lib):
    """No task starves while there is budget, and what is left is what no task has spent."""

    async def modest(n):
        for _ in range(100):
            await bursar.charge(ops=10)

    async def main():
        async with nursery(budget=Budget(ops=400_000)) as n:
            before = n.budget.ops
            tasks = [n.spawn(native(lib.ticks), 50_000) for _ in range(4)]
            tasks.append(n.spawn(modest, n))
            for task in tasks:
                await task
            return before - n.budget.ops - sum(map(spent_ops, tasks)), n.budget.ops

    spawns, left = real(main)
    assert spawns == 5
    assert 190_000 < left < 199_000


def test_a_shared_purse_that_runs_dry_ends_those_who_need_more(lib):
    async def main():
        async with nursery(budget=Budget(ops=50_000), cancel_on_failure=False) as n:
            for _ in range(3):
                n.spawn(native(lib.ticks), 40_000)

    with pytest.raises(BaseExceptionGroup) as caught:
        real(main)
    assert {type(error) for error in caught.value.exceptions} == {bursar.BudgetExceeded}
    assert len(caught.value.exceptions) >= 2


def test_the_tasks_that_it_spawns_itself_live_on_the_same_money(lib):
    async def main():
        async with nursery(budget=Budget(ops=1_000_000, spawns=1000)) as n:
            task = n.spawn(native(lib.family), 2000, budget=Budget(ops=500_000, spawns=200))
            await task
            assert task.result == 100
            own = task.spent
            shared = n.spawn(native(lib.ticks), 100_000)
            await shared
        return own.ops, own.spawns

    ops, spawns = real(main)
    assert 100 * 2000 + 100 <= ops < 100 * 2000 + 110
    assert spawns == 100


def test_a_family_holds_and_goes_on_while_portions_come(lib):
    async def main():
        async with nursery(budget=Budget(ops=2_000_000)) as n:
            task = n.spawn(native(lib.family), 3000)
            await task
        return task.result, spent_ops(task)

    value, spent = real(main)
    assert value == 100
    assert 100 * 3000 + 100 <= spent < 100 * 3000 + 150


def test_messages_of_its_own_are_paid_for_too(lib):
    async def main():
        async with nursery(budget=Budget(ops=1_000_000, channel_ops=3000)) as n:
            task = n.spawn(native(lib.exchange))
            await task
            return task.result, task.spent.channel_ops, n.budget.channel_ops

    value, spent, left = real(main)
    assert value == sum(range(1000))
    assert 2000 <= spent <= 2002
    assert spent + left == 3000


def test_components_that_nobody_holds_for_must_be_granted(lib):
    class Amount(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_int64) for name in ("ops", "memory", "spawns", "channel_ops", "syscalls"))

    async def main():
        async with nursery(budget=Budget(ops=100_000, memory=1000, syscalls=100), cancel_on_failure=False) as n:
            granted = n.spawn(native(lib.charge), Amount(memory=100), budget=Budget(memory=100))
            shared = n.spawn(native(lib.charge), Amount(memory=100))
            calls = n.spawn(native(lib.charge), Amount(syscalls=5))
            await granted
            await calls
            with pytest.raises(bursar.NativeFailed):
                await shared
            assert (granted.result, granted.spent.memory, calls.spent.syscalls) == (0, 100, 5 + 2)
            seen.append((n.budget.memory, n.budget.syscalls))

    seen = []
    with pytest.raises(BaseExceptionGroup) as caught:
        real(main)
    assert seen == [(900, 100 - 5 - 2 * 3)]
    assert [error.code for error in caught.value.exceptions] == [-3]


def test_one_that_cannot_be_started_costs_no_more_than_trying(lib):
    async def main():
        async with nursery(budget=Budget(ops=10_000), cancel_on_failure=False) as n:
            task = n.spawn(native(lib.echo, stack=1 << 50), budget=Budget(ops=5000))
            with pytest.raises(bursar.NativeUnavailable, match="echo was not started"):
                await task
            seen.append((10_000 - n.budget.ops, task.spent.ops))

    seen = []
    with pytest.raises(BaseExceptionGroup):
        real(main)
    assert seen == [(1 + 2, 2)]


# ---- authority


def test_it_needs_an_executor_capability_that_names_it(lib):
    async def main():
        held = await bursar.capabilities()
        narrow = held[CapExecutor].attenuate(backends=frozenset({"cooperative"}), delegable=True)
        async with nursery(cancel_on_failure=False) as n:
            allowed = n.spawn(native(lib.echo), 1)
            denied = n.spawn(native(lib.echo), 1, capabilities=[narrow])
            none = n.spawn(native(lib.echo), 1, capabilities=[])
        return allowed, denied, none

    tasks = []

    async def outer():
        try:
            tasks.extend(await main())
        except* bursar.CapabilityDenied as group:
            tasks.extend(group.exceptions)

    real(outer)
    told = sorted(str(error) for error in tasks)
    assert len(told) == 2
    assert any("'echo' may not run a native function: its CapExecutor allows cooperative" in text for text in told)


def test_sovereign_grants_it_by_name(lib):
    async def main():
        held = await bursar.capabilities()
        async with nursery(budget=Budget(ops=1000, spawns=5)) as n:
            executor = held[CapExecutor].attenuate(delegable=True)
            task = n.spawn(native(lib.echo), 4, capabilities=[executor], budget=Budget(ops=100))
        return task.result

    granted = [CapSpawn(), CapExecutor(frozenset({"native"}))]
    assert real(main, profile="sovereign", budget=Budget(ops=10_000, spawns=10), capabilities=granted) == 4


# ---- hosts


async def mixed(lib):
    async with nursery() as n:
        tasks = [n.spawn(native(lib.ticks), 1000) for _ in range(50)]
        n.spawn(nap, 0.001)
        stop = n.spawn(native(lib.park_quietly))
        for task in tasks:
            await task
        stop.cancel()
    return sum(task.result for task in tasks), stop.outcome.kind


def test_on_virtual_time_with_and_without_files(lib):
    assert real(mixed, lib, clock="virtual") == (50_000, OutcomeKind.CANCELLED)
    assert real(mixed, lib, clock="virtual", host=SelectorHost()) == (50_000, OutcomeKind.CANCELLED)


def test_in_a_loop_of_asyncio(lib):
    assert asyncio.run(run_in_asyncio(mixed, lib)) == (50_000, OutcomeKind.CANCELLED)


def test_in_a_loop_of_asyncio_that_watches_nothing(lib):
    class Blind(asyncio.SelectorEventLoop):
        def add_reader(self, fd, callback, *args):
            raise NotImplementedError

    with asyncio.Runner(loop_factory=Blind) as runner:
        assert runner.run(run_in_asyncio(mixed, lib)) == (50_000, OutcomeKind.CANCELLED)


def test_nobody_polls_while_it_runs(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                n.spawn(native(lib.deaf), there)
                await bursar.wait_readable(reader)
                before = runtime.pump.turn
                n.spawn(native(lib.ticks), 20_000_000)
                await n.tasks[-1]
                after = runtime.pump.turn
                there.go = 1
        return after - before

    runtime = Runtime()
    assert runtime.run(main) < 10


def test_several_runs_at_once_in_one_process(lib):
    import threading

    results = []

    def one(number):
        results.append(bursar.run(mixed, lib))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(50_000, OutcomeKind.CANCELLED)] * 4
    assert not mailbox._abandoned_mailboxes


# ---- evidence


def recorded(path, main, *args, **keywords):
    """Record a run. Returns its result, and the result of a replay, which runs no native function."""
    runtime = Runtime(record=path, **keywords)
    try:
        value = runtime.run(main, *args)
    except BaseExceptionGroup as error:
        value = str(error)
    trace = Trace(path)
    verify(trace)
    replayed = replays.replay(Trace(path), main, *args)
    assert replayed.fingerprint == runtime.fingerprint
    assert (replayed.value if replayed.error is None else str(replayed.error)) == value
    return value


async def counting(lib):
    async with nursery() as n:
        tasks = [n.spawn(native(lib.count), i) for i in range(10)]
    return [task.result for task in tasks]


async def paying(lib):
    async with nursery(budget=Budget(ops=100_000), cancel_on_failure=False) as n:
        n.spawn(native(lib.ticks), 10_000)
        n.spawn(native(lib.ticks), 20_000, budget=Budget(ops=30_000))
        n.spawn(native(lib.spin), budget=Budget(ops=3000))


async def holding(lib):
    async with nursery(on_exhausted="hold", budget=Budget(ops=100_000)) as n:
        task = n.spawn(native(lib.ticks), 9000, budget=Budget(ops=5000))
        spinning = n.spawn(native(lib.spin), budget=Budget(ops=3000))
        for _ in range(2):
            held = await n.wait_exhausted()
            if held.name == "ticks":
                n.recharge(held, Budget(ops=5000))
            else:
                held.cancel()
                await bursar.checkpoint()
    return task.result, spinning.outcome.kind


async def stopping(lib):
    async with nursery() as n:
        n.spawn(native(lib.spin))
        n.spawn(native(lib.park_quietly))
        task = n.spawn(native(lib.ticks), 1000)
        await task
        n.cancel("enough")


async def panicking(lib):
    async with nursery() as n:
        n.spawn(native(lib.overflow))


async def refused(lib):
    async with nursery() as n:
        n.spawn(native(lib.echo, stack=1 << 50))


@pytest.mark.parametrize("main", [counting, paying, holding, stopping, panicking, refused])
def test_a_replay_runs_nothing_and_does_the_same(lib, main, tmp_path):
    before = ctypes.c_int64.in_dll(lib, "counted").value
    recorded(tmp_path / "run.trace", main, lib)
    ran = ctypes.c_int64.in_dll(lib, "counted").value - before
    assert ran == (10 if main is counting else 0)


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        (lambda numbers: (*numbers[:1], 1, *numbers[2:]), "has less than this left"),
        (lambda numbers: (*numbers[:1], -10_000, *numbers[2:]), "has spent less than this"),
        (lambda numbers: (numbers[0] - 2, *numbers[1:]), "has no function on a thread or in native code"),
        (lambda numbers: (*numbers[:1], numbers[1] - 1, *numbers[2:]), "the law would have recorded task_done"),
    ],
)
def test_a_forged_settlement_is_found_out(lib, tmp_path, forge, told):
    async def main():
        async with nursery() as n:
            n.spawn(native(lib.ticks), 3000, budget=Budget(ops=4000))

    Runtime(record=tmp_path / "run.trace").run(main)
    forgery = Forgery(tmp_path / "run.trace")
    forgery.verify(forgery.records)
    records = list(forgery.records)
    at = next(i for i, record in enumerate(records) if record.name == "settled")
    records[at] = records[at]._replace(numbers=forge(records[at].numbers))
    with pytest.raises(bursar.TraceError, match=told):
        forgery.verify(records)


# ---- load


def test_ten_thousand_beside_coroutines(lib):
    async def coroutine(i):
        await bursar.checkpoint()
        return i

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(native(lib.ticks), i % 100) for i in range(10_000)]
            others = [n.spawn(coroutine, i) for i in range(1000)]
        return sum(task.result for task in tasks), sum(task.result for task in others)

    runtime = Runtime()
    assert runtime.run(main) == (sum(i % 100 for i in range(10_000)), sum(range(1000)))
    assert not mailbox._abandoned_mailboxes


def test_a_storm_of_cancellations(lib):
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(native(lib.park_quietly)) for _ in range(5000)]
            tasks += [n.spawn(native(lib.spin)) for _ in range(100)]
            tasks += [n.spawn(native(lib.echo), 1) for _ in range(100)]
            await tasks[-1]
            n.cancel("storm")
        return {task.outcome.kind for task in tasks[:-100]}, {task.outcome.kind for task in tasks[-100:]}

    cancelled, others = bursar.run(main)
    assert cancelled == {OutcomeKind.CANCELLED}
    assert OutcomeKind.OK in others


def test_many_on_one_purse(lib):
    async def main():
        async with nursery(budget=Budget(ops=3_000_000)) as n:
            before = n.budget.ops
            tasks = [n.spawn(native(lib.ticks), 2000) for _ in range(1000)]
            for task in tasks:
                await task
            return before - n.budget.ops - sum(map(spent_ops, tasks))

    assert bursar.run(main) == 1000
