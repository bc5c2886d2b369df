"""Async generators: closed in their own runtime, in order, also when a task forgets one half way."""

import contextlib
import gc
import sys
import threading

import pytest
from support.law import check

import bursar
from bursar import Runtime, nursery, sleep


def generators(log):
    async def numbers(name):
        try:
            for i in range(10):
                yield i
                await bursar.checkpoint()
        finally:
            await sleep(1)
            log.append(name)

    return numbers


def run(main, *args, **keywords):
    runtime = Runtime(clock="virtual", **keywords)
    value = runtime.run(main, *args)
    check(runtime.kernel)
    return value


def test_a_generator_that_is_used_up_closes_itself():
    log = []

    async def main():
        return [i async for i in generators(log)("a")]

    assert run(main) == list(range(10))
    assert log == ["a"]


def test_one_that_is_abandoned_half_way_is_closed_and_its_cleanup_may_await():
    log = []

    async def main():
        async for i in generators(log)("a"):
            if i == 3:
                break
        await sleep(5)
        return list(log)

    assert run(main) == ["a"]


def test_one_that_is_still_held_is_closed_at_the_end_of_the_run():
    log = []
    kept = []

    async def main():
        numbers = generators(log)("kept")
        kept.append(numbers)
        await numbers.__anext__()
        return list(log)

    assert run(main) == []
    assert log == ["kept"]


@pytest.mark.parametrize("workers", [1, 3])
def test_several_are_closed_in_the_order_of_their_first_iteration(workers):
    log = []
    kept = []

    async def numbers(name):
        try:
            yield 1
        finally:
            log.append(name)
            await sleep(1)

    async def main():
        made = [numbers(name) for name in "abcd"]
        kept.extend(made)
        for i in (2, 0, 3, 1):
            await made[i].__anext__()

    run(main, workers=workers)
    assert log == ["c", "a", "d", "b"]


def test_for_one_that_is_held_and_used_up_nobody_is_spawned():
    """How long it is held is the collector's affair, and must not show in the schedule."""
    held = []

    async def main(keep):
        generator = generators([])("a")
        if keep:
            held.append(generator)
        assert [i async for i in generator] == list(range(10))

    def fingerprint(keep):
        runtime = Runtime(clock="virtual")
        runtime.run(main, keep)
        return runtime.fingerprint

    assert fingerprint(True) == fingerprint(False)


def test_one_that_was_never_iterated_needs_no_closing():
    log = []
    kept = []

    async def main():
        kept.append(generators(log)("never"))

    run(main)
    assert log == []


def test_one_in_a_cycle_is_closed_when_the_collector_finds_it():
    log = []

    async def main():
        numbers = generators(log)("cycle")
        cycle = [numbers]
        cycle.append(cycle)
        await numbers.__anext__()
        del numbers, cycle
        gc.collect()
        await sleep(5)
        return list(log)

    assert run(main) == ["cycle"]


def test_a_cleanup_that_makes_another_generator_is_closed_too():
    log = []
    kept = []

    async def outer():
        try:
            yield 1
        finally:
            inner = generators(log)("inner")
            kept.append(inner)
            await inner.__anext__()
            log.append("outer")

    async def main():
        numbers = outer()
        kept.append(numbers)
        await numbers.__anext__()

    run(main)
    assert log == ["outer", "inner"]


def test_an_error_in_the_cleanup_of_an_abandoned_generator_is_reported():
    async def numbers():
        try:
            yield 1
        finally:
            raise ValueError("in the cleanup")

    async def main():
        async for _ in numbers():
            break
        await sleep(1)

    runtime = Runtime(clock="virtual")
    runtime.run(main)
    (report,) = runtime.reports
    assert "numbers" in report.detail
    assert "in the cleanup" in report.detail


def test_generators_are_closed_when_the_program_failed_or_was_cancelled():
    log = []
    kept = []

    async def main(error):
        numbers = generators(log)("x")
        kept.append(numbers)
        await numbers.__anext__()
        raise error

    with pytest.raises(KeyError):
        run(main, KeyError())
    assert log == ["x"]


def test_cancelling_a_task_inside_a_generator_runs_the_generators_cleanup():
    log = []

    async def numbers():
        try:
            yield 1
            await sleep(100)
        finally:
            log.append("closed")

    async def child():
        async for _ in numbers():
            pass

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()

    run(main)
    assert log == ["closed"]


