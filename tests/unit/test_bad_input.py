"""Bad input: a mistake of a program is refused or contained. The message names the task and the remedy. Afterwards the
law holds, no task lives, and every budget is paid back.
"""

import asyncio
import functools
import threading
from contextlib import suppress

import pytest

import bursar
from bursar import Budget, Deadlock, OutcomeKind, channel, nursery, sleep


async def give(value):
    return value


async def forever():
    await sleep(1e6)


def alone(caught):
    """The one error at the bottom of nested groups."""
    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


# ---- budgets and profiles


@pytest.mark.parametrize("component", ["ops", "memory", "spawns", "channel_ops", "syscalls"])
def test_a_negative_budget(component):
    with pytest.raises(ValueError, match=rf"Budget\({component}=-1\): must be between 0.*use None for no limit"):
        Budget(**{component: -1})


@pytest.mark.parametrize("value", [1.5, 1.0, "5", True, float("inf"), [1]])
def test_a_budget_that_is_no_whole_number(value):
    with pytest.raises(TypeError, match=r"counted in whole units; give an int, or None for no limit"):
        Budget(ops=value)


def test_a_budget_beyond_all_bounds():
    with pytest.raises(ValueError, match="must be between 0"):
        Budget(ops=2**63)


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda: sleep("1"), "sleep('1')"),
        (lambda: bursar.timeout("1"), "timeout('1')"),
        (lambda: bursar.Authority(max_wait="1"), "Authority.max_wait('1')"),
        (lambda: bursar.Retry(1, backoff="1"), "Retry.backoff('1')"),
    ],
    ids=["sleep", "timeout", "max_wait", "backoff"],
)
def test_seconds_that_are_no_number(use, named):
    with pytest.raises(TypeError) as caught:
        use()
    assert str(caught.value) == f"{named}: give the seconds as a number"


def test_an_unknown_profile():
    with pytest.raises(ValueError, match=r"profile='imperial': must be one of core, service"):
        bursar.run(give, 1, profile="imperial", clock="virtual")


def test_the_profile_without_a_scheduler():
    with pytest.raises(bursar.ProfileError, match=r"profile 'core' has no scheduler.*use 'service'"):
        bursar.run(give, 1, profile="core", clock="virtual")


def test_a_program_without_any_budget(run):
    with pytest.raises(bursar.SpawnBudgetExceeded, match="the root nursery has no spawns left; give"):
        run(give, 1, budget=Budget.none())


# ---- spawning


def test_a_spawn_into_a_closed_nursery(run):
    async def main():
        async with nursery(name="gone") as n:
            pass
        with pytest.raises(
            bursar.NurseryClosed, match=r"nursery 'gone' is closed and takes no more tasks; spawn inside"
        ):
            n.spawn(give, 1)

    run(main)
    assert run.runtime.statistics().spawned == 1


def test_a_spawn_into_a_nursery_that_is_closing(run):
    async def late(n):
        await sleep(1)
        with pytest.raises(bursar.NurseryClosed, match="is closing and takes no more tasks"):
            n.spawn(give, 1)

    async def main():
        async with nursery(sealed=True) as n:
            n.spawn(late, n)

    run(main)


def test_a_spawn_into_a_nursery_that_is_cancelled(run):
    async def main():
        async with nursery() as n:
            n.cancel()
            with pytest.raises(bursar.NurseryClosed, match="is cancelling and takes no more tasks"):
                n.spawn(give, 1)

    run(main)


def test_a_spawn_after_the_run(run):
    async def main():
        async with nursery() as n:
            return n

    n = run(main)
    with pytest.raises(bursar.NurseryClosed):
        n.spawn(give, 1)


def test_a_spawn_without_the_capability(run):
    async def child(n):
        with pytest.raises(
            bursar.CapabilityDenied,
            match=r"task 'bare' \(\d+\) may not spawn into nursery 'n': it holds no CapSpawn; grant one",
        ):
            n.spawn(give, 1)

    async def main():
        async with nursery(name="n") as n:
            await n.spawn(child, n, name="bare", capabilities=[])

    run(main)


