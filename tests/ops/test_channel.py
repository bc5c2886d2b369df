"""Channels: rendezvous and buffer, order, closing, clones, reservations, and cancellation that loses nothing."""

import inspect

import pytest

import bursar
from bursar import ChannelClosed, WouldBlock, channel, nursery, sleep


async def collect(receive, into):
    async for value in receive:
        into.append(value)


async def send_all(send, *values):
    with send:
        for value in values:
            await send.send(value)


# ---- values


@pytest.mark.parametrize("buffer", [0, 1, 3, 100])
def test_values_arrive_in_the_order_in_which_they_were_sent(run, buffer):
    got = []

    async def main():
        send, receive = channel(buffer)
        async with nursery() as n:
            n.spawn(send_all, send, *range(20))
            n.spawn(collect, receive, got)

    run(main)
    assert got == list(range(20))


def test_a_rendezvous_waits_for_its_receiver(run):
    log = []

    async def sender(send):
        await send.send("x")
        log.append(("sent", await bursar.now()))

    async def main():
        send, receive = channel()
        async with nursery() as n:
            n.spawn(sender, send)
            await sleep(3)
            assert len(receive) == 0
            assert await receive.receive() == "x"

    run(main)
    assert log == [("sent", 3.0)]


def test_a_buffer_lets_the_sender_go_on_until_it_is_full(run):
    async def main():
        send, receive = channel(2)
        async with nursery() as n:
            task = n.spawn(send_all, send, 1, 2, 3)
            await sleep(1)
            assert len(receive) == 2
            assert task.state is bursar.State.BLOCKED
            assert task.explain().reason.startswith("waits to send to channel")
            assert [value async for value in receive] == [1, 2, 3]

    run(main)


def test_none_and_false_are_values_like_any_other(run):
    async def main():
        send, receive = channel(3)
        for value in (None, False, 0):
            await send.send(value)
        send.close()
        return [value async for value in receive]

    assert run(main) == [None, False, 0]


def test_an_end_is_true_even_when_nothing_is_buffered(run):
    _, receive = channel(1)
    assert receive
    assert len(receive) == 0


def test_a_request_may_be_awaited_again(run):
    async def main():
        send, receive = channel(2)
        put = send.send("again")
        await put
        await put
        return [await receive.receive(), await receive.receive()]

    assert run(main) == ["again", "again"]


# ---- nowait


def test_nowait_does_it_now_or_says_that_it_would_block(run):
    async def main():
        send, receive = await channel(1)
        with pytest.raises(WouldBlock, match="nothing to receive; await receive"):
            receive.receive_nowait()
        send.send_nowait(1)
        with pytest.raises(WouldBlock, match="no room; await send"):
            send.send_nowait(2)
        assert receive.receive_nowait() == 1

    run(main)


def test_nowait_needs_a_channel_that_lives(run):
    async def main():
        send, receive = channel(1)
        for operation in (lambda: send.send_nowait(1), receive.receive_nowait):
            with pytest.raises(bursar.ScopeMisuse, match=r"await channel\(n\)"):
                operation()

    run(main)


def test_send_nowait_reaches_a_waiting_receiver_of_a_rendezvous(run):
    async def main():
        send, receive = await channel()
        with pytest.raises(WouldBlock):
            send.send_nowait(0)
        async with nursery() as n:
            task = n.spawn(receive_one, receive)
            await sleep(1)
            send.send_nowait("now")
        return task.result

    assert run(main) == "now"


async def receive_one(receive):
    return await receive.receive()


def test_receive_nowait_takes_from_a_waiting_sender(run):
    async def main():
        send, receive = channel()
        async with nursery() as n:
            n.spawn(send_all, send, "x")
            await sleep(1)
            return receive.receive_nowait()

    assert run(main) == "x"


def test_nowait_is_billed_to_the_running_task(run):
    async def main():
        send, receive = channel(5)
        await send.send(0)
        me = await bursar.current_task()
        before = me.spent
        send.send_nowait(1)
        receive.receive_nowait()
        return before.channel_ops, me.spent.channel_ops

    assert run(main) == (1, 3)


