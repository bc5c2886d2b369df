"""The programs of `programs`, with named counters: each charge, budget and recharge may state some.

The programs are the same, number for number. What they charge and state differs, so how they end differs too.
"""

from __future__ import annotations

from random import Random

import bursar
from bursar import Budget, Runtime
from support import programs
from support.programs import suppress


def with_names(budget: Budget | None, **named: int | None) -> Budget:
    """The budget with named counters as well."""
    five, names = (budget or Budget()).as_tuple(), {**dict((budget or Budget()).named), **named}
    return Budget(*five, **names)


class NamedInterpreter(programs.Interpreter):
    """Runs one program; its units are tokens, calls and pages."""

    def budget_of(self, a: int) -> Budget | None:
        budget = super().budget_of(a)
        match a % 7:
            case 0:
                return with_names(budget, tokens=a % 23)
            case 1:
                return with_names(budget, tokens=a % 90, calls=a % 4)
            case 2:
                return with_names(budget, pages=a % 5)
            case _:
                return budget

    async def do_charge(self, n, a, b):
        await bursar.charge(ops=a % 9, tokens=a, calls=b % 2, pages=b % 3)

    async def do_yield(self, n, a, b):
        await bursar.charge(tokens=b % 4)
        await super().do_yield(n, a, b)

    async def do_recharge(self, n, a, b):
        with suppress(bursar.CapabilityDenied):
            await bursar.recharge(Budget(ops=a % 100, tokens=a % 30, pages=b % 3))

    async def do_recharge_child(self, n, a, b):
        if n.tasks:
            with suppress(bursar.CapabilityDenied, bursar.BudgetExceeded, ValueError):
                n.recharge(n.tasks[a % len(n.tasks)], Budget(ops=b % 2, tokens=a % 20, calls=b % 3))

    def rescue_with(self, a: int) -> Budget:
        return Budget(tokens=a % 40 + 1, calls=a % 2 or None, pages=2)


def runtime_for(number: int, workers: int, seed: int = 0, **keywords) -> Runtime:
    """The runtime that program `number` runs in."""
    budget = with_names(
        programs.FINITE if number % 3 else None, tokens=1500 if number % 2 else None, pages=60 if number % 5 else None
    )
    return programs.runtime_for(number, workers, seed, budget=budget, **keywords)


def prepare(number: int, **keywords):
    """A runtime for a program, and its main function."""
    runtime = runtime_for(number, 1 + number % 4, seed=number, **keywords)
    return runtime, NamedInterpreter(programs.make(Random(number)), runtime.profile.name).main