def test_the_hooks_are_given_back_and_nested_runs_keep_their_own():
    log = []

    async def inner():
        async for _ in generators(log)("inner"):
            break

    async def main():
        mine = sys.get_asyncgen_hooks()
        run(inner)
        assert log == ["inner"]
        assert sys.get_asyncgen_hooks() == mine
        async for _ in generators(log)("outer"):
            break

    before = sys.get_asyncgen_hooks()
    run(main)
    assert sys.get_asyncgen_hooks() == before
    assert log == ["inner", "outer"]


def test_with_a_dry_purse_it_is_counted_that_nobody_could_close_it():
    log = []
    kept = []

    async def main():
        numbers = generators(log)("x")
        kept.append(numbers)
        await numbers.__anext__()

    runtime = Runtime(clock="virtual", budget=bursar.Budget(spawns=1))
    runtime.run(main)
    assert runtime.statistics().counters["asyncgen_unclosed"] == 1
    check(runtime.kernel)


def test_generators_that_ran_to_their_end_are_forgotten():
    async def short():
        yield 1

    async def main():
        for _ in range(1000):
            async for _ in short():
                pass

    runtime = Runtime(clock="virtual")
    runtime.run(main)
    assert len(runtime._generators._live) < 200


def test_the_collector_of_another_thread_only_leaves_a_note():
    runtime = Runtime(clock="virtual")

    spawned_in = []

    async def numbers(log):
        try:
            yield 1
        finally:
            await bursar.checkpoint()
            log.append("closed")

    async def main():
        log = []
        generator = numbers(log)
        await generator.__anext__()
        cycle = [generator]
        cycle.append(cycle)
        spawn = runtime.kernel.spawn_tidying

        def watched(owner, name):
            spawned_in.append(threading.get_ident())
            return spawn(owner, name)

        runtime.kernel.spawn_tidying = watched
        del generator, cycle
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        await bursar.sleep(1)
        return log

    assert runtime.run(main) == ["closed"]
    assert spawned_in == [threading.get_ident()]


# ---- a task that is cancelled or fails


def cycle(generator):
    kept = []
    kept.append((kept, generator))
    return kept


async def by_name(g):
    async for _ in g:
        await sleep(100)


async def in_a_cycle(g):
    kept = cycle(g)
    async for _ in g:
        await sleep(100)
    del kept


async def with_its_error(g):
    try:
        await by_name(g)
    except BaseException as error:
        kept = error  # a cycle: the traceback of the error refers to this frame
        raise
    del kept


async def failing(g):
    kept = cycle(g)
    async for _ in g:
        try:
            await sleep(100)
        except bursar.Cancelled:
            raise ValueError("failed") from None
    del kept


async def below(g):
    async with nursery() as n:
        n.spawn(sleep, 100)
        await in_a_cycle(g)


async def cut(g):
    kept = cycle(g)
    async for _ in g:
        for _ in range(100):
            with contextlib.suppress(bursar.Cancelled):
                await sleep(100)
    del kept


STOPPED = [by_name, in_a_cycle, with_its_error, failing, below, cut]


@pytest.mark.parametrize("collecting", ["never", "often"])
@pytest.mark.parametrize("body", STOPPED)
def test_a_task_that_is_stopped_closes_its_generators_without_the_collector(body, collecting):
    """ASYNCGEN-1. The fingerprint does not depend on the collector."""
    log = []

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            n.spawn(body, generators(log)("a"))
            n.spawn(body, generators(log)("b"))
            await sleep(0.5)
            n.cancel()
            await sleep(0)
        log.append("left")

    def once():
        log.clear()
        runtime = Runtime(clock="virtual", cleanup=bursar.Cleanup(ops=50, seconds=5))
        with contextlib.suppress(ExceptionGroup):
            runtime.run(main)
        return runtime.fingerprint, [entry for entry in log if entry != "left"]

    before = gc.get_threshold()
    gc.disable()
    try:
        expected = once()
        if collecting == "often":
            gc.enable()
            gc.set_threshold(1)
        found = once()
    finally:
        gc.set_threshold(*before)
        gc.enable()
    assert found == expected
    assert sorted(found[1]) == ["a", "b"]


def test_several_generators_of_a_stopped_task_are_closed_in_the_order_of_their_first_iteration():
    log = []

    async def child():
        numbers = generators(log)
        three, one, two = numbers("three"), numbers("one"), numbers("two")
        for g in (one, two, three):
            await anext(g)
        await sleep(100)

    async def main():
        async with nursery() as n:
            n.spawn(child)
            await sleep(1)
            n.cancel()

    run(main)
    assert log == ["one", "two", "three"]


def test_a_generator_of_a_task_that_returned_goes_on():
    log = []

    async def child():
        g = generators(log)("a")
        await anext(g)
        return g

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
        return await anext(task.result), list(log)

    assert run(main) == (1, [])
    assert log == ["a"]
