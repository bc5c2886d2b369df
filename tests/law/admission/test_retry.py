"""Trying again: each attempt a task of its own."""

from contextlib import suppress

import pytest
from support.gated import Log, kinds, nap, run

import bursar
from bursar import Authority, Budget, Retry, TaskDropped


class Flaky:
    """Fails so many times, then works."""

    def __init__(self, failures: int, error: type[BaseException] = ValueError) -> None:
        self.failures = failures
        self.error = error
        self.calls: list[float] = []

    async def call(self) -> int:
        self.calls.append(await bursar.now())
        if len(self.calls) <= self.failures:
            raise self.error(len(self.calls))
        return len(self.calls)


def tried(flaky, retry, **keywords):
    async def main():
        async with bursar.nursery(**keywords) as n:
            return n.spawn(flaky.call, retry=retry, priority=73, name="flaky")

    return run(main)


def attempts(task):
    found = [task]
    while found[-1].retried_by is not None:
        found.append(found[-1].retried_by)
    return found


def test_an_attempt_is_a_new_task_of_the_same_priority_linked_both_ways():
    task = tried(Flaky(2), Retry(5))
    first, second, third = attempts(task)
    assert kinds(first, second, third) == ["failed", "failed", "ok"]
    assert len({t.id for t in (first, second, third)}) == 3
    assert [t.attempt for t in (first, second, third)] == [1, 2, 3]
    assert [t.priority for t in (first, second, third)] == [73] * 3
    assert second.retry_of == first
    assert third.retry_of == second
    assert {t.name for t in (first, second, third)} == {"flaky"}


def test_the_result_is_that_of_the_last_attempt_and_each_keeps_its_own_record():
    task = tried(Flaky(1), Retry(1))
    assert task.result == 2
    assert task.outcome.error.args == (1,)


def test_awaiting_waits_for_the_last_attempt():
    flaky = Flaky(2)

    async def main():
        async with bursar.nursery() as n:
            return await n.spawn(flaky.call, retry=Retry(2, backoff=1.0)), await bursar.now()

    assert run(main) == (3, 3.0)


def test_backoff_grows_up_to_its_limit():
    flaky = Flaky(4)
    tried(flaky, Retry(4, backoff=1.0, factor=3.0, backoff_max=5.0))
    assert flaky.calls == [0, 1, 4, 9, 14]


def test_when_the_attempts_are_used_up_the_last_failure_counts():
    flaky = Flaky(9)
    with pytest.raises(ExceptionGroup) as raised:
        tried(flaky, Retry(2))
    assert [error.args for error in raised.value.exceptions] == [(3,)]
    assert len(flaky.calls) == 3


def test_failures_that_are_tried_again_cancel_nobody():
    async def main():
        async with bursar.nursery() as n:
            task, other = n.spawn(Flaky(1).call, retry=Retry(1)), n.spawn(nap)
        return kinds(other, task.retried_by)

    assert run(main) == ["ok", "ok"]


@pytest.mark.parametrize(("error", "calls"), [(KeyError, 2), (ValueError, 1)])
def test_only_the_errors_that_are_named(error, calls):
    flaky = Flaky(1, error)
    with suppress(ExceptionGroup):
        tried(flaky, Retry(3, on=(KeyError, OSError)))
    assert len(flaky.calls) == calls


def test_a_panic_is_not_tried_again():
    flaky = Flaky(1, SystemExit)

    async def main():
        with pytest.raises(BaseExceptionGroup):
            async with bursar.nursery() as n:
                n.spawn(flaky.call, retry=Retry(3))

    run(main)
    assert len(flaky.calls) == 1


def test_a_cancellation_is_not_tried_again():
    log = Log()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(log.work, "it", retry=Retry(3))
            await bursar.checkpoint()
            task.cancel()
        return task

    task = run(main)
    assert task.retried_by is None
    assert log.order == "it"


def test_a_failure_while_it_is_being_cancelled_is_not_tried_again():
    calls = 0

    async def stubborn():
        nonlocal calls
        calls += 1
        try:
            await bursar.sleep(10)
        except bursar.Cancelled:
            raise ValueError("while stopping") from None

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(stubborn, retry=Retry(3))
            await bursar.sleep(1)
            task.cancel()

    with pytest.raises(ExceptionGroup):
        run(main)
    assert calls == 1


