"""Pausing what runs on a thread: it stands at a checkpoint, gives its place away, and only `resume` lets it go on."""

import threading

import pytest
from support.evidence import Trace, replay, verify
from support.manual_gate import ManualGate
from support.real_sockets import settled
from support.time_limits import WAIT_S

import bursar
from bursar import Authority, Checkpoint, Deadlock, OutcomeKind, PauseTimeout, State, nursery


class Counter:
    """A function that counts its checkpoints, until it is told to end."""

    def __init__(self):
        self.n = 0
        self.end = False
        self.told = None
        self.begun = threading.Event()

    def __call__(self, checkpoint: Checkpoint):
        self.begun.set()
        try:
            while not self.end:
                checkpoint()
                self.n += 1
        except bursar.Cancelled as cancelled:
            self.told = str(cancelled.reason)
            raise
        return "done"


async def begun(counter):
    while not counter.begun.is_set():
        await bursar.checkpoint()


async def paused(n, counter):
    """A task of that function, which stands."""
    task = n.spawn(counter)
    await begun(counter)
    assert await task.pause(WAIT_S) is True
    return task


def play(go, moves, **keywords):
    """Let the function count, make the moves, and let it end: it does so well. Returns what the moves returned."""
    counter = Counter()

    async def main():
        async with nursery() as n:
            task = n.spawn(counter)
            await begun(counter)
            value = await moves(task, counter)
            counter.end = True
            task.resume()
        assert task.result == "done"
        return value

    return go(main, **keywords)


def test_it_stands_and_goes_on(go):
    async def moves(task, counter):
        assert await task.pause(WAIT_S) is True
        assert task.state is State.PAUSED
        stood = counter.n
        await settled()
        assert counter.n == stood
        task.resume()
        while counter.n == stood:
            await bursar.checkpoint()
        assert task.state is not State.PAUSED

    play(go, moves)


def test_again_and_again(go):
    async def moves(task, counter):
        for _ in range(20):
            assert await task.pause(WAIT_S) is True
            task.resume()

    play(go, moves)


def test_paused_and_resumed_before_it_stood(go):
    async def moves(task, counter):
        for _ in range(20):
            task.pause()
            task.resume()
        stood = counter.n
        while counter.n <= stood:
            await bursar.checkpoint()

    play(go, moves)


def test_its_slot_is_for_others_meanwhile(go):
    """One CPU, and whoever stands does not use it."""
    counters = [Counter() for _ in range(3)]

    async def main():
        async with nursery(admission=Authority(resources={"cpu": 1})) as n:
            tasks = [await paused(n, counter) for counter in counters]  # each begins after the one before has stood
            assert await n.spawn(len, "abc") == 3
            for task, counter in zip(tasks, counters, strict=True):
                counter.end = True
                task.resume()
        return [task.result for task in tasks]

    assert go(main) == ["done"] * 3


def test_its_checkpoint_costs_nothing_while_it_stands(go):
    counter = Counter()

    async def main():
        async with nursery() as n:
            task = await paused(n, counter)
            await settled()
            counter.end = True
            task.resume()
        return task.spent.ops - 1 - counter.n

    assert go(main) == 0


def test_pause_tells_the_truth_when_it_ended_first(pool):
    begun, go_on = threading.Event(), threading.Event()

    def ends(checkpoint: Checkpoint):
        begun.set()
        assert go_on.wait(WAIT_S)

    async def main():
        async with nursery() as n:
            task = n.spawn(ends)
            while not begun.is_set():
                await bursar.checkpoint()
            pausing = task.pause(WAIT_S)
            go_on.set()
            assert await pausing is False
            return task.outcome.kind

    assert pool(main) is OutcomeKind.OK


def test_no_checkpoint_in_time_cancels_it_and_says_so(pool):
    begun, go_on = threading.Event(), threading.Event()

    def deaf():
        begun.set()
        assert go_on.wait(WAIT_S)

    async def main():
        async with nursery() as n:
            task = n.spawn(deaf)
            while not begun.is_set():
                await bursar.checkpoint()
            with pytest.raises(PauseTimeout):
                await task.pause(timeout=0.001)
            assert task.outcome is None  # its thread has not left
            assert "its thread has not left yet" in task.explain().reason
            go_on.set()
        return task.outcome.kind

    assert pool(main) is OutcomeKind.CANCELLED


