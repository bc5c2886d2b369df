"""Nurseries: a block ends when its tasks have, what fails in it is raised from it, and nothing is left behind."""

import contextlib
import functools
import gc
import weakref

import pytest
from support.evidence import Trace, verify
from support.law import cancel

import bursar
from bursar import Budget, NurseryState, OutcomeKind, ScopeMisuse, State, nursery, sleep


async def give(value, after=0.0):
    await sleep(after)
    return value


async def fail(error, after=0.0):
    await sleep(after)
    raise error


def group(caught):
    """The errors of a group, flat, as type names with their texts."""
    return [f"{type(e).__name__}({e})" for e in caught.value.exceptions]


# ---- the block


def test_the_block_ends_when_every_task_has(run):
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(give, i, 5 - i) for i in range(5)]
            assert [t.state for t in tasks] == [State.READY] * 5
        return [t.result for t in tasks], await bursar.now()

    assert run(main) == ([0, 1, 2, 3, 4], 5.0)


def test_an_empty_block_ends_at_once(run):
    async def main():
        async with nursery() as n:
            pass
        return n.state

    assert run(main) is NurseryState.CLOSED


def test_tasks_first_run_in_the_order_of_their_spawning(run):
    order = []

    async def child(i):
        order.append(i)

    async def main():
        async with nursery() as n:
            for i in range(10):
                n.spawn(child, i)

    run(main)
    assert order == list(range(10))


def test_a_handle_may_be_passed_down_and_spawned_into(run):
    async def child(n, depth):
        if depth:
            n.spawn(child, n, depth - 1)
        await sleep(1)

    async def main():
        async with nursery() as n:
            n.spawn(child, n, 5)
            await sleep(0.5)
            return len(n.tasks)

    assert run(main) == 6


def test_a_nursery_knows_its_name_its_state_and_its_tasks(run):
    async def main():
        async with nursery(name="workers") as n:
            task = n.spawn(give, 1, name="one")
            assert n.name == "nursery 'workers'"
            assert n.state is NurseryState.OPEN
            assert n.tasks == [task]
            assert repr(n) == "<Nursery nursery 'workers' OPEN, 1 live>"
        assert n.tasks == []
        async with nursery() as unnamed:
            assert "main" in unnamed.name

    run(main)


def test_a_block_may_be_entered_once(run):
    async def main():
        block = nursery()
        async with block:
            with pytest.raises(ScopeMisuse, match="was entered already; make a new one"):
                await block.__aenter__()
        with pytest.raises(ScopeMisuse, match="was entered already; make a new one"):
            async with block:
                pass

    run(main)


def test_spawning_takes_what_is_a_coroutine_function_in_disguise(run):
    class Callable:
        async def __call__(self, x):
            return x

        async def method(self, x):
            return x

        @classmethod
        async def of_class(cls, x):
            return x

    @functools.wraps(give)
    def wrapped(*args):
        return give(*args)

    async def main():
        async with nursery() as n:
            it = Callable()
            tasks = [n.spawn(f, 1) for f in (it, it.method, it.of_class, functools.partial(give), wrapped)]
            named = n.spawn(functools.partial(give, 2), name="named")
        return [t.result for t in tasks], named.result

    assert run(main) == ([1] * 5, 2)


def test_a_wrapper_that_gives_no_coroutine_is_told_so(run):
    @functools.wraps(give)
    def liar(value):
        return value

    async def main():
        async with nursery() as n:
            n.spawn(liar, 5)

    with pytest.raises((ExceptionGroup, TypeError)) as caught:
        run(main)
    error = caught.value.exceptions[0] if isinstance(caught.value, ExceptionGroup) else caught.value
    assert isinstance(error, TypeError)
    assert "coroutine" in str(error)


