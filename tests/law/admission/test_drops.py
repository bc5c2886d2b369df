"""`drops`: the end of a nursery's block raises the drops that no code has read."""

import pytest

import bursar
from bursar import Authority, OutcomeKind, Runtime, TaskDropped

LIMITS = {"queue": Authority(max_concurrent=1, max_queue=2), "wait": Authority(max_concurrent=1, max_wait=2.5)}


async def job():
    await bursar.sleep(1)


def ended(main):
    """What the run of `main` raised; None if it returned."""
    try:
        Runtime(clock="virtual").run(main)
    except BaseExceptionGroup as group:
        return group
    return None


@pytest.mark.parametrize("limit", LIMITS)
def test_the_end_of_the_block_raises_unread_drops(limit):
    seen = []

    async def main():
        try:
            async with bursar.nursery(admission=LIMITS[limit], name="jobs") as n:
                for number in range(10):
                    n.spawn(job, name=f"job {number}")
        finally:
            seen.append(n.result_kind)

    group = ended(main)
    assert group.message == "nursery 'jobs': 7 dropped"
    [error] = group.exceptions
    assert isinstance(error, TaskDropped)
    assert "7 tasks of nursery 'jobs' never started" in str(error)
    assert "'job 9' (" in str(error)
    assert 'on_drop="record"' in str(error)
    assert seen == [OutcomeKind.DROPPED]


@pytest.mark.parametrize("count", [7, 8, 9, 1000])
def test_the_error_names_the_first_few(count):
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0)) as n:
            for _ in range(count + 1):
                n.spawn(job)

    [error] = ended(main).exceptions
    assert str(error).count("'job' (") == min(count, 8)
    assert (" and more;" in str(error)) == (count > 8)


async def await_it(task):
    with pytest.raises(TaskDropped):
        await task


async def wait_for_it(task):
    assert (await task.wait()).kind is OutcomeKind.DROPPED


async def select_it(task):
    assert (await bursar.select(task.wait())).value.kind is OutcomeKind.DROPPED


async def read_its_result(task):
    with pytest.raises(TaskDropped):
        _ = task.result


async def read_its_outcome(task):
    assert task.outcome.kind is OutcomeKind.DROPPED


READS = (await_it, wait_for_it, select_it, read_its_result, read_its_outcome)


@pytest.mark.parametrize("read", READS)
def test_a_drop_that_was_read_is_not_raised(read):
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0)) as n:
            n.spawn(job)
            dropped = n.spawn(job)
            await read(dropped)
            await read(dropped)
        return n.result_kind

    assert Runtime(clock="virtual").run(main) is OutcomeKind.OK


@pytest.mark.parametrize("read", READS[:3])
def test_a_task_that_awaits_the_dropped_task_reads_the_drop(read):
    async def reads(late):
        await read(*late)

    async def main():
        async with bursar.nursery() as around, bursar.nursery(admission=LIMITS["wait"]) as n:
            for _ in range(3):
                n.spawn(job)
            late = [n.spawn(job)]  # in a list, because a task among the arguments is a dependency
            around.spawn(reads, late)

    Runtime(clock="virtual").run(main)


def test_a_snapshot_an_explanation_and_a_repr_read_nothing():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0)) as n:
            n.spawn(job)
            dropped = n.spawn(job)
            print(dropped, dropped.explain(), dropped.state, dropped.history)

    assert ended(main).message.endswith(": 1 dropped")


def test_a_drop_by_hand_is_not_raised():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(job)
            n.spawn(job).drop("not needed")

    assert ended(main) is None


@pytest.mark.parametrize("admission", [None, LIMITS["queue"]])
def test_a_nursery_may_only_record_its_drops(admission):
    async def main():
        async with bursar.nursery(admission=admission, on_drop="record") as n:
            tasks = [n.spawn(job, priority=60) for _ in range(10)]
        return n.result_kind, [task.outcome.kind.name for task in tasks].count("DROPPED")

    runtime = Runtime(clock="virtual", admission=LIMITS["queue"] if admission is None else None)
    assert runtime.run(main) == (OutcomeKind.OK, 7)


def test_drops_join_the_failures():
    async def fails():
        await bursar.sleep(0.5)
        raise ValueError

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0), cancel_on_failure=False) as n:
            n.spawn(fails)
            n.spawn(job)

    group = ended(main)
    assert group.message.endswith(": 1 failed, 1 dropped")
    assert [type(error) for error in group.exceptions] == [ValueError, TaskDropped]


def test_a_cancelled_nursery_raises_no_drops():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0)) as n:
            n.spawn(job)
            n.spawn(job)
            n.cancel("enough")

    assert ended(main) is None


def test_another_word_is_refused():
    with pytest.raises(ValueError, match=r"nursery\(on_drop='ignore'\): must be 'raise' or 'record'"):
        bursar.nursery(on_drop="ignore")
