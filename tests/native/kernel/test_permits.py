"""What the collector knows of permits (TICKET-1, TICKET-2): little, and nothing is lost by that."""

import gc
import weakref

import pytest

import bursar
from bursar.backend import NATIVE, Permit
from bursar.law.admission.ticket import PermitState, Short
from bursar.ops.start import start

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)


class Mark:
    """Part of a ring, whose end is seen."""

    holds = None


def permit_of(task):
    return task.inside(task._kernel).permit


async def waits(event, *_):
    await event.wait()


def test_a_permit_is_hidden_while_its_task_lives_and_when_it_is_settled():
    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            first = n.spawn(waits, event)
            tasks = [n.spawn(waits, event) for _ in range(3)]
            after = n.spawn(waits, event, after=[first])
            await bursar.checkpoint()
            permits = [permit_of(task) for task in (first, *tasks, after)]
            assert [permit.state.name for permit in permits] == ["HELD", *3 * ["QUEUED"], "WAITS"]
            assert not any(map(gc.is_tracked, permits))
            event.set()
        assert {permit.state for permit in permits} == {PermitState.OVER}
        assert not any(map(gc.is_tracked, permits))
        assert not any(gc.is_tracked(task.inside(task._kernel)) for task in (first, *tasks, after))
        assert all(permit.gate is None for permit in permits)

    bursar.run(main, clock="virtual")


def test_what_a_settled_task_was_short_of_is_told_when_somebody_asks():
    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            n.spawn(waits, event)
            second = n.spawn(waits, event, name="second")
            await bursar.sleep(1)
            event.set()
        permit = permit_of(second)
        assert not gc.is_tracked(permit)
        (note,) = permit.reasons
        assert type(note) is Short
        assert (note.since_ns, note.demand, note.taken, note.kept_for) == (0, ((0, 1),), (1,), "")
        assert permit.reasons[0] is note
        assert gc.is_tracked(permit)
        (past,) = second.history
        assert past.reason.endswith("short of slot (needs 1, 1 of 1 taken)")

    bursar.run(main, clock="virtual")


def left_in_the_middle(mark):
    """A run that nobody goes on with while tasks wait at a gate: a ring goes through what they were given."""
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel

    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            first = n.spawn(waits, event, mark)
            n.spawn(waits, event, mark)
            n.spawn(waits, event, mark, after=[first])
            paused = n.spawn(waits, event, mark)
            await bursar.checkpoint()
            paused.pause()
            permit_of(first).retry_of = mark  # something of its own
            mark.holds = (runtime, n, first, permit_of(first), permit_of(paused))

    task = kernel.spawn(kernel.root, name="main", pinned=True)
    start(task, main, ())
    while (running := kernel.step()) is not None:
        runtime.driver.poll(running)
        kernel.step_over(running)
    assert len(kernel.tasks) == 5


def test_a_ring_through_those_who_wait_is_found():
    mark = Mark()
    left_in_the_middle(mark)
    seen = weakref.ref(mark)
    del mark
    for _ in range(3):  # what a destructor of the first round gives up, the next one finds
        gc.collect()
    assert seen() is None


def test_a_permit_that_outlives_its_task_is_tracked():
    runtime = bursar.Runtime(clock="virtual")
    kept = []

    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            kept.append(permit_of(n.spawn(waits, event)))
            event.set()

    runtime.run(main)
    gc.collect()
    (permit,) = kept
    assert type(permit) is Permit
    assert gc.is_tracked(permit)