def test_a_block_that_was_left_does_not_keep_what_it_ended_in(run):
    """An error leads to the frame that it passed through, which here holds the block: a ring, if the block held it."""

    class Thing:
        pass

    async def owner(seen):
        thing = Thing()
        seen.append(weakref.ref(thing))
        block = nursery()
        async with block as n:
            n.spawn(sleep, 1)
            n.cancel()
            await sleep(1)
        return n.state

    async def main():
        seen = []
        async with nursery() as n:
            task = n.spawn(owner, seen)
        assert task.result is NurseryState.CANCELLED
        return seen[0]()

    gc.disable()
    try:
        assert run(main) is None
    finally:
        gc.enable()


# ---- failures


def test_a_failure_cancels_the_siblings_and_is_raised_in_a_group(run):
    async def main():
        async with nursery(name="family") as n:
            n.spawn(fail, ValueError("first"), 1, name="bad")
            sibling = n.spawn(give, 1, 100)
            main.sibling = sibling

    with pytest.raises(ExceptionGroup, match=r"nursery 'family': 1 failed") as caught:
        run(main)
    assert group(caught) == ["ValueError(first)"]
    outcome = main.sibling.outcome
    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.reason.kind is bursar.CancelKind.SIBLING
    assert "task 'bad' failed: ValueError: first" in outcome.reason.detail
    assert run.runtime.statistics().seconds == 1.0


def test_the_first_failure_comes_first(run):
    async def late():
        try:
            await sleep(100)
        finally:
            raise KeyError("while cleaning up")

    async def main():
        async with nursery() as n:
            n.spawn(late)
            n.spawn(fail, ValueError("first"), 1)

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert group(caught) == ["ValueError(first)", "KeyError('while cleaning up')"]


def test_except_star_picks_by_kind(run):
    caught = []

    async def main():
        try:
            async with nursery(cancel_on_failure=False) as n:
                n.spawn(fail, ValueError("v"))
                n.spawn(fail, KeyError("k"))
                n.spawn(fail, OSError("o"))
        except* (ValueError, KeyError) as some:
            caught.append([type(e) for e in some.exceptions])
        except* OSError as rest:
            caught.append([type(e) for e in rest.exceptions])

    run(main)
    assert caught == [[ValueError, KeyError], [OSError]]


def test_groups_nest_like_nurseries(run):
    async def inner():
        async with nursery(name="inner") as n:
            n.spawn(fail, ValueError("deep"))

    async def main():
        async with nursery(name="outer") as n:
            n.spawn(inner)

    with pytest.raises(ExceptionGroup, match="outer") as caught:
        run(main)
    (middle,) = caught.value.exceptions
    assert "inner" in str(middle)
    assert isinstance(middle.exceptions[0], ValueError)


def test_siblings_live_on_where_failure_does_not_cancel(run):
    async def main():
        try:
            async with nursery(cancel_on_failure=False) as n:
                n.spawn(fail, ValueError("x"), 1)
                main.sibling = n.spawn(give, "lived", 10)
        except* ValueError:
            pass
        return main.sibling.result

    assert run(main) == "lived"


def test_an_error_that_the_body_passes_on_is_in_the_group_once(run):
    """`await task` raises the task's own error; letting it pass must not count it twice."""

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            await n.spawn(fail, ValueError("x"))

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert group(caught) == ["ValueError(x)"]


def test_an_error_of_the_body_counts_like_that_of_a_child(run):
    async def main():
        async with nursery() as n:
            main.child = n.spawn(give, 1, 100)
            await sleep(1)
            raise ValueError("body")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert group(caught) == ["ValueError(body)"]
    assert main.child.outcome.reason.kind is bursar.CancelKind.SIBLING
    assert "the body of" in main.child.outcome.reason.detail


def test_something_worse_than_an_exception_makes_a_base_group(run):
    async def main():
        async with nursery() as n:
            n.spawn(fail, KeyboardInterrupt("in a task"))

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert not isinstance(caught.value, ExceptionGroup)


def test_a_failure_names_its_task_in_a_note(run):
    async def main():
        async with nursery(name="family") as n:
            n.spawn(fail, ValueError("x"), name="culprit")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    (note,) = caught.value.exceptions[0].__notes__
    assert "'culprit'" in note
    assert "nursery 'family'" in note


