"""`Authority`: the rules of one gate. It is immutable.

    Strict   higher priorities first; equal priorities first come, first served; a low priority may wait for ever
    Aging    a task gains `boost` of priority for each whole `interval` that it waits

A number is a priority; the larger goes first. `Priority` names three of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bursar.law.admission.resources import Hard, Limit, Soft, limits_of
from bursar.law.timers import to_ns
from bursar.text import NamedInt

PRIORITY_MAX: Final = 10**9  # also as a negative number; aging cannot bridge such a distance
RESERVE_INTERVALS: Final = 3  # how many intervals a task that does not fit waits before it holds a reservation
INTERVAL: Final = 0.5
PAUSE_TIMEOUT: Final = 1.5


class Priority(NamedInt):
    """How soon a task gets permission to start. It does not decide which task runs next.

    Any whole number is a priority; the larger one goes first. `HIGH` is 100, `NORMAL` is 50, `LOW` is 10.
    """

    HIGH = 100
    NORMAL = 50
    LOW = 10


@dataclass(frozen=True, slots=True)
class Strict:
    """Higher priorities first, always; among equal priorities, first come, first served."""


@dataclass(frozen=True, slots=True)
class Aging:
    """A waiting task becomes more urgent: the priority that counts is `priority + floor(waited / interval) * boost`.

    Attributes:
        interval: Seconds.
        boost: How much each whole interval adds.
    """

    interval: float = INTERVAL
    boost: int = 1

    def __post_init__(self) -> None:
        if to_ns(self.interval, "Aging.interval") < 1:
            raise ValueError(f"Aging(interval={self.interval!r}): must be longer than nothing; Strict() does not age")
        if type(self.boost) is not int or not 1 <= self.boost <= PRIORITY_MAX:
            raise ValueError(f"Aging(boost={self.boost!r}): must be a whole number from 1 to {PRIORITY_MAX:,}")


def require_priority(priority: Any) -> int:
    """The priority as an int. Raises unless it is a whole number within PRIORITY_MAX."""
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise TypeError(f"priority={priority!r}: must be a Priority or a whole number; the larger goes first")
    if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise ValueError(f"priority={priority!r}: must be between -{PRIORITY_MAX:,} and {PRIORITY_MAX:,}")
    return int(priority)


def _none_or_count(value: int | None, what: str, least: int) -> None:
    if value is not None and (type(value) is not int or value < least):
        raise ValueError(f"Authority({what}={value!r}): must be a whole number, at least {least}, or None for no limit")


@dataclass(frozen=True, slots=True)
class Authority:
    """The rules of a gate: which tasks may start, in which order, and how many at once.

    For `nursery(admission=)`, `run(admission=)` and `Runtime(admission=)`. A task of the nursery is PENDING until the
    gate admits it. Without an authority the runtime has one for plain functions, and for tasks with dependencies,
    needs, a retry or a priority; its figures are the settings that `bursar info` shows.

    ```python
    import bursar


    async def job(number):
        await bursar.sleep(1)


    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=2)) as n:
            for number in range(6):
                n.spawn(job, number)
        print(await bursar.now(), "s")


    bursar.run(main, clock="virtual")
    ```

    ```text
    3.0 s
    ```

    Attributes:
        order: `Strict()` or `Aging(...)`.
        max_concurrent: How many tasks are admitted at once. A cancelled task that had given its slot away continues at
            once and counts, so no task is admitted until there is room again.
        max_queue: How many tasks may wait for permission. The task that would be admitted last is dropped.
        max_wait: For how many seconds a task may wait. Then it is dropped.
        resources: What there is: `{"cpu": 4, "ram": "8GiB", "gpu": Hard(1)}`. `cpu` is hard, `ram` and `vram` are
            soft, other names are hard unless `Soft` says otherwise. None means no limit.
        reserve_after: After how many seconds a task that does not fit keeps other tasks from taking what it needs. By
            default three intervals of aging.
        pause_timeout: Within how many seconds a function must reach a checkpoint when it is paused.
    """

    order: Strict | Aging = field(default_factory=Strict)
    max_concurrent: int | None = None
    max_queue: int | None = None
    max_wait: float | None = None
    resources: Mapping[str, int | float | str | Hard | Soft | None] = field(default_factory=dict[str, Any])
    reserve_after: float | None = None
    pause_timeout: float = PAUSE_TIMEOUT

    def __post_init__(self) -> None:
        if not isinstance(self.order, Strict | Aging):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Authority(order={self.order!r}): must be Strict() or Aging(...)")
        _none_or_count(self.max_concurrent, "max_concurrent", 1)
        _none_or_count(self.max_queue, "max_queue", 0)
        for name in ("max_wait", "reserve_after", "pause_timeout"):
            if (seconds := getattr(self, name)) is not None:
                to_ns(seconds, f"Authority.{name}")
        limits_of(self.resources)

    @property
    def _limits(self) -> tuple[Limit, ...]:
        """The resources as the gate counts them."""
        return limits_of(self.resources)

    @property
    def _interval_ns(self) -> int:
        """The interval of aging in nanoseconds."""
        return to_ns(self.order.interval if isinstance(self.order, Aging) else INTERVAL, "Aging.interval")

    @property
    def _boost(self) -> int:
        """The boost of aging for each interval."""
        return self.order.boost if isinstance(self.order, Aging) else 0

    @property
    def _reserve_after_ns(self) -> int:
        """`reserve_after` in nanoseconds."""
        if self.reserve_after is None:
            return RESERVE_INTERVALS * self._interval_ns
        return to_ns(self.reserve_after, "Authority.reserve_after")

    def _written(self) -> str:
        """The authority as JSON, as a trace holds it."""
        order = self.order
        import json  # only traces need it

        return json.dumps(
            {
                "aging": [order.interval, order.boost] if isinstance(order, Aging) else None,
                "max_concurrent": self.max_concurrent,
                "max_queue": self.max_queue,
                "max_wait": self.max_wait,
                "resources": [[name, amount, soft] for name, amount, soft in self._limits],
                "reserve_after": self.reserve_after,
                "pause_timeout": self.pause_timeout,
            }
        )

    @classmethod
    def _read(cls, text: str | bytes) -> Authority:
        """Read what `written` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        import json  # only traces need it

        facts: dict[str, Any] = json.loads(text)
        aging = facts["aging"]
        return cls(
            order=Strict() if aging is None else Aging(*aging),
            max_concurrent=facts["max_concurrent"],
            max_queue=facts["max_queue"],
            max_wait=facts["max_wait"],
            resources={name: (Soft if soft else Hard)(amount) for name, amount, soft in facts["resources"]},
            reserve_after=facts["reserve_after"],
            pause_timeout=facts["pause_timeout"],
        )
