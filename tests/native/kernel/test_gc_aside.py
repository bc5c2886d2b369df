"""Records that the collector does not visit during a run are found as soon as they could be garbage.

A run that is driven from the stack keeps the parts of live tasks aside (`native/python/cpython/gc_aside.c`). Most tests
here make a reference cycle through such a record during a run, and check that the collector finds it. The others check
that the collector does not visit the parts of live tasks.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
import weakref

import pytest
from support.builds import needs_fast_paths
from support.hosts import VirtualHost
from support.kernel import NATIVE

import bursar
from bursar import HostLost

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)

from bursar import _native

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
IN_INCREMENTS = (3, 14) <= sys.version_info < (3, 14, 5)  # this collector has no such lists
RINGS = not FREE_THREADED and not IN_INCREMENTS and sys.version_info < (3, 15)
RINGS = RINGS and _native.build_info()["private_layouts"]


class Mark:
    """An object with attributes, to which a weak reference can be made."""


def run(main, *args):
    return bursar.Runtime(clock="virtual").run(main, *args)


def found(seen):
    """Whether the collector has found the object of the weak reference `seen`."""
    for _ in range(3):  # a destructor may make more garbage, which the next collection finds
        gc.collect()
    return seen() is None


async def wait(event, *_):
    await event.wait()


PARTS = ("Task", "Nursery", "CancelScope", "NurseryBlock", "coroutine")


def tracked_parts():
    """How many parts of live tasks the collector visits, by type."""
    kinds = [type(thing).__name__ for thing in gc.get_objects()]
    return {name: kinds.count(name) for name in PARTS}


# ---- during a run


@pytest.mark.skipif(not RINGS, reason="this collector keeps no rings, or this build does not use them")
@needs_fast_paths
def test_the_collector_does_not_visit_live_tasks():
    async def family(event):
        async with bursar.nursery() as nursery:
            nursery.spawn(wait, event)

    async def main():
        event = bursar.Event()
        async with bursar.nursery() as nursery:
            await bursar.checkpoint()
            gc.collect()  # garbage of earlier tests must not be freed while this test counts
            before = tracked_parts()
            handles = [nursery.spawn(family, event) for _ in range(50)]
            await bursar.sleep(1)
            assert tracked_parts() == before
            event.set()
        assert all(handle.result is None for handle in handles)
        assert tracked_parts() == before

    run(main)


def test_records_aside_are_tracked_again_after_the_run():
    async def main():
        async with bursar.nursery() as nursery:
            kept.append(nursery)
            await bursar.Event().wait()

    kept = []
    with pytest.raises(bursar.Deadlock):
        run(main)
    assert any(thing is kept[0] for thing in gc.get_objects())


@pytest.mark.parametrize("result", [None, 7, "text"])
def test_a_task_with_a_plain_end_is_freed_with_its_handle(result):
    async def gives(_mark):
        return result

    async def main():
        mark = Mark()
        seen = weakref.ref(mark)
        async with bursar.nursery() as nursery:
            mark.handle = nursery.spawn(gives, mark)  # a cycle while the task lives
            del mark
            assert not found(seen)
            await bursar.checkpoint()
            assert found(seen)

    run(main)


# ---- cycles that become garbage during a run


def test_a_result_that_holds_its_own_handle():
    async def gives(mark):
        return mark

    async def main():
        mark = Mark()
        seen = weakref.ref(mark)
        async with bursar.nursery() as nursery:
            mark.handle = nursery.spawn(gives, mark)
            del mark
            await bursar.checkpoint()
            assert found(seen)

    run(main)


def test_an_error_whose_frames_hold_the_handle():
    async def fails(mark):
        raise ValueError("on purpose")

    async def main():
        mark = Mark()
        seen = weakref.ref(mark)
        with pytest.raises(ExceptionGroup):
            async with bursar.nursery() as nursery:
                mark.handle, mark.nursery = nursery.spawn(fails, mark), nursery
        del mark, nursery
        assert found(seen)

    run(main)


def test_a_nursery_whose_failure_leads_back_to_it():
    class Leads(Exception):
        pass

    async def fails(error):
        raise error

    async def main():
        error = Leads()
        seen = weakref.ref(error)
        try:
            async with bursar.nursery() as nursery:
                error.nursery = nursery
                nursery.spawn(fails, error)
        except* Leads:
            pass
        del error, nursery
        assert found(seen)

    run(main)


def test_a_nursery_that_was_cancelled():
    async def main():
        mark = Mark()
        seen = weakref.ref(mark)
        event = bursar.Event()
        async with bursar.nursery() as nursery:
            mark.nursery, mark.handle = nursery, nursery.spawn(wait, event, mark)
            await bursar.checkpoint()
            nursery.cancel("enough")
        del nursery, mark
        assert found(seen)

    run(main)


def test_a_nursery_block_that_holds_the_error_thrown_into_its_exit():
    class Thrown(Exception):
        pass

    async def main():
        error = Thrown()
        seen = weakref.ref(error)
        block = bursar.nursery()
        await block.__aenter__()
        error.leaving = block.__aexit__(None, None, None)
        with pytest.raises(Thrown):
            error.leaving.throw(error)
        del error, block
        assert found(seen)

    run(main)


def test_a_coroutine_that_outlives_its_task_is_tracked_again():
    async def main():
        event = bursar.Event()
        async with bursar.nursery() as nursery:
            handle = nursery.spawn(wait, event)
            await bursar.checkpoint()
            coroutine = handle._record.work
            event.set()
        assert any(thing is coroutine for thing in gc.get_objects())

    run(main)


# ---- runs that are dropped


class Leaves(VirtualHost):
    """A host whose loop returns after some batches."""

    def run_until(self, over):
        batches = iter(range(3))
        super().run_until(lambda: over() or next(batches, None) is None)


def test_a_run_that_is_left_in_the_middle():
    async def main(mark):
        event = bursar.Event()
        async with bursar.nursery() as nursery:
            mark.handle = nursery.spawn(wait, event, mark)
            while True:
                await bursar.checkpoint()

    mark = Mark()
    seen = weakref.ref(mark)
    with pytest.raises(HostLost):
        bursar.Runtime(host=Leaves()).run(main, mark)
    del mark
    assert found(seen)
