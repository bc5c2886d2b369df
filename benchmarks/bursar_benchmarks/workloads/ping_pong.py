"""Ping-pong: two tasks answer each other over two channels without a buffer, so every message is a switch.

Measured: CPU time from the first message to the end of both sides, per message. asyncio has no rendezvous; the nearest
it has is a `Queue` with one place, which does less: a put does not wait for the get. Not measured: several receivers,
select, closing. The floor passes values over a deque between two coroutines that alternate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.floor import Coro, drive, switch
from bursar_benchmarks.workloads.loops import on_loops, runner_of


def bursar_(size: int, meter: Meter) -> int:
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


def asyncio_(size: int, meter: Meter, *, loop: str) -> int:
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

    runner_of(loop)(main())
    return got


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")
    got = 0

    async def pong(receive: Any, send: Any) -> None:
        nonlocal got
        for _ in range(size // 2):
            await send.send(await receive.receive())
            got += 1

    async def main() -> None:
        nonlocal got
        ball_send, ball_receive = trio.open_memory_channel(0)
        back_send, back_receive = trio.open_memory_channel(0)
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


def anyio_(size: int, meter: Meter) -> int:
    anyio = load("anyio")
    got = 0

    async def pong(receive: Any, send: Any) -> None:
        nonlocal got
        for _ in range(size // 2):
            await send.send(await receive.receive())
            got += 1

    async def main() -> None:
        nonlocal got
        ball_send, ball_receive = anyio.create_memory_object_stream(0)
        back_send, back_receive = anyio.create_memory_object_stream(0)
        with ball_send, ball_receive, back_send, back_receive:
            async with anyio.create_task_group() as group:
                group.start_soon(pong, ball_receive, back_send)
                meter.start()
                for number in range(size // 2):
                    await ball_send.send(number)
                    await back_receive.receive()
                    got += 1
            meter.stop()

    anyio.run(main)
    return got


def gevent_(size: int, meter: Meter) -> int:
    gevent, queue = load("gevent"), load("gevent.queue")
    got = 0
    ball, back = queue.Channel(), queue.Channel()

    def pong() -> None:
        nonlocal got
        for _ in range(size // 2):
            back.put(ball.get())
            got += 1

    other = gevent.spawn(pong)
    meter.start()
    for number in range(size // 2):
        ball.put(number)
        back.get()
        got += 1
    gevent.joinall([other], raise_error=True)
    meter.stop()
    return got


def floor(size: int, meter: Meter) -> int:
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


PEERS = {
    "bursar": bursar_,
    **on_loops(asyncio_),
    "trio": trio_,
    "anyio": anyio_,
    "gevent": gevent_,
    "floor": floor,
}

CASES = [Case("channel, ping-pong", "ns/message", 1e9, 50_000, 10_000, 100, PEERS)]