def test_a_nowait_that_cannot_be_paid_moves_nothing(run):
    async def child(send):
        await send.send(1)
        with pytest.raises(bursar.BudgetExceeded):
            send.send_nowait(2)

    async def main():
        send, receive = channel(5)
        async with nursery() as n:
            n.spawn(child, send, budget=bursar.Budget(channel_ops=1))
        return len(receive)

    assert run(main) == 1


def test_a_partial_result_can_be_sent_without_waiting_after_the_budget_is_gone(run):
    """While a task cleans up its operations are paid from the allowance, whether it awaits or not."""

    async def child(send):
        try:
            while True:
                await bursar.checkpoint()
        except bursar.BudgetExceeded:
            send.send_nowait("partial")

    async def main():
        send, receive = channel(2)
        await send.send("first")
        async with nursery() as n:
            n.spawn(child, send, budget=bursar.Budget(ops=5))
        return len(receive)

    assert run(main) == 2


# ---- closing


def test_a_receiver_drains_what_is_left_and_is_then_told(run):
    async def main():
        send, receive = channel(5)
        await send.send(1)
        await send.send(2)
        send.close()
        assert await receive.receive() == 1
        assert await receive.receive() == 2
        with pytest.raises(ChannelClosed, match="every sending end is closed"):
            await receive.receive()
        with pytest.raises(ChannelClosed):
            receive.receive_nowait()

    run(main)


def test_closing_wakes_a_waiting_receiver(run):
    async def waiter(receive):
        with pytest.raises(ChannelClosed, match="every sending end is closed"):
            await receive.receive()
        return "told"

    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(waiter, receive)
            await sleep(1)
            send.close()
        return task.result

    assert run(main) == "told"


def test_closing_the_receiving_side_wakes_every_waiting_sender(run):
    async def sender(send):
        with pytest.raises(ChannelClosed, match="every receiving end is closed"):
            await send.send(1)
        return "told"

    async def main():
        send, receive = channel()
        async with nursery() as n:
            tasks = [n.spawn(sender, send) for _ in range(3)]
            await sleep(1)
            receive.close()
        return [task.result for task in tasks]

    assert run(main) == ["told"] * 3


def test_sending_after_either_close_fails(run):
    async def main():
        send, receive = channel(3)
        await send.send(1)
        receive.close()
        with pytest.raises(ChannelClosed, match="every receiving end is closed"):
            await send.send(2)
        with pytest.raises(ChannelClosed, match="every receiving end is closed"):
            send.send_nowait(2)
        with pytest.raises(ChannelClosed, match="every receiving end is closed"):
            await send.reserve()
        send.close()
        send.close()
        with pytest.raises(ChannelClosed, match="this end"):
            await send.send(2)
        with pytest.raises(ChannelClosed, match="this end"):
            send.clone()
        with pytest.raises(ChannelClosed, match="this end"):
            await receive.receive()
        with pytest.raises(ChannelClosed, match="this end"):
            receive.clone()
        assert send.closed
        assert receive.closed

    run(main)


def test_closing_ones_own_end_under_a_waiting_task_tells_that_task(run):
    async def waiter(receive):
        with pytest.raises(ChannelClosed, match="this end"):
            await receive.receive()

    async def main():
        send, receive = channel()
        other = receive.clone()
        async with nursery() as n:
            n.spawn(waiter, receive)
            await sleep(1)
            receive.close()
            await sleep(1)
            task = n.spawn(receive_one, other)
            await send.send("for the clone")
        return task.result

    assert run(main) == "for the clone"


def test_async_for_over_an_end_that_was_closed_here_is_an_error_not_an_end(run):
    async def main():
        _, receive = channel()
        receive.close()
        with pytest.raises(ChannelClosed):
            async for _ in receive:
                pass

    run(main)


