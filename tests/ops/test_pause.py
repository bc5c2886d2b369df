"""Standing still: tasks that wait for permission, coroutines that wait, and what they give back. Functions on threads
are in tests/threads/test_pause.py."""

from contextlib import aclosing, suppress

import pytest
from support.gated import Log, fails, kinds, nap, run
from support.manual_gate import ManualHost

import bursar
from bursar import Authority, Budget, ScopeMisuse, Soft


def one(**rules):
    return Authority(max_concurrent=1, **rules)


def test_a_task_that_waits_for_others_pauses_at_once_and_its_dependency_completes_meanwhile():
    """It was counted down while it stood, and starts when it is resumed: no wake is lost."""
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            first = n.spawn(log.work, "first")
            second = n.spawn(log.work, "second", after=[first])
            assert await second.pause()
            assert second.state.name == "PAUSED"
            await bursar.sleep(5)
            assert first.outcome is not None
            second.resume()

    run(main)
    assert log.entries == [("first", 0), ("second", 5)]


def test_resumed_before_its_dependency_completes_it_waits_on():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            first = n.spawn(log.work, "first", 3.0)
            second = n.spawn(log.work, "second", after=[first])
            await second.pause()
            await bursar.sleep(1)
            second.resume()
            assert second.state.name == "PENDING"

    run(main)
    assert log.at("second") == 3


def test_a_task_in_the_queue_pauses_at_once_and_others_come_past_it():
    log = Log()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            n.spawn(log.work, "runs")
            queued = n.spawn(log.work, "queued", priority=100)
            n.spawn(log.work, "other")
            assert await queued.pause()
            await bursar.sleep(1.5)
            queued.resume()

    run(main)
    assert log.order == "runs other queued"


def test_a_dependency_that_fails_cancels_also_who_stands():
    async def fails():
        await bursar.sleep(1)
        raise ValueError

    async def main():
        try:
            async with bursar.nursery(admission=Authority(), cancel_on_failure=False) as n:
                second = n.spawn(nap, after=[n.spawn(fails)])
                await second.pause()
        except ExceptionGroup:
            return second

    assert kinds(run(main)) == ["cancelled"]


def test_pausing_everything_that_runs_does_not_stop_the_gate():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=2, resources={"cpu": 2})) as n:
            running = [n.spawn(log.work, name, needs={"cpu": 1}) for name in "ab"]
            for name in "cd":
                n.spawn(log.work, name, needs={"cpu": 1})
            await bursar.checkpoint()
            for task in running:
                assert await task.pause()
            await bursar.sleep(3)
            assert log.order == "a b c d"
            assert log.at("d") == 0
            for task in running:
                task.resume()

    run(main)


def test_what_is_not_slot_or_processor_is_kept():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": 1, "ram": Soft(10)})) as n:
            keeps = n.spawn(log.work, "keeps", needs={"cpu": 1, "ram": 6})
            n.spawn(log.work, "memory", needs={"cpu": 1, "ram": 6})
            n.spawn(log.work, "processor", needs={"cpu": 1})
            await bursar.checkpoint()
            await keeps.pause()
            await bursar.sleep(4)
            assert log.order == "keeps processor"
            keeps.resume()

    run(main)
    assert log.at("memory") == 4


def test_to_go_on_it_asks_for_its_place_before_all_who_ask_for_the_first_time():
    log = Log()

    async def stages():
        await log.work("first half")
        await log.work("second half")

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(stages)
            n.spawn(log.work, "short", 2.0)
            n.spawn(log.work, "urgent", priority=100)
            await bursar.checkpoint()
            await task.pause()
            await bursar.sleep(0.5)
            task.resume()
            assert task.state.name == "PAUSED"
            assert "needs one of 1 slots, all taken by: 'Log.work'" in str(task.explain())

    run(main)
    assert log.entries == [("first half", 0), ("urgent", 0), ("second half", 1), ("short", 2)]


def test_paused_again_before_it_had_its_place_it_stands_as_before():
    """A wake that came meanwhile is not lost, and it holds nobody up."""
    log = Log()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(nap)
            n.spawn(log.work, "long", 5.0)
            await bursar.checkpoint()
            await task.pause()
            await bursar.sleep(2)  # what it waits for has come
            task.resume()
            assert await task.pause()
            await bursar.sleep(5)
            n.spawn(log.work, "other")
            await bursar.sleep(5)
            assert task.outcome is None
            task.resume()
        return task.result, await bursar.now()

    assert run(main) == (1.0, 12.0)
    assert log.entries == [("long", 0), ("other", 7)]


def test_a_coroutine_that_waits_takes_what_came_when_it_goes_on():
    async def receives(receive):
        return await receive.receive(), await bursar.now()

    async def main():
        send, receive = bursar.channel(0)
        async with bursar.nursery() as n:
            task = n.spawn(receives, receive)
            await bursar.checkpoint()
            assert await task.pause()
            await send.send("hello")
            await bursar.sleep(3)
            task.resume()
        return task.result

    assert run(main) == ("hello", 3.0)


