"""When every task waits for another, Bursar reports which task waits for what.

Two tasks take two locks in opposite order, a classic mistake. No task can run, no timer is armed and nothing outside
can wake a task. Instead of hanging, the run ends with `Deadlock`, after each task has cleaned up. The message holds
the wait graph. The program runs the deadlock in a second runtime, so that it can print the message.

Run:
    bursar run examples/deadlock_report.py

Prints:
    left tidies up
    right tidies up
    Deadlock: every task waits, no timer is armed and nothing outside can wake a task:
      task 'philosophers' (2) waits for 2 tasks of nursery 'table'  ← 'left', 'right'
      task 'left' (4) waits for a lock held by 'right'  ← 'right'
      task 'right' (5) waits for a lock held by 'left'  ← 'left'
"""

import bursar
from bursar import Deadlock


async def eat(name, first, second):
    try:
        async with first:
            await bursar.checkpoint()
            async with second:
                print(name, "eats")
    finally:
        print(name, "tidies up")


async def philosophers():
    fork, spoon = bursar.Lock(), bursar.Lock()
    async with bursar.nursery(name="table") as n:
        n.spawn(eat, "left", fork, spoon, name="left")
        n.spawn(eat, "right", spoon, fork, name="right")


async def main():
    try:
        bursar.run(philosophers)
    except Deadlock as error:
        return f"Deadlock: {error}"


if __name__ == "__main__":
    print(bursar.run(main))
