"""Explanations: true in every state of a task."""

import pytest

import bursar
from bursar import Budget, State, nursery, sleep


async def forever():
    await sleep(1000)


def explained(run, prepare):
    """The explanation that `prepare(n)` returns, taken inside a nursery that is then cancelled."""

    async def main():
        async with nursery(name="family", on_exhausted="hold") as n:
            try:
                return await prepare(n)
            finally:
                n.cancel()

    return run(main)


def test_a_ready_task_waits_for_its_turn(run):
    async def prepare(n):
        return n.spawn(forever, name="t").explain()

    explanation = explained(run, prepare)
    assert explanation.state is State.READY
    assert explanation.reason == "waits for its turn in the ready lane"
    assert str(explanation) == "task 't' (4) is READY: waits for its turn in the ready lane [0 s; spent 0 ops]"


def test_a_running_task_runs(run):
    async def prepare(n):
        return (await bursar.current_task()).explain()

    explanation = explained(run, prepare)
    assert explanation.state is State.RUNNING
    assert explanation.reason == "runs"


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (lambda n: sleep(1000), "sleeps for 1000 s"),
        (lambda n: bursar.sleep_until(900), "sleeps until 900 s"),
        (lambda n: bursar.Event().wait(), "waits for an event"),
        (lambda n: bursar.channel()[1].receive(), "waits to receive from channel 5"),
        (lambda n: bursar.channel()[0].send(1), "waits to send to channel 5"),
        (lambda n: bursar.channel()[0].reserve(), "waits to reserve a place in channel 5"),
        (lambda n: bursar.Semaphore(0).acquire(), "waits for a permit of a semaphore"),
        (lambda n: n.wait_exhausted(), "waits for a task of nursery 'family' to run out of budget"),
    ],
)
def test_a_blocked_task_says_what_it_waits_for_and_since_when(run, wait, reason):
    kept = []

    async def waiter(n):
        ends = wait(n)
        kept.append(ends)
        await ends

    async def prepare(n):
        task = n.spawn(waiter, n)
        await sleep(2)
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.state is State.BLOCKED
    assert explanation.reason == reason
    assert explanation.seconds == 2.0


def test_who_waits_for_a_task_names_it(run):
    async def waiter(box):
        await box[0]

    async def prepare(n):
        target = n.spawn(forever, name="target")
        task = n.spawn(waiter, [target])
        await sleep(1)
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.reason == "waits for task 'target'"
    assert explanation.blockers == ("target",)


def test_who_waits_for_a_nursery_counts_its_tasks(run):
    async def parent():
        async with nursery(name="inner") as n:
            n.spawn(forever, name="a")
            n.spawn(forever, name="b")

    async def prepare(n):
        task = n.spawn(parent)
        await sleep(1)
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.reason == "waits for 2 tasks of nursery 'inner'"
    assert explanation.blockers == ("a", "b")


def test_an_exhausted_task_says_of_what_and_who_could_recharge_it(run):
    async def spender():
        await bursar.charge(syscalls=1)

    async def prepare(n):
        task = n.spawn(spender, budget=Budget(syscalls=0))
        await sleep(1)
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.state is State.EXHAUSTED
    assert explanation.reason == "ran out of syscalls and waits for nursery 'family' to recharge it"
    assert explanation.seconds == 1.0


def test_a_task_that_is_over_says_how_it_ended(run):
    async def value():
        return 1

    async def prepare(n):
        task = n.spawn(value)
        await task
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.state is State.DONE
    assert explanation.reason == "ok"


def test_a_task_that_is_asked_to_stop_says_why(run):
    async def slow():
        try:
            await sleep(1000)
        finally:
            await sleep(5)

    async def prepare(n):
        task = n.spawn(slow)
        await sleep(1)
        before = task.explain().cancelling
        task.cancel("enough")
        requested = task.explain().cancelling
        await sleep(1)
        return before, requested, task.explain()

    before, requested, explanation = explained(run, prepare)
    assert (before, requested) == ("", "user: enough")
    assert explanation.cancelling == "user: enough"
    assert str(explanation).endswith("— asked to stop (user: enough)")


def test_what_was_spent_is_listed(run):
    async def spender():
        await bursar.charge(ops=2000, memory=5)
        await bursar.Event().wait()

    async def prepare(n):
        task = n.spawn(spender)
        await sleep(1)
        return task.explain()

    explanation = explained(run, prepare)
    assert explanation.spent == Budget(2001, 5, 0, 0, 0)
    assert "spent 2,001 ops, 5 memory" in str(explanation)
