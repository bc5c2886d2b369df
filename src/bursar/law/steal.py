"""Stealing: how an idle worker takes a ready task from another worker.

A thief makes at most min(N−1, STEAL_ATTEMPTS_MAX) attempts, never on itself. It takes the oldest stealable task of its
victim. Pinned, timed and cancelled tasks stay where they are. The policy chooses the victims:

    random        draws among the other workers, from the thief's own seeded stream
    round_robin   the next worker after the one that the thief tried last
    least_loaded  the worker with the most stealable tasks first (ties: lower id): the thief has the least load

Rejected: drawing among all workers, and wasting the attempt if the thief draws itself. Also rejected: taking half of
the victim's queue. That is right for threads, where it saves cache misses; here it only complicates the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bursar.law.lanes import Worker, take_oldest

if TYPE_CHECKING:
    from bursar.law.task import Task

STEAL_ATTEMPTS_MAX: Final = 4  # limits the cost of an idle worker when many workers are idle


class StealPolicy(StrEnum):
    """How a thief chooses its victims."""

    RANDOM = "random"
    ROUND_ROBIN = "round_robin"
    LEAST_LOADED = "least_loaded"


def attempts_max(workers: int) -> int:
    return min(workers - 1, STEAL_ATTEMPTS_MAX)


def victims(thief: Worker, workers: Sequence[Worker], policy: StealPolicy) -> Iterator[Worker]:
    """The workers to try, in order. Draws lazily: an attempt that is not made uses no random number."""
    n = len(workers)
    match policy:
        case StealPolicy.RANDOM:
            for _ in range(attempts_max(n)):
                other = thief.stream.below(n - 1)
                yield workers[other if other < thief.id else other + 1]
        case StealPolicy.ROUND_ROBIN:
            for _ in range(attempts_max(n)):
                thief.next_victim = (thief.next_victim + 1) % n
                if thief.next_victim == thief.id:
                    thief.next_victim = (thief.next_victim + 1) % n
                yield workers[thief.next_victim]
        case StealPolicy.LEAST_LOADED:
            others = (w for w in workers if w is not thief)
            yield from sorted(others, key=lambda w: (-len(w.stealable), w.id))[: attempts_max(n)]


def steal(thief: Worker, workers: Sequence[Worker], policy: StealPolicy) -> Task | None:
    """Search once. Returns the stolen task, or None if every victim was empty."""
    for victim in victims(thief, workers, policy):
        assert victim is not thief, "a worker never steals from itself"
        if victim.stealable:
            thief.stats.steals += 1
            victim.stats.stolen_from += 1
            return take_oldest(victim.stealable)
        thief.stats.steals_failed += 1
    return None
