"""Pausing a native task: its function is paused at its next yield point, or where it waits, until it is resumed."""

from __future__ import annotations

import ctypes

import pytest
from support.evidence import Trace, verify
from support.evidence import replay_module as replays
from support.native import functions, meeting
from support.real_sockets import real, settled

import bursar
from bursar import Authority, Budget, Deadlock, OutcomeKind, PauseTimeout, State, native, nursery


class Rounds(ctypes.Structure):
    """The argument of a function that loops until the test sets `end`."""

    _fields_ = (("rounds", ctypes.c_int64), ("end", ctypes.c_int32), ("by_yields", ctypes.c_int32))


@pytest.fixture
def lib():
    return functions()


async def going(mine, more_than=0):
    while mine.rounds <= more_than:
        await bursar.checkpoint()


@pytest.mark.parametrize("by_yields", [0, 1])
def test_its_function_stands_and_goes_on(lib, by_yields):
    async def main():
        mine = Rounds(by_yields=by_yields)
        async with nursery() as n:
            task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            for _ in range(10):
                assert await task.pause() is True
                assert task.state is State.PAUSED
                assert task.explain().reason == "runs rounds on the native workers; is paused"
                stood = mine.rounds
                await settled()
                assert mine.rounds == stood
                task.resume()
                await going(mine, stood)
                assert task.state is State.BLOCKED
            mine.end = 1
        return task.result

    assert real(main) == 7


def test_one_that_waits_stands_where_it_does(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.park), there)
                await bursar.wait_readable(reader)
                assert await task.pause() is True
                assert (task.state, there.ended) == (State.PAUSED, 0)
                task.resume()
                assert await task.pause() is True
                task.cancel()
            return there.ended, task.outcome.kind

    assert real(main) == (-1, OutcomeKind.CANCELLED)


def test_paused_and_resumed_before_it_stood(lib):
    async def main():
        mine = Rounds()
        async with nursery() as n:
            task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            for _ in range(50):
                task.pause()
                task.resume()
            await going(mine, mine.rounds)
            assert await task.pause() is True
            stood = mine.rounds
            await settled()
            assert mine.rounds == stood
            task.resume()
            mine.end = 1
        return task.result

    assert real(main) == 7


def test_its_place_is_for_others_meanwhile(lib):
    async def main():
        functions = [Rounds() for _ in range(3)]
        async with nursery(admission=Authority(max_concurrent=1)) as n:
            tasks = []
            for mine in functions:  # each begins after the one before has stood
                tasks.append(n.spawn(native(lib.rounds), mine))
                await going(mine)
                assert await tasks[-1].pause() is True
            for mine, task in zip(functions, tasks, strict=True):
                mine.end = 1
                task.resume()
        return [task.result for task in tasks]

    assert real(main) == [7, 7, 7]


def test_pause_tells_the_truth_when_it_ended_first(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.deaf), there)
                await bursar.wait_readable(reader)
                pausing = task.pause()
                there.go = 1
                assert await pausing is False
            return task.result

    assert real(main) == 5


def test_a_task_that_does_more_stands_when_its_function_has_ended(lib):
    async def twice(there):
        return 2 * await native(lib.deaf)(there)

    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(twice, there)
                await bursar.wait_readable(reader)
                pausing = task.pause()
                there.go = 1
                assert await pausing is True
                await settled()
                assert task.state is State.PAUSED
                task.resume()
            return task.result

    assert real(main) == 10


def test_one_that_never_comes_to_a_yield_point_is_cancelled_and_explain_says_why(lib):
    async def main():
        with meeting() as (there, reader):
            async with nursery() as n:
                task = n.spawn(native(lib.deaf_at_first), there)
                await bursar.wait_readable(reader)
                pausing = task.pause(timeout=0.001)
                told = "runs deaf_at_first on the native workers, was asked to stand still and has not reached a point"
                assert told in task.explain().reason
                with pytest.raises(PauseTimeout):
                    await pausing
                assert task.outcome is None  # its function has not left
                assert "was asked to stop and has not left yet" in task.explain().reason
                there.go = 1
            return task.outcome.kind

    assert real(main) is OutcomeKind.CANCELLED


def test_cancelling_it_ends_it_where_it_stands(lib):
    async def main():
        mine = Rounds()
        async with nursery() as n:
            task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            assert await task.pause() is True
            stood = mine.rounds
            task.cancel("enough")
        return mine.rounds - stood, task.outcome.kind, task.outcome.reason.detail

    assert real(main) == (0, OutcomeKind.CANCELLED, "enough")


def test_one_that_holds_for_money_stands(lib):
    async def main():
        async with nursery(on_exhausted="hold") as n:
            task = n.spawn(native(lib.ticks), 9000, budget=Budget(ops=5000))
            await n.wait_exhausted()
            assert await task.pause() is True
            assert task.state is State.PAUSED
            n.recharge(task, Budget(ops=5000))
            await settled()
            assert task.state is State.PAUSED
            task.resume()
        return task.result

    assert real(main) == 9000


def test_it_stands_between_two_portions(lib):
    async def main():
        mine = Rounds()
        async with nursery(budget=Budget(ops=10**12)) as n:
            task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            for _ in range(10):
                assert await task.pause() is True
                stood = mine.rounds
                await settled()
                assert mine.rounds == stood
                task.resume()
                await going(mine, stood)
            mine.end = 1
        return task.result

    assert real(main) == 7


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_if_nobody_will_resume_it_that_is_a_deadlock(lib, clock):
    mine = Rounds()

    async def main():
        async with nursery() as n:
            main.task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            assert await main.task.pause() is True
            main.stood = mine.rounds

    with pytest.raises(Deadlock):
        real(main, clock=clock)
    assert mine.rounds == main.stood
    assert main.task.outcome.kind is OutcomeKind.CANCELLED


def test_virtual_time_passes_while_it_stands(lib):
    async def main():
        mine = Rounds()
        async with nursery() as n:
            task = n.spawn(native(lib.rounds), mine)
            await going(mine)
            assert await task.pause() is True
            await bursar.sleep(10)
            task.resume()
            mine.end = 1
        return await bursar.now()

    assert real(main, clock="virtual") == 10


async def stops_and_goes(lib, mine):
    async with nursery(budget=Budget(ops=10**12)) as n:
        task = n.spawn(native(lib.rounds), mine)
        parked = n.spawn(native(lib.park_quietly))
        for _ in range(3):
            assert await task.pause() is True
            task.resume()
        assert await parked.pause() is True
        mine.end = 1
        await task
        parked.resume()
        parked.cancel()
    return task.result, parked.outcome.kind


def test_it_is_on_record_and_a_replay_stands_there_too(lib, tmp_path):
    path = tmp_path / "run.trace"
    runtime = bursar.Runtime(record=path)
    assert runtime.run(stops_and_goes, lib, Rounds()) == (7, OutcomeKind.CANCELLED)
    verify(Trace(path))
    replayed = replays.replay(Trace(path), stops_and_goes, lib, Rounds())
    assert replayed.fingerprint == runtime.fingerprint
    assert replayed.value == (7, OutcomeKind.CANCELLED)
