"""The fiber budget: what a native function holds of its task's budget.

The function pays from pools of the engine, which get their content from the task's pools. A pool of the task alone is
handed over whole. A shared pool is handed over in portions, so that the function does not starve other tasks. The task
is charged for a portion before the engine gets it. When the function has used up a portion, it waits, and the task is
billed for the next one. If the task cannot pay, the law decides: the task ends, or is on hold until a recharge. At the
end, the task gets back what the function did not use.

A task without any limit needs no fiber budget. It is charged at the end for what the function spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bursar.law.budget import CHANNEL_OPS, COMPONENTS, MEMORY, OPS, SPAWNS, SYSCALLS, UNITS_MAX
from bursar.law.costs import SYSCALL, Cost

if TYPE_CHECKING:
    from bursar.backend import Task

PORTION: Final = {OPS: 1024, CHANNEL_OPS: 64, SYSCALLS: 64}  # the first portion of a shared pool; each next one doubles
BILLED: Final = tuple(dict(SYSCALL).get(component, 0) for component in range(len(COMPONENTS)))  # the cost of one wait

Portion = tuple[int, ...]  # amounts by component


class FiberBudget:
    """The budget of one function: what it has spent + what it still holds = charged to the task (FIBERTASK-2)."""

    __slots__ = ("_lent", "_metered", "_sizes", "_task")

    def __init__(self, task: Task, metered: bool) -> None:
        self._task = task
        self._metered = metered  # a memory meter charges the task's memory, so the function gets none of it
        self._lent = [0] * len(COMPONENTS)  # charged and handed over; unlimited pools are not charged in advance
        self._sizes = dict(PORTION)

    def portion(self, lacks: Sequence[int] | None) -> Portion:
        """What to hand over next. `lacks`: what the function is short of. None: the function has not begun."""
        return tuple([self._of(component, lacks) for component in range(len(COMPONENTS))])

    def _of(self, component: int, lacks: Sequence[int] | None) -> int:
        pool, needed = self._task.pools[component], lacks[component] if lacks is not None else 0
        if pool.left is None:
            return UNITS_MAX if lacks is None else needed
        if lacks is not None and not needed:
            return 0
        own = pool is not self._task.purse_of[component]
        left = max(pool.left - BILLED[component], 0)  # after the cost of the wait itself
        if component in (MEMORY, SPAWNS):  # a function cannot wait for more of these: only from a pool of its own
            return left if own and not (self._metered and component == MEMORY) else 0
        if own:
            return max(left, needed)
        size = self._sizes[component]
        self._sizes[component] = min(2 * size, UNITS_MAX)
        return max(min(size, (left + 1) // 2), needed)

    def cost(self, portion: Portion) -> Cost:
        """What the task is charged for the portion and for the wait."""
        cost: list[tuple[int, int]] = []
        for component, pool in enumerate(self._task.pools):
            amount = BILLED[component] + (0 if pool.left is None else portion[component])
            if amount:
                cost.append((component, amount))
        return tuple(cost)

    def add_lent(self, portion: Portion) -> None:
        """The engine has this portion now."""
        for component, pool in enumerate(self._task.pools):
            if pool.left is not None:
                self._lent[component] += portion[component]

    def difference(self, spent: Sequence[int]) -> Portion:
        """What the task still has to pay, by component. Negative: what the task gets back."""
        return tuple([used - lent for used, lent in zip(spent, self._lent, strict=True)])