def test_what_a_nursery_came_to_is_first_failure_then_cancelled_then_ok(run):
    async def main():
        async with nursery() as quiet:
            pass
        async with nursery() as stopped:
            stopped.cancel()
        with pytest.raises(ExceptionGroup):
            async with nursery() as failed:
                failed.spawn(fail, ValueError())
        return quiet.result_kind, stopped.result_kind, failed.result_kind

    assert run(main) == (OutcomeKind.OK, OutcomeKind.CANCELLED, OutcomeKind.FAILED)


# ---- cancelling


def test_cancelling_a_nursery_ends_it_silently(run):
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(give, i, 100) for i in range(3)]
            await sleep(1)
            n.cancel("enough")
        return [t.outcome.kind for t in tasks], n.state, await bursar.now()

    assert run(main) == ([OutcomeKind.CANCELLED] * 3, NurseryState.CANCELLED, 1.0)


def test_cancelling_a_nursery_interrupts_its_body(run):
    async def canceller(n):
        await sleep(1)
        n.cancel()

    async def main():
        async with nursery() as n:
            n.spawn(canceller, n)
            await sleep(100)
            pytest.fail("the body goes on")
        return await bursar.now()

    assert run(main) == 1.0


def test_cancelling_twice_is_cancelling_once(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1, 100)
            await sleep(1)
            n.cancel("first")
            n.cancel("second")
        return task.outcome.reason.detail

    assert "first" in run(main)


def test_cancelling_a_task_cancels_the_nurseries_that_it_owns_all_the_way_down(run):
    ended = []

    async def chain(depth):
        try:
            async with nursery() as n:
                if depth:
                    n.spawn(chain, depth - 1)
                await sleep(100)
        finally:
            ended.append(depth)

    async def main():
        async with nursery() as n:
            task = n.spawn(chain, 50)
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert run(main) == (OutcomeKind.CANCELLED, 1.0)
    assert ended == list(range(51))


def test_a_failure_while_cancelling_is_still_raised(run):
    async def child():
        try:
            await sleep(100)
        finally:
            raise ValueError("cleanup failed")

    async def main():
        async with nursery() as n:
            n.spawn(child)
            await sleep(1)
            n.cancel()

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert group(caught) == ["ValueError(cleanup failed)"]


def test_a_nursery_in_an_async_generator_ends_with_aclose(run):
    """The block ends only when every child is DONE, also when the block is that of a generator which is closed."""
    log = []

    async def child():
        try:
            await sleep(100)
        finally:
            log.append("child over")

    async def generator():
        async with nursery() as n:
            n.spawn(child)
            yield 1
            yield 2

    async def main():
        async with bursar.timeout(50):
            numbers = generator()
            async for _ in numbers:
                break
            await sleep(1)
            await numbers.aclose()
            log.append("closed")

    run(main)
    assert log == ["child over", "closed"]


# ---- money


def test_a_purse_is_taken_out_of_the_owners_budget_and_given_back(run):
    async def main():
        async with nursery(budget=Budget(ops=500, spawns=3)) as n:
            assert n.budget.ops == 500
            assert n.budget.memory is None
            await n.spawn(give, 1)
            assert n.budget.spawns == 2

    run(main, budget=Budget(ops=1000, spawns=10))
    pools = run.runtime.kernel.root.pools
    assert pools[2].spent == 2  # main and its child
    assert pools[0].left + pools[0].spent == 1000


def test_nesting_does_not_amplify(run):
    async def main():
        async with nursery(budget=Budget(ops=10**9)) as n:
            return n.budget.ops

    assert run(main, budget=Budget(ops=1000)) < 1000


def test_an_explicit_budget_is_reserved_at_spawn_and_refunded(run):
    async def main():
        async with nursery(budget=Budget(ops=500)) as n:
            task = n.spawn(give, 1, budget=Budget(ops=100))
            assert task.budget == Budget(ops=100)
            assert n.budget.ops == 399
            await task
            assert n.budget.ops == 499 - task.spent.ops
            return task.spent.ops

    assert run(main) == 1


