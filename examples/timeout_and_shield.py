"""A timeout stops a whole tree of tasks; a shield lets one step finish first.

`timeout` cancels everything that was started inside its block, at every depth, with a reason that says where the
request came from. Cancellation arrives at an await, as `Cancelled`; `finally` blocks run and may await. Inside
`shield` the request waits until the block has ended: use it for a step that must not stop in the middle.

Run:
    bursar run examples/timeout_and_shield.py --clock virtual

Prints:
    0.0 s  payment: begins to write
    1.0 s  search: stopped (parent: nursery 'order' is cancelled (timeout: the time is up))
    1.5 s  payment: written
    1.5 s  payment: stopped before it could send the receipt
    1.5 s  order: TimeoutError: task 'main' did not finish the block within 1.0 s
"""

import bursar
from bursar import Cancelled


async def say(text):
    print(f"{await bursar.now():.1f} s  {text}")


async def search():
    try:
        await bursar.sleep(60)
    except Cancelled as cancelled:
        await say(f"search: stopped ({cancelled.reason})")
        raise


async def payment():
    async with bursar.shield():
        await say("payment: begins to write")
        await bursar.sleep(1.5)
        await say("payment: written")
    try:
        await bursar.sleep(0.1)
        await say("payment: receipt sent")
    except Cancelled:
        await say("payment: stopped before it could send the receipt")
        raise


async def main():
    try:
        async with bursar.timeout(1.0), bursar.nursery(name="order") as n:
            n.spawn(search)
            n.spawn(payment)
    except TimeoutError as error:
        await say(f"order: TimeoutError: {error}")


if __name__ == "__main__":
    bursar.run(main, clock="virtual")
