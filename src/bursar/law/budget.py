"""Budgets: limits on what a task may spend, one for each component.

A `Budget` is a statement: five numbers, where None means that no limit is stated, and the limits of named counters. A
named counter is a unit of the program: tokens, tool calls, money. A `Budget` is a value and holds nothing:
`law/pool.py` has the accounts, and `law/costs.py` what each operation costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

COMPONENTS: Final = ("ops", "memory", "spawns", "channel_ops", "syscalls")
OPS, MEMORY, SPAWNS, CHANNEL_OPS, SYSCALLS = range(5)
NAMED: Final = 5  # stands for any named counter where only a number fits
CPU_NS: Final = "cpu_ns"  # the counter that is measured: processor time of the task's code, in nanoseconds
NAME_LENGTH_MAX: Final = 64  # of a named counter: a trace writes the name with each amount
NAMED_MAX: Final = 16  # named counters in one budget: a task with a budget of its own has a pool for each
UNITS_MAX: Final = (1 << 62) - 1  # fits a signed 64-bit word with room for one addition


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Budget:
    """Five limits, and the limits of named counters. None means that no limit is stated; 0 means that nothing is
    granted. Immutable.

    ```python
    from bursar import Budget

    print(Budget(ops=100, spawns=5).clamp(Budget(ops=30)))
    print(Budget(ops=100).within(Budget.service()))
    print(Budget(tokens=200_000).tokens)
    ```

    ```text
    ops=30, spawns=5
    False
    200000
    ```

    Attributes:
        ops: Requests and charges.
        memory: Bytes.
        spawns: Tasks.
        channel_ops: Operations on channels.
        syscalls: Operations on files, sockets and signals.
        named: The limits of named counters, as pairs of name and limit, sorted by name. `cpu_ns` is measured: the
            processor time of the task's code, in nanoseconds. The program charges all others.
    """

    __match_args__ = COMPONENTS

    ops: int | None
    memory: int | None
    spawns: int | None
    channel_ops: int | None
    syscalls: int | None
    named: tuple[tuple[str, int], ...]

    def __init__(
        self,
        ops: int | None = None,
        memory: int | None = None,
        spawns: int | None = None,
        channel_ops: int | None = None,
        syscalls: int | None = None,
        **named: int | None,
    ) -> None:
        limits = (ops, memory, spawns, channel_ops, syscalls)
        for name, value in (*zip(COMPONENTS, limits, strict=True), *named.items()):
            _require_limit(name, value)
        stated = tuple(sorted((name, value) for name, value in named.items() if value is not None))
        for name, _ in stated:
            require_counter_name(name)
        if len(stated) > NAMED_MAX:
            raise ValueError(f"a Budget has at most {NAMED_MAX} named counters, and this one states {len(stated)}")
        for name, value in (*zip(COMPONENTS, limits, strict=True), ("named", stated)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> int | None:
        """The limit of a named counter."""
        if name != "named":  # an object that `copy` or `pickle` has not filled yet has no names
            for known, limit in self.named:
                if known == name:
                    return limit
        raise AttributeError(f"{self!r} states no counter {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        limits = (*zip(COMPONENTS, self.as_tuple(), strict=True), *self.named)
        return f"{type(self).__qualname__}({', '.join(f'{name}={limit!r}' for name, limit in limits)})"

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (type(self), self.as_tuple(), self.named)

    def limits(self) -> Iterator[tuple[str, int]]:
        """The limits that are stated, by name: the five first, then the named counters."""
        for name, limit in zip(COMPONENTS, self.as_tuple(), strict=True):
            if limit is not None:
                yield name, limit
        yield from self.named

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
        five = (_least(a, b) for a, b in zip(self.as_tuple(), limit.as_tuple(), strict=True))
        if not self.named and not limit.named:
            return Budget(*five)
        mine, others = dict(self.named), dict(limit.named)
        return Budget(*five, **{name: _least(mine.get(name), others.get(name)) for name in {**mine, **others}})

    def within(self, limit: Budget) -> bool:
        """Whether no counter exceeds that of `limit`."""
        return self.clamp(limit) == self

    def __str__(self) -> str:
        return ", ".join(f"{name}={limit:,}" for name, limit in self.limits()) or "unlimited"


def require_plain(budget: Budget) -> None:
    """Raise unless `budget` is exactly a `Budget`: a subclass could report other numbers than it has."""
    if type(budget) is not Budget:
        raise TypeError(f"{budget!r} is not a Budget")


def require_counter_name(name: str) -> None:
    """Raise unless `name` can be the name of a counter. A keyword may be any text: `Budget(**{"a b": 1})`."""
    if not name.isidentifier() or name.startswith("_") or hasattr(Budget, name) or len(name) > NAME_LENGTH_MAX:
        raise ValueError(
            f"{name[:NAME_LENGTH_MAX]!r} cannot name a counter: choose an identifier of at most {NAME_LENGTH_MAX} "
            "letters, without a leading underscore, that is not the name of an attribute of Budget"
        )


def similar_name(name: str, known: Iterable[str]) -> str:
    """The first of the `known` names that `name` probably misspells; "" if there is none.

    A plural, an underscore, upper case or one letter too many or too few is a misspelling. Another letter is not:
    `tokens_a` and `tokens_b` are two counters.
    """
    plain = _plain(name)
    for other in known:
        short, long = sorted((plain, _plain(other)), key=len)
        if short == long or any(long[:i] + long[i + 1 :] == short for i in range(len(long))):
            return other
    return ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower().rstrip("s")


def _require_limit(name: str, value: object) -> None:
    if value is None:
        return
    if type(value) is not int:
        raise TypeError(
            f"Budget({name}={value!r}): a budget is counted in whole units; give an int, or None for no limit"
        )
    if not 0 <= value <= UNITS_MAX:
        raise ValueError(
            f"Budget({name}={value}): must be between 0 (not granted) and {UNITS_MAX}; use None for no limit"
        )


def _make(kind: type[Budget], five: tuple[int | None, ...], named: tuple[tuple[str, int], ...]) -> Budget:
    """Unpickle a budget."""
    return kind(*five, **dict(named))


def _least(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


UNSTATED: Final = Budget()
