"""`decide`: chooses the lane from which a worker takes its next task. A pure, total function in six steps.

    1  cancel lane, if its streak is below the limit
    2  timed lane, if its head is due (and ready work has not waited too long for it)
    3  ready lane
    4  steal
    5  cancel lane again, if it is all there is
    6  idle

Two bounds make the order fair:

DECIDE-1  at most `limit` cancel dispatches in a row while other work is runnable; the limit is CANCEL_STREAK_MAX,
    doubled while a nursery is CANCELLING or a DRAINING task holds an obligation
DECIDE-2  at most TIMED_STREAK_MAX timed dispatches between two ready ones while ready work exists

Together: ready work at the head of its queue runs after at most `wait_max(limit)` decisions of its worker.
Priorities have no effect here. They decide which task is admitted, never which task runs next.
"""

from __future__ import annotations

from typing import Final

from bursar.law.lanes import Lane

CANCEL_STREAK_MAX: Final = 16  # enough to unwind a nursery's tasks at once, too few to be noticed
TIMED_STREAK_MAX: Final = 8  # a burst of timers may go first, a stream of them may not

_CANCEL, _TIMED, _READY, _STEAL = Lane.CANCEL, Lane.TIMED, Lane.READY, Lane.STEAL


def cancel_limit(draining: bool) -> int:
    """The limit of DECIDE-1 that applies now."""
    return 2 * CANCEL_STREAK_MAX if draining else CANCEL_STREAK_MAX


def wait_max(limit: int) -> int:
    """How many decisions of its worker a ready task at the head of its queue waits at most."""
    return TIMED_STREAK_MAX * (limit + 1) + limit


def decide(
    cancel: bool, due: bool, ready: bool, stealable: bool, cancel_streak: int, limit: int, timed_streak: int
) -> Lane:
    """The lane to take from, given which lanes have work and the two streaks."""
    if cancel and cancel_streak < limit:
        return _CANCEL
    if due and (timed_streak < TIMED_STREAK_MAX or not (ready or stealable)):
        return _TIMED
    if ready:
        return _READY
    if stealable:
        return _STEAL
    if cancel:
        return Lane.CANCEL_FALLBACK
    return Lane.IDLE


def streaks_after(lane: Lane, cancel_streak: int, timed_streak: int) -> tuple[int, int]:
    """The streaks after a dispatch from `lane`."""
    if lane is _CANCEL:
        return cancel_streak + 1, timed_streak
    if lane is _TIMED:
        return 0, min(timed_streak + 1, TIMED_STREAK_MAX)
    if lane is Lane.CANCEL_FALLBACK:
        return 0, timed_streak
    return 0, 0