def test_a_timeout_inside_a_paused_task_does_not_set_it_going():
    log = Log()

    async def impatient():
        try:
            async with bursar.timeout(1.0):
                await bursar.sleep(100)
        except TimeoutError:
            await log.work("timed out")

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(impatient)
            await bursar.checkpoint()
            await task.pause()
            await bursar.sleep(5)
            assert not log.entries
            task.resume()

    run(main)
    assert log.entries == [("timed out", 5)]


def test_cancelling_a_nursery_of_a_paused_owner_ends_the_children_and_the_owner_later():
    holder = []

    async def owner():
        async with bursar.nursery() as inner:
            holder.append(inner)
            holder.append(inner.spawn(nap, 100.0))
            await bursar.sleep(100)
        return "left"

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(owner)
            await bursar.checkpoint()
            await task.pause()
            holder[0].cancel()
            await bursar.sleep(1)
            assert kinds(holder[1]) == ["cancelled"]
            assert task.state.name == "PAUSED"
            task.resume()
        return task.result

    assert run(main) == "left"


@pytest.mark.parametrize("when", ["waits", "queued", "runs"])
def test_cancelling_ends_it_where_it_stands(when):
    log = Log()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            first = n.spawn(log.work, "first")
            task = {
                "waits": lambda: n.spawn(log.work, "x", after=[first]),
                "queued": lambda: n.spawn(log.work, "x"),
                "runs": lambda: first,
            }[when]()
            await bursar.checkpoint()
            assert await task.pause()
            task.cancel("enough")
            await task.wait()
            assert await bursar.now() == 0
        return task

    assert kinds(run(main)) == ["cancelled"]
    assert "x" not in log.order


@pytest.mark.parametrize("how", ["nursery", "run"])
def test_shutdown_never_lets_a_paused_task_go_on(how):
    ran = []

    async def goes_on():
        await bursar.checkpoint()
        ran.append("on")

    async def main():
        async with bursar.nursery(admission=one()) as n:
            for task in [n.spawn(goes_on), n.spawn(goes_on)]:
                await bursar.checkpoint()
                await task.pause()
            if how == "nursery":
                n.cancel()
            else:
                raise RuntimeError("the end")

    try:
        run(main)
    except ExceptionGroup:
        assert how == "run"
    assert not ran


def test_pause_tells_the_truth_when_the_task_has_ended():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(nap)
            await bursar.sleep(2)
            return await task.pause()

    assert run(main) is False


def test_pausing_twice_is_pausing_once():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(nap)
            await bursar.checkpoint()
            assert await task.pause()
            assert await task.pause()
            task.resume()
            task.resume()
        return task.result

    assert run(main) == 1.0


def test_what_is_being_cancelled_is_not_paused():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(nap)
            await bursar.checkpoint()
            task.cancel()
            assert await task.pause() is False
        return task

    assert kinds(run(main)) == ["cancelled"]


def test_nobody_pauses_itself():
    async def main():
        with pytest.raises(ScopeMisuse, match="cannot pause itself"):
            (await bursar.current_task()).pause()

    run(main)


def test_a_task_without_budget_asks_again_when_it_goes_on():
    async def spends():
        await bursar.charge(ops=50)
        return "paid"

    async def main():
        async with bursar.nursery(on_exhausted="hold") as n:
            task = n.spawn(spends, budget=Budget(ops=10))
            held = await n.wait_exhausted()
            await task.pause()
            n.recharge(held, Budget(ops=100))
            await bursar.sleep(1)
            assert task.outcome is None
            task.resume()
        return task.result

    assert run(main) == "paid"


def test_pausing_a_task_that_waits_for_its_children():
    log = Log()

    async def parent():
        async with bursar.nursery() as n:
            n.spawn(log.work, "child")
        await log.work("after")

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(parent)
            await bursar.sleep(0.5)
            await task.pause()
            await bursar.sleep(5)
            task.resume()

    run(main, admission=Authority(max_concurrent=2))
    assert log.entries == [("child", 0), ("after", 5.5)]


def test_if_nobody_will_resume_it_that_is_a_deadlock_and_says_so():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(nap, name="forgotten")
            await bursar.checkpoint()
            await task.pause()

    with pytest.raises(bursar.Deadlock, match="forgotten"):
        run(main)


def test_many_hands_on_one_task():
    """Pauses, resumes and cancels from everywhere, in any order: it ends."""

    async def hammer(hold, what, times):
        for _ in range(times):
            getattr(hold[0], what)()
            await bursar.checkpoint()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(nap)
            n.spawn(nap)
            async with bursar.nursery() as hands:
                for what in ("pause", "resume", "pause", "resume"):
                    hands.spawn(hammer, [task], what, 50)
            task.cancel()
        return kinds(task)

    assert run(main) == ["cancelled"]


# ---- asked to stop while it stands


def test_a_coroutine_that_is_cancelled_while_it_stands_cleans_up_at_once_and_counts_until_it_has():
    """It does not wait for whoever has its place; the next one waits until there is room for it beside both."""
    log = Log()

    async def tidy():
        try:
            await bursar.sleep(100)
        finally:
            await log.work("cleanup", 0.5)

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(tidy)
            await bursar.sleep(1)
            await task.pause()
            n.spawn(log.work, "in its place", 1.25)
            n.spawn(log.work, "next")
            await bursar.sleep(1)
            task.cancel()
        return task.outcome.kind.name

    assert run(main) == "CANCELLED"
    assert log.entries == [("in its place", 1), ("cleanup", 2), ("next", 2.5)]


