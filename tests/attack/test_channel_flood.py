"""Channel floods: a sender that never stops, on a channel that no task reads, or that a slow task reads.

A full channel makes its sender wait, a send that does not wait is refused, and each operation is paid for. So a flood
holds at most the channel's capacity in memory, and ends when its `channel_ops` are spent. The honest pair next to it
passes all its values: each of its polls comes within one round of the queue.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from support.drive import HONEST_POLLS, Watch, bound, bound_ready, checked, honest, over

import bursar
from bursar import Budget, CapabilityDenied, CapChannel, Runtime, WouldBlock

OPS = 400


async def flood(send) -> None:
    while True:
        await send.send(b"x" * 100)


async def flood_nowait(send) -> None:
    while True:
        try:
            send.send_nowait(b"x" * 100)
        except WouldBlock:
            await bursar.checkpoint()


async def drip(receive) -> None:
    while True:
        await receive.receive()
        await bursar.sleep(0.1)


@pytest.mark.parametrize("attack", [flood, flood_nowait])
@pytest.mark.parametrize("capacity", [0, 3])
def test_a_flood_is_stopped_by_its_channel_operations(attack, capacity):
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    longest = 0

    async def main():
        nonlocal longest
        send, receive = await bursar.channel(capacity)
        async with bursar.nursery(cancel_on_failure=False) as n:
            n.spawn(honest, name="honest")
            reader = n.spawn(drip, receive)
            flooder = n.spawn(attack, send, budget=Budget(channel_ops=OPS, ops=10 * OPS))
            while flooder.outcome is None:
                longest = max(longest, len(receive))
                await bursar.sleep(0.05)
            reader.cancel()
        return flooder

    with pytest.raises(ExceptionGroup) as caught:
        rt.run(main)
    assert caught.group_contains(bursar.BudgetExceeded)
    over(rt)
    assert longest <= capacity
    assert watch.took("honest") <= bound(HONEST_POLLS, 5)


def test_a_channel_that_nobody_reads_only_stops_its_sender():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)

    async def main():
        send, receive = bursar.channel(5)
        async with bursar.nursery() as n:
            n.spawn(honest, name="honest")
            floods = [n.spawn(flood, send) for _ in range(50)]
            await bursar.sleep(1)
            assert len(receive) == 5
            assert {f.state for f in floods} == {bursar.State.BLOCKED}
            n.cancel()

    rt.run(main)
    over(rt)
    assert watch.took("honest") <= bound_ready(HONEST_POLLS, 52)


def test_an_honest_pair_next_to_a_flood_passes_every_value_in_order():
    rt = checked(Runtime(clock="virtual"))
    watch = Watch(rt)
    values = 30

    async def give(send):
        with send:
            for i in range(values):
                await send.send(i)

    async def take(receive):
        return [x async for x in receive]

    async def main():
        bad, sink = bursar.channel(2)
        good, source = bursar.channel(1)
        async with bursar.nursery(cancel_on_failure=False) as n:
            floods = [n.spawn(flood, bad) for _ in range(10)]
            drain = n.spawn(drain_fast, sink)
            n.spawn(give, good, name="give")
            taker = n.spawn(take, source, name="take")
            assert await taker == list(range(values))
            for task in [*floods, drain]:
                task.cancel()

    async def drain_fast(receive):
        async for _ in receive:
            pass

    rt.run(main)
    over(rt)
    # each value needs a poll of each side, and each of these waits for at most one round of 14 tasks
    assert watch.took("take") <= bound_ready(2 * values + 2, 14)


def test_the_number_and_size_of_channels_is_bounded_by_the_capability():
    rt = checked(Runtime(clock="virtual"))

    async def evil():
        kept = [bursar.channel(1) for _ in range(6)]
        for send, _ in kept[:5]:
            await send.send(0)
        with pytest.raises(CapabilityDenied, match="max_channels"):
            await kept[5][0].send(0)
        with pytest.raises(CapabilityDenied, match="buffer"):
            await bursar.channel(11)[0].send(0)
        return "bounded"

    async def main():
        cap = (await bursar.capabilities())[CapChannel].attenuate(max_channels=5, max_buffer=10)
        async with bursar.nursery() as n:
            task = n.spawn(evil, capabilities=[cap])
        return task.result

    assert rt.run(main) == "bounded"
    over(rt)


def test_a_channel_is_not_free_before_its_first_await():
    """`send_nowait` into a channel that no task has awaited yet: still a channel operation, still to be paid."""
    rt = checked(Runtime(clock="virtual"))

    async def evil(send):
        for i in range(10_000):
            send.send_nowait(i)

    async def main():
        send, receive = bursar.channel(10**6)
        async with bursar.nursery(cancel_on_failure=False) as n:
            n.spawn(evil, send, budget=Budget(ops=5, channel_ops=3), capabilities=[])
        return len(receive)

    with suppress(ExceptionGroup):
        assert rt.run(main) <= 5
    over(rt)


def test_a_select_that_waits_many_times_in_one_queue_takes_one_value():
    """Exactly one case takes effect: no value that a sender got rid of may vanish."""
    rt = checked(Runtime(clock="virtual"))
    sent, received = [], []

    async def reserves(send):
        reservation = await send.reserve()
        await bursar.sleep(5)
        reservation.abort()

    async def sends(send, i):
        await send.send(i)
        sent.append(i)

    async def main():
        send, receive = bursar.channel()
        async with bursar.nursery() as n:
            n.spawn(reserves, send)
            await bursar.checkpoint()
            for i in range(3):
                n.spawn(sends, send, i)
            await bursar.checkpoint()
            await bursar.checkpoint()
            received.append((await bursar.select(*[receive.receive() for _ in range(4)])).value)
            await bursar.checkpoint()
            await bursar.checkpoint()
            n.cancel()

    rt.run(main)
    over(rt)
    assert sent == received
