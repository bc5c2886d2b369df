"""Aging: a waiting ticket gains priority, so that no priority waits for ever.

    effective priority = priority + floor(wait / interval) * boost        (boost 0: strict)

`Aging` in `law/admission/authority.py` states the interval and the boost. `law/admission/queues.py` orders the tickets
by their effective priority. `native/law/admission/aging.h` is the same formula in C.
"""

from __future__ import annotations


def effective_priority(priority: int, wait_ns: int, interval_ns: int, boost: int) -> int:
    """The priority that counts after a wait of `wait_ns`."""
    return priority + wait_ns // interval_ns * boost if boost else priority
