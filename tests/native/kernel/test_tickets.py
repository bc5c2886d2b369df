"""What the collector knows of permits (TICKET-1, TICKET-2): little, and nothing is lost by that."""

import gc
import weakref

import pytest
from support.admission import ShortageRecord, TicketState
from support.builds import needs_fast_paths
from support.kernel import NATIVE, Ticket
from support.requests import start

import bursar

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)


class Mark:
    """Part of a ring, whose end is seen."""

    holds = None


def ticket_of(task):
    return task._inside(task._kernel).ticket


async def waits(event, *_):
    await event.wait()


@needs_fast_paths
def test_a_ticket_is_hidden_while_its_task_lives_and_when_it_is_settled():
    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            first = n.spawn(waits, event)
            tasks = [n.spawn(waits, event) for _ in range(3)]
            after = n.spawn(waits, event, after=[first])
            await bursar.checkpoint()
            tickets = [ticket_of(task) for task in (first, *tasks, after)]
            assert [ticket.state.name for ticket in tickets] == ["ADMITTED", *3 * ["QUEUED"], "WAITING"]
            assert not any(map(gc.is_tracked, tickets))
            event.set()
        assert {ticket.state for ticket in tickets} == {TicketState.DONE}
        assert not any(map(gc.is_tracked, tickets))
        assert not any(gc.is_tracked(task._inside(task._kernel)) for task in (first, *tasks, after))
        assert all(ticket.gate is None for ticket in tickets)

    bursar.run(main, clock="virtual")


@needs_fast_paths
def test_what_a_settled_task_was_short_of_is_told_when_somebody_asks():
    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            n.spawn(waits, event)
            second = n.spawn(waits, event, name="second")
            await bursar.sleep(1)
            event.set()
        ticket = ticket_of(second)
        assert not gc.is_tracked(ticket)
        (note,) = ticket.reasons
        assert type(note) is ShortageRecord
        assert (note.since_ns, note.demand, note.taken, note.kept_for) == (0, ((0, 1),), (1,), "")
        assert ticket.reasons[0] is note
        assert gc.is_tracked(ticket)
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
            ticket_of(first).retry_of = mark  # something of its own
            mark.holds = (runtime, n, first, ticket_of(first), ticket_of(paused))

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


def test_a_ticket_that_outlives_its_task_is_tracked():
    runtime = bursar.Runtime(clock="virtual")
    kept = []

    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            event = bursar.Event()
            kept.append(ticket_of(n.spawn(waits, event)))
            event.set()

    runtime.run(main)
    gc.collect()
    (ticket,) = kept
    assert type(ticket) is Ticket
    assert gc.is_tracked(ticket)
