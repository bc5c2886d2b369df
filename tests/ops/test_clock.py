"""Time as a task sees it: sleeping, the clock of the run, and the spans that make sense."""

import re

import pytest
from support.law import SECONDS_MAX, TIME_END_NS

import bursar
from bursar import nursery, sleep, sleep_until


def test_the_clock_starts_at_nothing_and_moves_by_what_was_slept(run):
    async def main():
        times = [await bursar.now()]
        for seconds in (1, 0.5, 3600):
            await sleep(seconds)
            times.append(await bursar.now())
        return times

    assert run(main) == [0.0, 1.0, 1.5, 3601.5]


def test_sleepers_wake_in_the_order_of_their_deadlines(run):
    order = []

    async def sleeper(seconds):
        await sleep(seconds)
        order.append(seconds)

    async def main():
        async with nursery() as n:
            for seconds in (5, 1, 4, 2, 3):
                n.spawn(sleeper, seconds)

    run(main)
    assert order == [1, 2, 3, 4, 5]


def test_sleepers_of_the_same_instant_wake_in_the_order_in_which_they_lay_down(run):
    order = []

    async def sleeper(i):
        await sleep(1)
        order.append(i)

    async def main():
        async with nursery() as n:
            for i in range(10):
                n.spawn(sleeper, i)

    run(main)
    assert order == list(range(10))


def test_a_sleep_of_no_length_gives_way_once(run):
    order = []

    async def child(name):
        for _ in range(2):
            order.append(name)
            await sleep(0)

    async def main():
        async with nursery() as n:
            n.spawn(child, "a")
            n.spawn(child, "b")
        return await bursar.now()

    assert run(main) == 0.0
    assert order == ["a", "b", "a", "b"]


def test_sleep_until_is_absolute_and_what_is_past_gives_way(run):
    async def main():
        await sleep(5)
        await sleep_until(8)
        first = await bursar.now()
        await sleep_until(3)
        return first, await bursar.now()

    assert run(main) == (8.0, 8.0)


def test_time_goes_on_to_the_end_of_the_clock(run):
    async def main():
        for _ in range(10):
            await bursar.sleep(SECONDS_MAX)
        return await bursar.now()

    assert run(main) == TIME_END_NS / 1e9


def test_what_would_be_due_after_the_end_of_the_clock_is_due_then(run):
    async def main():
        for _ in range(9):
            await bursar.sleep(SECONDS_MAX)
        with pytest.raises(TimeoutError):
            async with bursar.timeout(SECONDS_MAX):
                await bursar.Event().wait()
        await bursar.sleep(1)
        return await bursar.now()

    assert run(main) == TIME_END_NS / 1e9


def test_a_cancelled_sleep_leaves_no_alarm(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(sleeping)
            await bursar.checkpoint()
            task.cancel()
        return await bursar.now()

    async def sleeping():
        await sleep(1000)

    assert run(main) == 0.0


def test_sleeping_and_reading_the_clock_need_their_capabilities(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not sleep.*CapTimer"):
            await sleep(1)
        with pytest.raises(bursar.CapabilityDenied, match=r"may not read the clock.*CapClock"):
            await bursar.now()

    run(main, capabilities=[])


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf"), -float("inf"), 2e9])
@pytest.mark.parametrize("function", [sleep, sleep_until])
def test_a_span_must_make_sense(function, seconds):
    with pytest.raises(ValueError, match=r"must be between 0 and 1e\+09 seconds"):
        function(seconds)


@pytest.mark.parametrize("seconds", ["1", None, [1], 1j])
@pytest.mark.parametrize("function", [sleep, sleep_until])
def test_a_span_must_be_a_number(function, seconds):
    with pytest.raises(TypeError, match=re.escape(f"({seconds!r}): give the seconds as a number")):
        function(seconds)