def test_a_spawn_with_a_forged_capability(run):
    async def main():
        async with nursery() as n:
            with pytest.raises(bursar.CapabilityForged, match=r"was not minted by this runtime; ask Runtime.grant"):
                n.spawn(give, 1, capabilities=[bursar.CapSpawn()])
            with pytest.raises(bursar.CapabilityForged, match="is not a capability"):
                n.spawn(give, 1, capabilities=["spawn"])
            with pytest.raises(bursar.CapabilityForged, match="never minted"):
                bursar.CapSpawn().attenuate(max_tasks=1)
            foreign = bursar.Runtime(clock="virtual").grant(bursar.CapSpawn())
            with pytest.raises(bursar.CapabilityForged):
                n.spawn(give, 1, capabilities=[foreign])
            assert n.tasks == []

    run(main)


def test_a_spawn_with_a_revoked_capability(run):
    async def main():
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=3, delegable=True)
        narrower = narrow.attenuate(max_tasks=2)
        await bursar.revoke(narrow)
        async with nursery() as n:
            for cap in (narrow, narrower):
                with pytest.raises(bursar.CapabilityRevoked, match="has been revoked"):
                    n.spawn(give, 1, capabilities=[cap])
            with pytest.raises(bursar.CapabilityRevoked):
                narrow.attenuate(max_tasks=1)

    run(main)


def test_a_coroutine_instead_of_a_function(run):
    async def main():
        async with nursery() as n:
            with pytest.raises(
                TypeError, match=r"pass the function and its arguments.*spawn\(fn, x\), not spawn\(fn\(x\)\)"
            ):
                n.spawn(give(1))
            assert n.tasks == []

    run(main)


@pytest.mark.parametrize("fn", [dict, list, lambda: None, functools.partial(len, "x"), int])
def test_a_plain_function_runs_on_a_thread(run, fn):
    async def main():
        async with nursery() as n:
            task = n.spawn(fn)
        return task.result

    assert run(main) == fn()


@pytest.mark.parametrize("thing", [None, 5, "give", object()])
def test_something_that_is_no_function_at_all(run, thing):
    async def main():
        async with nursery() as n:
            with pytest.raises(TypeError, match="not a function"):
                n.spawn(thing)

    run(main)


def test_something_that_has_every_attribute(run):
    """A mock, say. Looking for a `partial` inside it must come to an end."""

    class Endless:
        looked = 0

        def __call__(self):
            pass

        @property
        def func(self):
            self.looked += 1
            if self.looked > 1000:
                raise AttributeError("it goes on for ever")
            return self

    it = Endless()

    async def main():
        async with nursery() as n:
            n.spawn(it)

    run(main)
    assert it.looked < 1000


def test_the_wrong_number_of_arguments(run):
    async def main():
        async with nursery(name="n") as n:
            main.task = n.spawn(give, 1, 2, 3, name="wrong")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    error = alone(caught)
    assert isinstance(error, TypeError)
    assert "takes 1 positional argument but 3 were given" in str(error)
    assert "in task 'wrong'" in error.__notes__[0]


# ---- results and awaits


def test_a_result_before_the_end(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1, name="early")
            with pytest.raises(bursar.ResultNotReady, match=r"task 'early' is READY and has no result yet; await it"):
                _ = task.result

    run(main)


def test_awaiting_a_future_of_asyncio(run):
    async def child():
        loop = asyncio.new_event_loop()
        try:
            await loop.create_future()
        finally:
            loop.close()

    async def main():
        async with nursery() as n:
            n.spawn(child, name="stray")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    error = alone(caught)
    assert isinstance(error, bursar.ForeignAwait)
    assert "task 'stray' awaited something that yielded <Future pending>" in str(error)
    assert "await Bursar's own operations" in str(error)


def test_awaiting_something_that_yields_garbage(run):
    class Garbage:
        def __await__(self):
            yield "garbage"

    async def main():
        with pytest.raises(bursar.ForeignAwait, match=r"yielded 'garbage' \(builtins\.str\)"):
            await Garbage()

    run(main)


def test_awaiting_oneself(run):
    async def child():
        me = await bursar.current_task()
        with pytest.raises(bursar.ScopeMisuse, match=r"task 'narcissus' awaits itself, which would never end"):
            await me

    async def main():
        async with nursery() as n:
            n.spawn(child, name="narcissus")

    run(main)