def test_a_side_is_closed_when_its_last_clone_is(run):
    got = []

    async def main():
        send, receive = channel()
        async with nursery() as n:
            n.spawn(collect, receive, got)
            n.spawn(send_all, send.clone(), 1, 2)
            n.spawn(send_all, send.clone(), 3)
            send.close()

    run(main)
    assert sorted(got) == [1, 2, 3]


def test_the_block_of_an_end_closes_it(run):
    async def main():
        send, receive = channel(1)
        with send:
            await send.send(1)
        with receive:
            assert [value async for value in receive] == [1]
        assert send.closed
        assert receive.closed

    run(main)


# ---- fairness


def test_receivers_are_served_in_the_order_in_which_they_came(run):
    order = []

    async def receiver(i, receive):
        order.append((i, await receive.receive()))

    async def main():
        send, receive = channel()
        async with nursery() as n:
            for i in range(5):
                n.spawn(receiver, i, receive)
            await sleep(1)
            for value in "abcde":
                await send.send(value)

    run(main)
    assert order == list(enumerate("abcde"))


def test_senders_are_served_in_the_order_in_which_they_came(run):
    async def sender(i, send):
        await send.send(i)

    async def main():
        send, receive = channel(2)
        async with nursery() as n:
            for i in range(6):
                n.spawn(sender, i, send)
            await sleep(1)
            return [await receive.receive() for _ in range(6)]

    assert run(main) == list(range(6))


def test_a_busy_sender_cannot_starve_another_one(run):
    async def sender(name, send):
        for _ in range(50):
            await send.send(name)

    async def main():
        send, receive = channel(1)
        async with nursery() as n:
            n.spawn(sender, "a", send)
            n.spawn(sender, "b", send)
            return [await receive.receive() for _ in range(100)]

    got = run(main)
    assert all("a" in got[i : i + 4] and "b" in got[i : i + 4] for i in range(60))


# ---- cancellation


def test_a_cancelled_receiver_takes_no_value_with_it(run):
    async def main():
        send, receive = channel()
        async with nursery() as n:
            lost = n.spawn(receive_one, receive)
            kept = n.spawn(receive_one, receive)
            await sleep(1)
            lost.cancel()
            await send.send("x")
        return lost.outcome.kind, kept.result

    assert run(main) == (bursar.OutcomeKind.CANCELLED, "x")


def test_the_value_of_a_cancelled_sender_was_never_sent(run):
    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(send_all, send.clone(), "never")
            await sleep(1)
            task.cancel()
            await sleep(1)
            with pytest.raises(WouldBlock):
                receive.receive_nowait()

    run(main)


def test_a_value_that_was_handed_over_before_the_cancel_is_returned(run):
    got = []

    async def receiver(receive):
        got.append(await receive.receive())
        await bursar.checkpoint()
        got.append("not reached")

    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(receiver, receive)
            await sleep(1)
            send.send_nowait("handed over")
            task.cancel()
        return task.outcome.kind

    assert run(main) is bursar.OutcomeKind.CANCELLED
    assert got == ["handed over"]


def test_a_send_that_was_taken_before_the_cancel_has_happened(run):
    log = []

    async def sender(send):
        await send.send(1)
        log.append("sent")
        await bursar.checkpoint()
        log.append("not reached")

    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(sender, send)
            await sleep(1)
            assert receive.receive_nowait() == 1
            task.cancel()

    run(main)
    assert log == ["sent"]


def test_values_are_never_lost_nor_doubled_under_cancellation(run):
    """Receivers come and go; what was sent is received by someone or still there."""
    got = []

    async def impatient(receive):
        while True:
            try:
                async with bursar.timeout(0.7):
                    got.append(await receive.receive())
            except TimeoutError:
                pass

    async def sender(send):
        for i in range(40):
            await send.send(i)
            await sleep(0.3 if i % 3 else 0.7)

    async def main():
        send, receive = channel()
        async with nursery() as n:
            for _ in range(3):
                n.spawn(impatient, receive)
            await n.spawn(sender, send)
            await sleep(2)
            n.cancel()

    run(main, seed=5)
    assert got == list(range(40))


# ---- reservations


