"""A budget stops an endless loop; the other tasks do not notice.

Every await costs an operation, and `charge` pays for work that Bursar cannot see. A task that has used up its turn
goes to the back of the queue, so the endless loop delays the others only a little. When its budget is spent the task
gets `BudgetExceeded` at its await, may clean up, and ends. What a task did not spend goes back to its nursery.

Run:
    bursar run examples/budgets_stop_a_runaway.py

Prints:
    the runaway tidied up
    the honest tasks: [4950, 4950, 4950]
    the nursery has 979696 of 1000000 ops left
    the runaway: task 'runaway' (4) is out of ops: it needs 10, has 0 left and has spent 20,000
"""

import bursar
from bursar import Budget, BudgetExceeded


async def honest():
    total = 0
    for n in range(100):
        total += n
        await bursar.checkpoint()
    return total


async def runaway():
    try:
        while True:
            await bursar.charge(ops=10)
    finally:
        print("the runaway tidied up")


async def main():
    try:
        async with bursar.nursery(budget=Budget(ops=1_000_000), cancel_on_failure=False) as n:
            spinning = n.spawn(runaway, budget=Budget(ops=20_000))
            tasks = [n.spawn(honest, budget=Budget(ops=200)) for _ in range(3)]
            await spinning.wait()
            print("the honest tasks:", [await task for task in tasks])
            print("the nursery has", n.budget.ops, "of 1000000 ops left")
    except* BudgetExceeded as stopped:
        print("the runaway:", str(stopped.exceptions[0]).partition(";")[0])


if __name__ == "__main__":
    bursar.run(main)