def test_a_wish_is_clamped_to_what_is_left(run):
    async def main():
        async with nursery(budget=Budget(ops=50)) as n:
            return n.spawn(give, 1, budget=Budget(ops=1000)).budget.ops

    assert run(main) == 49


def test_a_dry_purse_refuses_the_spawn_and_leaves_nothing_behind(run):
    async def main():
        async with nursery(name="poor", budget=Budget(spawns=1)) as n:
            n.spawn(give, 1)
            with pytest.raises(bursar.SpawnBudgetExceeded, match=r"nursery 'poor' has no spawns left; give"):
                n.spawn(give, 2)
            assert len(n.tasks) == 1
        async with nursery(name="dry", budget=Budget(ops=1)) as n:
            with pytest.raises(bursar.SpawnBudgetExceeded, match=r"nursery 'dry' has 1 ops left"):
                n.spawn(give, 1, budget=Budget(ops=10))
            assert n.tasks == []

    run(main)
    assert run.runtime.statistics().spawned == 2


def test_a_task_on_hold_waits_for_a_recharge_and_then_goes_on(run):
    async def worker():
        for _ in range(20):
            await bursar.checkpoint()
        return "done"

    async def main():
        async with nursery(on_exhausted="hold") as n:
            task = n.spawn(worker, budget=Budget(ops=5))
            rounds = 0
            while task.outcome is None:
                held = await bursar.select(n.wait_exhausted(), task.wait())
                if held.index == 0:
                    assert held.value == task
                    assert task.state is State.EXHAUSTED
                    n.recharge(task, Budget(ops=5))
                    assert task.state is State.READY
                    rounds += 1
        return task.result, rounds

    assert run(main) == ("done", 3)


def test_wait_exhausted_answers_at_once_when_somebody_waits_already(run):
    async def worker():
        await bursar.charge(ops=10)

    async def main():
        async with nursery(on_exhausted="hold") as n:
            task = n.spawn(worker, budget=Budget(ops=5), name="held")
            await sleep(1)
            held = await n.wait_exhausted()
            assert held == task
            assert "ran out of ops and waits for" in held.explain().reason
            n.recharge(held, Budget(ops=5))

    run(main)


def test_one_task_at_a_time_may_wait_for_exhausted_ones(run):
    async def first(n):
        await n.wait_exhausted()

    async def main():
        async with nursery(on_exhausted="hold") as n:
            n.spawn(first, n)
            await sleep(1)
            with pytest.raises(ScopeMisuse, match="another task already waits"):
                await n.wait_exhausted()
            n.cancel()

    run(main)


def test_a_recharge_that_the_purse_and_the_owner_cannot_pay_is_refused_whole(run):
    async def worker():
        await bursar.charge(ops=10)

    async def main():
        async with nursery(on_exhausted="hold", budget=Budget(ops=20)) as n:
            task = n.spawn(worker, budget=Budget(ops=5), name="held")
            await n.wait_exhausted()
            before = n.budget
            with pytest.raises(bursar.BudgetExceeded, match=r"cannot recharge task 'held'|short of ops"):
                n.recharge(task, Budget(ops=10_000))
            assert n.budget == before
            n.cancel()

    run(main, budget=Budget(ops=200))


def test_only_the_owner_may_recharge_out_of_the_purse(run):
    async def worker():
        await bursar.charge(ops=10)

    async def stranger(n, box):
        with pytest.raises(bursar.CapabilityDenied, match="'stranger' may not recharge a task from the purse of"):
            n.recharge(box[0], Budget(ops=10))

    async def main():
        async with nursery(on_exhausted="hold") as n:
            task = n.spawn(worker, budget=Budget(ops=5))
            await n.wait_exhausted()
            await n.spawn(stranger, n, [task], name="stranger")
            n.recharge(task, Budget(ops=10))

    run(main)


def test_a_task_that_is_over_or_elsewhere_cannot_be_recharged(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1)
            async with nursery() as other:
                with pytest.raises(ValueError, match="not a living task of"):
                    other.recharge(task, Budget(ops=1))
            await task
            with pytest.raises(ValueError, match="not a living task of"):
                n.recharge(task, Budget(ops=1))

    run(main)