def test_a_reservation_is_sent_later_without_waiting(run):
    async def main():
        send, receive = channel(1)
        reservation = await send.reserve()
        with pytest.raises(WouldBlock):
            send.send_nowait("no room: it is reserved")
        reservation.send("kept")
        return await receive.receive()

    assert run(main) == "kept"
    assert run.reports == []


def test_an_aborted_reservation_gives_its_place_back(run):
    async def main():
        send, receive = channel(1)
        reservation = await send.reserve()
        async with nursery() as n:
            n.spawn(send_all, send.clone(), "waited")
            await sleep(1)
            assert len(receive) == 0
            reservation.abort()
            reservation.abort()
            assert len(receive) == 1

    run(main)
    assert run.reports == []


def test_the_block_of_a_reservation_aborts_what_was_not_sent(run):
    async def main():
        send, receive = channel(1)
        with pytest.raises(ZeroDivisionError), await send.reserve():
            raise ZeroDivisionError
        with await send.reserve() as reservation:
            reservation.send(1)
        return len(receive)

    assert run(main) == 1
    assert run.reports == []


def test_a_reservation_is_settled_once(run):
    async def main():
        send, _receive = channel(2)
        reservation = await send.reserve()
        reservation.send(1)
        with pytest.raises(bursar.BursarError, match="committed already"):
            reservation.send(2)
        other = await send.reserve()
        other.abort()
        with pytest.raises(bursar.BursarError, match="aborted already"):
            other.send(2)

    run(main)


def test_a_leaked_reservation_is_reported_with_the_line_that_made_it_and_the_place_comes_back(run):
    line = 0

    async def leaker(send):
        nonlocal line
        line = inspect.currentframe().f_lineno + 1
        await send.reserve()

    async def main():
        send, receive = channel(1)
        async with nursery() as n:
            n.spawn(leaker, send, name="the leaker")
        send.send_nowait("the place is free again")
        return len(receive)

    assert run(main) == 1
    (report,) = run.runtime.reports
    assert report.kind == "obligation_leaked"
    assert report.task == "the leaker"
    assert f"test_channel.py:{line} in" in report.detail
    assert "leaker" in report.detail
    assert "reserved place in channel" in report.detail


def test_a_leak_through_helpers_names_the_innermost_line_of_the_program(run):
    async def helper(send):
        return await send.reserve()

    async def leaker(send):
        await helper(send)

    async def main():
        send, _receive = channel(1)
        async with nursery() as n:
            n.spawn(leaker, send)

    run(main)
    (report,) = run.runtime.reports
    assert "in test_a_leak_through_helpers_names_the_innermost_line_of_the_program.<locals>.helper" in report.detail


def test_a_leak_lets_the_next_sender_in(run):
    async def leaker(send):
        await send.reserve()
        await sleep(5)

    async def main():
        send, receive = channel(1)
        async with nursery() as n:
            n.spawn(leaker, send)
            await sleep(1)
            await send.send("after the leak")
            assert await bursar.now() == 5.0
        return await receive.receive()

    assert run(main) == "after the leak"


def test_what_was_reserved_before_the_close_may_still_be_sent(run):
    async def main():
        send, receive = channel(1)
        reservation = await send.reserve()
        send.close()
        reservation.send("late")
        assert await receive.receive() == "late"
        with pytest.raises(ChannelClosed):
            await receive.receive()

    run(main)


def test_a_receiver_waits_while_a_reservation_is_open_and_is_told_when_it_is_given_up(run):
    async def waiter(receive):
        with pytest.raises(ChannelClosed):
            await receive.receive()

    async def main():
        send, receive = channel(1)
        reservation = await send.reserve()
        send.close()
        async with nursery() as n:
            task = n.spawn(waiter, receive)
            await sleep(1)
            assert task.state is bursar.State.BLOCKED
            reservation.abort()

    run(main)


def test_a_reservation_for_a_channel_that_nobody_receives_from_is_refused_and_settled(run):
    async def main():
        send, receive = channel(1)
        reservation = await send.reserve()
        receive.close()
        with pytest.raises(ChannelClosed):
            reservation.send(1)
        reservation.abort()

    run(main)
    assert run.reports == []


