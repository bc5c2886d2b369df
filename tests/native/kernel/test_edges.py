"""Unusual programs that can break a kernel in C, though not one in Python. Both kernels must print the same.

Each program runs in its own process, because a fault is a crash or a leak.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from support.time_limits import WAIT_S

EDGES = {
    "small runs leave no runtime behind": (
        """
        import gc
        from bursar.backend import Kernel

        async def main():
            pass

        for _ in range(20):
            bursar.run(main)
        gc.collect()
        print(sum(isinstance(thing, Kernel) for thing in gc.get_objects()))
        """,
        "0",
    ),
    "a long chain of results is dropped without recursion": (
        """
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, hard))  # 52 bytes for each link: too few to recurse
        last = None

        async def link():
            return last

        async def main():
            global last
            for _ in range(20_000):
                async with bursar.nursery() as n:
                    task = n.spawn(link)
                last = task

        bursar.run(main, clock="virtual")
        last = None
        print("dropped")
        """,
        "dropped",
    ),
    "the end of what a task waited for may cancel that task": (
        """
        async def main():
            async with bursar.nursery() as n:
                send, receive = bursar.channel(0)
                said = []

                class Last(type(receive)):
                    def __del__(self):
                        task.cancel("gone")

                class ByHand:
                    def __await__(self):
                        return (yield held.pop().receive())

                async def child():
                    said.append(await ByHand())
                    await bursar.checkpoint()

                held = [Last(receive._channel)]
                task = n.spawn(child)
                await bursar.checkpoint()
                await send.send("received")
            return *said, str(task.outcome)

        for observer in (None, lambda *event: None):
            runtime = bursar.Runtime(clock="virtual")
            runtime.kernel.observe(observer)
            print(*runtime.run(main))
        """,
        "received cancelled: user: gone\nreceived cancelled: user: gone",
    ),
    "whoever listens may be gone before the note is made": (
        """
        import gc

        class Ring:
            def __init__(self):
                self.itself = self

            def __del__(self):
                runtime.kernel.observe(None)

        async def child():
            Ring()
            await bursar.checkpoint()
            return [Ring()]

        async def main():
            async with bursar.nursery() as n:
                for _ in range(3):
                    n.spawn(child)

        for threshold in range(1, 30):
            runtime = bursar.Runtime(clock="virtual")
            runtime.kernel.observe(lambda *event: None)
            gc.set_threshold(threshold)
            runtime.run(main)
            gc.set_threshold(0)
            gc.collect()
        print("nobody listens")
        """,
        "nobody listens",
    ),
    "what was yielded by hand may be answered later": (
        """
        import types

        @types.coroutine
        def relay(coroutine):
            sent = None
            try:
                while True:
                    request = coroutine.send(sent)
                    sent = yield request
                    yield from bursar.checkpoint().__await__()
            except StopIteration as stop:
                return stop.value

        async def two(receive):
            return [await receive.receive(), await receive.receive()]

        async def main():
            send, receive = bursar.channel(2)
            await send.send("a")
            await send.send("b")
            return await relay(two(receive))

        print(bursar.run(main, clock="virtual"))
        """,
        "['a', 'b']",
    ),
    "an error may be thrown in three parts": (
        """
        import sys, types

        @types.coroutine
        def relay(coroutine):
            sent = None
            try:
                request = coroutine.send(None)
                while True:
                    try:
                        sent = yield request
                    except BaseException:
                        request = coroutine.throw(*sys.exc_info())
                    else:
                        request = coroutine.send(sent)
            except StopIteration as stop:
                return stop.value

        async def waits():
            async with bursar.nursery() as n:
                n.spawn(bursar_sleeper)

        async def bursar_sleeper():
            await bursar.sleep(100)

        async def outer():
            await relay(waits())

        async def main():
            async with bursar.nursery() as n:
                task = n.spawn(outer)
                await bursar.sleep(1)
                task.cancel("enough")
            return task.outcome

        import warnings
        warnings.simplefilter("ignore")
        print(bursar.run(main, clock="virtual"))
        """,
        "cancelled: user: enough",
    ),
    "a cancellation without a reason gets one": (
        """
        async def gives_up():
            raise bursar.Cancelled(None)

        async def main():
            async with bursar.nursery() as n:
                task = n.spawn(gives_up)
            return task.outcome

        print(bursar.run(main, clock="virtual"))
        """,
        "cancelled: shutdown: the task was closed",
    ),
    "a function without a name has one as a task": (
        """
        async def nameless():
            pass

        nameless.__qualname__ = ""

        async def main():
            async with bursar.nursery() as n:
                return bool(n.spawn(nameless).name)

        print(bursar.run(main, clock="virtual"))
        """,
        "True",
    ),
    "variables set between two spawns are seen by the second": (
        """
        import contextvars
        number = contextvars.ContextVar("number", default=0)

        async def child(seen):
            seen.append(number.get())
            token = number.set(number.get() + 100)
            await bursar.checkpoint()
            seen.append(number.get())
            number.reset(token)

        async def main():
            seen = []
            async with bursar.nursery() as n:
                n.spawn(child, seen)
                number.set(1)
                n.spawn(child, seen)
                n.spawn(child, seen)
                contextvars.copy_context().run(lambda: (number.set(7), n.spawn(child, seen)))
                n.spawn(child, seen)
            return seen, number.get()

        print(bursar.run(main, clock="virtual"))
        """,
        "([0, 1, 1, 7, 1, 100, 101, 101, 107, 101], 1)",
    ),
    "the wait at the end of a block explains itself, and is withdrawn without effect once it is over": (
        """
        async def look(record, seen):
            wait = record.wait
            seen += [wait, wait.reason, [task.name for task in wait.blockers()]]

        async def main():
            seen, me = [], await bursar.current_task()
            async with bursar.nursery() as n:
                n.spawn(look, me._record, seen)
            wait, *said = seen
            return said, wait.withdraw(me._kernel)

        print(bursar.run(main, clock="virtual"))
        """,
        "([\"waits for 1 task of nursery 3 of 'main'\", ['look']], None)",
    ),
}


@pytest.mark.parametrize("kernel", ["native", "python"])
@pytest.mark.parametrize("edge", EDGES)
def test_an_unusual_program_prints_the_same_on_both_kernels(edge, kernel):
    program, said = EDGES[edge]
    environment = {**os.environ, "BURSAR_KERNEL": kernel}
    code = "import bursar\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr
