"""Replay of guests in asyncio: the asyncio part runs again, and its results are delivered at the recorded moments."""

from __future__ import annotations

import asyncio

import pytest
from support.evidence import Trace
from support.evidence import replay_module as plain
from support.hosts import from_asyncio

import bursar
from bursar.asyncio import run
from bursar.evidence.replay import replay_asyncio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.trace"


def record(path, fn, *args, **keywords):
    async def start():
        return await run(fn, *args, record=path, **keywords)

    return asyncio.run(start())


def replay(path, fn, *args):
    async def start():
        return await replay_asyncio.replay(Trace(path), fn, *args)

    return asyncio.run(start())


async def turns(n):
    for _ in range(n):
        await asyncio.sleep(0)
    return n


async def mixed():
    order = []

    async def one(n):
        await from_asyncio(turns(n))
        order.append(n)
        await bursar.sleep(0.001)
        order.append(await from_asyncio(turns(5)))

    async with bursar.nursery() as n:
        for k in (7, 3, 1, 5):
            n.spawn(one, k)
    return order


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_guest_does_the_same_again(path, workers, clock):
    value = record(path, mixed, workers=workers, clock=clock)
    replayed = replay(path, mixed)
    assert (replayed.value, replayed.error) == (value, None)
    assert replayed.events == sum(1 for _ in Trace(path).records())


def test_a_guest_that_asked_nothing_of_asyncio_needs_none(path):
    async def main():
        await bursar.sleep(0.001)
        return await bursar.now()

    value = record(path, main)
    assert plain.replay(Trace(path), main).value == value


def test_without_a_loop_of_asyncios_its_answers_are_refused(path):
    record(path, mixed)
    with pytest.raises(bursar.TraceError, match="replay_asyncio"):
        plain.replay(Trace(path), mixed)


def test_a_guest_that_was_cancelled_is_cancelled_again(path):
    async def main():
        async with bursar.nursery() as n:
            n.spawn(forever)
            begun.set()

    async def forever():
        try:
            await from_asyncio(asyncio.Event().wait())
        finally:
            await bursar.checkpoint()

    async def start():
        task = asyncio.ensure_future(run(main, record=path))
        await begun.wait()
        task.cancel()
        await task

    begun = asyncio.Event()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(start())
    replayed = replay(path, main)
    assert isinstance(replayed.error, bursar.TaskCancelled)


def test_a_changed_guest_diverges(path):
    async def main(n):
        await from_asyncio(turns(1))
        for _ in range(n):
            await bursar.checkpoint()

    record(path, main, 1)
    with pytest.raises(bursar.Divergence) as caught:
        replay(path, main, 2)
    assert caught.value.recorded.startswith("task_done(")


def test_what_asyncio_never_answers_is_a_divergence_and_no_hang(path, monkeypatch):
    async def main(silent):
        await from_asyncio(turns(10**9 if silent else 1))

    record(path, main, False)
    monkeypatch.setattr(plain, "PATIENCE_S", 0.05)
    with pytest.raises(bursar.Divergence, match="did not cause 'asyncio"):
        replay(path, main, True)


def test_a_replay_whose_asyncio_task_is_cancelled_ends(path):
    async def main():
        await from_asyncio(turns(3))

    record(path, main)

    async def start():
        task = asyncio.ensure_future(replay_asyncio.replay(Trace(path), main))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(start())
