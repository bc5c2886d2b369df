"""Random programs for admission: tasks that ask at gates, follow each other, fail, are tried again, paused and dropped.

As in `support.programs`, the same random numbers give the same program everywhere. `run` runs one with everything
checked after every poll: the law, the gates, and by an observer each decision against a look at everybody who waits.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import bursar
from bursar import Aging, Authority, Budget, Hard, Retry, Runtime, Soft, State, Strict
from support.drive import checked
from support.gate_oracle import GateOracle
from support.grammar import Grammar

FIRST_MAX = 12
SIZE_MAX = 20
ROUNDS = 12  # of resuming whoever was left standing

PLAIN = {
    "yield": 6,
    "sleep": 6,
    "fail": 2,
    "panic": 0.2,
    "pause": 5,
    "pause_and_see": 3,
    "resume": 3,
    "cancel": 2,
    "drop": 2,
    "await_task": 2,
    "explain": 1,
    "charge": 1,
}
NESTED = {"spawn": 14, "nursery": 3, "timeout": 2, "shield": 1, "try": 2}
GRAMMAR = Grammar(PLAIN, NESTED, frozenset(), length=(1, 6), depth_max=4)


class Boom(Exception):
    """What a task fails with."""


class Worse(Boom):
    """What it fails with when nobody tries again."""


class Crash(BaseException):
    """What it panics with."""


def authority(random: Random) -> Authority:
    """Any rules."""
    order = random.choice([Strict(), Aging(0.5, 1), Aging(0.25, 20), Aging(0.5, 100)])
    resources = {
        "cpu": random.choice([1, 2, 4]),
        "ram": random.choice([8, 10, None]),
        "licences": random.choice([Hard(1), Hard(2), Soft(2)]),
    }
    return Authority(
        order=order,
        max_concurrent=random.choice([None, 1, 2, 3, 5]),
        max_queue=random.choice([None, None, None, 0, 2, 5]),
        max_wait=random.choice([None, None, 0.5, 3.0]),
        resources=resources,
        reserve_after=random.choice([None, None, 0.0, 1.0]),
    )


def make(random: Random) -> list:
    """The bodies of the first tasks."""
    return [GRAMMAR.body(random, [random.randint(3, SIZE_MAX)], 1) for _ in range(random.randint(3, FIRST_MAX))]


class GateTotalsCore:
    """Runs one program in one runtime."""

    def __init__(self, random: Random) -> None:
        self.authorities = [authority(random) for _ in range(3)]
        self.together = random.random() < 0.3
        self.program = make(random)
        self.tasks: list[bursar.Task] = []
        self.begun: set[int] = set()
        self.refused = 0

    async def main(self) -> int:
        gate = self.authorities[0] if len(self.program) % 3 else None
        async with bursar.nursery(admission=gate, cancel_on_failure=self.together) as n:
            for i, body in enumerate(self.program):
                self.spawn(n, body, 37 * i % 100, i)
            for _ in range(ROUNDS):
                await bursar.sleep(1.0)
                self.go_on()
        return len(self.tasks)

    def go_on(self) -> None:
        for task in self.tasks:
            if task.state is State.PAUSED:
                task.resume()

    def spawn(self, n, body, a, b) -> None:
        needs = {"cpu": a % 3, "ram": (0, 0, 3, 5, 9, 12)[b % 6], "licences": (0, 0, 0, 1, 2)[a % 5]}
        after = dict.fromkeys(self.some(number) for number in (a, b)) if self.tasks else {}
        retry = Retry(b % 3, backoff=(0.0, 0.25)[a % 2], on=Boom if b % 2 else Worse) if a % 4 == 0 else None
        try:
            task = n.spawn(
                self.child,
                body,
                n,
                name=f"t{len(self.tasks)}",
                priority=(10, 50, 50, 100, 57)[b % 5],
                needs=needs if n._inside()[1].gate is not None and a % 7 else None,
                after=list(after)[: a % 3],
                retry=retry,
                budget=Budget(ops=b % 40 + 5) if a % 11 == 0 else None,
            )
        except (bursar.InfeasibleDemand, bursar.BadDependency, bursar.NurseryClosed, bursar.BudgetExceeded):
            self.refused += 1
        else:
            self.tasks.append(task)

    async def child(self, body, n) -> str:
        self.begun.add((await bursar.current_task()).id)
        await self.body(body, n)
        return "done"

    async def body(self, body, n) -> None:
        for name, a, b, *rest in body:
            await getattr(self, "do_" + name)(n, a, b, *rest)

    def some(self, a) -> bursar.Task:
        return self.tasks[a % len(self.tasks)]

    async def other(self, a) -> bursar.Task | None:
        task = self.some(a)
        return None if task == await bursar.current_task() else task

    async def do_yield(self, n, a, b):
        for _ in range(a % 3 + 1):
            await bursar.checkpoint()

    async def do_sleep(self, n, a, b):
        await bursar.sleep((a % 5) * 0.25)

    async def do_charge(self, n, a, b):
        await bursar.charge(ops=a % 20)

    async def do_fail(self, n, a, b):
        if b % 2:
            raise (Boom, Worse)[a % 2](a)

    async def do_panic(self, n, a, b):
        raise Crash(a)

    async def do_pause(self, n, a, b):
        if (task := await self.other(a)) is not None:
            task.pause()

    async def do_pause_and_see(self, n, a, b):
        if (task := await self.other(a)) is not None:
            stands = await task.pause()
            assert stands == (task.state is State.PAUSED), f"{task}: {stands}"

    async def do_resume(self, n, a, b):
        self.some(a).resume()

    async def do_cancel(self, n, a, b):
        if b % 2:
            self.some(a).cancel("the program says so")

    async def do_drop(self, n, a, b):
        with suppress(bursar.ScopeMisuse):
            self.some(a).drop("the program says so")

    async def do_await_task(self, n, a, b):
        if (task := await self.other(a)) is not None:
            with suppress(TimeoutError):
                async with bursar.timeout(0.25 + b % 4):
                    await task.wait()

    async def do_explain(self, n, a, b):
        for task in self.tasks:
            told = task.explain()
            assert str(told)
            if told.admission is not None and told.admission.state in ("waiting", "queued"):
                assert told.admission.blockers, f"{task} waits for no reason"

    async def do_spawn(self, n, a, b, body):
        self.spawn(n, body, a, b)

    async def do_nursery(self, n, a, b, body):
        rules = self.authorities[a % 3] if a % 2 else None
        with suppress(*((Exception,) if b % 2 else ())):
            async with bursar.nursery(admission=rules, cancel_on_failure=bool(b % 3)) as inner:
                await self.body(body, inner)

    async def do_timeout(self, n, a, b, body):
        with suppress(TimeoutError):
            async with bursar.timeout((a % 6) * 0.25):
                await self.body(body, n)

    async def do_shield(self, n, a, b, body):
        async with bursar.shield():
            await self.body(body, n)

    async def do_try(self, n, a, b, body):
        with suppress(Boom, bursar.BudgetExceeded):
            await self.body(body, n)


def runtime_for(number: int, **keywords) -> Runtime:
    random = Random(number)
    everywhere = authority(random) if number % 3 == 0 else None
    return Runtime(
        clock="virtual",
        seed=number,
        workers=(1, 1, 2, 4)[number % 4],
        admission=everywhere,
        budget=Budget(ops=6000, spawns=300) if number % 5 == 0 else None,
        cleanup=bursar.Cleanup(ops=200, seconds=2.0),
        **keywords,
    )


def run(runtime: Runtime, number: int) -> tuple[str, GateTotalsCore]:
    """Run a program to its end; how it ended, in one word."""
    flow = GateTotalsCore(Random(number))
    return ending_of(runtime, flow.main), flow


def ending_of(runtime: Runtime, main) -> str:
    try:
        runtime.run(main)
    except (bursar.BursarError, Boom, Crash, TimeoutError, BaseExceptionGroup) as error:
        _unless_broken(error)
        return type(error).__name__
    return "ok"


def _unless_broken(error) -> None:
    """A rule that was broken must not look like a failure of the program."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            _unless_broken(part)
    if isinstance(error, AssertionError):
        raise error


def run_checked(number: int, **keywords) -> tuple[str, Runtime, GateOracle]:
    runtime = checked(runtime_for(number, **keywords))
    judge = GateOracle(runtime)
    judge.look_after_every_poll(runtime)
    ending, flow = run(runtime, number)
    judge.begun = flow.begun
    judge.check()
    return ending, runtime, judge
