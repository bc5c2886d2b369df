"""Random programs: a tree of statements drawn from a `random.Random`, and the interpreter that runs it.

The same random numbers give the same program in every process and on every Python, so a program is named by its number.
Statements cover the public face: nurseries, handles passed to children, budgets and holds, channels, reservations,
select, locks, events, timeouts, shields, cancellation of tasks and nurseries, failures, cleanups that await,
cleanups that swallow, async generators that are forgotten half way. A program may fail, deadlock or run out of budget;
all that is asked of it is that it ends, that the law holds, and that it does so in the same way every time.

As a script, in tests/, it prints the fingerprints of a range of programs as JSON:

    python -m support.programs 0 200 1,4         for the tests of determinism
    python -m support.programs --golden          the golden file, after the law was changed on purpose
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from random import Random

import bursar
from bursar import Budget, Runtime
from support.grammar import Grammar
from support.hosts import Host

CHANNELS = 3
LOCKS = 2
EVENTS = 2
FIRST_MAX = 12  # tasks that a program starts with
SIZE_MAX = 30  # statements in the whole of each
GOLDEN_COUNT = 20
POLICIES = ("random", "round_robin", "least_loaded")
BUFFERS = (0, 1, 3)

# statement → weight; those with a body come second
PLAIN = {
    "yield": 6,
    "sleep": 5,
    "charge": 3,
    "send": 6,
    "receive": 6,
    "send_nowait": 2,
    "receive_nowait": 2,
    "reserve": 3,
    "select": 3,
    "close_send": 0.5,
    "close_receive": 0.3,
    "set": 2,
    "wait": 2,
    "cancel_nursery": 0.5,
    "cancel_task": 1,
    "cancel_self": 1,
    "await_task": 2,
    "fail": 0.5,
    "panic": 0.1,
    "memory": 1,
    "recharge": 1,
    "recharge_child": 1,
    "entropy": 1,
    "stray_generator": 0.5,
    "leak_reservation": 0.5,
}
NESTED = {
    "spawn": 14,
    "nursery": 6,
    "timeout": 3,
    "shield": 2,
    "lock": 3,
    "semaphore": 2,
    "try": 3,
    "finally": 3,
    "swallow": 1,
    "loop": 2,
}


@contextmanager
def suppress(*kinds):
    """Like contextlib's, which from Python 3.12 on also looks into groups: a program must end alike everywhere."""
    try:  # noqa: SIM105 (that is the point)
        yield
    except kinds:
        pass


class Boom(Exception):
    """What a program fails with."""


class Crash(BaseException):
    """What a program panics with."""


GRAMMAR = Grammar(PLAIN, NESTED, frozenset({"finally"}), length=(2, 7), depth_max=6)


def make(random: Random) -> list:
    """A program: the bodies of its first tasks."""
    return [GRAMMAR.body(random, [random.randint(3, SIZE_MAX)], 1) for _ in range(random.randint(2, FIRST_MAX))]


FINITE = Budget(ops=3000, memory=2000, spawns=200, channel_ops=200, syscalls=500)


def budget_of(a: int) -> Budget | None:
    """A third of all spawns and nurseries state a budget."""
    match a % 9:
        case 0:
            return Budget(ops=a % 40)
        case 1:
            return Budget(ops=200, spawns=a % 3)
        case 2:
            return Budget(channel_ops=a % 5, memory=a % 50)
        case _:
            return None


