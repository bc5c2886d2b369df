"""Plain functions as tasks: values, failures of every kind, cancellation, and that nothing outlives its nursery."""

import contextvars
import functools
import gc
import threading
import weakref

import pytest
from support.real_sockets import settled
from support.time_limits import WAIT_S

import bursar
from bursar import (
    Budget,
    Cancelled,
    CapabilityDenied,
    CapExecutor,
    CapSpawn,
    Checkpoint,
    Deadlock,
    Event,
    OutcomeKind,
    State,
    TaskPanicked,
    nursery,
    portal,
    sleep,
)
from bursar.threads.job import on_thread

here = contextvars.ContextVar("here", default="nowhere")


def double(x):
    return 2 * x


def alone(group):
    """The one error of a group."""
    (error,) = group.value.exceptions
    return error


def spinning(begun, checkpoint: Checkpoint):
    """Works until it is asked to stop."""
    begun.set()
    while True:
        checkpoint()


def test_a_plain_function_is_a_task_and_has_a_value(go):
    async def main():
        async with nursery() as n:
            task = n.spawn(double, 21)
        return task.result

    assert go(main) == 42


def test_awaiting_it(go):
    async def main():
        async with nursery() as n:
            return [await n.spawn(double, x) for x in range(5)]

    assert go(main) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("fn", [len, functools.partial(sum, [1]), "abc".index, list])
def test_whatever_can_be_called(go, fn):
    argument = {len: "ab", list: "ab"}.get(fn, "b") if not isinstance(fn, functools.partial) else 2

    async def main():
        async with nursery() as n:
            task = n.spawn(fn, argument)
        return task.result

    assert go(main) == fn(argument)


def test_it_does_not_run_in_the_thread_of_the_loop(pool):
    async def main():
        async with nursery() as n:
            task = n.spawn(threading.get_ident)
        return task.result

    assert pool(main) != threading.get_ident()


def test_without_a_checkpoint_simple_runs_it_in_the_thread_of_the_loop(go, scheduler):
    async def main():
        async with nursery() as n:
            task = n.spawn(threading.get_ident)
        return task.result

    assert (go(main) == threading.get_ident()) == (scheduler == "simple")


def test_several_at_once(pool):
    """A barrier that nobody passes alone."""
    barrier = threading.Barrier(3, timeout=WAIT_S)

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(barrier.wait) for _ in range(3)]
        return sorted(task.result for task in tasks)

    assert pool(main) == [0, 1, 2]


