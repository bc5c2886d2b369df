"""Bursar as a guest in an asyncio program: one part of the program gets budgets, the rest stays as it is.

The application and its price service are plain asyncio. A few agents that ask for prices need limits. They are a
Bursar program that the application awaits like any coroutine: `run` starts it in asyncio's loop, and `from_asyncio`
lets its tasks await asyncio's objects. When an agent stops waiting, its request is cancelled in asyncio too, and has
ended before the agent continues.

Run:
    bursar run examples/in_asyncio.py

Prints:
    the request for gold was withdrawn
    salt costs 3
    gold: no answer in time
    greedy was stopped: out of syscalls
    the application goes on
"""

import asyncio

import bursar
from bursar import Budget
from bursar.asyncio import from_asyncio, run


async def price(thing):
    """Plain asyncio: a request to a service that answers soon, or never."""
    try:
        await asyncio.sleep(0 if thing != "gold" else 1_000_000)
        return len(thing) - 1
    except asyncio.CancelledError:
        print(f"the request for {thing} was withdrawn")
        raise


async def patient(thing):
    try:
        async with bursar.timeout(0.5):
            return f"{thing} costs {await from_asyncio(price(thing))}"
    except TimeoutError:
        return f"{thing}: no answer in time"


async def greedy():
    try:
        while True:
            await from_asyncio(price("salt"))
    except bursar.BudgetExceeded as stopped:
        return f"greedy was stopped: out of {stopped.component}"


async def agents():
    async with bursar.nursery() as n:
        tasks = [n.spawn(patient, "salt"), n.spawn(patient, "gold"), n.spawn(greedy, budget=Budget(syscalls=10))]
    return [task.result for task in tasks]


async def application():
    for line in await run(agents):
        print(line)
    print("the application goes on")


async def main():
    """Where `bursar run` begins: the application has a loop of its own."""
    asyncio.run(application())


if __name__ == "__main__":
    asyncio.run(application())