class Interpreter:
    """Runs one program in one runtime. The shared objects are unbound until a task uses them."""

    def __init__(self, program: list, profile: str) -> None:
        self.program = program
        self.channels = [bursar.channel(BUFFERS[i]) for i in range(CHANNELS)]
        self.locks = [bursar.Lock() for _ in range(LOCKS)]
        self.semaphore = bursar.Semaphore(2)
        self.events = [bursar.Event() for _ in range(EVENTS)]
        self.tasks: list[bursar.Task] = []
        self.cluster = profile == "cluster"

    async def main(self) -> int:
        async with bursar.nursery(
            name="main", cancel_on_failure=len(self.program) % 4 == 0, sealed=len(self.program) % 2 == 0
        ) as n:
            for i, body in enumerate(self.program):
                self.tasks.append(n.spawn(self.child, body, n, name=f"first{i}"))
                if i % 3 == 2:
                    await bursar.checkpoint()
        return len(self.tasks)

    async def child(self, body: list, nursery: bursar.Nursery) -> str:
        await self.body(body, nursery)
        return "done"

    async def body(self, body: list, nursery: bursar.Nursery) -> None:
        for name, a, b, *rest in body:
            await getattr(self, "do_" + name)(nursery, a, b, *rest)

    def budget_of(self, a: int) -> Budget | None:
        return budget_of(a)

    # ---- plain statements

    async def do_yield(self, n, a, b):
        for _ in range(a % 4 + 1):
            await bursar.checkpoint()

    async def do_sleep(self, n, a, b):
        await bursar.sleep((a % 5) * 0.25)

    async def do_charge(self, n, a, b):
        await bursar.charge(ops=a, channel_ops=b % 2, syscalls=b % 3)

    async def do_memory(self, n, a, b):
        with suppress(bursar.MemoryBudgetExceeded):
            await bursar.charge(ops=1, memory=a)

    def patience(self, b):
        """How long a statement waits for others: mostly not for ever, or every program would end in a deadlock."""
        return bursar.timeout(None if b % 11 == 0 else 0.25 + b % 8)

    async def do_send(self, n, a, b):
        with suppress(bursar.ChannelClosed, TimeoutError):
            async with self.patience(b):
                await self.channels[a % CHANNELS][0].send(b)

    async def do_receive(self, n, a, b):
        with suppress(bursar.ChannelClosed, TimeoutError):
            async with self.patience(b):
                await self.channels[a % CHANNELS][1].receive()

    async def do_send_nowait(self, n, a, b):
        with suppress(bursar.ChannelClosed, bursar.WouldBlock, bursar.BudgetExceeded, bursar.ScopeMisuse):
            self.channels[a % CHANNELS][0].send_nowait(b)

    async def do_receive_nowait(self, n, a, b):
        with suppress(bursar.ChannelClosed, bursar.WouldBlock, bursar.BudgetExceeded, bursar.ScopeMisuse):
            self.channels[a % CHANNELS][1].receive_nowait()

    async def do_reserve(self, n, a, b):
        with suppress(bursar.ChannelClosed, TimeoutError):
            async with self.patience(b):
                reservation = await self.channels[a % CHANNELS][0].reserve()
            with reservation:
                await bursar.checkpoint()
                if b % 3:
                    reservation.send(b)

    async def do_leak_reservation(self, n, a, b):
        with suppress(bursar.ChannelClosed, TimeoutError):
            async with self.patience(b):
                await self.channels[a % CHANNELS][0].reserve()

    async def do_select(self, n, a, b):
        send, _ = self.channels[a % CHANNELS]
        _, receive = self.channels[b % CHANNELS]
        cases = [
            receive.receive,
            lambda: send.send(a),
            self.events[a % EVENTS].wait,
            lambda: bursar.sleep(b % 3 * 0.5),
        ][a % 2 : 2 + b % 3]
        with suppress(bursar.ChannelClosed, TimeoutError):
            async with self.patience(b):
                await bursar.select(*(case() for case in cases))

    async def do_close_send(self, n, a, b):
        if b % 4 == 0:
            self.channels[a % CHANNELS][0].close()

    async def do_close_receive(self, n, a, b):
        if b % 4 == 0:
            self.channels[a % CHANNELS][1].close()

    async def do_set(self, n, a, b):
        self.events[a % EVENTS].set()

    async def do_wait(self, n, a, b):
        with suppress(TimeoutError):
            async with self.patience(b):
                await self.events[a % EVENTS].wait()

    async def do_cancel_nursery(self, n, a, b):
        if b % 3 == 0:
            n.cancel("the program says so")

    async def do_cancel_task(self, n, a, b):
        if self.tasks:
            self.tasks[a % len(self.tasks)].cancel("the program says so")

    async def do_cancel_self(self, n, a, b):
        if b % 4 == 0:
            (await bursar.current_task()).cancel("itself")
            await bursar.checkpoint()

    async def do_await_task(self, n, a, b):
        if self.tasks:
            task = self.tasks[a % len(self.tasks)]
            if task != await bursar.current_task():
                with suppress(TimeoutError):
                    async with self.patience(b):
                        await task.wait()

    async def do_fail(self, n, a, b):
        if b % 3 == 0:
            raise Boom(a)

    async def do_panic(self, n, a, b):
        if b % 3 == 0:
            raise Crash(a)

    async def do_recharge(self, n, a, b):
        with suppress(bursar.CapabilityDenied):
            await bursar.recharge(Budget(ops=a % 100, memory=b % 7))

    async def do_recharge_child(self, n, a, b):
        if n.tasks:
            with suppress(bursar.CapabilityDenied, bursar.BudgetExceeded, ValueError):
                n.recharge(n.tasks[a % len(n.tasks)], Budget(ops=a % 50))

    async def do_entropy(self, n, a, b):
        for _ in range(await bursar.entropy() % 3):
            await bursar.checkpoint()

    async def do_stray_generator(self, n, a, b):
        async def numbers():
            try:
                yield 1
                yield 2
            finally:
                await bursar.checkpoint()

        generator = numbers()
        await anext(generator)

    # ---- statements with a body

    async def do_spawn(self, n, a, b, body):
        with suppress(bursar.NurseryClosed, bursar.SpawnBudgetExceeded):
            self.tasks.append(n.spawn(self.child, body, n, name=f"t{len(self.tasks)}", budget=self.budget_of(a)))

    async def do_nursery(self, n, a, b, body):
        hold = "hold" if b % 5 == 0 else "end"
        catch = (Exception,) if b % 2 else ()
        with suppress(*catch):
            async with bursar.nursery(
                budget=self.budget_of(a),
                on_exhausted=hold,
                cancel_on_failure=bool(b % 3),
                sealed=a % 2 == 0,
                name=f"n{a}",
            ) as inner:
                await self.body(body, inner)
                if hold == "hold":
                    await self.rescue(inner, a)

    async def rescue(self, n, a):
        """Recharge who is on hold, a few times; then it is left to its fate."""
        with suppress(TimeoutError, bursar.BudgetExceeded, ValueError):
            for _ in range(a % 4 + 1):
                async with bursar.timeout(2.0):
                    task = await n.wait_exhausted()
                n.recharge(task, self.rescue_with(a))

    def rescue_with(self, a: int) -> Budget:
        return Budget(ops=a % 30 + 1)

    async def do_timeout(self, n, a, b, body):
        with suppress(TimeoutError):
            async with bursar.timeout((a % 6) * 0.25):
                await self.body(body, n)

    async def do_shield(self, n, a, b, body):
        async with bursar.shield():
            await self.body(body, n)

    async def do_lock(self, n, a, b, body):
        with suppress(bursar.ScopeMisuse):  # it holds this one already
            async with self.locks[a % LOCKS]:
                await self.body(body, n)

    async def do_semaphore(self, n, a, b, body):
        async with self.semaphore:
            await self.body(body, n)

    async def do_try(self, n, a, b, body):
        with suppress(Boom, bursar.BudgetExceeded):
            await self.body(body, n)

    async def do_finally(self, n, a, b, body, cleanup):
        try:
            await self.body(body, n)
        finally:
            await self.body(cleanup, n)

    async def do_swallow(self, n, a, b, body):
        with suppress(bursar.Cancelled):
            await self.body(body, n)

    async def do_loop(self, n, a, b, body):
        for _ in range(a % 3 + 1):
            await self.body(body, n)