# ---- arguments


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="must be 'end' or 'hold'"):
        nursery(on_exhausted="explode")


def test_only_an_authority_admits():
    with pytest.raises(TypeError, match=r"admission=.*must be an Authority"):
        nursery(admission=object())


def test_capabilities_that_run_code_cannot_slip_a_child_into_a_cancelled_nursery(run):
    async def child():
        await sleep(1000)

    async def main():
        async with nursery() as n:

            def hostile():
                n.cancel()
                return iter(())

            class Passed:
                def __iter__(self):
                    return hostile()

            with pytest.raises(bursar.NurseryClosed):
                n.spawn(child, capabilities=Passed())
        return await bursar.now()

    assert run(main) == 0


def test_an_error_that_many_pass_on_is_in_the_group_once(run):
    async def fails():
        raise ValueError("once")

    async def passes_on(box):
        await box[0]

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            box = [n.spawn(fails)]
            for _ in range(3):
                n.spawn(passes_on, box)

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert len(caught.value.exceptions) == 1


def test_nobody_spawns_into_a_nursery_whose_owner_was_cut_off(run):
    refused = []

    async def stubborn(box):
        async with bursar.shield(), nursery() as n:
            box.append(n)
            while True:
                with contextlib.suppress(bursar.Cancelled):
                    await sleep(1)

    async def owner(box):
        async with bursar.timeout(1):
            await stubborn(box)

    async def late(box):
        await sleep(30)
        try:
            box[0].spawn(sleep_long)
        except bursar.NurseryClosed:
            refused.append(True)

    async def sleep_long():
        await sleep(1000)

    async def main():
        box = []
        async with nursery(cancel_on_failure=False) as n:
            task = n.spawn(owner, box)
            n.spawn(late, box)
            await sleep(5)
            task.cancel()
            await sleep(1)
            cancel.cut(run.runtime.kernel, task._inside(run.runtime.kernel), "for the test")

    run(main)
    assert refused == [True]


@pytest.mark.parametrize("depth", [1, 5])
def test_a_living_child_spawns_siblings_after_the_body_has_ended(run, depth):
    ended = []

    async def grow(n, left):
        await sleep(1)
        if left:
            n.spawn(grow, n, left - 1)
        ended.append(left)

    async def main():
        async with nursery() as n:
            n.spawn(grow, n, depth)
        return n.state, await bursar.now()

    assert run(main) == (bursar.NurseryState.CLOSED, depth + 1)
    assert ended == list(range(depth, -1, -1))


@pytest.mark.parametrize("how", ["sealed", "close in the body", "close in a child", "sovereign"])
def test_a_sealed_nursery_takes_no_more_tasks(how):
    seen = []

    async def late(n):
        await bursar.checkpoint()
        if how == "close in a child":
            n.close()
        try:
            n.spawn(bursar.checkpoint)
        except bursar.NurseryClosed:
            seen.append(n.state)

    async def main():
        sealed = {"sealed": True} if how == "sealed" else {}
        async with nursery(**sealed) as n:
            if how == "sovereign":
                n.spawn(late, n, capabilities=[(await bursar.capabilities())[bursar.CapSpawn]])
            else:
                n.spawn(late, n)
            if how == "close in the body":
                n.close()
                n.close()

    given = {"profile": "sovereign", "capabilities": [bursar.CapSpawn()], "budget": bursar.Budget()}
    bursar.Runtime(clock="virtual", **(given if how == "sovereign" else {})).run(main)
    assert seen == [bursar.NurseryState.CLOSING]


def test_sealing_is_in_the_trace_and_verified(tmp_path):
    async def late(n):
        await bursar.checkpoint()
        n.spawn(bursar.checkpoint)
        n.close()

    async def main():
        async with nursery() as n:
            n.spawn(late, n)
        async with nursery(sealed=True) as n:
            n.spawn(bursar.checkpoint)

    path = tmp_path / "run.trace"
    bursar.run(main, clock="virtual", record=path)
    trace = Trace(path)
    assert [record.name for record in trace.records()].count("nursery_sealed") == 2
    verify(trace)