# ---- tasks that do not want to stop


def test_swallowing_a_cancel_once(run):
    async def child():
        try:
            await forever()
        except bursar.Cancelled:
            return 5

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="deaf")
            await sleep(1)
            task.cancel("enough")
        with pytest.raises(bursar.TaskCancelled):
            _ = task.result

    run(main)
    (report,) = run.runtime.reports
    assert report[:2] == ("cancel_swallowed", "deaf")
    assert "was cancelled (user: enough) and returned 5 instead of letting Cancelled pass" in report.detail


def test_swallowing_a_cancel_for_ever(run):
    async def child():
        while True:
            with suppress(bursar.Cancelled):
                await sleep(1)

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="deaf")
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert run(main) == (OutcomeKind.CANCELLED, 11.0)
    (report,) = run.runtime.reports
    assert report == ("cleanup_cut", "deaf", "cleanup took longer than 10 s")


def test_a_cleanup_that_takes_too_many_ops(run):
    async def child():
        try:
            await forever()
        finally:
            while True:
                await bursar.charge(ops=100)

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="busy", budget=Budget(ops=1000))
            await sleep(1)
            task.cancel()
        return task.outcome.kind

    assert run(main, budget=Budget(ops=100_000)) is OutcomeKind.CANCELLED
    (report,) = run.runtime.reports
    assert report == ("cleanup_cut", "busy", "cleanup took more than 10,000 ops")


def test_a_cleanup_that_takes_too_long(run):
    async def child():
        try:
            await forever()
        finally:
            await forever()

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="slow")
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert run(main) == (OutcomeKind.CANCELLED, 11.0)
    assert run.reports == ["cleanup_cut"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cleanup_that_refuses_to_close(run):
    async def child():
        while True:
            with suppress(BaseException):
                await forever()

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="undead")
            await sleep(1)
            task.cancel()
        return task.outcome.kind

    assert run(main) is OutcomeKind.CANCELLED
    assert run.reports == ["cleanup_cut", "cleanup_ignored"]
    assert "went on awaiting after being closed" in run.runtime.reports[1].detail


def test_a_storm_of_cancels_on_one_task(run):
    log = []

    async def child():
        try:
            await forever()
        except bursar.Cancelled as cancelled:
            log.append(cancelled.reason.detail)
            raise

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            for i in range(10_000):
                task.cancel(f"number {i}")
        return task.outcome.reason.detail

    assert run(main) == "number 0"
    assert log == ["number 0"]
    assert run.runtime.statistics().decisions < 20


# ---- tasks that raise what they should not


