"""`Retry`: how often a failed task is tried again, and when.

Each attempt is a new task, spawned when the one before fails. It has the same function, arguments, priority, needs and
budget. The failed attempt keeps its outcome. Its failure counts for the nursery only if no attempt follows. Only a
failure is tried again; a cancellation, a panic or a drop is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from bursar.law.timers import to_ns

FACTOR_MAX: Final = 1000
TIMES_MAX: Final = 1_000_000  # more attempts than this are a loop, which the program should write itself


@dataclass(frozen=True, slots=True)
class Retry:
    """For `spawn(retry=)`: when and how often to try again after a failure.

    Attributes:
        times: At most this many further attempts.
        backoff: Seconds before the first of them.
        factor: Each further pause is this many times as long.
        backoff_max: The longest pause in seconds.
        on: The errors after which to try again: an exception class, or a tuple of them.
    """

    times: int
    backoff: float = 0.0
    factor: float = 2.0
    backoff_max: float = 60.0
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if type(self.times) is not int or not 0 <= self.times <= TIMES_MAX:
            raise ValueError(f"Retry(times={self.times!r}): must be a whole number from 0 to {TIMES_MAX:,}")
        to_ns(self.backoff, "Retry.backoff")
        to_ns(self.backoff_max, "Retry.backoff_max")
        if not 1 <= self.factor <= FACTOR_MAX:
            raise ValueError(f"Retry(factor={self.factor!r}): must be between 1 and {FACTOR_MAX}")
        kinds: tuple[Any, ...] = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise TypeError(f"Retry(on={self.on!r}): must be a class of exceptions, or a tuple of them")

    def _applies(self, attempt: int, error: Exception) -> bool:
        """Whether another attempt follows the attempt of this number, which failed with this error."""
        return attempt <= self.times and isinstance(error, self.on)

    def _delay_ns(self, attempt: int) -> int:
        """How long to wait after the attempt of this number, in nanoseconds."""
        try:
            growth = float(self.factor) ** min(attempt - 1, 1000)
        except OverflowError:
            growth = math.inf
        seconds = min(self.backoff * growth, self.backoff_max) if self.backoff else 0.0
        return to_ns(seconds, "Retry.backoff")
