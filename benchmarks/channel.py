"""Channels: ping-pong over rendezvous channels, a stream through a buffer of 100, many senders at once.

Measured: CPU time from the first message to the end of both sides, per message; for many senders the whole
run, with the spawning of the senders, per sender. In the ping-pong two tasks answer each other over two
channels, so every message is a switch. asyncio has no rendezvous, its nearest thing is a `Queue` of one
place: it does less there (a put does not wait for the get). Not measured: several receivers, select,
closing. The floor hands values over a deque between strictly alternating coroutines; a bare deque is no
buffered channel, so it takes no part there.
"""

from __future__ import annotations

import asyncio
from collections import deque

from benchmarks.floor import Coro, drive, finish, switch
from benchmarks.harness import Case, Meter

BUFFER = 100


def bursar_ping_pong(size: int, meter: Meter) -> int:
    import bursar

    got = 0

    async def pong(receive: bursar.ReceiveEnd[int], send: bursar.SendEnd[int]) -> None:
        nonlocal got
        for _ in range(size // 2):
            await send.send(await receive.receive())
            got += 1

    async def main() -> None:
        nonlocal got
        ball: tuple[bursar.SendEnd[int], bursar.ReceiveEnd[int]] = bursar.channel()
        back: tuple[bursar.SendEnd[int], bursar.ReceiveEnd[int]] = bursar.channel()
        (ball_send, ball_receive), (back_send, back_receive) = ball, back
        async with bursar.nursery() as nursery:
            nursery.spawn(pong, ball_receive, back_send)
            meter.start()
            for number in range(size // 2):
                await ball_send.send(number)
                await back_receive.receive()
                got += 1
        meter.stop()

    bursar.run(main)
    return got


def asyncio_ping_pong(size: int, meter: Meter) -> int:
    got = 0

    async def pong(receive: asyncio.Queue[int], send: asyncio.Queue[int]) -> None:
        nonlocal got
        for _ in range(size // 2):
            await send.put(await receive.get())
            got += 1

    async def main() -> None:
        nonlocal got
        ball: asyncio.Queue[int] = asyncio.Queue(1)
        back: asyncio.Queue[int] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(pong(ball, back))
            meter.start()
            for number in range(size // 2):
                await ball.put(number)
                await back.get()
                got += 1
        meter.stop()

    asyncio.run(main())
    return got


def trio_ping_pong(size: int, meter: Meter) -> int:
    import trio

    got = 0

    async def pong(receive: trio.MemoryReceiveChannel[int], send: trio.MemorySendChannel[int]) -> None:
        nonlocal got
        for _ in range(size // 2):
            await send.send(await receive.receive())
            got += 1

    async def main() -> None:
        nonlocal got
        ball_send, ball_receive = trio.open_memory_channel[int](0)
        back_send, back_receive = trio.open_memory_channel[int](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pong, ball_receive, back_send)
            meter.start()
            for number in range(size // 2):
                await ball_send.send(number)
                await back_receive.receive()
                got += 1
        meter.stop()

    trio.run(main)
    return got


def floor_ping_pong(size: int, meter: Meter) -> int:
    got = 0
    ball: deque[int] = deque()
    back: deque[int] = deque()

    async def ping() -> None:
        nonlocal got
        for number in range(size // 2):
            ball.append(number)
            await switch()
            back.popleft()
            got += 1

    async def pong() -> None:
        nonlocal got
        for _ in range(size // 2):
            back.append(ball.popleft())
            got += 1
            await switch()

    ready: deque[Coro] = deque([ping(), pong()])
    meter.start()
    drive(ready)
    meter.stop()
    return got


def bursar_buffered(size: int, meter: Meter) -> int:
    import bursar

    got = 0

    async def produce(send: bursar.SendEnd[int]) -> None:
        for number in range(size):
            await send.send(number)

    async def main() -> None:
        nonlocal got
        ends: tuple[bursar.SendEnd[int], bursar.ReceiveEnd[int]] = bursar.channel(BUFFER)
        send, receive = ends
        async with bursar.nursery() as nursery:
            nursery.spawn(produce, send)
            meter.start()
            for _ in range(size):
                await receive.receive()
                got += 1
        meter.stop()

    bursar.run(main)
    return got


def asyncio_buffered(size: int, meter: Meter) -> int:
    got = 0

    async def produce(queue: asyncio.Queue[int]) -> None:
        for number in range(size):
            await queue.put(number)

    async def main() -> None:
        nonlocal got
        queue: asyncio.Queue[int] = asyncio.Queue(BUFFER)
        async with asyncio.TaskGroup() as group:
            group.create_task(produce(queue))
            meter.start()
            for _ in range(size):
                await queue.get()
                got += 1
        meter.stop()

    asyncio.run(main())
    return got


def trio_buffered(size: int, meter: Meter) -> int:
    import trio

    got = 0

    async def produce(send: trio.MemorySendChannel[int]) -> None:
        for number in range(size):
            await send.send(number)

    async def main() -> None:
        nonlocal got
        send, receive = trio.open_memory_channel[int](BUFFER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, send)
            meter.start()
            for _ in range(size):
                await receive.receive()
                got += 1
        meter.stop()

    trio.run(main)
    return got


def bursar_fan_in(size: int, meter: Meter) -> int:
    import bursar

    got = 0

    async def sender(send: bursar.SendEnd[int], number: int) -> None:
        await send.send(number)

    async def main() -> None:
        nonlocal got
        meter.lap("start")
        ends: tuple[bursar.SendEnd[int], bursar.ReceiveEnd[int]] = bursar.channel()
        send, receive = ends
        async with bursar.nursery() as nursery:
            for number in range(size):
                nursery.spawn(sender, send, number)
            meter.lap("spawn")
            await bursar.checkpoint()
            meter.lap("park")
            for _ in range(size):
                await receive.receive()
                got += 1
        meter.lap("receive")

    meter.start()
    bursar.run(main)
    meter.stop("end")
    return got


def asyncio_fan_in(size: int, meter: Meter) -> int:
    got = 0

    async def sender(queue: asyncio.Queue[int], number: int) -> None:
        await queue.put(number)

    async def main() -> None:
        nonlocal got
        meter.lap("start")
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as group:
            for number in range(size):
                group.create_task(sender(queue, number))
            meter.lap("spawn")
            await asyncio.sleep(0)
            meter.lap("park")
            for _ in range(size):
                await queue.get()
                got += 1
        meter.lap("receive")

    meter.start()
    asyncio.run(main())
    meter.stop("end")
    return got


def trio_fan_in(size: int, meter: Meter) -> int:
    import trio

    got = 0

    async def sender(send: trio.MemorySendChannel[int], number: int) -> None:
        await send.send(number)

    async def main() -> None:
        nonlocal got
        meter.lap("start")
        send, receive = trio.open_memory_channel[int](0)
        async with trio.open_nursery() as nursery:
            for number in range(size):
                nursery.start_soon(sender, send, number)
            meter.lap("spawn")
            await trio.lowlevel.checkpoint()
            meter.lap("park")
            for _ in range(size):
                await receive.receive()
                got += 1
        meter.lap("receive")

    meter.start()
    trio.run(main)
    meter.stop("end")
    return got


def floor_fan_in(size: int, meter: Meter) -> int:
    got = 0
    places: deque[int] = deque()

    async def send(number: int) -> None:
        await switch()
        places.append(number)

    meter.start()
    parked: deque[Coro] = deque(send(number) for number in range(size))
    meter.lap("spawn")
    for coro in parked:
        coro.send(None)
    meter.lap("park")
    while parked:
        finish(parked.popleft())
        places.popleft()
        got += 1
    meter.stop("receive")
    return got


FAN_IN = {"bursar": bursar_fan_in, "asyncio": asyncio_fan_in, "trio": trio_fan_in, "floor": floor_fan_in}

CASES = [
    Case(
        "channel, ping-pong",
        "ns/message",
        1e9,
        50_000,
        10_000,
        100,
        {
            "bursar": bursar_ping_pong,
            "asyncio": asyncio_ping_pong,
            "trio": trio_ping_pong,
            "floor": floor_ping_pong,
        },
    ),
    Case(
        "channel, buffer 100",
        "ns/message",
        1e9,
        100_000,
        10_000,
        500,
        {"bursar": bursar_buffered, "asyncio": asyncio_buffered, "trio": trio_buffered},
    ),
    Case("channel, many senders", "us/sender", 1e6, 10_000, 5_000, 50, FAN_IN),
]