def test_a_reservation_in_a_rendezvous_waits_for_a_receiver(run):
    async def reserver(send):
        reservation = await send.reserve()
        await sleep(1)
        reservation.send("x")

    async def main():
        send, receive = channel()
        async with nursery() as n:
            task = n.spawn(reserver, send)
            await sleep(1)
            assert task.explain().reason.startswith("waits to reserve a place in channel")
            assert await receive.receive() == "x"
        return await bursar.now()

    assert run(main) == 2.0


def test_reservations_and_sends_wait_in_one_queue(run):
    async def reserver(send):
        (await send.reserve()).send("reserved")

    async def main():
        send, receive = channel(1)
        await send.send("first")
        async with nursery() as n:
            n.spawn(reserver, send)
            await sleep(1)
            n.spawn(send_all, send.clone(), "sent")
            got = []
            for _ in range(3):
                await sleep(1)
                got.append(await receive.receive())
            return got

    assert run(main) == ["first", "reserved", "sent"]


def test_a_value_that_was_sent_with_a_reservation_after_its_receiver_left_waits_for_the_next_one(run):
    async def main():
        send, receive = channel()
        async with nursery() as n:
            gone = n.spawn(receive_one, receive)
            await sleep(1)
            reservation = await send.reserve()
            gone.cancel()
            await sleep(1)
            reservation.send("kept")
            return await receive.receive()

    assert run(main) == "kept"


# ---- authority


def test_a_channel_needs_its_capability_at_its_first_use(run):
    async def main():
        send, _ = channel(1)
        with pytest.raises(bursar.CapabilityDenied, match=r"task 'poor' .* may not make a channel.*CapChannel"):
            await send.send(1)

    async def outer():
        async with nursery() as n:
            n.spawn(main, name="poor", capabilities=[])

    run(outer)


def test_the_number_and_the_size_of_channels_are_limited_by_the_capability(run):
    async def main():
        big, _b = channel(3)
        with pytest.raises(bursar.CapabilityDenied, match="a buffer of 3: its CapChannel allows 2"):
            await big.send(1)
        one, one_out = channel(2)
        await one.send(1)
        two, _t = channel(2)
        with pytest.raises(bursar.CapabilityDenied, match="max_channels=1"):
            await two.send(1)
        one.close()
        one_out.close()
        await two.send(1)

    run(main, capabilities=[bursar.CapChannel(max_channels=1, max_buffer=2)])


def test_a_channel_that_is_forgotten_counts_no_longer(run):
    async def main():
        for _ in range(5):
            send, receive = channel(1)
            await send.send(1)
            del send, receive

    run(main, capabilities=[bursar.CapChannel(max_channels=1)])


@pytest.mark.parametrize("buffer", [-1, 1.5, "1", True, None])
def test_a_buffer_is_a_whole_number(buffer):
    with pytest.raises(ValueError, match="whole number of places"):
        channel(buffer)


# ---- a task that selects both ends of one channel


def test_a_free_place_serves_a_task_that_waits_on_both_ends(run):
    async def both(send, receive):
        return await bursar.select(receive.receive(), send.send("a"))

    async def main():
        send, receive = await channel(1)
        reservation = await send.reserve()
        async with nursery() as n:
            task = n.spawn(both, send, receive)
            await sleep(1)
            reservation.abort()
        return task.result.index, len(receive)

    assert run(main) == (1, 1)


def test_a_sender_behind_a_task_that_waits_on_both_ends_is_served(run):
    async def both(send, receive):
        return await bursar.select(receive.receive(), send.send("a"))

    async def sender(send):
        await send.send("x")

    async def main():
        send, receive = await channel()
        async with nursery() as n:
            task = n.spawn(both, send, receive)
            await sleep(1)
            reservation = await send.reserve()
            n.spawn(sender, send)
            await sleep(1)
            reservation.abort()
        return task.result.value

    assert run(main) == "x"