@pytest.mark.parametrize("error", [BaseException("x"), SystemExit(1), GeneratorExit(), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["task", "body", "cleanup"])
def test_something_worse_than_an_exception(run, error, place):
    async def child():
        try:
            await sleep(1)
            if place == "task":
                raise error
            await forever()
        finally:
            if place == "cleanup":
                raise error

    async def parent():
        async with nursery() as n:
            task = n.spawn(child, name="culprit")
            await sleep(1)
            if place == "body":
                raise error
            if place == "cleanup":
                task.cancel()

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            main.parent = n.spawn(parent)
            main.bystander = n.spawn(give, "lived")

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert caught.value.subgroup(type(error))
    assert main.parent.outcome.kind is OutcomeKind.PANICKED
    assert main.bystander.result == "lived"


def test_a_stop_iteration_out_of_a_task(run):
    async def child():
        raise StopIteration(5)

    async def main():
        async with nursery() as n:
            n.spawn(child, name="confused")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    error = alone(caught)
    assert isinstance(error, RuntimeError)
    assert "in task 'confused'" in error.__notes__[-1]


def test_a_keyboard_interrupt_raised_by_a_task_is_its_own_affair(run):
    async def child():
        raise KeyboardInterrupt("not from the keyboard")

    async def main():
        async with nursery() as n:
            n.spawn(child)
            await forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert isinstance(alone(caught), KeyboardInterrupt)


def test_a_cancelled_that_nobody_asked_for(run):
    async def child():
        raise bursar.Cancelled(bursar.CancelReason(bursar.CancelKind.USER, "made up"))

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            other = n.spawn(give, 1)
        return task.outcome.kind, other.result

    assert run(main) == (OutcomeKind.CANCELLED, 1)


# ---- blocks


def test_a_nursery_entered_twice(run):
    async def main():
        block = nursery(name="once")
        async with block:
            pass
        with pytest.raises(
            bursar.ScopeMisuse, match="nursery 'once' was entered already; make a new one for each block"
        ):
            async with block:
                pass

    run(main)


def test_scopes_left_out_of_order(run):
    async def child():
        limit, block = bursar.timeout(5), nursery()
        await limit.__aenter__()
        await block.__aenter__()
        with pytest.raises(bursar.ScopeMisuse, match=r"task 'untidy'.*must end in the reverse order"):
            await limit.__aexit__(None, None, None)

    async def main():
        async with nursery() as n:
            n.spawn(child, name="untidy")

    run(main)


def test_a_nursery_left_out_of_order(run):
    async def child():
        block, limit = nursery(), bursar.timeout(5)
        n = await block.__aenter__()
        n.spawn(give, 1)
        await limit.__aenter__()
        with pytest.raises(bursar.ScopeMisuse, match=r"task 'untidy'.*must end in the reverse order"):
            await block.__aexit__(None, None, None)
        await limit.__aexit__(None, None, None)

    async def main():
        async with nursery() as n:
            n.spawn(child, name="untidy")

    run(main)


def test_a_nursery_left_by_another_task(run):
    async def owner(block, done):
        await block.__aenter__()
        await done.wait()
        await block.__aexit__(None, None, None)

    async def stranger(block):
        with pytest.raises(bursar.ScopeMisuse, match=r"left by another task than .*owner"):
            await block.__aexit__(None, None, None)

    async def main():
        block, done = nursery(), bursar.Event()
        async with nursery() as n:
            n.spawn(owner, block, done)
            await sleep(1)
            await n.spawn(stranger, block)
            done.set()

    run(main)


def test_a_nursery_that_its_task_never_leaves(run):
    log = []

    async def grandchild():
        try:
            await forever()
        finally:
            log.append("ended")

    async def child():
        n = await nursery(budget=Budget(ops=50)).__aenter__()
        main.grandchild = n.spawn(grandchild)
        await sleep(1)
        return "left"

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="careless")
        return task.result

    assert run(main, budget=Budget(ops=1000)) == "left"
    assert log == ["ended"]
    reason = main.grandchild.outcome.reason
    assert reason.kind is bursar.CancelKind.PARENT
    assert "task 'careless' ended inside the block of a nursery" in reason.detail


def test_a_failure_in_a_nursery_that_its_task_never_leaves_is_not_silent(run):
    async def grandchild():
        try:
            await forever()
        finally:
            raise ValueError("who hears this?")

    async def child():
        n = await nursery().__aenter__()
        n.spawn(grandchild)
        await sleep(1)

    async def main():
        async with nursery() as n:
            n.spawn(child, name="careless")

    heard = []
    try:
        run(main)
    except ExceptionGroup as group:
        heard.append(repr(group))
    heard += [report.detail for report in run.runtime.reports]
    assert any("who hears this?" in text for text in heard)


# ---- other runtimes


def test_a_channel_of_another_runtime(run):
    async def inner(send, receive):
        with pytest.raises(bursar.ScopeMisuse, match=r"task .* used channel \d+, which belongs to another runtime"):
            await send.send(1)
        with pytest.raises(bursar.ScopeMisuse, match="belongs to another runtime"):
            await receive.receive()

    async def main():
        send, receive = channel(5)
        await send.send(0)
        bursar.run(inner, send, receive, clock="virtual")
        return len(receive)

    assert run(main) == 1


def test_a_channel_used_from_another_thread(run):
    async def main():
        send, receive = await channel(5)
        errors = []

        def elsewhere():
            for operation in (lambda: send.send_nowait(1), receive.receive_nowait):
                try:
                    operation()
                except bursar.BursarError as error:
                    errors.append(str(error))

        await send.send(0)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return errors, len(receive)

    errors, left = run(main)
    assert len(errors) == 2
    assert all("from another thread" in error for error in errors)
    assert left == 1