def runtime_for(
    number: int,
    workers: int,
    seed: int = 0,
    steal: str | None = None,
    host: Host | None = None,
    budget: Budget | None = None,
) -> Runtime:
    """The runtime that program `number` runs in: the number also chooses budget, profile and policy."""
    return Runtime(
        clock="virtual",
        host=host,
        seed=seed,
        workers=workers,
        steal=steal or POLICIES[number % 3],
        profile="cluster" if number % 4 == 0 else "service",
        budget=budget or (FINITE if number % 3 else None),
        cleanup=bursar.Cleanup(ops=200, seconds=2.0),
        yield_interval=(1, 7, 1024)[number % 3],
    )


def run(runtime: Runtime, program: list, interpreter: type[Interpreter] = Interpreter) -> str:
    """Run a program to its end; how it ended, in one word."""
    try:
        runtime.run(interpreter(program, runtime.profile.name).main)
    except (bursar.BursarError, Boom, Crash, TimeoutError, BaseExceptionGroup) as error:
        return type(error).__name__
    return "ok"


def fingerprints(first: int, last: int, workers: list[int], seed: int = 0) -> dict[str, list]:
    """`{"number/workers": [fingerprint, decisions, ending]}` for a range of programs."""
    found = {}
    for number in range(first, last):
        program = make(Random(number))
        for count in workers:
            runtime = runtime_for(number, count, seed)
            ending = run(runtime, program)
            found[f"{number}/{count}"] = [runtime.fingerprint, runtime.kernel.decisions, ending]
    return found


def main(args: list[str]) -> None:
    if args == ["--golden"]:
        found = fingerprints(0, GOLDEN_COUNT, [1, 4])
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        print("{\n" + lines + "\n}")
        return
    first, last, workers = args
    print(json.dumps(fingerprints(int(first), int(last), [int(w) for w in workers.split(",")])))


if __name__ == "__main__":
    main(sys.argv[1:])
