"""A send in two steps, and what happens when a task forgets the second step.

`reserve` is the first step of a send: it waits for a place in the channel. The second step puts the value in, and
never waits. Between the two steps the place is an obligation: the task must use it or give it back. If a task ends
without doing either, Bursar gives the place to the next task, and reports the line that made the reservation.

Run:
    bursar run examples/obligations.py

Prints:
    careful: has a place, and changes its mind
    keen: has a place, and uses it
    forgetful: has a place, and forgets it
    received: ['from keen', 'from last']
    report: obligation_leaked by 'forgetful': a reserved place in channel 8, made at obligations.py:33 in forgetful
"""

import bursar


async def careful(send):
    with await send.reserve():
        print("careful: has a place, and changes its mind")


async def keen(send):
    reservation = await send.reserve()
    print("keen: has a place, and uses it")
    reservation.send("from keen")


async def forgetful(send):
    await send.reserve()
    print("forgetful: has a place, and forgets it")


async def last(send):
    with send:
        await send.send("from last")


async def program():
    send, receive = bursar.channel(1)
    async with bursar.nursery() as n:
        for fn in (careful, keen, forgetful, last):
            n.spawn(fn, send, name=fn.__name__)
        print("received:", [value async for value in receive])


async def main():
    runtime = bursar.Runtime()
    runtime.run(program)
    for report in runtime.reports:
        what, _, where = report.detail.partition(", made at ")
        print(f"report: {report.kind} by {report.task!r}: {what}, made at {where.rpartition('/')[2]}")


if __name__ == "__main__":
    bursar.run(main)
