"""A program behind recorded traces in this folder. Do not change it: its traces were recorded from this very text."""

import bursar


async def produce(send, first):
    with send:
        for n in range(first, first + 5):
            await send.send(n)
            await bursar.checkpoint()


async def consume(receive, lock, event):
    got = []
    with receive:
        async for item in receive:
            async with lock:
                await bursar.sleep(0.01)
                got.append(item)
    event.set()
    return got


async def main():
    send, receive = bursar.channel(2)
    lock, event = bursar.Lock(), bursar.Event()
    async with bursar.nursery() as n:
        n.spawn(produce, send, 0)
        n.spawn(produce, send.clone(), 100)
        consumers = [n.spawn(consume, receive, lock, event), n.spawn(consume, receive.clone(), lock, event)]
        await bursar.select(event.wait(), bursar.sleep(3))
    return [task.result for task in consumers]
