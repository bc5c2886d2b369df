"""Loans: what a native function has of its task's money.

The function pays from pools of the engine, and these are filled out of the task's: whole where the task has a pool of
its own, else in portions, so that nobody who shares the purse starves. A portion is charged before it is handed over;
when it is used up the function holds, the task is billed for the next one, and the law decides what follows if there
is none: the end, or a hold until somebody recharges the task. At the end it gets back what was not used.

A task nothing of which is limited needs no loan: it is told afterwards what was spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bursar.law.budget import CHANNEL_OPS, COMPONENTS, MEMORY, OPS, SPAWNS, SYSCALL, SYSCALLS, UNITS_MAX, Cost

if TYPE_CHECKING:
    from bursar.backend import Task

PORTION: Final = {OPS: 1024, CHANNEL_OPS: 64, SYSCALLS: 64}  # the first of a shared pool; each later one doubles
BILLED: Final = tuple(dict(SYSCALL).get(component, 0) for component in range(len(COMPONENTS)))  # for each wait

Portion = tuple[int, ...]  # of money, by component


class FiberBudget:
    """The loan of one function: spent here + held there = charged to the task (FIBERTASK-2)."""

    __slots__ = ("_lent", "_metered", "_sizes", "_task")

    def __init__(self, task: Task, metered: bool) -> None:
        self._task = task
        self._metered = metered  # its memory pays for what its Python code allocates
        self._lent = [0] * len(COMPONENTS)  # charged and handed over; open pools are not charged in advance
        self._sizes = dict(PORTION)

    def portion(self, lacks: Sequence[int] | None) -> Portion:
        """What to hand over next. `lacks`: what the function asks for; None: it is about to begin."""
        return tuple([self._of(component, lacks) for component in range(len(COMPONENTS))])

    def _of(self, component: int, lacks: Sequence[int] | None) -> int:
        pool, needed = self._task.pools[component], lacks[component] if lacks is not None else 0
        if pool.left is None:
            return UNITS_MAX if lacks is None else needed
        if lacks is not None and not needed:
            return 0
        own = pool is not self._task.purse_of[component]
        left = max(pool.left - BILLED[component], 0)  # so much the wait itself costs
        if component in (MEMORY, SPAWNS):  # nobody holds for these: only what was granted to this very task
            return left if own and not (self._metered and component == MEMORY) else 0
        if own:
            return max(left, needed)
        size = self._sizes[component]
        self._sizes[component] = min(2 * size, UNITS_MAX)
        return max(min(size, (left + 1) // 2), needed)

    def cost(self, portion: Portion) -> Cost:
        """What the task is charged for it, with the price of the wait."""
        cost: list[tuple[int, int]] = []
        for component, pool in enumerate(self._task.pools):
            amount = BILLED[component] + (0 if pool.left is None else portion[component])
            if amount:
                cost.append((component, amount))
        return tuple(cost)

    def handed(self, portion: Portion) -> None:
        for component, pool in enumerate(self._task.pools):
            if pool.left is not None:
                self._lent[component] += portion[component]

    def difference(self, spent: Sequence[int]) -> Portion:
        """What the task is still to pay, by component; negative: what it gets back."""
        return tuple([used - lent for used, lent in zip(spent, self._lent, strict=True)])
