"""An await makes no object: a checkpoint, and a send with its receive, request no memory.

The test counts all requests for memory, also those of the interpreter, while a task awaits n times and then 2n times.
The difference is the cost of n awaits. A control program, whose await makes an object, must show a difference.

From 3.12 on, the interpreter resumes an awaitable that is no coroutine by its method `send`, which returns its result
in a StopIteration. The StopIteration of None, the only result here, is made once; every other value needs a new one.

The runs are in a separate process (see `main`), because the allocator stays in place until the interpreter ends.
"""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
from itertools import repeat  # unlike `range`, it makes no numbers

import pytest
from support.processes import with_tests
from support.requests import start
from support.time_limits import WAIT_S

import bursar

AWAITS = 2000
DIFFERENCE_MAX = 20  # a growing table, a cache of the interpreter; with an object for each await it would be 2000
BATCH = 1 << 20  # decisions: the whole run, because the pump may make objects between two batches


async def alone(times):
    for _ in repeat(None, times):
        await bursar.checkpoint()


async def in_turn(times):
    async with bursar.nursery() as nursery:
        nursery.spawn(alone, times)
        await alone(times)


async def rendezvous(times):
    await _talk(0, times)


async def buffered(times):
    await _talk(4, times)


async def _talk(capacity, times):
    tx, rx = bursar.channel(capacity)

    async def sends():
        for _ in repeat(None, times):
            await tx.send(None)

    async with bursar.nursery() as nursery:
        nursery.spawn(sends)
        for _ in repeat(None, times):
            await rx.receive()


async def iterated(times):
    tx, rx = bursar.channel(0)

    async def sends():
        for _ in repeat(None, times):
            await tx.send(None)
        tx.close()

    async with bursar.nursery() as nursery:
        nursery.spawn(sends)
        async for _ in rx:
            pass


async def control(times):
    for _ in repeat(None, times):
        await _checkpoint()


async def _checkpoint():  # calling it makes an object, the coroutine
    await bursar.checkpoint()


PROGRAMS = [alone, in_turn, rendezvous, buffered, iterated]


def requests(failing, program, times):
    """How many requests for memory one run makes."""
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel
    kernel.thread = runtime.pump.thread
    main = kernel.spawn(kernel.root, name="main", pinned=True)
    start(main, program, (times,))
    gc.collect()
    runtime.driver.held = True
    failing.arm(0, False)
    failing.resume()
    runtime.driver.run(BATCH, None)
    count, _ = failing.pause()
    runtime.driver.held = False
    assert main.outcome.kind.name == "OK", main.outcome
    runtime.pump.stop(None)
    return count


def main(argv):
    """Run as a program: `test_requests.py <the built allocator> <program>`. Prints the difference of two runs."""
    spec = importlib.util.spec_from_file_location("failing", argv[1])
    failing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(failing)
    program = globals()[argv[2]]
    gc.disable()  # the moment of a collection depends on what was made before
    requests(failing, program, 2 * AWAITS)
    print(requests(failing, program, 2 * AWAITS) - requests(failing, program, AWAITS))
    return 0


# ---- the tests


def difference(failing, program):
    command = [sys.executable, __file__, str(failing), program.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S, env=with_tests())
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return int(done.stdout)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_await_requests_no_memory(failing, program):
    from bursar import _native  # the fixture has skipped the test if there is no extension

    if not _native.build_info()["private_layouts"]:
        pytest.skip("this build has no lists of free records")
    assert difference(failing, program) <= DIFFERENCE_MAX


def test_an_object_for_each_await_is_seen(failing):
    assert difference(failing, control) >= AWAITS


def test_a_caught_stop_iteration_is_not_used_again():
    """Code that steps a request by itself may catch the StopIteration, keep it and change it."""
    caught, said = [], []

    class ByHand:
        def __await__(self):
            steps = bursar.checkpoint().__await__()
            asked = next(steps)
            while True:
                sent = yield asked
                try:
                    asked = steps.send(sent)
                except StopIteration as stop:
                    caught.append(stop)
                    said.append((stop.value, stop.args, stop.__context__))
                    stop.value = stop.args = "changed"
                    return

    async def main():
        for _ in range(3):
            await ByHand()
            await bursar.checkpoint()
        del caught[1:]
        await ByHand()
        for _ in range(3):
            assert await bursar.checkpoint() is None

    bursar.run(main)
    assert len(caught) == 2
    assert caught[0] is not caught[1]
    assert said == [(None, (None,), None)] * 4


if __name__ == "__main__":
    sys.exit(main(sys.argv))
