"""Many senders: each task sends one message over the same channel without a buffer, and one task receives them all.

Measured: the whole run per sender, with the spawning of the senders. A scan of the queue of waiting senders would show
as quadratic cost. asyncio has no rendezvous; the nearest it has is a `Queue` with one place. The floor parks bare
coroutines and resumes them in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.floor import Coro, finish, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def bursar_(size: int, meter: Meter) -> int:
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


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
    run = runner_of(loop)
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
    run(main())
    meter.stop("end")
    return got


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")
    got = 0

    async def sender(send: Any, number: int) -> None:
        await send.send(number)

    async def main() -> None:
        nonlocal got
        meter.lap("start")
        send, receive = trio.open_memory_channel(0)
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


def anyio_(size: int, meter: Meter) -> int:
    anyio, lowlevel = load("anyio"), load("anyio.lowlevel")
    got = 0

    async def sender(send: Any, number: int) -> None:
        await send.send(number)

    async def main() -> None:
        nonlocal got
        meter.lap("start")
        send, receive = anyio.create_memory_object_stream(0)
        with send, receive:
            async with anyio.create_task_group() as group:
                for number in range(size):
                    group.start_soon(sender, send, number)
                meter.lap("spawn")
                await lowlevel.checkpoint()
                meter.lap("park")
                for _ in range(size):
                    await receive.receive()
                    got += 1
            meter.lap("receive")

    meter.start()
    anyio.run(main)
    meter.stop("end")
    return got


def gevent_(size: int, meter: Meter) -> int:
    gevent = load("gevent")
    got = 0
    channel = load("gevent.queue").Channel()
    meter.start()
    senders = [gevent.spawn(channel.put, number) for number in range(size)]
    meter.lap("spawn")
    gevent.sleep(0)
    meter.lap("park")
    for _ in range(size):
        channel.get()
        got += 1
    gevent.joinall(senders, raise_error=True)
    meter.stop("receive")
    return got


def floor(size: int, meter: Meter) -> int:
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


PEERS = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}

CASES = [Case("channel, many senders", "us/sender", 1e6, 10_000, 5_000, 50, PEERS)]
