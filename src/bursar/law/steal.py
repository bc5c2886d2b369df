"""Stealing: how a worker with nothing to do finds work that another one has.

A thief makes at most min(N−1, STEAL_ATTEMPTS_MAX) attempts, never on itself, and takes the oldest stealable
task of its victim; pinned, timed and cancelled tasks stay where they are. Whom it tries is the policy:

    random        draws from its own seeded stream among the others
    round_robin   the next worker after the one it tried last
    least_loaded  the thief is the least loaded, so it takes from the busiest first (ties: lower id)

Rejected: drawing among all workers and wasting the attempt when it hits oneself; taking half of the
victim's queue, which is right for threads (fewer cache misses) and only blurs a deterministic order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bursar.law.lanes import Worker, take_oldest

if TYPE_CHECKING:
    from bursar.law.task import Task

STEAL_ATTEMPTS_MAX: Final = 4  # bounds what an idle worker costs when many are idle


class StealPolicy(StrEnum):
    """How a thief chooses its victims."""

    RANDOM = "random"
    ROUND_ROBIN = "round_robin"
    LEAST_LOADED = "least_loaded"


def attempts_max(workers: int) -> int:
    return min(workers - 1, STEAL_ATTEMPTS_MAX)


def victims(thief: Worker, workers: Sequence[Worker], policy: StealPolicy) -> Iterator[Worker]:
    """Whom to try, in order. Draws lazily: an attempt that is not made costs no random number."""
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
    """One search. Returns the stolen task, or None when every attempt found an empty victim."""
    for victim in victims(thief, workers, policy):
        assert victim is not thief, "a worker never steals from itself"
        if victim.stealable:
            thief.stats.steals += 1
            victim.stats.stolen_from += 1
            return take_oldest(victim.stealable)
        thief.stats.steals_failed += 1
    return None
