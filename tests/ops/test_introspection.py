"""Snapshots: drawn as a tree, and safe to take at any moment."""

import sys

import bursar
from bursar import Budget, nursery, sleep


async def forever():
    await sleep(1000)


def test_the_tree_shows_nurseries_and_tasks_by_depth(run):
    async def parent():
        async with nursery(name="inner") as n:
            n.spawn(forever, name="leaf")

    async def main():
        async with nursery(name="outer") as n:
            n.spawn(parent, name="parent")
            n.spawn(forever, name="other")
            await sleep(1)
            snapshot = run.runtime.snapshot()
            n.cancel()
            return snapshot

    snapshot = run(main)
    assert [(row.depth, row.nursery or row.task.name) for row in snapshot.rows] == [
        (0, "the root nursery: OPEN, 1 live of 1"),
        (1, main.__qualname__),
        (2, "nursery 'outer': OPEN, 2 live of 2"),
        (3, "parent"),
        (4, "nursery 'inner': OPEN, 1 live of 1"),
        (5, "leaf"),
        (3, "other"),
    ]
    assert len(snapshot.tasks) == 4
    text = str(snapshot).splitlines()
    assert text[0].startswith("bursar: 4 tasks at 1 s after ")
    assert text[4].startswith("      - parent (")
    assert "BLOCKED: waits for 1 task of nursery 'inner'" in text[4]


def test_a_tree_of_any_depth_can_be_drawn(run):
    async def nest(depth):
        async with nursery() as n:
            if depth:
                n.spawn(nest, depth - 1)
            await sleep(10)

    async def main():
        async with nursery() as n:
            n.spawn(nest, 2000)
            await sleep(5)
            return run.runtime.snapshot()

    snapshot = run(main)
    assert len(snapshot.tasks) == 2002
    assert "(level 4003) - " in str(snapshot)


def test_before_and_after_the_run_the_tree_is_empty():
    async def main():
        pass

    runtime = bursar.Runtime(clock="virtual")
    assert runtime.snapshot().tasks == ()
    runtime.run(main)
    assert runtime.snapshot().tasks == ()
    assert "the root nursery: CLOSED, 0 live of 1" in str(runtime.snapshot())


def test_a_snapshot_can_be_taken_between_any_two_lines_of_the_runtime():
    """A signal may arrive anywhere. Whatever the kernel is doing, drawing the tree must not break the program."""
    broken = {}
    busy = False

    def trace(frame, event, argument):
        nonlocal busy
        if busy or not frame.f_globals.get("__name__", "").startswith("bursar."):
            return None
        if event == "line":
            busy = True
            try:
                str(runtime.snapshot())
            except BaseException as error:
                broken[f"{frame.f_globals['__name__']}:{frame.f_lineno}"] = repr(error)
            finally:
                busy = False
        return trace

    async def sender(send):
        await send.send(1)
        await sleep(1)

    async def spender():
        while True:
            await bursar.checkpoint()

    async def main():
        send, receive = bursar.channel()
        lock = bursar.Lock()
        async with nursery(on_exhausted="hold") as n:
            n.spawn(sender, send)
            task = n.spawn(sender, send)
            held = n.spawn(spender, budget=Budget(ops=3))
            async with lock:
                await bursar.select(receive.receive(), sleep(1))
                await receive.receive()
            await sleep(0.5)
            task.cancel()
            n.recharge(held, Budget(ops=1))
            await sleep(1)
            n.cancel()

    runtime = bursar.Runtime(clock="virtual")
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        runtime.run(main)
    finally:
        sys.settrace(before)
    assert broken == {}
