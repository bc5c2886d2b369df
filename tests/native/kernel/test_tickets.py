"""The collector does not track most tickets (TICKET-1, TICKET-2), and still finds every cycle through them."""

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
    """A part of a cycle, to which a weak reference can be made."""

    holds = None


def ticket_of(task):
    return task._inside(task._kernel).ticket


async def waits(event, *_):
    await event.wait()


@needs_fast_paths
def test_a_ticket_is_untracked_while_its_task_lives_and_after_a_plain_end():
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
def test_the_shortage_of_an_ended_task_can_still_be_read():
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
        assert past.reason.endswith("because it lacked slot (needs 1, 1 of 1 taken)")

    bursar.run(main, clock="virtual")


def left_in_the_middle(mark):
    """Drop a run while tasks wait at a gate. A cycle goes through their arguments."""
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
            ticket_of(first).retry_of = mark  # a rare field: the ticket is no longer plain
            mark.holds = (runtime, n, first, ticket_of(first), ticket_of(paused))

    task = kernel.spawn(kernel.root, name="main", pinned=True)
    start(task, main, ())
    while (running := kernel.step()) is not None:
        runtime.driver.poll(running)
        kernel.step_over(running)
    assert len(kernel.tasks) == 5


def test_a_cycle_through_waiting_tasks_is_found():
    mark = Mark()
    left_in_the_middle(mark)
    seen = weakref.ref(mark)
    del mark
    for _ in range(3):  # a destructor may make more garbage, which the next collection finds
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
