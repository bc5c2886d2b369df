"""Wrong uses. Every line that ends in the marker must be an error to a type checker, and no other line."""

import bursar
from bursar import Budget, Mailbox, ReceiveEnd, SendEnd, Task


async def double(n: int) -> int:
    return 2 * n


def plain(n: int) -> int:
    return n


async def talker(mailbox: Mailbox[str], times: int) -> None:
    pass


async def main(send: SendEnd[int], receive: ReceiveEnd[int]) -> None:
    async with bursar.nursery() as n:
        n.spawn(double, "one")  # wrong
        n.spawn(double)  # wrong
        n.spawn(double, 1, 2)  # wrong
        n.spawn(double(1))  # wrong
        n.spawn(plain, "one")  # wrong
        n.spawn(plain, 1, 2)  # wrong
        n.spawn(plain, 1, needs=3)  # wrong
        n.spawn(bursar.sleep, "1")  # wrong
        n.spawn(double, 1, budget=5)  # wrong
        wrong: Task[str] = n.spawn(double, 1)  # wrong
        print(wrong.result, (await n.spawn(double, 1)).upper())  # wrong
    async with bursar.nursery(on_exhausted="explode"):  # wrong
        pass
    await send.send("text")  # wrong
    send.send_nowait(None)  # wrong
    text: str = await receive.receive()  # wrong
    await bursar.sleep("1")  # wrong
    await bursar.select(5)  # wrong
    async with bursar.supervisor("none_for_all") as s:  # wrong
        s.start(double, "one")  # wrong
        s.start(double, 1, restart="sometimes")  # wrong
        bursar.actor(s, talker, "three")  # wrong
        await bursar.actor(s, talker, 3).send(5)  # wrong
    print(text)


bursar.run(double, "one")  # wrong
bursar.run(plain, 1)  # wrong
bursar.run(double, 1, clock="sundial")  # wrong
Budget(ops="many")  # wrong
Budget().ops = 5  # wrong
