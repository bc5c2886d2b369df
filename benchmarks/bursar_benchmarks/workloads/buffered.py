"""A stream through a channel with a buffer of 100: one task sends, the other receives, and mostly neither waits.

Measured: CPU time from the first message to the end of both sides, per message. Not measured: several senders or
receivers, closing. A bare deque is no buffered channel, so the floor takes no part. trio and anyio yield at every
message, as their rules demand. asyncio, gevent and Bursar continue while there is something to do (Bursar until the
task's turn is over).
"""

from __future__ import annotations

import asyncio
from typing import Any

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.loops import on_loops, runner_of

BUFFER = 100


def bursar_(size: int, meter: Meter) -> int:
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


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
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

    runner_of(loop)(main())
    return got


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")
    got = 0

    async def produce(send: Any) -> None:
        for number in range(size):
            await send.send(number)

    async def main() -> None:
        nonlocal got
        send, receive = trio.open_memory_channel(BUFFER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, send)
            meter.start()
            for _ in range(size):
                await receive.receive()
                got += 1
        meter.stop()

    trio.run(main)
    return got


def anyio_(size: int, meter: Meter) -> int:
    anyio = load("anyio")
    got = 0

    async def produce(send: Any) -> None:
        for number in range(size):
            await send.send(number)

    async def main() -> None:
        nonlocal got
        send, receive = anyio.create_memory_object_stream(BUFFER)
        with send, receive:
            async with anyio.create_task_group() as group:
                group.start_soon(produce, send)
                meter.start()
                for _ in range(size):
                    await receive.receive()
                    got += 1
            meter.stop()

    anyio.run(main)
    return got


def gevent_(size: int, meter: Meter) -> int:
    gevent = load("gevent")
    got = 0
    queue = load("gevent.queue").Queue(BUFFER)

    def produce() -> None:
        for number in range(size):
            queue.put(number)

    producer = gevent.spawn(produce)
    meter.start()
    for _ in range(size):
        queue.get()
        got += 1
    gevent.joinall([producer], raise_error=True)
    meter.stop()
    return got


PEERS = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
}

CASES = [Case("channel, buffer 100", "ns/message", 1e9, 100_000, 20_000, 500, PEERS)]
