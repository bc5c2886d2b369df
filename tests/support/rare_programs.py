"""Small programs, each of which makes the law do something rare, recorded. `INCIDENTS[name](path)` leaves a trace.

How a run ends is the business of other tests; here it only has to end, and to have been recorded.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import bursar
from bursar import Budget, Runtime
from bursar.asyncio import run as run_in_asyncio
from bursar_demo.program import service
from support.hosts import CLOSE_ATTEMPTS_MAX, from_asyncio

INCIDENTS: dict[str, Callable[[Path], None]] = {}


def incident(**keywords):
    """Register a program; the keywords are those of its runtime."""

    def register(main):
        def record(path: Path) -> None:
            runtime = Runtime(record=path, **{"clock": "virtual", "profile": "cluster", **keywords})
            with suppress(bursar.BursarError, BaseExceptionGroup, KeyboardInterrupt, ValueError):
                runtime.run(main, runtime)

        INCIDENTS[main.__name__] = record
        return main

    return register


async def forever():
    while True:
        await bursar.sleep(0.25)


async def stubborn():
    while True:
        with suppress(bursar.Cancelled):
            await forever()


async def spend(ops: int):
    for _ in range(ops):
        await bursar.checkpoint()


@incident()
async def deadlock(runtime):
    async with bursar.nursery() as n:
        n.spawn(waits_for_ever)
        n.spawn(waits_behind_a_shield)


async def waits_for_ever():
    await bursar.Event().wait()


async def waits_behind_a_shield():
    async with bursar.shield():
        await bursar.Event().wait()


@incident(cleanup=bursar.Cleanup(ops=20, seconds=100.0))
async def cut_off_for_its_operations(runtime):
    async with bursar.nursery() as n:
        n.spawn(stubborn)
        n.spawn(owns_a_stubborn_one)
        await bursar.sleep(1)
        n.cancel("enough")


async def owns_a_stubborn_one():
    async with bursar.nursery() as n:
        n.spawn(stubborn)
        await forever()


@incident(cleanup=bursar.Cleanup(ops=10_000, seconds=1.0))
async def cut_off_for_its_time(runtime):
    async with bursar.timeout(2):
        try:
            await bursar.sleep(100)
        finally:
            await bursar.sleep(50)


@incident(budget=Budget(ops=500, spawns=20, memory=100))
async def out_of_budget(runtime):
    async with bursar.nursery(cancel_on_failure=False, budget=Budget(ops=100)) as n:
        n.spawn(spend, 100, budget=Budget(ops=10))
        n.spawn(tidies_up_on_credit, budget=Budget(ops=5))
        n.spawn(wants_memory, budget=Budget(memory=10))


async def tidies_up_on_credit():
    try:
        await spend(10)
    finally:
        await spend(10)


async def wants_memory():
    with suppress(bursar.MemoryBudgetExceeded):
        await bursar.charge(memory=11)
    await bursar.charge(memory=10)


@incident(capabilities=[bursar.CapSpawn(), bursar.CapBudget(limits=Budget(ops=100)), bursar.CapTimer()])
async def held_and_recharged(runtime):
    async with bursar.nursery(on_exhausted="hold", budget=Budget(ops=60)) as n:
        by_owner = n.spawn(spend, 20, budget=Budget(ops=10))
        by_capability = n.spawn(spend, 20, budget=Budget(ops=10))
        for _ in range(2):
            task = await n.wait_exhausted()
            if task == by_owner:
                n.recharge(task, Budget(ops=15))
            elif task == by_capability:
                await bursar.recharge(Budget(ops=15), task)
        n.spawn(spend, 20, budget=Budget(ops=5), name="left to its fate")
        await bursar.sleep(1)
        n.cancel()


async def spend_tokens(*amounts: int):
    for tokens in amounts:
        await bursar.charge(tokens=tokens, calls=1)


@incident(
    budget=Budget(tokens=100),
    capabilities=[bursar.CapSpawn(), bursar.CapBudget(limits=Budget(tokens=20)), bursar.CapTimer()],
)
async def named_counters(runtime):
    async with bursar.nursery(on_exhausted="hold", budget=Budget(tokens=60, calls=9), cancel_on_failure=False) as n:
        by_owner = n.spawn(spend_tokens, 5, 7, budget=Budget(tokens=10))
        n.spawn(spend_tokens, 5, 7, budget=Budget(tokens=6))
        for _ in range(2):
            task = await n.wait_exhausted()
            if task == by_owner:
                n.recharge(task, Budget(tokens=15))
            else:
                await bursar.recharge(Budget(tokens=15), task)
    await spend_tokens(90)


@incident(clock="real", budget=Budget(cpu_ns=10**15))
async def measured_time(runtime):
    async with bursar.nursery(on_exhausted="hold", budget=Budget(cpu_ns=10**12)) as n:
        n.spawn(spend, 5)
        n.spawn(spend, 5, budget=Budget(cpu_ns=1))
        n.spawn(abs, -1)
        n.recharge(await n.wait_exhausted(), Budget(cpu_ns=10**10))


@incident(workers=2, steal="least_loaded")
async def supervised(runtime):
    failures = iter(range(3))

    async def fails_thrice():
        await bursar.sleep(0.5)
        if next(failures, None) is not None:
            raise ValueError("again")

    async with bursar.supervisor(
        "one_for_all", max_restarts=5, on_exhausted="recharge", recharge=Budget(ops=40), budget=Budget(ops=400)
    ) as s:
        s.start(fails_thrice, restart="transient")
        s.start(spend, 30, budget=Budget(ops=10))
        await bursar.sleep(5)
        s.stop()


@incident(budget=Budget(ops=300, spawns=40))
async def forgotten_generators(runtime):
    async def numbers():
        try:
            yield 1
        finally:
            await spend(3)

    async def forgets():
        await anext(numbers())
        gc.collect()
        await bursar.checkpoint()

    kept = numbers()
    await anext(kept)
    async with bursar.nursery() as n:
        for _ in range(3):
            n.spawn(forgets)


@incident()
async def leaks(runtime):
    send, _receive = await bursar.channel(1)
    semaphore = bursar.Semaphore(1)

    async def takes():
        await semaphore.acquire()
        await send.reserve()
        await bursar.sleep(1)

    async def waits():
        async with semaphore:
            await send.send(1)

    async with bursar.nursery() as n:
        n.spawn(takes)
        n.spawn(waits)


@incident(workers=4, steal="round_robin")
async def siblings(runtime):
    async def fails():
        await bursar.sleep(1)
        raise ValueError("no")

    async def has_children():
        async with bursar.nursery() as n:
            n.spawn(forever)
            async with bursar.shield():
                await bursar.sleep(3)

    async def ends_inside_its_block():
        block = bursar.nursery()
        n = await block.__aenter__()
        n.spawn(forever)
        await bursar.sleep(0.5)

    async with bursar.nursery() as n:
        n.spawn(fails)
        n.spawn(has_children)
        n.spawn(ends_inside_its_block)


@incident()
async def a_burst_of_timers(runtime):
    async with bursar.nursery() as n:
        for i in range(600):
            n.spawn(late_sleeper, i)


async def late_sleeper(i):
    async with bursar.timeout(2 if i % 3 else 1):
        await bursar.select(bursar.sleep(1), bursar.sleep(1 + i % 2), bursar.Event().wait())
        await bursar.sleep(i % 5)


@incident(cleanup=bursar.Cleanup(ops=20, seconds=1.0), capabilities=[bursar.CapSpawn(), bursar.CapTimer()])
async def misfortunes(runtime):
    async def fails():
        raise ValueError("unseen")

    async def ends_without_looking():
        n = await bursar.nursery(cancel_on_failure=False).__aenter__()
        n.spawn(fails)
        await bursar.sleep(1)

    async def cannot_be_closed():
        for _ in range(CLOSE_ATTEMPTS_MAX + 2):  # one for `Cancelled`; and the collector closes it once more
            with suppress(BaseException):
                await bursar.sleep(100)

    async def fails_when_closed():
        try:
            with suppress(bursar.Cancelled):
                await bursar.sleep(100)
            await bursar.sleep(100)
        finally:
            raise ValueError("while it was closed")

    async def has_a_bad_generator():
        async def numbers():
            try:
                yield 1
            finally:
                raise ValueError("while it was closed")

        await anext(numbers())

    async def leaves_a_block_before_the_one_inside():
        async with bursar.timeout(1), bursar.nursery(), bursar.timeout(50):
            await bursar.nursery().__aenter__()
            await bursar.sleep(100)

    rogues = (ends_without_looking, cannot_be_closed, fails_when_closed, has_a_bad_generator)
    async with bursar.nursery(cancel_on_failure=False) as n:
        for fn in (*rogues, leaves_a_block_before_the_one_inside):
            n.spawn(fn)
        with suppress(bursar.CapabilityDenied):
            await bursar.channel(1)
        await bursar.sleep(3)
        n.cancel()


@incident()
async def asks_itself_to_stop(runtime):
    (await bursar.current_task()).cancel("now")
    with suppress(bursar.Cancelled):
        await bursar.checkpoint()


@incident(clock="real")
async def stopped_from_another_thread(runtime):
    thread = threading.Thread(target=runtime.cancel, args=("from outside",))
    thread.start()
    try:
        await forever()
    finally:
        thread.join()


@incident(clock="real")
async def interrupted(runtime):
    async with bursar.nursery() as n:
        n.spawn(forever)
        await bursar.checkpoint()
        signal.raise_signal(signal.SIGINT)
        await forever()


@incident(clock="real")
async def interrupted_twice(runtime):
    async with bursar.nursery() as n:
        n.spawn(forever)
        n.spawn(interrupts_twice)


async def interrupts_twice():
    send, _ = await bursar.channel(1)
    with await send.reserve():
        async with bursar.timeout(100):
            await bursar.checkpoint()
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)


@incident(clock="real", workers=2)
async def real_time(runtime):
    async with bursar.nursery() as n:
        for i in range(4):
            n.spawn(naps, i)


async def naps(i):
    for _ in range(3):
        with suppress(TimeoutError):
            async with bursar.timeout(0.002):
                await bursar.sleep(0.001 * i)
        await bursar.checkpoint()


@incident(cleanup=bursar.Cleanup(seconds=2.0))
async def the_demo(runtime):
    await service(60)


@incident(budget=Budget(ops=2000, spawns=20, syscalls=20))
async def functions(runtime):
    """On threads: they pay in slices, and give back; one runs dry, one is asked to stop, one fails."""
    begun = threading.Event()
    async with bursar.nursery(cancel_on_failure=False) as n:
        n.spawn(pays, 100)
        n.spawn(pays, 1000, budget=Budget(ops=300))
        n.spawn(int, "no number")
        works = n.spawn(works_on, begun)
        while not begun.is_set():
            await bursar.checkpoint()
        works.cancel("enough")


def pays(ops, checkpoint: bursar.Checkpoint):
    for _ in range(ops):
        checkpoint()


def works_on(begun, checkpoint: bursar.Checkpoint):
    begun.set()
    while True:
        checkpoint()


def in_asyncio(path: Path) -> None:
    """Cancellation crosses into asyncio, and what does not stop there is abandoned."""

    async def stays():
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(100)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(crosses, asyncio.sleep, 0)
            n.spawn(crosses, asyncio.sleep, 100)
            n.spawn(crosses, stays)
            await bursar.checkpoint()
            n.cancel()

    async def crosses(fn, *args):
        await from_asyncio(fn(*args))

    asyncio.run(run_in_asyncio(main, record=path, cleanup=bursar.Cleanup(seconds=0.001)))


INCIDENTS["in_asyncio"] = in_asyncio


@incident()
async def sealed(runtime):
    """A task spawns a sibling after the body has ended, and seals the nursery; the next spawn is refused."""

    async def spawns_and_seals(n):
        await bursar.checkpoint()
        n.spawn(spend, 2)
        n.close()
        with suppress(bursar.NurseryClosed):
            n.spawn(spend, 2)

    async with bursar.nursery() as n:
        n.spawn(spawns_and_seals, n)
    async with bursar.nursery(sealed=True) as n:
        n.spawn(spend, 2)


# ---- admission


@incident()
async def admitted(runtime):
    """Order, aging, resources, dependencies, drops of every kind, attempts, pauses, a place that is lent."""
    authority = bursar.Authority(
        order=bursar.Aging(0.5, 20), max_concurrent=2, max_queue=6, max_wait=3.0, resources={"cpu": 2, "ram": 10}
    )
    async with bursar.nursery(admission=authority, cancel_on_failure=False) as n:
        first = n.spawn(sleeps, 1.0)
        second = n.spawn(sleeps, 1.0, needs={"cpu": 1, "ram": 6})
        for i, priority in enumerate([100, 10, 50, 57]):
            n.spawn(sleeps, 0.5, priority=priority, needs={"cpu": 1 + i % 2, "ram": 3 * i})
        follower = n.spawn(sleeps, 0.25, after=[first, second])
        n.spawn(sleeps, 0.25, after=[follower])
        doomed = n.spawn(fails_at_once, retry=bursar.Retry(2, backoff=0.25))
        n.spawn(sleeps, 0.25, after=[doomed])
        await bursar.sleep(0.25)
        await second.pause()
        await follower.pause()
        for _ in range(4):
            n.spawn(sleeps, 1.0)
        await bursar.sleep(2.0)
        second.resume()
        follower.resume()
        by_hand = n.spawn(sleeps, 1.0, priority=100)
        with suppress(bursar.ScopeMisuse):
            by_hand.drop("by hand")
        await bursar.sleep(4.0)
        late = n.spawn(sleeps, 1.0, after=[by_hand])
        late.cancel()


async def sleeps(seconds: float):
    await bursar.sleep(seconds)


async def fails_at_once():
    raise ValueError


@incident(admission=bursar.Authority(max_concurrent=2))
async def lent(runtime):
    """A gate of the whole runtime: parents lend their places to their children, and want them back."""
    async with bursar.nursery() as n:
        parents = [n.spawn(parent) for _ in range(3)]
        await bursar.sleep(0.25)
        await parents[0].pause()
        await bursar.sleep(1.0)
        parents[0].resume()


async def parent():
    async with bursar.nursery() as n:
        n.spawn(sleeps, 0.5)
        n.spawn(sleeps, 0.25)
    await bursar.sleep(0.5)


@incident()
async def paused_on_a_thread(runtime):
    """At a checkpoint, and resumed; another one is told to go on before it came to one."""
    async with bursar.nursery() as n:
        task = n.spawn(until_told, told := threading.Event())
        await bursar.checkpoint()
        await task.pause(timeout=100.0)
        told.set()
        task.resume()


def until_told(told: threading.Event, checkpoint: bursar.Checkpoint):
    while not told.is_set():
        checkpoint()
    checkpoint(progress=1.0)
