"""`timeout` and `shield`: which cancellation reaches a block, which one wins, and what a block leaves behind."""

import contextlib

import pytest
from support.law import cancel

import bursar
from bursar import OutcomeKind, ScopeMisuse, nursery, shield, sleep, timeout


def test_a_block_in_time_is_left_alone(run):
    async def main():
        async with timeout(5) as limit:
            await sleep(4)
        await sleep(10)
        return limit.expired, await bursar.now()

    assert run(main) == (False, 14.0)


def test_a_block_out_of_time_raises_and_names_the_task(run):
    async def main():
        limit = timeout(5)
        with pytest.raises(TimeoutError, match=r"task 'main' did not finish the block within 5 s"):
            async with limit:
                await sleep(100)
        return limit.expired, await bursar.now()

    async def outer():
        async with nursery() as n:
            task = n.spawn(main, name="main")
        return task.result

    assert run(outer) == (True, 5.0)


def test_none_sets_no_limit(run):
    async def main():
        async with timeout(None) as limit:
            await sleep(1e6)
        return limit.expired

    assert run(main) is False


def test_no_time_at_all_still_lets_what_does_not_wait_happen(run):
    async def main():
        async with timeout(0):
            return 1

    assert run(main) == 1


def test_the_outer_of_two_limits_wins_when_it_is_shorter(run):
    log = []

    async def main():
        try:
            async with timeout(2):
                try:
                    async with timeout(5):
                        await sleep(100)
                except TimeoutError:
                    log.append("inner")
        except TimeoutError:
            log.append("outer")
        return await bursar.now()

    assert run(main) == 2.0
    assert log == ["outer"]


def test_the_inner_of_two_limits_wins_when_it_is_shorter(run):
    async def main():
        async with timeout(5):
            with pytest.raises(TimeoutError):
                async with timeout(2):
                    await sleep(100)
            await sleep(1)
        return await bursar.now()

    assert run(main) == 3.0


def test_a_limit_cancels_the_nurseries_inside_it(run):
    log = []

    async def child():
        try:
            await sleep(100)
        except bursar.Cancelled as cancelled:
            log.append(str(cancelled.reason))
            raise

    async def main():
        with pytest.raises(TimeoutError):
            async with timeout(3), nursery() as n:
                n.spawn(child)
        return n.state

    assert run(main) is bursar.NurseryState.CANCELLED
    assert len(log) == 1
    assert "timeout: the time is up" in log[0]


def test_what_already_happened_is_not_undone_by_the_limit(run):
    """A value that arrived in the same instant as the deadline is returned; the limit strikes at the next await."""

    async def main():
        send, receive = bursar.channel()

        async def sender():
            await sleep(5)
            await send.send("in time")

        got = []

        async def receiver():
            async with timeout(5.5):
                got.append(await receive.receive())
                await sleep(1)

        async with nursery() as n:
            n.spawn(sender)
            with pytest.raises(TimeoutError):
                await receiver()
        return got

    assert run(main) == ["in time"]


def test_a_user_cancel_that_came_first_is_not_turned_into_a_timeout_by_a_slow_cleanup(run):
    """The task was asked to stop. That its cleanup outlasts a limit around it does not make it fail."""

    async def child():
        async with timeout(5):
            try:
                await sleep(100)
            finally:
                await sleep(8)

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel("enough")
        return task.outcome.kind

    assert run(main) is OutcomeKind.CANCELLED


def test_a_user_cancel_that_came_first_is_not_lost_to_a_limit_that_expires_while_a_nursery_ends(run):
    log = []

    async def stubborn():
        async with shield():
            await sleep(8)

    async def child():
        try:
            async with timeout(5), nursery() as n:
                n.spawn(stubborn)
        except TimeoutError:
            log.append("took the cancel for a timeout")
        log.append("went on")
        await sleep(1)

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel("enough")
        return task.outcome.kind

    assert run(main) is OutcomeKind.CANCELLED
    assert log == []
    assert run.reports == []


def test_a_limit_object_is_for_one_block_at_a_time(run):
    async def main():
        limit = timeout(5)
        async with limit:
            with pytest.raises(ScopeMisuse, match="in use already"):
                async with limit:
                    pass

    run(main)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e12])
def test_a_limit_is_a_sensible_span(seconds):
    with pytest.raises(ValueError, match="must be between 0 and"):
        timeout(seconds)


def test_a_limit_needs_the_timer_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not set a timeout.*CapTimer"):
            async with timeout(1):
                pass
        async with timeout(None), shield():
            return "no timer, no capability"

    assert run(main, capabilities=[bursar.CapSpawn()]) == "no timer, no capability"


# ---- shield


def test_a_shield_makes_a_cancel_wait_until_the_block_ends(run):
    log = []

    async def child():
        async with shield():
            await sleep(5)
            log.append(await bursar.now())
        await sleep(1)
        log.append("not reached")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert run(main) == (OutcomeKind.CANCELLED, 5.0)
    assert log == [5.0]


def test_the_limits_inside_a_shield_still_work(run):
    async def main():
        async with shield():
            with pytest.raises(TimeoutError):
                async with timeout(2):
                    await sleep(100)
        return await bursar.now()

    assert run(main) == 2.0


