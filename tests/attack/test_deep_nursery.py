"""Very deep families: ten thousand nurseries, each inside a task of the one before.

Nothing in the law recurses, so depth costs memory and no stack: opening, printing, cancelling, failing and closing work
at any depth, and cost so much a level, not more the deeper it is.
"""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from support.drive import HONEST_POLLS, Watch, bound, honest, over
from support.kernel import NATIVE
from support.law import cancel, check

import bursar
from bursar import Deadlock, OutcomeKind, Runtime

DEPTH = 10_000
DEPTH_SLOW = 100_000
BYTES_A_LEVEL_MAX = 20_000  # what one level may cost while it is being cancelled


async def descend(depth: int, bottom) -> int:
    if depth == 0:
        await bottom()
        return 0
    async with bursar.nursery() as n:
        below = n.spawn(descend, depth - 1, bottom)
    return below.result + 1


async def nothing() -> None:
    pass


async def for_ever() -> None:
    await bursar.sleep(1000)


def depths(test):
    slow = [pytest.mark.slow, pytest.mark.timeout(1800)]
    return pytest.mark.parametrize("depth", [DEPTH, pytest.param(DEPTH_SLOW, marks=slow)])(test)


@depths
def test_it_returns_from_the_bottom(depth):
    assert depth > sys.getrecursionlimit()
    rt = Runtime(clock="virtual")
    assert rt.run(descend, depth, nothing) == depth
    over(rt)


@depths
def test_its_tree_can_be_printed_and_checked(depth):
    rt = Runtime(clock="virtual")
    printed = []

    async def look():
        printed.append(rt.snapshot())
        check(rt.kernel)
        assert str((await bursar.current_task()).explain())

    rt.run(descend, depth, look)
    over(rt)
    assert len(printed[0].tasks) == depth + 1
    assert len(str(printed[0]).splitlines()) == 2 * depth + 3
    assert len(str(printed[0])) < 400 * depth


@depths
@pytest.mark.parametrize("how", ["nursery", "task", "sibling", "timeout"])
def test_it_is_cancelled_from_the_top(depth, how):
    """Each way of cancelling reaches the bottom, an honest task runs meanwhile, and all levels cost alike."""
    rt = Runtime(clock="virtual")
    watch = Watch(rt)

    async def fails():
        await bursar.sleep(1)
        raise ValueError("a sibling fails")

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as outer:
            try:
                async with bursar.timeout(1 if how == "timeout" else None), bursar.nursery() as n:
                    top = n.spawn(descend, depth, for_ever, name="top")
                    if how == "sibling":
                        n.spawn(fails)
                    await bursar.sleep(0.5)
                    if how == "sibling":
                        tracemalloc.start()
                    outer.spawn(waits_then_works, name="honest")
                    await bursar.sleep(0.5)
                    if how == "nursery":
                        n.cancel()
                    elif how == "task":
                        top.cancel()
            except* (ValueError, TimeoutError):
                pass
        return top.outcome.kind

    async def waits_then_works():
        await bursar.sleep(0.5)
        await honest()

    try:
        assert rt.run(main) is OutcomeKind.CANCELLED
        peak = tracemalloc.get_traced_memory()[1]  # 0 where it was not started: it makes everything slow
    finally:
        tracemalloc.stop()
    over(rt)
    assert peak <= BYTES_A_LEVEL_MAX * depth, f"{peak / depth:,.0f} bytes a level"
    assert rt.kernel.done[OutcomeKind.CANCELLED] >= depth
    assert watch.took("honest") <= bound(HONEST_POLLS + 1, 3)


def test_the_steps_to_cancel_grow_with_the_depth_and_not_with_its_square(monkeypatch):
    depth, steps = 4000, 0
    outward = cancel.outward

    def counted(task):
        nonlocal steps
        for scope in outward(task):
            steps += 1
            yield scope

    monkeypatch.setattr(cancel, "outward", counted)

    async def fails():
        await bursar.sleep(1)
        raise ValueError

    async def main():
        try:
            async with bursar.nursery() as n:
                n.spawn(descend, depth, for_ever)
                n.spawn(fails)
        except* ValueError:
            pass

    rt = Runtime(clock="virtual")
    rt.run(main)
    over(rt)
    assert rt.kernel.decisions <= 20 * depth
    assert NATIVE or depth <= steps <= 20 * depth  # the kernel in C does not take these steps in Python


@depths
def test_a_failure_at_the_bottom_comes_up_whole(depth):
    async def fails():
        raise ValueError("at the bottom")

    rt = Runtime(clock="virtual")
    with pytest.raises(ExceptionGroup) as caught:
        rt.run(descend, depth, fails)
    over(rt)
    error, levels = caught.value, 0
    del caught
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
        levels += 1
    assert levels == depth
    assert str(error) == "at the bottom"


def test_a_deadlock_at_the_bottom_is_reported_and_ends():
    rt = Runtime(clock="virtual")

    async def stuck():
        async with bursar.shield():
            await bursar.Event().wait()

    async def shielded(depth):
        async with bursar.shield():
            if depth == 0:
                await bursar.Event().wait()
            async with bursar.nursery() as n:
                n.spawn(shielded, depth - 1)

    with pytest.raises(Deadlock) as caught:
        rt.run(shielded, 2000)
    over(rt)
    assert len(caught.value.graph.splitlines()) == 2001
    assert rt.kernel.decisions <= 10 * 2001


def test_one_task_may_open_very_many_blocks():
    """Depth in one coroutine is Python's own affair; the law's list of scopes has no depth."""
    rt = Runtime(clock="virtual")

    async def main():
        blocks = []
        for i in range(2000):
            block = bursar.nursery() if i % 2 else bursar.timeout(1000)
            await block.__aenter__()
            blocks.append(block)
        for block in reversed(blocks):
            await block.__aexit__(None, None, None)
        return "out again"

    assert rt.run(main) == "out again"
    over(rt)
