"""`select`: one case and no other takes effect, fairly and repeatably, and waiting leaves no trace in other queues."""

from collections import Counter

import pytest
from support.requests import Operation

import bursar
from bursar import Event, Selected, channel, nursery, select, sleep


def test_the_only_ready_case_is_taken(run):
    async def main():
        (_, empty), (send, full) = channel(1), channel(1)
        await send.send("x")
        return await select(empty.receive(), full.receive())

    assert run(main) == Selected(1, "x")


def test_the_answer_unpacks(run):
    async def main():
        send, receive = channel(1)
        await send.send("x")
        index, value = await select(receive.receive())
        return index, value

    assert run(main) == (0, "x")


def choices(run, seed):
    async def main():
        ends = [channel(1000) for _ in range(3)]
        for send, _ in ends:
            for i in range(300):
                await send.send(i)
        return [(await select(*(receive.receive() for _, receive in ends))).index for _ in range(300)]

    return run(main, seed=seed)


def test_the_same_seed_chooses_the_same(run):
    assert choices(run, 7) == choices(run, 7)


def test_another_seed_chooses_otherwise(run):
    assert choices(run, 7) != choices(run, 8)


def test_every_ready_case_is_chosen_about_equally_often(run):
    counted = Counter(choices(run, 1))
    assert set(counted) == {0, 1, 2}
    assert all(60 <= n <= 140 for n in counted.values())


def test_exactly_one_case_takes_effect_when_all_are_ready(run):
    async def main():
        (send_a, receive_a), (send_b, receive_b) = channel(1), channel(1)
        await send_b.send("b")
        chosen = await select(send_a.send("a"), receive_b.receive())
        return chosen.index, len(receive_a), len(receive_b)

    outcomes = {run(main, seed=seed) for seed in range(20)}
    assert outcomes == {(0, 1, 1), (1, 0, 0)}


def test_a_waiting_select_is_answered_by_one_and_leaves_the_others(run):
    async def chooser(a, b):
        return await select(a.receive(), b.receive())

    async def main():
        (send_a, receive_a), (send_b, receive_b) = channel(), channel()
        async with nursery() as n:
            task = n.spawn(chooser, receive_a, receive_b)
            await sleep(1)
            await send_b.send("b")
            with pytest.raises(bursar.WouldBlock):
                send_a.send_nowait("nobody waits here any more")
        return task.result

    assert run(main) == Selected(1, "b")


def test_a_waiting_send_case_withdraws_its_value(run):
    async def chooser(send, event):
        return await select(send.send("never"), event.wait())

    async def main():
        send, receive = channel()
        event = Event()
        async with nursery() as n:
            task = n.spawn(chooser, send, event)
            await sleep(1)
            event.set()
            await sleep(1)
            with pytest.raises(bursar.WouldBlock):
                receive.receive_nowait()
        return task.result

    assert run(main) == Selected(1, None)


def test_a_cancelled_select_leaves_every_queue(run):
    async def chooser(receive, send, event):
        await select(receive.receive(), send.send(1), event.wait(), sleep(1000))

    async def main():
        (send_a, receive_a), (send_b, receive_b) = channel(), channel()
        event = Event()
        async with nursery() as n:
            task = n.spawn(chooser, receive_a, send_b, event)
            await sleep(1)
            task.cancel()
            await sleep(1)
            with pytest.raises(bursar.WouldBlock):
                send_a.send_nowait(1)
            with pytest.raises(bursar.WouldBlock):
                receive_b.receive_nowait()
            event.set()
        return await bursar.now()

    assert run(main) == 2.0


def test_the_default_is_taken_at_once_when_nothing_is_ready(run):
    async def main():
        _, receive = channel()
        first = await select(receive.receive(), default="nothing")
        none = await select(receive.receive(), default=None)
        return first, none, await bursar.now()

    assert run(main) == (Selected(-1, "nothing"), Selected(-1, None), 0.0)


def test_a_ready_case_goes_before_the_default(run):
    async def main():
        send, receive = channel(1)
        await send.send("x")
        return await select(receive.receive(), default="nothing")

    assert run(main) == Selected(0, "x")


def test_a_sleep_is_a_timeout_case(run):
    async def main():
        _, receive = channel()
        chosen = await select(receive.receive(), sleep(5))
        return chosen, await bursar.now()

    assert run(main) == (Selected(1, None), 5.0)


def test_of_two_sleeps_the_shorter_wins_and_the_other_is_disarmed(run):
    async def main():
        chosen = await select(sleep(9), sleep(2))
        return chosen.index, await bursar.now()

    assert run(main) == (1, 2.0)
    assert run.runtime.statistics().seconds == 2.0


