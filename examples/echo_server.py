"""An echo server over TCP, a client that talks to it, and a clean end: one task per connection, nothing left open.

`serve` gives every connection its own task in the nursery, with its own budget. A connection that asks for too much
is cut, and the others continue. Closing the listener ends `serve`; the block ends when the last connection has ended.

Run:
    bursar run examples/echo_server.py

Prints:
    alice heard: b'hello, echo'
    bob   heard: b'anybody there?'
    greedy was cut after 25 round trips
    carol heard: b'still serving'
"""

import bursar
from bursar import Budget

PURSE = Budget(syscalls=50)  # for one connection: 25 round trips


async def echo(stream):
    while data := await stream.receive():
        await stream.send(data)


async def talk(name, port, text):
    async with await bursar.open_tcp("127.0.0.1", port) as stream:
        await stream.send(text)
        print(f"{name:5} heard: {await stream.receive_exactly(len(text))}")


async def greedy(port):
    rounds = 0
    async with await bursar.open_tcp("127.0.0.1", port) as stream:
        try:
            while True:
                await stream.send(b"more")
                await stream.receive_exactly(4)
                rounds += 1
        except (bursar.StreamEnded, ConnectionError):
            print(f"greedy was cut after {rounds} round trips")


async def main():
    async with await bursar.listen_tcp("127.0.0.1", 0) as listener, bursar.nursery() as n:
        n.spawn(serve_echo, listener, n)
        await talk("alice", listener.port, b"hello, echo")
        await talk("bob", listener.port, b"anybody there?")
        await greedy(listener.port)
        await talk("carol", listener.port, b"still serving")
        listener.close()


async def serve_echo(listener, n):
    await bursar.serve(listener, echo, n, budget=PURSE)


if __name__ == "__main__":
    bursar.run(main)
