"""Requests about the budget of a task: `charge` and `recharge`."""

from __future__ import annotations

from bursar.backend import Kernel
from bursar.backend import Task as LawTask
from bursar.law.budget import COMPONENTS, NAMED_MAX, UNITS_MAX, Budget, require_counter_name
from bursar.law.costs import Cost
from bursar.ops.task import Task
from bursar.request import Request, loop_module

loop_module(__name__)


class _Charge(Request[None]):
    __slots__ = ("_cost",)

    def __init__(self, cost: Cost) -> None:
        self._cost = cost

    def bill(self) -> Cost:
        return self._cost

    def perform(self, kernel: Kernel, task: LawTask) -> None:
        """Nothing to do: the driver has billed the cost."""


def charge(
    ops: int = 0, *, memory: int = 0, spawns: int = 0, channel_ops: int = 0, syscalls: int = 0, **named: int
) -> Request[None]:
    """Awaited: pay for work that Bursar cannot see: `await charge(ops=n)` after n rounds of a loop.

    A charge is paid in full or not at all, and costs at least one op, like any request. If there is too little memory
    or too few spawns, it raises `MemoryBudgetExceeded` or `SpawnBudgetExceeded` and the task continues; too little of
    the others exhausts the task. When the turn is over, the other tasks run first.

    Other keywords are named counters, the program's own units: `await charge(tokens=1_500, tool_calls=1)`. A counter
    that no budget above the task states is only counted. If its name is close to a counter that is limited for the
    task, the charge raises `ValueError`: the name is probably misspelt.
    """
    amounts = (ops, memory, spawns, channel_ops, syscalls)
    for name, amount in zip(COMPONENTS, amounts, strict=True):
        if type(amount) is not int or not 0 <= amount <= UNITS_MAX:
            raise _not_an_amount(name, amount)
    billed = (max(ops, 1), *amounts[1:])  # every request costs at least one op
    cost = tuple((component, amount) for component, amount in enumerate(billed) if amount)
    return _Charge((*cost, *_named_cost(named)) if named else cost)


def _named_cost(named: dict[str, int]) -> Cost:
    """The amounts of named counters as part of a cost. Raises for a name or an amount that a charge cannot have."""
    for name, amount in named.items():
        require_counter_name(name)
        if type(amount) is not int or not 0 <= amount <= UNITS_MAX:
            raise _not_an_amount(name, amount)
    if len(named) > NAMED_MAX:
        raise ValueError(f"a charge has at most {NAMED_MAX} named counters, and this one has {len(named)}")
    return tuple(sorted((name, amount) for name, amount in named.items() if amount))


def _not_an_amount(name: str, amount: object) -> ValueError:
    return ValueError(f"charge({name}={amount!r}): a charge is a whole number between 0 and {UNITS_MAX}")


class _Recharge(Request[None]):
    __slots__ = ("_amount", "_task")

    def __init__(self, amount: Budget, task: Task[object] | None) -> None:
        self._amount = amount
        self._task = task

    def perform(self, kernel: Kernel, task: LawTask) -> None:
        target = task if self._task is None else self._task._inside(kernel)
        kernel.recharge_by_capability(task, target, self._amount)


def recharge(amount: Budget, task: Task[object] | None = None) -> Request[None]:
    """Awaited: put `amount` into this task's own budget, or into that of `task`. Needs a `CapBudget`, within its
    limits.

    Raises `CapabilityDenied` if the capability has too little left, and `ValueError` if the task has ended. A task on
    hold becomes runnable.
    """
    return _Recharge(amount, task)