def test_never_two_at_once_if_they_alternate(monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", "simple")
    inside, most = [0], [0]

    def enter(checkpoint: Checkpoint):
        for _ in range(20):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            inside[0] -= 1
            checkpoint()

    async def main():
        async with nursery() as n:
            for _ in range(4):
                n.spawn(enter)

    bursar.run(main)
    assert most == [1]


def test_at_every_checkpoint_the_loop_has_its_turn_if_they_alternate(monkeypatch):
    monkeypatch.setenv("BURSAR_SCHEDULER", "simple")
    steps: list[int] = []

    def work(checkpoint: Checkpoint):
        for step in range(1000):
            steps.append(step)
            checkpoint()

    async def main():
        async with nursery() as n:
            task = n.spawn(work)
            while not steps:
                await bursar.checkpoint()
            task.cancel("it has begun")
        return task.outcome

    assert bursar.run(main).kind is OutcomeKind.CANCELLED
    assert len(steps) <= 2


def test_workers_are_used_again(pool):
    async def main():
        async with nursery() as n:
            return {await n.spawn(threading.get_ident) for _ in range(50)}

    assert len(pool(main)) == 1


def test_the_context_variables_of_the_spawn_are_seen(go):
    async def main():
        here.set("at the spawn")
        async with nursery() as n:
            task = n.spawn(here.get)
            here.set("later")
        return task.result

    assert go(main) == "at the spawn"


def test_what_it_sets_stays_its_own(go):
    async def main():
        async with nursery() as n:
            n.spawn(here.set, "inside")
        return here.get()

    assert go(main) == "nowhere"


def test_functions_of_one_spawner_run_at_once_each_with_variables_of_its_own(pool):
    """Tasks that were spawned under the same variables share a context while they are not on threads."""
    both = threading.Barrier(2)

    def sets(value):
        both.wait(WAIT_S)
        here.set(value)
        both.wait(WAIT_S)
        return here.get()

    async def main():
        async with nursery() as n:
            tasks = [n.spawn(sets, i) for i in range(2)]
            later = n.spawn(here.get, after=tasks)
        return [task.result for task in tasks], later.result

    assert pool(main) == ([0, 1], "nowhere")


# ---- failures


def test_an_exception_fails_the_task(go):
    def fails():
        raise KeyError("lost")

    async def main():
        async with nursery() as n:
            main.task = n.spawn(fails)

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), KeyError)
    assert "in task 'test_an_exception_fails_the_task.<locals>.fails'" in alone(caught).__notes__[0]
    assert main.task.outcome.kind is OutcomeKind.FAILED


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
def test_worse_than_an_exception_is_a_panic_of_the_task_and_not_of_the_process(go, error):
    def dies():
        raise error("now")

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            task = n.spawn(dies)
            other = n.spawn(double, 1)
            with pytest.raises(TaskPanicked):
                await task
            assert await other == 2
            assert task.outcome.kind is OutcomeKind.PANICKED
            assert type(task.outcome.error) is error

    with pytest.raises(BaseExceptionGroup) as caught:
        go(main)
    assert type(alone(caught)) is error


def test_stop_iteration_comes_out_as_it_does_of_a_coroutine(go):
    def stops():
        raise StopIteration

    async def main():
        async with nursery() as n:
            n.spawn(stops)

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), RuntimeError)


def test_wrong_arguments_fail_the_task(go):
    async def main():
        async with nursery() as n:
            n.spawn(double, 1, 2)

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), TypeError)


def test_a_failure_asks_the_others_to_stop(go):
    begun = threading.Event()

    def fails():
        assert begun.wait(WAIT_S)
        raise KeyError("lost")

    async def main():
        async with nursery() as n:
            spins = main.spins = n.spawn(spinning, begun)
            await until(begun.is_set)
            n.spawn(fails)
        return spins

    with pytest.raises(ExceptionGroup):
        go(main)
    assert main.spins.outcome.kind is OutcomeKind.CANCELLED
    assert "KeyError" in str(main.spins.outcome.reason)


# ---- cancellation


async def until(condition):
    """Give way until something has happened in a thread."""
    while not condition():
        await bursar.checkpoint()


def test_a_cancelled_task_is_told_at_its_checkpoint(go):
    begun = threading.Event()
    told = []

    def works(checkpoint: Checkpoint):
        begun.set()
        try:
            while True:
                checkpoint()
        except Cancelled as cancelled:
            told.append(str(cancelled.reason))
            raise

    async def main():
        async with nursery() as n:
            task = n.spawn(works)
            await until(begun.is_set)
            task.cancel("enough")
        return task.outcome

    outcome = go(main)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert told == [str(outcome.reason)] == ["user: enough"]


def test_a_cancelled_task_whose_function_returns_anyway_is_cancelled(pool):
    begun, leave = threading.Event(), threading.Event()

    def deaf():
        begun.set()
        assert leave.wait(WAIT_S)
        return "a value"

    async def main():
        async with nursery() as n:
            task = n.spawn(deaf)
            await until(begun.is_set)
            task.cancel("enough")
            leave.set()
        return task.outcome

    outcome = pool(main)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.value is None


def test_what_it_raises_while_it_stops_is_raised(go):
    begun = threading.Event()

    def works(checkpoint: Checkpoint):
        begun.set()
        try:
            while True:
                checkpoint()
        finally:
            raise KeyError("while tidying up")

    async def main():
        async with nursery() as n:
            task = n.spawn(works)
            await until(begun.is_set)
            task.cancel()

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), KeyError)


