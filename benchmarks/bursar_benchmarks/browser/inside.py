"""The measurements. This file runs inside Pyodide, and the driver calls `hops`, `steps` and `frames` there.

A hop is one call from JavaScript into Python that ends by queueing the next call in the page. Every batch of the pump
pays for one hop besides its steps. The page itself counts its frames; a person would notice the longest gap between two
frames.
"""

import asyncio

import js
from pyodide.code import run_js
from pyodide.ffi import create_once_callable, create_proxy

import bursar
from bursar import Budget, BudgetExceeded, Runtime
from bursar.browser import guest
from bursar.hosts.browser import BrowserHost

FRAME_MS_GOOD = 50  # the goal: no frame longer than this
SPAWNS_PER_TURN = 50  # a loop that spawns gives way now and then, like any other

count_frames = run_js(
    """() => {
        const gaps = [];
        let last = performance.now();
        let stopped = null;
        const tick = () => {
            const now = performance.now();
            gaps.push(now - last);
            last = now;
            if (stopped) stopped(gaps);
            else requestAnimationFrame(tick);
        };
        requestAnimationFrame(tick);
        return {stop: () => new Promise((resolve) => { stopped = resolve; })};
    }"""
)


async def hop(times, queue, wrap=None):
    """Microseconds per hop. With `wrap` the function is handed over anew each time, without it once for all."""
    over = asyncio.get_running_loop().create_future()
    left = times

    def step(*_):
        nonlocal left
        left -= 1
        if left:
            queue(wrap(step) if wrap else proxy)
        else:
            over.set_result(js.performance.now())

    proxy = create_proxy(step)
    begun = js.performance.now()
    queue(wrap(step) if wrap else proxy)
    ended = await over
    proxy.destroy()
    return 1000 * (ended - begun) / times


async def hops(scale):
    """Every kind of hop, the best of three."""
    channel = js.MessageChannel.new()

    heard = None

    def message(proxy):
        nonlocal heard
        if heard is not proxy:
            heard = channel.port1.onmessage = proxy
        channel.port2.postMessage(None)

    def timeout(proxy):
        js.setTimeout(proxy, 0)

    async def best(*args):
        return min([await hop(*args) for _ in range(3)])

    found = {
        "microtask, persistent proxy, µs": await best(20_000 // scale, js.queueMicrotask),
        "microtask, a proxy each time, µs": await best(20_000 // scale, js.queueMicrotask, create_once_callable),
        "MessageChannel, µs": await best(5_000 // scale, message),
        "setTimeout(0), µs": await best(200 // scale, timeout),
    }
    channel.port1.close()
    return found


async def steps(scale):
    """What a decision and a full batch cost, handoffs included, when tasks do nothing but give way."""
    rounds = 20_000 // scale

    async def spin(times):
        for _ in range(times):
            await bursar.checkpoint()

    async def main():
        async with bursar.nursery() as n:
            for _ in range(10):
                n.spawn(spin, rounds // 10)

    runtime, batches = timed_runtime()
    begun = js.performance.now()
    await guest(runtime, main)
    total = js.performance.now() - begun
    return {
        "a decision, handoffs included, µs": 1000 * total / runtime.kernel.decisions,
        "a batch of 64, ms": sum(batches) / len(batches),
    }


def timed_runtime():
    """A runtime in this page, and the milliseconds of every call that the page makes to its pump."""
    runtime, calls = Runtime(host=BrowserHost.of_page()), []
    drain = runtime.pump.drain

    def timed():
        begun = js.performance.now()
        drain()
        calls.append(js.performance.now() - begun)

    runtime.pump.drain = timed
    return runtime, calls


async def during(name, main):
    """Frames while `main` runs."""
    runtime, calls = timed_runtime()
    frames = count_frames()
    try:
        await guest(runtime, main)
    except* BudgetExceeded:
        pass
    gaps = (await frames.stop()).to_py()  # at the next frame: a short run may end before the first one
    return {
        f"{name}: seconds": sum(gaps) / 1000,
        f"{name}: frames": len(gaps),
        f"{name}: longest frame, ms": max(gaps),
        f"{name}: frames over {FRAME_MS_GOOD} ms": sum(gap > FRAME_MS_GOOD for gap in gaps),
        f"{name}: longest call of the pump, ms": max(calls),
    }


async def frames(scale):
    """An animated page while ten thousand tasks run, and while a runaway burns its budget."""
    tasks = 10_000 // scale

    async def crowd():
        async with bursar.nursery() as n:
            for i in range(tasks):
                n.spawn(worker)
                if i % SPAWNS_PER_TURN == 0:
                    await bursar.checkpoint()

    async def worker():
        for _ in range(5):
            await bursar.checkpoint()

    async def burn():
        async with bursar.nursery() as n:
            n.spawn(runaway, budget=Budget(ops=500_000 // scale))

    async def runaway():
        while True:
            await bursar.charge(ops=1)

    return {**await during(f"{tasks:,} tasks", crowd), **await during("a runaway", burn)}
