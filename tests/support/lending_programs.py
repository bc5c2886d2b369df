"""Random programs in which places are lent: blocks inside blocks at one gate, whose owners are paused, asked to stop,
out of time, torn by failures, and tidy up.

Like `support.admission_programs`, of which these are a family, but every task opens blocks of its own, and most ask at
the gate of the whole run. Wherever the code of a task goes on it looks whether the task has its place: that is the one
rule which must hold in every way out of a block. `run_checked` also has the record of the run verified.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import bursar
from bursar import Aging, Authority, Budget, Retry, Runtime, Soft, Strict
from support import admission_programs
from support.admission import TicketState
from support.drive import checked
from support.evidence import Trace, verify
from support.gate_oracle import GateOracle
from support.grammar import Grammar

PLAIN = {
    "yield": 4,
    "sleep": 7,
    "fail": 1.5,
    "panic": 0.1,
    "pause": 7,
    "pause_and_see": 2,
    "resume": 5,
    "cancel": 3,
    "cancel_block": 1.5,
    "raise_cancelled": 0.5,
    "drop": 0.5,
    "await_task": 1.5,
    "explain": 0.5,
    "charge": 1,
}
NESTED = {"spawn": 12, "nursery": 9, "timeout": 7, "shield": 2, "try": 2, "tidy": 4}
GRAMMAR = Grammar(PLAIN, NESTED, frozenset(), length=(1, 6), depth_max=6)


def authority(random: Random) -> Authority:
    """Rules that leave little room."""
    return Authority(
        order=random.choice([Strict(), Aging(0.5, 20)]),
        max_concurrent=random.choice([None, 1, 1, 2, 3]),
        max_queue=random.choice([None, None, None, None, None, None, 2]),
        max_wait=random.choice([None, None, None, 2.0]),
        resources={"cpu": random.choice([1, 2, 4, Soft(1)]), "ram": random.choice([8, None])},
        reserve_after=random.choice([None, 0.0, 1.0]),
    )


class Loans(admission_programs.GateTotalsCore):
    """Runs one program in one runtime."""

    def __init__(self, random: Random, runtime: Runtime) -> None:
        self.authorities = [authority(random) for _ in range(3)]
        self.together = random.random() < 0.5
        self.program = [GRAMMAR.body(random, [random.randint(4, 30)], 1) for _ in range(random.randint(2, 8))]
        self.tasks: list[bursar.Task] = []
        self.blocks: list[bursar.Nursery] = []
        self.begun: set[int] = set()
        self.refused = 0
        self.taken_back = 0  # times that somebody worked in a place that it had taken back
        self.kernel = runtime.kernel

    def looks(self) -> None:
        """The code of a task goes on: in its place."""
        task = self.kernel.current
        ticket = task.ticket if task is not None else None
        if ticket is not None:
            assert ticket.state is TicketState.ADMITTED, f"{ticket}: it works, and has no place"
            assert ticket in ticket.gate.held
            self.taken_back += ticket.reclaimed

    def spawn(self, n, body, a, b) -> None:
        gated = n._inside()[1].gate is not None
        try:
            task = n.spawn(
                self.child,
                body,
                n,
                name=f"t{len(self.tasks)}",
                priority=(10, 50, 50, 100)[b % 4],
                needs={"cpu": b % 3, "ram": (0, 0, 3, 5, 9)[b % 5]} if gated and a % 2 else None,
                after=[self.some(b)] if a % 9 == 0 and self.tasks else [],
                retry=Retry(1, backoff=(0.0, 0.25)[b % 2], on=admission_programs.Boom) if a % 8 == 0 else None,
            )
        except (bursar.InfeasibleDemand, bursar.BadDependency, bursar.NurseryClosed, bursar.BudgetExceeded):
            self.refused += 1
        else:
            self.tasks.append(task)

    async def body(self, body, n) -> None:
        for name, a, b, *rest in body:
            try:
                await getattr(self, "do_" + name)(n, a, b, *rest)
            finally:
                self.looks()

    async def do_nursery(self, n, a, b, body):
        rules = self.authorities[a % 3] if a % 5 == 0 else None
        with suppress(*((Exception,) if b % 2 else ())):
            async with bursar.nursery(admission=rules, cancel_on_failure=bool(b % 3)) as inner:
                self.blocks.append(inner)
                await self.body(body, inner if a % 4 else n)

    async def do_cancel_block(self, n, a, b):
        if self.blocks:
            self.blocks[a % len(self.blocks)].cancel("the program says so")

    async def do_raise_cancelled(self, n, a, b):
        if b % 3 == 0:
            raise bursar.Cancelled(None)

    async def do_tidy(self, n, a, b, body):
        try:
            await self.body(body, n)
        finally:
            self.looks()
            if a % 3 == 0:
                await bursar.sleep((b % 13) * 0.25)  # and is cut off, if that is too long
            else:
                with suppress(TimeoutError):
                    async with bursar.timeout(0.5), bursar.nursery() as inner:
                        inner.spawn(bursar.sleep, (b % 4) * 0.25)


def run_checked(number: int, path: Path) -> tuple[str, GateOracle, Loans]:
    """Run a program to its end, with everything checked, and verify its trace; how it ended, in one word."""
    random = Random(number)
    runtime = checked(
        Runtime(
            clock="virtual",
            seed=number,
            workers=(1, 1, 2, 4)[number % 4],
            admission=authority(random) if number % 5 else None,
            budget=Budget(ops=3000, spawns=200) if number % 7 == 0 else None,
            cleanup=bursar.Cleanup(ops=200, seconds=2.0),
            record=path,
        )
    )
    flow = Loans(random, runtime)
    judges: list[GateOracle] = []

    async def main() -> int:
        judges.append(GateOracle(runtime))  # now that it is recorded: it hears all that the recorder hears
        judges[0].look_after_every_poll(runtime)
        return await flow.main()

    ending = admission_programs.ending_of(runtime, main)
    judge = judges[0]
    judge.begun = flow.begun
    judge.check()
    assert verify(Trace(path)).fingerprint == runtime.fingerprint
    return ending, judge, flow
