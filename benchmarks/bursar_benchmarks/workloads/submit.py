"""Submission: a foreign thread submits small calls or tasks to the running loop, which counts them.

Measured: CPU time of both threads per submission, from the start of the thread until the last one has been counted. The
thread has at most `WINDOW` submissions under way, and then waits until they have arrived. Otherwise a queue could grow
without a limit, which Bursar refuses. There are two cases, and each peer is used as its documentation says:

- a call of a plain function: `Portal.call`, `loop.call_soon_threadsafe`, `TrioToken.run_sync_soon`, gevent's
  `loop.run_callback_threadsafe`. anyio's portal has nothing smaller than a task. The floor is a `SimpleQueue`.
- a task in a nursery, whose future the thread ignores: `Portal.spawn`, anyio's `BlockingPortal.start_task_soon`,
  `asyncio.run_coroutine_threadsafe` (in no nursery).

Not measured: how long one submission takes to arrive, several threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from queue import SimpleQueue
from typing import Any

import bursar
from bursar_benchmarks.harness import Case, Meter, load
from bursar_benchmarks.workloads.loops import on_loops, runner_of

WINDOW = 1_000


class Calls:
    """What is submitted, counted where it arrives, as cheaply as can be. `over` is called there after the last."""

    def __init__(self, size: int, over: Callable[[], object]) -> None:
        self.size = size
        self.count = 0
        self._goal = min(WINDOW, size)  # of those that are under way
        self._over = over
        self._room = threading.Semaphore(0)

    def arrived(self) -> None:
        """The thing itself; in the thread of the loop."""
        self.count += 1
        if self.count == self._goal:
            if self.count == self.size:
                self._over()
            self._goal = min(self._goal + WINDOW, self.size)
            self._room.release()

    @contextmanager
    def submitted(self, submit: Callable[[], object]) -> Generator[None]:
        """A thread calls `submit` for each; the block is to wait until all have arrived."""
        thread = threading.Thread(target=self._submit_all, args=(submit,))
        thread.start()
        yield
        thread.join()

    def _submit_all(self, submit: Callable[[], object]) -> None:
        for start in range(0, self.size, WINDOW):
            for _ in repeat(None, min(WINDOW, self.size - start)):
                submit()
            self._room.acquire()


def bursar_(size: int, meter: Meter, *, task: bool) -> int:
    over = bursar.Event()
    calls = Calls(size, over.set)

    async def arrive() -> None:
        calls.arrived()

    async def main() -> None:
        async with bursar.nursery() as nursery:
            with bursar.portal(nursery) as portal:
                meter.start()
                with calls.submitted(partial(portal.spawn, arrive) if task else partial(portal.call, calls.arrived)):
                    await over.wait()
                meter.stop()

    bursar.run(main)
    return calls.count


def asyncio_(size: int, meter: Meter, *, loop: str, task: bool = False) -> int:
    count = 0

    async def main() -> None:
        nonlocal count
        running = asyncio.get_running_loop()
        over = asyncio.Event()
        calls = Calls(size, over.set)

        async def arrive() -> None:
            calls.arrived()

        def submit() -> object:
            return asyncio.run_coroutine_threadsafe(arrive(), running)

        meter.start()
        with calls.submitted(submit if task else partial(running.call_soon_threadsafe, calls.arrived)):
            await over.wait()
        meter.stop()
        count = calls.count

    runner_of(loop)(main())
    return count


def trio_(size: int, meter: Meter) -> int:
    trio = load("trio")
    over = trio.Event()
    calls = Calls(size, over.set)

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        meter.start()
        with calls.submitted(partial(token.run_sync_soon, calls.arrived)):
            await over.wait()
        meter.stop()

    trio.run(main)
    return calls.count


def anyio_(size: int, meter: Meter) -> int:
    anyio, from_thread = load("anyio"), load("anyio.from_thread")
    count = 0

    async def main() -> None:
        nonlocal count
        over = anyio.Event()
        calls = Calls(size, over.set)
        async with from_thread.BlockingPortal() as portal:
            meter.start()
            with calls.submitted(partial(portal.start_task_soon, calls.arrived)):
                await over.wait()
            meter.stop()
        count = calls.count

    anyio.run(main)
    return count


def gevent_(size: int, meter: Meter) -> int:
    loop: Any = load("gevent").get_hub().loop
    over = load("gevent.event").Event()
    calls = Calls(size, over.set)
    guest = loop.async_()  # while it is watched, gevent's loop does not end: a thread may still submit
    guest.start(lambda: None)
    meter.start()
    with calls.submitted(partial(loop.run_callback_threadsafe, calls.arrived)):
        over.wait()
    meter.stop()
    guest.stop()
    guest.close()
    return calls.count


def floor(size: int, meter: Meter) -> int:
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
    calls = Calls(size, lambda: None)
    meter.start()
    with calls.submitted(partial(queue.put, calls.arrived)):
        while calls.count < size:
            queue.get()()
    meter.stop()
    return calls.count


CALL = {
    "bursar": partial(bursar_, task=False),
    **on_loops(asyncio_),
    "trio": trio_,
    "gevent": gevent_,
    "floor": floor,
}

TASK = {
    "bursar": partial(bursar_, task=True),
    **on_loops(partial(asyncio_, task=True)),
    "anyio": anyio_,
}

CASES = [
    Case("submit a call from a thread", "us/call", 1e6, 100_000, 5_000, 50, CALL),
    Case("submit a task from a thread", "us/task", 1e6, 50_000, 5_000, 50, TASK),
]
