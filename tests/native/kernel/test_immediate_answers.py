"""A request that need not wait is answered where it is awaited, but only where the law cannot notice that."""

import threading

import pytest
from support.builds import needs_fast_paths
from support.evidence import Memory

import bursar
from bursar import Budget, Runtime, channel, nursery


def steps(coroutine):
    """Step a coroutine to its end. Returns what it yielded."""
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


@needs_fast_paths
def test_a_message_through_a_buffer_suspends_no_task():
    async def main():
        ends = channel(1)
        await twice(*ends)  # the first use binds the channel, and takes the slow path
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


def test_the_bill_is_the_same_as_on_the_slow_path():
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


def test_a_turn_ends_although_no_request_suspends():
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


def test_another_runtime_inside_a_poll_is_refused():
    async def main():
        send, receive = channel(2)
        await send.send(1)

        async def stranger():
            await send.send(2)

        with pytest.raises(bursar.ScopeMisuse):
            bursar.run(stranger)
        return len(receive)

    assert bursar.run(main) == 1


def test_a_request_on_another_thread_takes_the_slow_path():
    async def main():
        send, receive = channel(2)
        await send.send(1)
        yielded = []
        thread = threading.Thread(target=lambda: yielded.append(next(send.send(2).__await__())))
        thread.start()
        thread.join()
        return len(yielded), len(receive)

    assert bursar.run(main) == (1, 1)
