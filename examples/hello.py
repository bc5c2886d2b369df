"""The smallest program: two tasks in a nursery.

The nursery block ends when all its tasks have; after that every result is there. Nobody is left running in the
background, and an error in any task would be raised right here.

Run:
    bursar run examples/hello.py --clock virtual

Prints:
    6
"""

import bursar
from bursar import Budget


async def double(n):
    await bursar.sleep(0.1)
    return n * 2


async def main():
    async with bursar.nursery() as n:
        a = n.spawn(double, 1)
        b = n.spawn(double, 2, budget=Budget(ops=10_000))
    return a.result + b.result


if __name__ == "__main__":
    print(bursar.run(main, clock="virtual"))