def test_a_nursery_inside_a_shield_is_not_reached_from_outside(run):
    async def grandchild():
        await sleep(5)
        return "finished"

    async def child():
        async with shield(), nursery() as n:
            task = n.spawn(grandchild)
        return task.result

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()
        return task

    assert run(main).result == "finished"


def test_a_shield_in_a_cleanup_is_ordinary(run):
    log = []

    async def child():
        try:
            await sleep(100)
        finally:
            async with shield():
                await sleep(2)
                log.append("tidied")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()

    run(main)
    assert log == ["tidied"]


def test_waiting_for_a_shielded_child_is_not_the_cleanup_of_its_parent(run):
    """A nursery waits for its children however long their shields hold; only running cleanup code is on the clock."""
    log = []

    async def child():
        async with shield():
            await sleep(20)
            log.append("committed")

    async def main():
        async with nursery() as n:
            n.spawn(child)
            await sleep(1)
            n.cancel()
            await sleep(1)
        return "the parent goes on"

    assert run(main) == "the parent goes on"
    assert log == ["committed"]


def test_a_child_that_overruns_its_cleanup_is_cut_off_and_its_parent_is_not(run):
    async def child():
        try:
            await sleep(1000)
        finally:
            await sleep(1000)

    async def main():
        with pytest.raises(TimeoutError):
            async with timeout(1), nursery() as n:
                n.spawn(child, name="slow")
        return await bursar.now()

    assert run(main) == 11.0
    assert [(report.kind, report.task) for report in run.runtime.reports] == [("cleanup_cut", "slow")]


# ---- order


def test_blocks_are_left_in_the_reverse_order_of_their_beginning(run):
    async def main():
        first, second = timeout(5), shield()
        await first.__aenter__()
        await second.__aenter__()
        with pytest.raises(ScopeMisuse, match=r"task 'main'.*reverse order of their beginning"):
            await first.__aexit__(None, None, None)
        await second.__aexit__(None, None, None)
        await first.__aexit__(None, None, None)

    async def outer():
        async with nursery() as n:
            n.spawn(main, name="main")

    run(outer)


def test_a_block_is_left_by_the_task_that_began_it(run):
    async def owner(limit, done):
        await limit.__aenter__()
        await done.wait()
        await limit.__aexit__(None, None, None)

    async def stranger(limit):
        with pytest.raises(ScopeMisuse, match="in the task that began them"):
            await limit.__aexit__(None, None, None)

    async def main():
        limit, done = timeout(5), bursar.Event()
        async with nursery() as n:
            n.spawn(owner, limit, done)
            await sleep(1)
            await n.spawn(stranger, limit)
            done.set()

    run(main)


@pytest.mark.parametrize("kind", [nursery, lambda: nursery(admission=bursar.Authority()), shield, lambda: timeout(1)])
def test_a_block_that_was_never_entered_cannot_be_left(run, kind):
    """Whoever awaits that is told, on either kernel, and not whoever only asks for it."""

    async def main():
        leaving = kind().__aexit__(None, None, None)
        with pytest.raises(ScopeMisuse, match=r"left without having been entered; write `async with \w+\("):
            await leaving
        return "goes on"

    assert run(main) == "goes on"


@pytest.mark.parametrize("kind", [nursery, lambda: timeout(1)])
def test_a_block_is_left_with_three_arguments(run, kind):
    async def main():
        block = kind()
        with pytest.raises(TypeError):
            block.__aexit__(None)
        async with block:
            pass

    run(main)


def test_blocks_that_were_never_left_end_with_their_task(run):
    async def child():
        await timeout(5).__aenter__()
        await shield().__aenter__()
        return "over"

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
        return task.result, await bursar.now()

    assert run(main) == ("over", 0.0)


def test_leaving_a_block_does_not_look_at_the_blocks_around_it(run, monkeypatch):
    """A thousand blocks in one task are left in a thousand steps, not a million."""
    looked = 0
    outward = cancel.outward

    def counted(task):
        nonlocal looked
        for scope in outward(task):
            looked += 1
            yield scope

    monkeypatch.setattr(cancel, "outward", counted)

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(1000):
                await stack.enter_async_context(bursar.timeout(100))

    run(main)
    assert looked < 10_000


def test_a_task_that_runs_dry_behind_a_shield_after_its_cancel_ends(run):
    async def child():
        async with bursar.shield():
            await sleep(2)
            await bursar.charge(ops=100)

    async def main():
        async with nursery(on_exhausted="hold", cancel_on_failure=False) as n:
            task = n.spawn(child, budget=bursar.Budget(ops=10))
            await sleep(1)
            task.cancel()

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert caught.value.subgroup(bursar.BudgetExceeded)


def test_overrunning_the_cleanup_of_a_timeout_is_a_failure_of_the_task(run):
    async def stubborn():
        async with bursar.timeout(1):
            while True:
                with contextlib.suppress(bursar.Cancelled):
                    await sleep(1000)

    async def main():
        async with nursery() as n:
            n.spawn(stubborn)

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, bursar.BudgetExceeded)
    assert "overran the cleanup of a cancelled block (timeout" in str(error)