def test_every_checkpoint_after_the_request_raises(go):
    begun = threading.Event()
    refused = []

    def stubborn(checkpoint: Checkpoint):
        begun.set()
        while len(refused) < 3:
            try:
                checkpoint()
            except Cancelled as cancelled:
                refused.append(cancelled)

    async def main():
        async with nursery() as n:
            task = n.spawn(stubborn)
            await until(begun.is_set)
            task.cancel()
        return task.outcome.kind

    assert go(main) is OutcomeKind.CANCELLED
    assert len(refused) == 3


def test_a_cancelled_task_is_shown_as_such_until_its_thread_has_left(pool):
    begun, leave = threading.Event(), threading.Event()

    def deaf():
        begun.set()
        assert leave.wait(WAIT_S)

    async def main():
        async with nursery() as n:
            task = n.spawn(deaf)
            await until(begun.is_set)
            assert task.explain().reason == "runs on a thread"
            task.cancel("enough")
            await settled()
            assert task.state is State.BLOCKED
            assert task.outcome is None
            explained = task.explain()
            assert explained.reason == "was asked to stop (user: enough) and its thread has not left yet"
            assert explained.cancelling == "user: enough"
            leave.set()
            return await task.wait()

    assert pool(main).kind is OutcomeKind.CANCELLED


def test_a_nursery_does_not_end_before_the_threads_of_its_tasks_have_left(pool):
    begun, leave, left = threading.Event(), threading.Event(), threading.Event()

    def deaf():
        begun.set()
        assert leave.wait(WAIT_S)
        left.set()

    async def helper():
        await until(begun.is_set)
        await settled()
        assert not left.is_set()
        leave.set()

    async def main():
        async with nursery() as outer:
            outer.spawn(helper)
            async with nursery() as n:
                n.spawn(deaf)
                await until(begun.is_set)
                n.cancel()
            assert left.is_set()

    pool(main)


def test_overrunning_the_cleanup_does_not_leave_the_thread_alone(pool):
    """The owner is cut off; what it owns still waits for the thread."""
    begun, leave, left = threading.Event(), threading.Event(), threading.Event()

    def deaf():
        begun.set()
        assert leave.wait(WAIT_S)
        left.set()

    async def owner():
        async with nursery() as n:
            n.spawn(deaf)

    async def main():
        async with nursery() as n:
            task = n.spawn(owner)
            await until(begun.is_set)
            task.cancel()
            await settled()  # more than it may take to tidy up
            assert task.outcome is None
            leave.set()
        assert left.is_set()

    pool(main, cleanup=bursar.Cleanup(seconds=0))


def test_a_function_is_not_called_once_its_task_was_asked_to_stop(go):
    called = []

    async def main():
        async with nursery() as n:
            task = n.spawn(called.append, "called")
            task.cancel()
        return task.outcome.kind

    assert go(main) is OutcomeKind.CANCELLED
    assert called == []


@pytest.mark.parametrize("checkpoint", [False, True])
def test_between_the_request_and_the_turn_it_is_not_called_either(monkeypatch, checkpoint):
    monkeypatch.setenv("BURSAR_SCHEDULER", "simple")
    called = []

    def works(checkpoint: Checkpoint):
        called.append("called")

    async def main():
        async with nursery() as n:
            task = n.spawn(works) if checkpoint else n.spawn(called.append, "called")
            await bursar.checkpoint()  # it was handed over, and not begun
            assert task.state is State.BLOCKED
            task.cancel()
        return task.outcome.kind

    assert bursar.run(main) is OutcomeKind.CANCELLED
    assert called == []


def test_a_timeout_around_it_ends_it_at_a_checkpoint(go):
    async def main():
        with pytest.raises(TimeoutError):
            async with bursar.timeout(0.001):
                await on_thread(spinning, (threading.Event(),))
        return await on_thread(double, (21,))

    assert go(main) == 42


# ---- authority


