"""What needs no wait is answered where it is awaited, and only where that makes no difference to the law."""

import threading

import pytest

import bursar
from bursar import Budget, Runtime, channel, nursery
from bursar.evidence.trace import Memory


def steps(coroutine):
    """Drive a coroutine by hand to its end: what it yielded on the way."""
    yielded = []
    try:
        for _ in range(10):
            yielded.append(coroutine.send(None))
    except StopIteration:
        pass
    return yielded


async def twice(send, receive):
    await send.send(1)
    return await receive.receive()


def test_a_message_through_a_buffer_suspends_nobody():
    async def main():
        ends = channel(1)
        await twice(*ends)  # the first use binds the channel, which is not done on the spot
        return steps(twice(*ends))

    assert bursar.run(main) == []


@pytest.mark.parametrize("end", ["send", "receive"])
def test_what_would_have_to_wait_is_yielded(end):
    async def main():
        send, receive = channel(1)
        await twice(send, receive)
        request = send.send(1) if end == "send" else receive.receive()
        if end == "send":
            await send.send(0)
        return next(request.__await__()) is request

    assert bursar.run(main)


def test_the_bill_is_the_same_as_on_the_long_way():
    async def main():
        send, receive = channel(10)
        for i in range(20):
            await send.send(i)
            assert await receive.receive() == i

    spent = []
    for record in (None, Memory()):
        runtime = Runtime(clock="virtual", budget=Budget(ops=10_000, channel_ops=100), record=record)
        runtime.run(main)
        spent.append((runtime.statistics(), [pool.spent for pool in runtime.kernel.root.pools], runtime.fingerprint))
    assert spent[0][1:] == spent[1][1:]
    assert spent[0][1][3] == 40


def test_what_cannot_be_paid_is_not_done():
    async def main():
        send, receive = channel(10)
        async with nursery(budget=Budget(channel_ops=5)) as n:
            n.spawn(fill, send)
        return len(receive)

    async def fill(send):
        for i in range(10):
            await send.send(i)

    with pytest.raises(ExceptionGroup) as caught:
        bursar.run(main)
    assert [type(error) for error in caught.value.exceptions] == [bursar.BudgetExceeded]


def test_a_turn_ends_all_the_same():
    log = []

    async def busy(send, receive):
        for i in range(3000):
            await send.send(i)
            await receive.receive()
        log.append("busy")

    async def other():
        log.append("other")

    async def main():
        ends = channel(1)
        async with nursery() as n:
            n.spawn(busy, *ends)
            n.spawn(other)

    bursar.run(main)
    assert log == ["other", "busy"]


def test_a_cancellation_comes_before_the_message():
    async def main():
        send, receive = channel(2)
        await send.send(1)
        async with nursery() as n:
            n.cancel()
            await send.send(2)
        return len(receive)

    assert bursar.run(main) == 1


def test_another_runtime_inside_a_poll_is_refused_as_ever():
    async def main():
        send, receive = channel(2)
        await send.send(1)

        async def stranger():
            await send.send(2)

        with pytest.raises(bursar.ScopeMisuse):
            bursar.run(stranger)
        return len(receive)

    assert bursar.run(main) == 1


# ---- blocks of nurseries


async def nothing():
    pass


async def block():
    async with nursery() as n:
        n.spawn(nothing)
    return n


async def empty_block():
    async with nursery():
        pass


def test_a_block_is_entered_without_suspending_anybody():
    async def main():
        await block()  # finds out whose blocks these are
        await block()  # and what their owner may do
        return steps(empty_block())

    assert bursar.run(main) == []


def test_a_block_costs_the_same_as_on_the_long_way():
    async def main():
        for _ in range(20):
            await block()
            await empty_block()

    spent = []
    for record in (None, Memory()):
        runtime = Runtime(clock="virtual", budget=Budget(ops=10_000, spawns=100), record=record)
        runtime.run(main)
        spent.append(([pool.spent for pool in runtime.kernel.root.pools], runtime.fingerprint))
    assert spent[0] == spent[1]


def test_blocks_end_a_turn_all_the_same():
    log = []

    async def busy():
        for _ in range(3000):
            await empty_block()
        log.append("busy")

    async def other():
        log.append("other")

    async def main():
        await block()
        async with nursery() as n:
            n.spawn(other)
            await busy()

    bursar.run(main)
    assert log == ["other", "busy"]


def test_a_cancellation_comes_before_the_block():
    entered = []

    async def main():
        await block()
        async with nursery() as n:
            n.cancel()
            async with nursery():
                entered.append(True)
        return entered

    assert bursar.run(main) == []


def test_a_permit_that_was_taken_back_opens_no_block():
    async def child(event):
        await block()
        await block()
        assert steps(empty_block()) == []
        await event.wait()
        with pytest.raises(bursar.CapabilityRevoked):
            await empty_block()

    async def main():
        event = bursar.Event()
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate()
        async with nursery() as n:
            n.spawn(child, event, capabilities=[narrow])
            await bursar.sleep(1)
            await bursar.revoke(narrow)
            event.set()
        return "goes on"

    assert bursar.run(main, clock="virtual") == "goes on"


def test_what_is_not_handed_on_is_found_by_every_block():
    async def main():
        await block()
        kinds = []
        for _ in range(3):
            async with nursery() as n:
                kinds.append(await n.spawn(held))
        return kinds

    async def held():
        return bursar.CapBudget in await bursar.capabilities()

    assert bursar.run(main, capabilities=[bursar.CapSpawn(), bursar.CapBudget()]) == [False] * 3


def test_blocks_of_a_run_inside_another_are_opened_where_they_belong():
    async def inner():
        return (await block()).name

    async def main():
        names = [(await block()).name]
        names.append(bursar.run(inner))
        names.append((await block()).name)
        return names

    first, within, last = bursar.run(main)
    assert "main" in first
    assert "inner" in within
    assert "main" in last


def test_a_block_of_a_run_that_is_over_is_nobodys():
    bursar.run(block)
    request = nursery()
    assert next(request.__await__()) is request


def test_a_block_in_another_thread_is_not_of_the_task_that_runs():
    async def main():
        await block()
        request, yielded = nursery(), []
        thread = threading.Thread(target=lambda: yielded.append(next(request.__await__())))
        thread.start()
        thread.join()
        return yielded == [request]

    assert bursar.run(main)


def test_another_thread_is_not_the_task_that_runs():
    async def main():
        send, receive = channel(2)
        await send.send(1)
        yielded = []
        thread = threading.Thread(target=lambda: yielded.append(next(send.send(2).__await__())))
        thread.start()
        thread.join()
        return len(yielded), len(receive)

    assert bursar.run(main) == (1, 1)