LENT = [("other", 0), ("after", 1), ("next", 2)]  # its time is up while it waits for its child,
ASKED = [("child", 0), ("other", 1), ("after", 2), ("next", 3)]  # or, that one being over, for its place


@pytest.mark.parametrize(("seconds", "priority", "came"), [(1, 50, LENT), (2, 100, ASKED)])
def test_whose_block_is_over_time_while_its_place_is_lent_goes_on_with_it(seconds, priority, came):
    """Only a block of it was stopped: what comes after that runs in a place that counts."""
    log = Log()

    async def lends():
        with suppress(TimeoutError):
            async with bursar.timeout(seconds), bursar.nursery() as n:
                n.spawn(log.work, "child", priority=priority)
        await log.work("after", 1.0)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(lends)
            n.spawn(log.work, "other", 1.5)
            n.spawn(log.work, "next")

    run(main, admission=one())
    assert log.entries == came


def test_of_two_blocks_with_children_the_one_that_is_left_lends_the_place():
    async def lends():
        async with bursar.nursery() as outer:
            outer.spawn(nap, 3.0)
            async with bursar.nursery() as inner:
                inner.spawn(nap)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(lends)
            n.spawn(nap, 0.5)
        return await bursar.now()

    assert run(main, admission=Authority(max_concurrent=2)) == 3


def test_torn_down_while_its_place_is_lent_it_asks_for_nothing():
    log = []

    async def lends():
        try:
            async with bursar.nursery() as n:
                n.spawn(nap)
        finally:
            log.append("left")

    async def main():
        async with bursar.nursery() as n:
            n.spawn(lends)
            n.spawn(nap)

    host = ManualHost()
    runtime = bursar.Runtime(host=host, admission=one())
    runtime.start(main)
    host.run()
    runtime.pump.stop(RuntimeError("torn down"))
    assert log == ["left"]
    assert not runtime.kernel.reports


@pytest.mark.parametrize("stop", ["timeout", "cancel"])
def test_what_children_failed_with_is_not_lost_if_it_is_asked_to_stop_before_it_has_its_place(stop):
    seen = []

    async def lends():
        try:
            async with bursar.timeout(2 if stop == "timeout" else 50), bursar.nursery() as n:
                n.spawn(fails, 1.0, priority=100)
        except* ValueError:
            seen.append("failed")
        await bursar.sleep(1)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(lends, priority=100)
            n.spawn(nap, 5.0)
            if stop == "cancel":
                await bursar.sleep(2)
                task.cancel()
        return kinds(task)

    assert run(main, admission=one()) == ["ok" if stop == "timeout" else "cancelled"]
    assert seen == ["failed"]


async def timed(log):
    try:
        async with bursar.timeout(3):
            await bursar.sleep(100)
    except TimeoutError:
        await log.work("timed out")


async def awaits(hold, log):
    await hold[0].wait()
    await log.work("it has ended", 0)


@pytest.mark.parametrize("resumed", [2, 5])
def test_whose_block_is_over_time_does_not_wait_for_its_place_once_it_was_resumed(resumed):
    """Whoever has the place waits for it, so it would wait for ever."""
    log = Log()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(timed, log)
            await bursar.sleep(1)
            await task.pause()
            n.spawn(awaits, [task], log)
            await bursar.sleep(resumed - 1)
            task.resume()

    run(main)
    then = max(resumed, 3)
    assert log.entries == [("timed out", then), ("it has ended", then + 1)]


def test_processors_that_may_be_exceeded_alone_are_when_another_one_is_asked_to_stop():
    async def tidy():
        try:
            await bursar.sleep(100)
        finally:
            await bursar.sleep(1)

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": Soft(1)})) as n:
            small = n.spawn(tidy, needs={"cpu": 1})
            await bursar.sleep(1)
            await small.pause()
            n.spawn(nap, 5.0, needs={"cpu": 2})
            await bursar.checkpoint()
            small.cancel()
        return await bursar.now()

    assert run(main) == 6


def test_a_generator_that_is_closed_inside_its_block_takes_its_place_back():
    log = Log()

    async def tidy():
        try:
            await bursar.sleep(100)
        finally:
            await log.work("cleanup")

    async def steps():
        async with bursar.nursery() as n:
            n.spawn(tidy)
            await bursar.sleep(1)
            yield 1

    async def lends():
        async with aclosing(steps()) as all_of_them:
            async for _ in all_of_them:
                break
        await log.work("after")

    async def main():
        async with bursar.nursery() as n:
            n.spawn(lends)
            await bursar.sleep(0.5)
            n.spawn(log.work, "next", 3.0)
            n.spawn(log.work, "last")

    run(main, admission=Authority(max_concurrent=2))
    assert sorted(log.entries) == [("after", 3), ("cleanup", 1), ("last", 2), ("next", 1)]
