"""Budgets: limits on what a task may spend, one for each component.

A `Budget` is a statement: five numbers, where None means that no limit is stated. It is a value and holds nothing:
`law/pool.py` has the accounts, and `law/costs.py` what each operation costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

COMPONENTS: Final = ("ops", "memory", "spawns", "channel_ops", "syscalls")
OPS, MEMORY, SPAWNS, CHANNEL_OPS, SYSCALLS = range(5)
UNITS_MAX: Final = (1 << 62) - 1  # fits a signed 64-bit word with room for one addition


@dataclass(frozen=True, slots=True)
class Budget:
    """Five limits. None means that no limit is stated; 0 means that nothing is granted. Immutable.

    ```python
    from bursar import Budget

    print(Budget(ops=100, spawns=5).clamp(Budget(ops=30)))
    print(Budget(ops=100).within(Budget.service()))
    ```

    ```text
    ops=30, spawns=5
    False
    ```

    Attributes:
        ops: Requests and charges.
        memory: Bytes.
        spawns: Tasks.
        channel_ops: Operations on channels.
        syscalls: Operations on files, sockets and signals.
    """

    ops: int | None = None
    memory: int | None = None
    spawns: int | None = None
    channel_ops: int | None = None
    syscalls: int | None = None

    def __post_init__(self) -> None:
        for name, value in zip(COMPONENTS, self.as_tuple(), strict=True):
            if value is None:
                continue
            if type(value) is not int:
                raise TypeError(
                    f"Budget({name}={value!r}): a budget is counted in whole units; give an int, or None for no limit"
                )
            if not 0 <= value <= UNITS_MAX:
                raise ValueError(
                    f"Budget({name}={value}): must be between 0 (not granted) and {UNITS_MAX}; use None for no limit"
                )

    @classmethod
    def none(cls) -> Self:
        """Nothing: all five limits are 0."""
        return cls(0, 0, 0, 0, 0)

    @classmethod
    def service(cls) -> Self:
        """100,000 ops, 10 MiB, 100 spawns, 1,000 channel ops, 100 syscalls: a budget for a task of a service."""
        return cls(100_000, 10 * 2**20, 100, 1_000, 100)

    @classmethod
    def cluster(cls) -> Self:
        """1,000,000 ops, 100 MiB, 1,000 spawns, 10,000 channel ops, 1,000 syscalls: the limit of `CapBudget` in
        `cluster`."""
        return cls(1_000_000, 100 * 2**20, 1_000, 10_000, 1_000)

    @classmethod
    def child(cls) -> Self:
        """10,000 ops, 1 MiB, no spawns, 100 channel ops, 10 syscalls: enough to work, not enough to spawn."""
        return cls(10_000, 2**20, 0, 100, 10)

    def as_tuple(self) -> tuple[int | None, ...]:
        """The five limits, in the order of the fields."""
        return (self.ops, self.memory, self.spawns, self.channel_ops, self.syscalls)

    def clamp(self, limit: Budget) -> Budget:
        """The smaller of the two, counter by counter. None is larger than any number."""
        return Budget(*(_least(a, b) for a, b in zip(self.as_tuple(), limit.as_tuple(), strict=True)))

    def within(self, limit: Budget) -> bool:
        """Whether no counter exceeds that of `limit`."""
        return self.clamp(limit) == self

    def __str__(self) -> str:
        stated = [f"{n}={v:,}" for n, v in zip(COMPONENTS, self.as_tuple(), strict=True) if v is not None]
        return ", ".join(stated) or "unlimited"


UNSTATED: Final = Budget()


def require_plain(budget: Budget) -> None:
    """Raise unless `budget` is exactly a `Budget`: a subclass could report other numbers than it has."""
    if type(budget) is not Budget:
        raise TypeError(f"{budget!r} is not a Budget")


def _least(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)
