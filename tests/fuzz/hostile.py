"""Hostile programs on the kernel of this process: what became of each, as JSON.

    BURSAR_KERNEL=python .venv/bin/python tests/fuzz/hostile.py 17 18

Each program has a few tasks that do what a careful program does not: finalizers that spawn, cancel and send; async
generators that are left half way, in cycles; requests that are dropped, iterated, awaited twice or yielded by hand;
cleanups that await, fail or are cancelled again. The collector runs when a program says so, and not otherwise: the
moment of a collection is an input that both kernels must get at the same place.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import warnings
from random import Random
from typing import Any

import bursar

TASKS = 4
STEPS = 6
DEPTH_MAX = 3


class Finalizer:
    """Does something when it is freed."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.act()


class ByHand:
    """Yields a request without awaiting it."""

    def __init__(self, request: Any) -> None:
        self.request = request

    def __await__(self) -> Any:
        return (yield self.request)


class Program:
    """One program, a function of its seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[str] = []
        self.tasks: list[Any] = []
        self.kept: list[Any] = []
        self.made = 0

    def say(self, *words: Any) -> None:
        self.log.append(" ".join(map(str, words)))

    async def main(self) -> None:
        self.channels = [bursar.channel(size) for size in (0, 1, 3)]
        self.event, self.lock = bursar.Event(), bursar.Lock()
        async with bursar.nursery(cancel_on_failure=self.random.random() < 0.5) as n:
            self.nursery = n
            for _ in range(TASKS):
                self.spawn(n)
            await bursar.sleep(self.random.randrange(4))
            if self.random.random() < 0.6:
                n.cancel("enough")

    def spawn(self, n: Any) -> None:
        if self.made < 3 * TASKS:
            self.made += 1
            self.tasks.append(n.spawn(self.body, self.made, self.random.randrange(1 << 30)))

    async def body(self, number: int, seed: int, depth: int = 0) -> Any:
        random = Random(seed)
        try:
            for _ in range(STEPS):
                step = random.choice(ACTIONS)
                self.say(number, step.__name__)
                try:
                    await step(self, random, number, depth)
                except (bursar.BursarError, TypeError, RuntimeError, TimeoutError, StopAsyncIteration) as error:
                    self.say(number, "got", type(error).__name__)
        finally:
            if random.random() < 0.4:
                self.say(number, "cleans up")
                await bursar.sleep(random.randrange(2))
                if random.random() < 0.3 and self.tasks:
                    random.choice(self.tasks).cancel("in a cleanup")
                if random.random() < 0.2:
                    raise ValueError("in a cleanup")
            self.say(number, "ends")
        return random.choice([None, number, self.tasks])

    # ---- actions

    async def waits(self, random: Random, number: int, depth: int) -> None:
        await random.choice([bursar.checkpoint, self.event.wait, lambda: bursar.sleep(random.randrange(3))])()

    async def sends(self, random: Random, number: int, depth: int) -> None:
        send, receive = random.choice(self.channels)
        async with bursar.timeout(random.randrange(1, 3)):
            self.say(number, "moved", await random.choice([lambda: send.send(number), receive.receive])())

    async def selects(self, random: Random, number: int, depth: int) -> None:
        send, receive = random.choice(self.channels)
        index, _ = await bursar.select(receive.receive(), send.send(number), bursar.sleep(1), self.event.wait())
        self.say(number, "case", index)

    async def drops(self, random: Random, number: int, depth: int) -> None:
        send, receive = random.choice(self.channels)
        random.choice([lambda: send.send(1), receive.receive, bursar.nursery, self.event.wait, bursar.now])()

    async def iterates(self, random: Random, number: int, depth: int) -> None:
        receive = random.choice(self.channels)[1]
        request = random.choice([receive.receive, lambda: bursar.sleep(1), bursar.checkpoint])()
        random.choice([list, next, lambda r: r.send(None) if hasattr(r, "send") else next(r)])(request)

    async def awaits_twice(self, random: Random, number: int, depth: int) -> None:
        request = random.choice([lambda: bursar.sleep(1), bursar.now, bursar.entropy])()
        self.say(number, "twice", await request, await request)

    async def yields_by_hand(self, random: Random, number: int, depth: int) -> None:
        await ByHand(random.choice([lambda: bursar.sleep(1), bursar.checkpoint, bursar.now])())

    async def leaves_a_finalizer(self, random: Random, number: int, depth: int) -> None:
        act = random.choice([self.event.set, lambda: self.spawn(self.nursery), lambda: self.cancel_one(number)])
        thing = Finalizer(lambda: (self.say(number, "finalizer"), act()))
        if random.random() < 0.5:
            thing.itself = thing  # the collector frees it, when a program asks for a collection
        if random.random() < 0.3:
            self.kept.append(thing)

    async def collects(self, random: Random, number: int, depth: int) -> None:
        if self.kept and random.random() < 0.5:
            self.kept.pop()
        gc.collect()

    def cancel_one(self, number: int) -> None:
        if self.tasks:
            self.tasks[number % len(self.tasks)].cancel(f"by {number}")

    async def cancels(self, random: Random, number: int, depth: int) -> None:
        if random.random() < 0.4:
            random.choice(self.tasks).cancel(f"by {number}")

    async def numbers(self, number: int, awaits: bool) -> Any:
        try:
            for i in range(5):
                yield i
                await bursar.sleep(i % 2)
        finally:
            self.say(number, "generator closes")
            if awaits:
                await bursar.sleep(1)
                self.say(number, "generator closed")
                if number % 5 == 0:
                    raise ValueError("in a generator")

    async def generates(self, random: Random, number: int, depth: int) -> None:
        g, rounds = self.numbers(number, random.random() < 0.6), random.randrange(5)
        if random.random() < 0.4:
            self.kept.append(g)
        if random.random() < 0.3:
            cycle: list[Any] = [g]
            cycle.append(cycle)
        async for i in g:
            if i == rounds:
                break
            await bursar.sleep(random.randrange(2))

    async def nests(self, random: Random, number: int, depth: int) -> None:
        if depth < DEPTH_MAX:
            async with bursar.nursery(cancel_on_failure=random.random() < 0.5) as n:
                n.spawn(self.body, number, random.randrange(1 << 30), depth + 1)
                if random.random() < 0.3:
                    await bursar.sleep(1)
                    n.cancel()

    async def shields(self, random: Random, number: int, depth: int) -> None:
        async with bursar.shield(), bursar.timeout(2):
            await bursar.sleep(random.randrange(4))

    async def locks(self, random: Random, number: int, depth: int) -> None:
        async with bursar.timeout(3), self.lock:
            await bursar.sleep(random.randrange(2))

    async def swallows(self, random: Random, number: int, depth: int) -> None:
        with contextlib.suppress(bursar.Cancelled):
            await bursar.sleep(random.randrange(3))

    async def leaks(self, random: Random, number: int, depth: int) -> None:
        async with bursar.timeout(1):
            self.kept.append(await random.choice(self.channels)[0].reserve())

    async def fails(self, random: Random, number: int, depth: int) -> None:
        if random.random() < 0.2:
            raise ValueError(number)


ACTIONS = [
    Program.awaits_twice,
    Program.cancels,
    Program.collects,
    Program.drops,
    Program.fails,
    Program.generates,
    Program.iterates,
    Program.leaves_a_finalizer,
    Program.leaks,
    Program.locks,
    Program.nests,
    Program.selects,
    Program.sends,
    Program.shields,
    Program.swallows,
    Program.waits,
    Program.yields_by_hand,
]


def tried(seed: int) -> dict[str, Any]:
    """What became of one program."""
    program = Program(seed)
    runtime = bursar.Runtime(clock="virtual", seed=seed, workers=1 + seed % 3)
    try:
        runtime.run(program.main)
        ending = "ok"
    except BaseException as error:
        ending = f"{type(error).__name__}: {len(getattr(error, 'exceptions', ()))}"
    found = {"ending": ending, "fingerprint": runtime.fingerprint, "log": program.log}
    found["reports"] = [(report.kind, report.task) for report in runtime.reports]
    return json.loads(json.dumps(found))


def main() -> None:
    first, last = map(int, sys.argv[1:])
    warnings.simplefilter("ignore")  # programs forget `await` on purpose
    gc.disable()
    results = {}
    for seed in range(first, last):
        results[seed] = tried(seed)
        gc.collect()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
