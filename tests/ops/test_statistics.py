"""`runtime.statistics().admission`: what the gates have done, and who stands at them."""

import pytest
from support.gated import fails, nap, watched

import bursar
from bursar import Authority, Retry


def run(main, **keywords):
    with watched(**keywords) as runtime:
        runtime.run(main, runtime)
        return runtime.statistics().admission


def test_who_stands_where():
    async def main(runtime):
        async with bursar.nursery(admission=Authority(max_concurrent=2)) as n:
            first, paused = n.spawn(nap, 5.0), n.spawn(nap, 5.0)
            for priority in (100, 50, 50, 10):
                n.spawn(nap, 5.0, priority=priority)
            n.spawn(nap, after=[first])
            await bursar.checkpoint()
            told = runtime.statistics().admission
            assert (told.entered, told.admitted, told.waiting, told.held, told.lent) == (7, 2, 1, 2, 0)
            assert told.queued == {"100": 1, "50": 2, "10": 1}
            await paused.pause()
            told = runtime.statistics().admission
            assert (told.held, told.lent, told.paused, told.admitted) == (2, 1, 1, 3)
            paused.resume()

    told = run(main)
    assert (told.entered, told.admitted, told.waiting, told.held, told.lent) == (7, 7, 0, 0, 0)
    assert told.queued == {}


def test_drops_by_their_cause():
    async def main(runtime):
        async with bursar.nursery(
            admission=Authority(max_concurrent=1, max_queue=2, max_wait=0.5), on_drop="record"
        ) as n:
            n.spawn(nap)
            n.spawn(nap)
            by_hand = n.spawn(nap)
            n.spawn(nap)
            by_hand.drop()

    told = run(main)
    assert told.dropped == {"queue": 1, "wait": 1, "explicit": 1}
    assert (told.wait_max, told.wait_mean) == (0.5, 0.125)  # of four tasks, one waited, and was dropped


def test_waiting_times():
    async def main(runtime):
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            for _ in range(3):
                n.spawn(nap)
            await bursar.sleep(1.5)
            assert runtime.statistics().admission.wait_max == 1.5

    told = run(main)
    assert told.wait_max == 2.0
    assert told.wait_mean == pytest.approx(1.0)


def test_starvation():
    async def main(runtime):
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(nap)
            n.spawn(nap, priority=10)
            n.spawn(nap, priority=100)
            await bursar.sleep(1.5)
            now = runtime.statistics().admission
            assert (now.starved, now.starved_max) == (1, 0.5)

    told = run(main)
    assert (told.starved, told.starved_max) == (1, 1.0)


def test_retries():
    async def main(runtime):
        try:
            async with bursar.nursery() as n:
                n.spawn(fails, retry=Retry(3))
        except ExceptionGroup:
            pass

    assert run(main).retried == 3


def test_who_never_asked_is_not_counted():
    async def main(runtime):
        async with bursar.nursery() as n:
            free = n.spawn(nap)
            n.spawn(nap, after=[free])

    told = run(main)
    assert (told.entered, told.admitted) == (1, 1)


def test_a_gate_that_is_gone_is_counted_on():
    async def main(runtime):
        for _ in range(3):
            async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
                n.spawn(nap)
                n.spawn(nap)

    assert run(main).admitted == 6