def test_a_sleep_of_nothing_is_ready(run):
    async def main():
        _, receive = channel()
        return await select(receive.receive(), sleep(0))

    assert run(main) == Selected(1, None)


def test_events_tasks_semaphores_and_reservations_are_cases(run):
    async def child():
        await sleep(1)
        return "done"

    async def main():
        event, semaphore = Event(), bursar.Semaphore(1)
        send, _receive = channel(1)
        async with nursery() as n:
            task = n.spawn(child)
            ended = await select(event.wait(), task.wait())
            hold = (await select(event.wait(), semaphore.acquire())).value
            hold.release()
            place = (await select(event.wait(), send.reserve())).value
            place.abort()
            event.set()
            happened = await select(event.wait())
        return ended.index, ended.value.value, happened

    assert run(main) == (1, "done", Selected(0, None))
    assert run.reports == []


def test_an_effect_that_came_before_the_cancel_is_returned(run):
    got = []

    async def chooser(receive):
        got.append(await select(receive.receive(), sleep(100)))
        await bursar.checkpoint()
        got.append("not reached")

    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(chooser, receive)
            await sleep(1)
            send.send_nowait("x")
            task.cancel()

    run(main)
    assert got == [Selected(0, "x")]


def test_a_case_that_cannot_be_any_more_raises_from_the_select(run):
    async def chooser(receive, event):
        with pytest.raises(bursar.ChannelClosed):
            await select(receive.receive(), event.wait())

    async def main():
        send, receive = channel()
        event = Event()
        async with nursery() as n:
            n.spawn(chooser, receive, event)
            await sleep(1)
            send.close()
            await n.spawn(chooser, receive, event)

    run(main)


def test_a_task_does_not_meet_itself_in_a_rendezvous(run):
    """Sending and receiving on the same channel in one select: neither half can happen alone, and no value is lost."""

    async def main():
        send, receive = channel()
        await select(send.send("to myself"), receive.receive())

    with pytest.raises(bursar.Deadlock):
        run(main)


@pytest.mark.parametrize("order", ["send first", "receive first"])
def test_two_selecting_tasks_meet_each_other_once(run, order):
    async def both(send, receive, name):
        cases = [send.send(name), receive.receive()]
        if order == "receive first":
            cases.reverse()
        return await select(*cases)

    async def main():
        send, receive = channel()
        async with nursery() as n:
            a = n.spawn(both, send, receive, "a")
            await sleep(1)
            b = n.spawn(both, send, receive, "b")
        return a.result.value, b.result.value

    a, b = run(main)
    assert (a, b) in {("b", None), (None, "a")}


def test_the_bill_is_that_of_the_most_expensive_case(run):
    async def main():
        _, receive = channel()
        me = await bursar.current_task()
        before = me.spent
        await select(receive.receive(), sleep(1), default=None)
        after = me.spent
        return after.ops - before.ops, after.channel_ops - before.channel_ops

    assert run(main) == (1, 1)


def test_an_explanation_lists_the_cases(run):
    async def chooser(receive, event):
        await select(receive.receive(), event.wait(), sleep(7))

    async def main():
        _, receive = channel()
        async with nursery() as n:
            task = n.spawn(chooser, receive, Event())
            await sleep(1)
            why = task.explain().reason
            n.cancel()
            return why

    assert run(main) == ("waits for the first of: waits to receive from channel 5; waits for an event; sleeps for 7 s")


def test_select_without_cases_is_refused():
    with pytest.raises(ValueError, match="at least one case"):
        select()


@pytest.mark.parametrize("case", [5, "x", None, bursar.checkpoint()])
def test_what_cannot_wait_is_no_case(case):
    with pytest.raises(TypeError, match="a case is an operation that was not awaited"):
        select(case)


class _NoRoom(Operation):
    """An operation for whose waiting there is no memory."""

    def ready(self, kernel, task):
        return False

    def enlist(self, kernel, entry):
        raise MemoryError

    def delist(self, kernel, entry):
        pass


def test_a_select_that_cannot_wait_for_all_waits_for_none(run):
    async def main():
        event, (send, receive) = Event(), channel()
        with pytest.raises(MemoryError):
            await select(event.wait(), receive.receive(), sleep(1), _NoRoom(), send.send("x"))
        event.set()
        with pytest.raises(bursar.WouldBlock):
            send.send_nowait("nobody waits to receive")
        return await select(receive.receive(), sleep(3))

    assert run(main) == Selected(1, None)