def test_a_drop_is_never_tried_again():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_wait=0.5), on_drop="record") as n:
            n.spawn(nap)
            task = n.spawn(nap, retry=Retry(5))
        return task, n._inside()[1].gate.totals

    task, totals = run(main)
    assert kinds(task) == ["dropped"]
    assert task.retried_by is None
    assert totals.retried == 0
    with pytest.raises(TaskDropped):
        _ = task.result


def test_an_attempt_takes_its_place_when_the_one_before_has_left_it():
    """With one slot and no queue at all, the second attempt would be dropped if it asked before the first had ended."""
    task = tried(Flaky(2), Retry(2), admission=Authority(max_concurrent=1, max_queue=0))
    assert kinds(*attempts(task)) == ["failed", "failed", "ok"]


def test_an_attempt_goes_to_the_back_of_its_class():
    log, flaky = Log(), Flaky(1)

    async def work():
        log.entries.append(("flaky", await bursar.now()))
        return await flaky.call()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(work, retry=Retry(1))
            n.spawn(log.work, "other")

    run(main)
    assert log.order == "flaky other flaky"


def test_who_follows_a_task_follows_its_last_attempt():
    async def after(value):
        return value, await bursar.now()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(Flaky(2).call, retry=Retry(2, backoff=1.0))
            early = n.spawn(after, task)
            await bursar.sleep(0.5)
            late = n.spawn(after, task)
        return early.result, late.result

    assert run(main) == ((3, 3.0), (3, 3.0))


def test_if_the_next_attempt_is_never_made_those_who_follow_hear_of_it():
    """The attempt is dropped while the one before still waits for its children: nobody is left waiting."""

    async def fails_slowly():
        async with bursar.nursery() as n:
            n.spawn(nap, 5.0)
            await bursar.sleep(1)
            raise ValueError

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0), on_drop="record") as n:
            task = n.spawn(fails_slowly, retry=Retry(1, backoff=0.5, on=ExceptionGroup))
            follower = n.spawn(nap, after=[task])
            await bursar.sleep(1.25)
            n.spawn(nap, 3.0)
        return task.retried_by, follower

    again, follower = run(main)
    assert kinds(again, follower) == ["dropped", "cancelled"]


def test_pausing_a_task_that_waits_for_its_time_does_not_make_it_come_earlier():
    flaky = Flaky(1)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(flaky.call, retry=Retry(1, backoff=4.0))
            await bursar.sleep(1)
            again = task.retried_by
            assert await again.pause()
            await bursar.sleep(1)
            again.resume()

    run(main)
    assert flaky.calls == [0, 4]


def test_one_that_was_paused_past_its_time_comes_when_it_is_resumed():
    flaky = Flaky(1)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(flaky.call, retry=Retry(1, backoff=1.0))
            await bursar.sleep(0.5)
            again = task.retried_by
            await again.pause()
            await bursar.sleep(5)
            again.resume()

    run(main)
    assert flaky.calls == [0, 5.5]


def test_an_attempt_that_nobody_pays_for_is_not_made_and_the_failure_stands():
    flaky = Flaky(5)

    async def main():
        with pytest.raises(ExceptionGroup) as raised:
            async with bursar.nursery(budget=Budget(spawns=2)) as n:
                n.spawn(flaky.call, retry=Retry(5))
        return [error.args for error in raised.value.exceptions]

    assert run(main) == [(2,)]


def test_a_cancelled_nursery_makes_no_further_attempts():
    flaky = Flaky(100)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(flaky.call, retry=Retry(100, backoff=1.0, factor=1.0))
            await bursar.sleep(3.5)
            n.cancel()

    run(main)
    assert flaky.calls == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": -1},
        {"times": 1.5},
        {"times": 1, "backoff": -1},
        {"times": 1, "factor": 0},
        {"times": 1, "on": ()},
        {"times": 1, "on": int},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises((TypeError, ValueError)):
        Retry(**wrong)


def test_a_retry_that_is_none_is_refused_at_the_spawn():
    async def main():
        async with bursar.nursery() as n:
            with pytest.raises(TypeError, match="must be a Retry"):
                n.spawn(nap, retry=3)
            assert not n.tasks

    run(main)