@pytest.mark.parametrize("make", [bursar.Event, lambda: bursar.Semaphore(1), bursar.Lock])
def test_a_lock_or_event_of_another_runtime(run, make):
    def use(thing):
        return thing.wait() if isinstance(thing, bursar.Event) else thing.acquire()

    async def inner(thing):
        with pytest.raises(bursar.ScopeMisuse, match=r"task .* used a \w+ that belongs to another runtime"):
            await use(thing)

    async def main():
        thing = make()
        if isinstance(thing, bursar.Event):
            thing.set()
        await use(thing)
        bursar.run(inner, thing, clock="virtual")
        if isinstance(thing, bursar.Lock):
            thing.release()

    run(main)


def test_a_runtime_run_twice(run):
    run(give, 1)
    with pytest.raises(bursar.RuntimeUsed, match="has already run a program; make a new one"):
        run.runtime.run(give, 1)


# ---- deadlocks


def deadlock(run, main, **keywords):
    with pytest.raises(Deadlock, match="every task waits, no timer is armed") as caught:
        run(main, **keywords)
    return caught.value.graph


def test_a_cycle_of_two_channels(run):
    async def relay(receive, send):
        await send.send(await receive.receive())

    async def main():
        (send_a, receive_a), (send_b, receive_b) = channel(), channel()
        async with nursery() as n:
            n.spawn(relay, receive_a, send_b, name="left")
            n.spawn(relay, receive_b, send_a, name="right")

    graph = deadlock(run, main)
    assert "task 'left' (4) waits to receive from channel" in graph
    assert "task 'right' (5) waits to receive from channel" in graph


def test_a_cycle_of_two_locks(run):
    async def take(first, second):
        async with first:
            await sleep(1)
            async with second:
                pass

    async def main():
        a, b = bursar.Lock(), bursar.Lock()
        async with nursery() as n:
            n.spawn(take, a, b, name="left")
            n.spawn(take, b, a, name="right")

    graph = deadlock(run, main)
    assert "task 'left' (4) waits for a lock held by 'right'  ← 'right'" in graph
    assert "task 'right' (5) waits for a lock held by 'left'  ← 'left'" in graph
    assert run.reports == []


def test_two_tasks_that_wait_for_each_other(run):
    async def wait(box, i):
        await sleep(1)
        await box[i]

    async def main():
        box = []
        async with nursery() as n:
            box.append(n.spawn(wait, box, 1, name="left"))
            box.append(n.spawn(wait, box, 0, name="right"))

    graph = deadlock(run, main)
    assert "task 'left' (4) waits for task 'right'  ← 'right'" in graph


def test_a_task_on_hold_that_nobody_recharges(run):
    async def spender():
        await bursar.charge(ops=100)

    async def main():
        async with nursery(name="purse", on_exhausted="hold") as n:
            n.spawn(spender, name="held", budget=Budget(ops=10))

    graph = deadlock(run, main, budget=Budget(ops=1000))
    assert "task 'held' (4) ran out of ops and waits for nursery 'purse' to recharge it" in graph


def test_a_wait_for_ever_behind_a_shield(run):
    log = []

    async def child():
        try:
            async with bursar.shield():
                await bursar.Event().wait()
        finally:
            log.append("closed")

    async def main():
        async with nursery() as n:
            n.spawn(child, name="hidden")

    graph = deadlock(run, main)
    assert "task 'hidden' (4) waits for an event" in graph
    assert log == ["closed"]
    assert "cleanup_cut" in run.reports
    assert all("behind a shield" in report.detail for report in run.runtime.reports)


def test_a_deadlock_in_the_cleanup_of_a_deadlock(run):
    async def child():
        try:
            await bursar.Event().wait()
        finally:
            await bursar.Event().wait()

    async def main():
        async with nursery() as n:
            n.spawn(child, name="hopeless")

    graph = deadlock(run, main)
    assert "task 'hopeless'" in graph
    assert run.reports == ["cleanup_cut"]


def test_waiting_on_nothing_at_all(run):
    async def main():
        _, receive = channel()
        await receive.receive()

    assert "waits to receive from channel" in deadlock(run, main)