def test_three_threads_at_one_task(pool):
    """They pause, resume and at last cancel it, at once and in any order: it ends, and so does everything."""
    counter = Counter()

    def hammer(p, what):
        for _ in range(100):
            p.call(what)

    async def main():
        async with nursery() as n:
            task = n.spawn(counter)
            await begun(counter)
            async with nursery() as hands:
                with bursar.portal(hands) as p:
                    hammers = [hands.spawn(hammer, p, what) for what in (task.pause, task.resume, task.pause)]
                    for one in hammers:
                        await one
            task.cancel()
        return task.outcome.kind

    assert pool(main) is OutcomeKind.CANCELLED
    assert counter.told is not None


def test_cancelling_it_ends_it_where_it_stands(go):
    counter = Counter()

    async def main():
        async with nursery() as n:
            task = await paused(n, counter)
            stood = counter.n
            task.cancel("enough")
        assert counter.n == stood
        return task.outcome

    outcome = go(main)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert counter.told == "user: enough"


def left_standing(go, error, leave=lambda: None):
    """The run ends in `error` while it stands: it does not go on, and it is told why. Returns what it is told."""
    counter = Counter()

    async def main():
        async with nursery() as n:
            main.task = await paused(n, counter)
            main.stood = counter.n
            leave()

    with pytest.raises(error):
        go(main)
    assert counter.n == main.stood
    assert main.task.outcome.kind is OutcomeKind.CANCELLED
    return counter.told


def test_the_end_of_a_nursery_does_not_let_it_go_on(go):
    def leave():
        raise KeyError("lost")

    assert "KeyError" in left_standing(go, ExceptionGroup, leave)


def test_nor_does_the_end_of_the_run(go):
    assert left_standing(go, bursar.TaskCancelled, lambda: go.runtime.cancel("shut down")) is not None


def test_if_nobody_will_resume_it_that_is_a_deadlock(go):
    assert left_standing(go, Deadlock) is not None


def test_virtual_time_passes_while_it_stands(go):
    async def moves(task, counter):
        assert await task.pause(WAIT_S) is True
        await bursar.sleep(10)
        return await bursar.now()

    assert play(go, moves, clock="virtual") == 10


def test_a_paused_function_is_replayed_where_it_stood(scheduler, tmp_path):
    """How far it came, each time that it stood, is a function of the trace."""
    seen = []

    def counts(p, event, counter, checkpoint: Checkpoint):
        while not counter.end:
            checkpoint()
            counter.n += 1
            if counter.n == 5:
                p.call(event.set)

    async def main():
        counter, event, stood = Counter(), bursar.Event(), []
        async with nursery() as n:
            with bursar.portal(n) as p:
                task = n.spawn(counts, p, event, counter)
                await event.wait()
            for _ in range(3):
                assert await task.pause(WAIT_S) is True
                stood.append(counter.n)
                task.resume()
            assert await task.pause(WAIT_S) is True
            task.cancel()
        seen.append(stood)

    path = tmp_path / "run.trace"
    bursar.Runtime(record=path).run(main)
    verify(Trace(path))
    for _ in range(2):
        replay(Trace(path), main)
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] >= 5


def test_asked_to_stop_while_it_stands_it_leaves_at_once_and_counts_until_it_has_left():
    """Whoever has its place now need not end first. But one that ignores the request keeps others from coming in."""
    hands = ManualGate(Authority(max_concurrent=1, resources={"cpu": 1}))
    stubborn, other = hands.spawn("stubborn", plain=True), hands.spawn("other")
    third = hands.spawn("third", plain=True)
    hands.do(stubborn.pause)
    hands.tell(stubborn, "ignore")
    assert stubborn.state is State.PAUSED
    assert other.state is State.BLOCKED  # at work, in the place of the first one
    hands.do(stubborn.cancel)
    assert stubborn.state is State.BLOCKED
    assert "was asked to stop" in stubborn.explain().reason
    hands.tell(other, "end")
    assert third.state is State.PENDING
    assert "needs one of 1 slots, all taken by: 'stubborn'" in str(third.explain())
    hands.tell(stubborn, "end")
    assert stubborn.outcome.kind is OutcomeKind.CANCELLED
    assert third.state is State.BLOCKED
    hands.finish()


def test_asked_to_stop_while_it_waits_to_go_on_it_leaves_at_once():
    hands = ManualGate(Authority(max_concurrent=1))
    first, other = hands.spawn("first", plain=True), hands.spawn("other")
    hands.do(first.pause)
    hands.tell(first, "ignore")
    hands.do(first.resume)
    assert first.explain().admission.state == "returning"
    hands.do(first.cancel)
    assert first.explain().admission.state == "admitted"
    hands.tell(first, "checkpoint")
    assert first.outcome.kind is OutcomeKind.CANCELLED
    assert other.outcome is None
    hands.finish()
