"""Three stages connected by channels: small buffers make the fast stage wait for the slow one.

A sender waits while the buffer is full, so no queue grows without limit. A stage closes its send end to say that no
more values will come; the `async for` loop of the next stage then ends. An end can be cloned; the side is closed when
its last clone is closed.

Run:
    bursar run examples/pipeline_with_channels.py --clock virtual

Prints:
    made 0..19 in 0.8 s, at most 2 were waiting
    squared by 2 workers: [0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225, 256, 289, 324, 361]
    everything took 1.0 s
"""

import bursar


async def make(count, numbers, receive):
    longest = 0
    with numbers:
        for n in range(count):
            await numbers.send(n)
            longest = max(longest, len(receive))
    print(f"made 0..{count - 1} in {await bursar.now():.1f} s, at most {longest} were waiting")


async def square(numbers, squares):
    with squares:
        async for n in numbers:
            await bursar.sleep(0.1)
            await squares.send(n * n)


async def collect(squares):
    return [n async for n in squares]


async def main():
    numbers, to_square = bursar.channel(2)
    squares, to_collect = bursar.channel()
    async with bursar.nursery() as n:
        n.spawn(make, 20, numbers, to_square)
        n.spawn(square, to_square, squares.clone())
        n.spawn(square, to_square, squares)
        collected = n.spawn(collect, to_collect)
    print("squared by 2 workers:", sorted(collected.result))
    return f"everything took {await bursar.now():.1f} s"


if __name__ == "__main__":
    print(bursar.run(main, clock="virtual"))
