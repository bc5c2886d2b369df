"""Right uses of every public name with a type, and the types that a checker must find for them."""

from typing import Any, assert_type

import bursar
from bursar import (
    Actor,
    Budget,
    Call,
    CapSpawn,
    Mailbox,
    Nursery,
    Outcome,
    ReceiveEnd,
    Reservation,
    Selected,
    SendEnd,
    State,
    Task,
)


async def double(n: int) -> int:
    return 2 * n


async def join(text: str, n: int, *, sep: str = "") -> str:
    return sep.join([text] * n)


async def nothing() -> None:
    pass


async def spawning() -> int:
    async with bursar.nursery(budget=Budget(ops=100), name="n") as n:
        assert_type(n, Nursery)
        number = n.spawn(double, 1)
        assert_type(number, Task[int])
        text = n.spawn(join, "x", 3, name="joiner", budget=Budget(ops=5))
        assert_type(text, Task[str])
        assert_type(n.spawn(nothing), Task[None])
        assert_type(await number, int)
        assert_type(text.outcome, Outcome | None)
        assert_type(number.state, State)
        assert_type(number.spent, Budget)
        assert_type(await number.wait(), Outcome)
        n.cancel("enough")
    assert_type(text.result, str)
    return number.result


def plain(text: str, n: int) -> str:
    return text * n


def render(frames: int, checkpoint: bursar.Checkpoint) -> bytes:
    checkpoint()
    return bytes(frames)


async def on_threads() -> None:
    async with bursar.nursery(admission=bursar.Authority(resources={"cpu": 2})) as n:
        assert_type(n.spawn(plain, "x", 3, needs={"cpu": 1}), Task[str])
        film = n.spawn(render, 25, priority=bursar.Priority.HIGH)
        assert_type(film, Task[bytes])
        assert_type(n.spawn(len, film, after=[film]), Task[int])
        assert_type(n.spawn(bursar.sleep, 1), Task[None])


async def times() -> float:
    await bursar.sleep(1)
    await bursar.sleep_until(2.5)
    await bursar.checkpoint()
    await bursar.charge(ops=5, memory=1)
    async with bursar.timeout(5) as limit, bursar.shield():
        assert_type(limit.expired, bool)
    async with bursar.timeout(None):
        pass
    assert_type(await bursar.entropy(), int)
    return await bursar.now()


async def numbers(send: SendEnd[int], receive: ReceiveEnd[int]) -> int:
    await send.send(1)
    send.send_nowait(2)
    reservation = await send.reserve()
    assert_type(reservation, Reservation[int])
    reservation.send(3)
    assert_type(receive.receive_nowait(), int)
    async for value in receive:
        assert_type(value, int)
    with send.clone() as more:
        assert_type(more, SendEnd[int])
    return await receive.receive()


async def choosing(receive: ReceiveEnd[int], event: bursar.Event, task: Task[str]) -> int:
    chosen = await bursar.select(receive.receive(), event.wait(), bursar.sleep(1), task.wait(), default=None)
    assert_type(chosen, Selected)
    return chosen.index


async def locks() -> None:
    lock, semaphore = bursar.Lock(), bursar.Semaphore(2)
    async with lock, semaphore:
        assert_type(lock.locked(), bool)
    reservation = await semaphore.acquire()
    reservation.release()


async def talker(mailbox: Mailbox[str], times: int) -> None:
    async for message in mailbox:
        assert_type(message, str)


async def answerer(mailbox: Mailbox[Call]) -> None:
    async for call in mailbox:
        call.reply(call.payload)


async def supervising() -> None:
    async with bursar.supervisor("one_for_all", max_restarts=5) as s:
        child = s.start(double, 1, restart="permanent")
        assert_type(child.restarts, int)
        ref = bursar.actor(s, talker, 3)
        assert_type(ref, Actor[str])
        await ref.send("x")
        assert_type(await ref.ask("x"), Any)


async def capable() -> None:
    held = await bursar.capabilities()
    narrow = CapSpawn(max_tasks=1).attenuate(max_tasks=0)
    assert_type(narrow, CapSpawn)
    assert CapSpawn in held


def running() -> None:
    assert_type(bursar.run(double, 1), int)
    assert_type(bursar.run(join, "x", 2, clock="virtual", seed=1), str)
    runtime = bursar.Runtime(clock="virtual", profile="cluster")
    assert_type(runtime.run(double, 2), int)
    assert_type(runtime.grant(CapSpawn()), CapSpawn)
    assert_type(runtime.fingerprint, str)
    assert_type(str(runtime.snapshot()), str)
    assert_type(runtime.statistics().spawned, int)


async def native_code() -> None:
    absolute = bursar.native(0x1234, name="absolute", stack=1 << 16)
    assert_type(absolute, bursar.NativeFunction)
    assert_type(await absolute(-1), int)
    async with bursar.nursery() as n:
        assert_type(n.spawn(absolute, b"bytes"), bursar.Task[int])
        assert_type(n.spawn(absolute), bursar.Task[int])