def test_it_needs_a_capability(go):
    async def main():
        async with nursery(capabilities=[]) as n:
            n.spawn(double, 1)

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    error = alone(caught)
    assert isinstance(error, CapabilityDenied)
    assert "run a function on a thread" in str(error)


def test_the_capability_must_name_threads(go):
    async def main():
        async with nursery() as n:
            n.spawn(double, 1)

    with pytest.raises(ExceptionGroup) as caught:
        go(main, capabilities=[CapSpawn(), CapExecutor()])
    assert "allows cooperative; grant CapExecutor(frozenset({'thread'}))" in str(alone(caught))


def test_what_was_allowed_before_can_be_taken_back(go):
    async def main():
        async with nursery() as n:
            assert await n.spawn(double, 1) == 2
            go.runtime.revoke(go.runtime.kernel.root.capabilities[CapExecutor])
            n.spawn(double, 1)

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), bursar.CapabilityRevoked)


def test_who_may_not_is_refused_also_after_others_who_may(go):
    async def main():
        async with nursery() as n:
            assert [await n.spawn(double, i) for i in range(3)] == [0, 2, 4]
            n.spawn(double, 1, capabilities=[])

    with pytest.raises(ExceptionGroup) as caught:
        go(main)
    assert isinstance(alone(caught), CapabilityDenied)


def test_a_checkpoint_is_given_also_after_functions_that_want_none(go):
    def bare(x):
        return x

    def told(x: int) -> int:
        return x

    def wants(x: int, checkpoint: Checkpoint) -> int:
        checkpoint(progress=0.5)
        return x

    def retold(x: int) -> int:  # of the annotations of another
        return x

    retold.__annotations__ = told.__annotations__

    async def main():
        async with nursery() as n:
            return [await n.spawn(fn, i) for i in range(3) for fn in (bare, told, told, wants, retold, print, bare)]

    assert go(main) == [one for i in range(3) for one in (i, i, i, i, i, None, i)]


def test_no_function_is_kept_for_the_next_one(go):
    async def main():
        async with nursery() as n:
            for annotated in (False, True):

                def closure(box):
                    return len(box)

                if annotated:
                    closure.__annotations__ = {"box": list}
                gone = weakref.ref(closure)
                assert await n.spawn(closure, []) == 0
                assert await n.spawn(closure, []) == 0
                del closure
                gc.collect()
                assert gone() is None

    go(main)


# ---- what is around


def test_waiting_for_a_thread_is_no_deadlock_and_virtual_time_stands_still(go):
    async def main():
        async with nursery() as n:
            task = n.spawn(double, 1)
            await task
            before = await bursar.now()
            await sleep(5)
            n.spawn(double, 1)
        return before, await bursar.now()

    assert go(main, clock="virtual") == (0, 5)


def test_a_real_deadlock_is_still_found(go):
    async def main():
        async with nursery() as n:
            n.spawn(double, 1)
            await Event().wait()

    with pytest.raises(Deadlock):
        go(main)


def test_nothing_of_a_function_is_kept_after_it_has_returned(go):
    class Big:
        pass

    def takes(big):
        return None

    async def main():
        big = Big()
        gone = weakref.ref(big)
        async with nursery() as n:
            task = n.spawn(takes, big)
            del big
            await task
            gc.collect()
            return gone() is None

    assert go(main)


def test_a_thousand_of_them(go):
    async def main():
        total = 0
        for _ in range(50):
            async with nursery() as n:
                tasks = [n.spawn(double, x) for x in range(20)]
            total += sum(task.result for task in tasks)
        return total

    assert go(main) == 50 * 380


def test_from_a_portal_a_plain_function_is_refused(go):
    async def main():
        async with nursery() as n:
            with portal(n) as p, pytest.raises(bursar.NotBuilt, match="use `async def`"):
                p.spawn(double, 1)

    go(main)


def test_the_call_costs_one_op_and_one_syscall(go):
    async def main():
        async with nursery() as n:
            task = n.spawn(double, 1, budget=Budget(ops=10))
        return task.spent.ops, task.spent.syscalls

    assert go(main) == (1, 1)
