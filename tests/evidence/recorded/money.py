"""A program behind recorded traces in this folder. Do not change it: its traces were recorded from this very text."""

import bursar
from bursar import Aging, Authority, Budget, Priority, Retry, Soft


async def count(rounds):
    for _ in range(rounds):
        await bursar.checkpoint()
    return rounds


attempts = iter(range(10))


async def shaky():
    if next(attempts) < 1:
        raise OSError("not yet")
    return "at last"


async def main():
    async with bursar.nursery(on_exhausted="hold", budget=Budget(ops=5_000)) as n:
        greedy = n.spawn(count, 400, budget=Budget(ops=300))
        broke = await n.wait_exhausted()
        n.recharge(broke, Budget(ops=1_000))
    gate = Authority(order=Aging(), max_concurrent=2, resources={"ram": Soft(10)})
    async with bursar.nursery(admission=gate) as n:
        first = n.spawn(count, 3, priority=Priority.LOW, needs={"ram": 6})
        second = n.spawn(count, 4, priority=Priority.HIGH, needs={"ram": 6})
        third = n.spawn(count, 5, after=[first, second])
        fourth = n.spawn(shaky, retry=Retry(3))
        paused = n.spawn(count, 6)
        await paused.pause()
        await bursar.sleep(1)
        paused.resume()
    return greedy.result, third.result, fourth.result, paused.result
