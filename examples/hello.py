"""The smallest program: two tasks in a nursery.

The nursery's block ends when all its tasks have ended, so after the block every result is there. No task is left
running in the background, and the block would raise an error of any task.

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
