"""Functions on threads leave evidence that is lawful, and run again in a replay, with the same outcome."""

import pytest
from support.evidence import Trace, replay, verify

import bursar
from bursar import Budget, Checkpoint, Runtime, nursery


def double(x):
    return 2 * x


def pays(ops, checkpoint: Checkpoint):
    for i in range(ops):
        checkpoint(i / ops)
    return ops


def again(path, fn, *args, **keywords):
    """Record a run, verify it, replay it twice; returns what it returned."""
    runtime = Runtime(record=path, **keywords)
    value = error = None
    try:
        value = runtime.run(fn, *args)
    except Exception as raised:
        error = raised
    verify(Trace(path))
    for _ in range(2):
        done = replay(Trace(path), fn, *args)
        assert done.value == value
        assert type(done.error) is type(error)
        assert done.fingerprint == runtime.fingerprint
    return value


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.trace"


def test_values(scheduler, path):
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(double, x) for x in range(20)]
        return [task.result for task in tasks]

    assert again(path, main) == [2 * x for x in range(20)]


def test_values_in_virtual_time(scheduler, path):
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(double, x) for x in range(5)]
            await bursar.sleep(1)
        return [task.result for task in tasks], await bursar.now()

    assert again(path, main, clock="virtual") == ([0, 2, 4, 6, 8], 1)


def test_the_order_in_which_they_ended(scheduler, path):
    """Several take different times; who was first is on record."""

    async def main():
        order = []

        async def one(x):
            async with nursery() as n:
                order.append(await n.spawn(pays, (x * 7919) % 1000))

        async with nursery() as n:
            for x in range(8):
                n.spawn(one, x)
        return order

    again(path, main)


def test_what_they_pay(scheduler, path):
    async def main():
        async with nursery(cancel_on_failure=False) as n:
            tasks = [n.spawn(pays, 100, budget=Budget(ops=500)), n.spawn(pays, 50), n.spawn(pays, 150)]
        return [task.spent.ops for task in tasks]

    assert again(path, main, budget=Budget(ops=10_000)) == [101, 51, 151]


def test_a_dry_purse(scheduler, path):
    async def main():
        async with nursery() as n:
            n.spawn(pays, 1000, budget=Budget(ops=300))

    again(path, main)


def test_failures(scheduler, path):
    async def main():
        async with nursery() as n:
            n.spawn(int, "no number")
            n.spawn(pays, 1000)

    again(path, main)


def test_where_it_was_asked_to_stop(scheduler, path):
    """It counts how far it came, and comes as far again."""
    counts = []

    def works(p, event, checkpoint: Checkpoint):
        n = 0
        try:
            while True:
                checkpoint()
                n += 1
                if n == 10:
                    p.call(event.set)
        finally:
            counts.append(n)

    async def main():
        event = bursar.Event()
        async with nursery(budget=Budget(ops=10_000_000)) as n:
            with bursar.portal(n) as p:
                task = n.spawn(works, p, event)
                await event.wait()
            task.cancel("enough")
        return str(task.outcome.reason), task.spent.ops

    again(path, main)
    assert counts[0] == counts[1] == counts[2] >= 10


def test_it_is_not_called_again_if_it_was_not_called_then(scheduler, path):
    called = []

    async def main():
        async with nursery() as n:
            n.spawn(called.append, "called")
            n.cancel()

    again(path, main)
    assert called == []


def test_nor_if_it_was_too_late_for_its_turn(monkeypatch, path):
    monkeypatch.setenv("BURSAR_SCHEDULER", "simple")
    called = []

    async def main():
        async with nursery() as n:
            n.spawn(called.append, "called")
            await bursar.checkpoint()
            n.cancel()

    again(path, main)
    assert called == []
