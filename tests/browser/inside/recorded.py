"""A program that uses everything of a host: time, entropy, turns. It is recorded in Pyodide and replayed
outside, so it imports nothing that only one of these has."""

import bursar
from bursar import Budget, BudgetExceeded


async def main():
    began = await bursar.now()
    log = []
    async with bursar.nursery() as n:
        for i in range(100):
            n.spawn(sleeper, i, log)
        n.spawn(thrifty)
    return [log, await bursar.now() - began, (await bursar.host_entropy(8)).hex(), await bursar.entropy()]


async def sleeper(i, log):
    await bursar.sleep(0.001 * (i % 7))
    for _ in range(i % 3):
        await bursar.checkpoint()
    log.append(i)


async def thrifty():
    """Spends its budget, slowly enough that batches are cut, and returns."""
    async with bursar.nursery() as n:
        n.spawn(burn, budget=Budget(ops=30_000))


async def burn():
    try:
        while True:
            await bursar.charge(ops=1)
    except BudgetExceeded:
        return
