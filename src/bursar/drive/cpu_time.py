"""The clock of the counter `cpu_ns`: the processor time of the calling thread.

The driver reads it around a stretch of a task's code, and a function on a thread reads it at its checkpoints, both only
where a budget states `cpu_ns`. What was measured is an input of the run: the event `cpu_charged` records it, and a
replay takes it from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# A browser has no clock for the processor time of a thread. There a stretch is charged the time that it takes.
_READ: Final[Callable[[], int]] = getattr(time, "thread_time_ns", time.perf_counter_ns)


def thread_time_ns() -> int:
    """The processor time of the calling thread, in nanoseconds."""
    return _READ()
