"""Metrics: what a run has done so far, in counts.

The law counts as it goes, so asking costs nothing while nobody asks.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.law.kernel import Kernel
from bursar.law.lanes import Lane
from bursar.law.state import OutcomeKind


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a run has done so far, in counts."""

    decisions: int
    by_lane: dict[str, int]
    spawned: int
    live: int
    done: dict[str, int]
    steals: int
    steals_failed: int
    counters: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        lanes = ", ".join(f"{n:,} {lane}" for lane, n in self.by_lane.items() if n)
        done = ", ".join(f"{n:,} {kind}" for kind, n in self.done.items() if n)
        return (
            f"{self.decisions:,} decisions ({lanes or 'none'}); {self.spawned:,} tasks: {self.live:,} live, "
            f"done: {done or 'none'}; {self.steals:,} steals; {self.seconds:g} s"
        )


def count(kernel: Kernel) -> Statistics:
    """Counts of the run so far."""
    stats = [worker.stats for worker in kernel.workers]
    return Statistics(
        decisions=kernel.decisions,
        by_lane={lane.name.lower(): sum(s.dispatched[lane] for s in stats) for lane in Lane if lane is not Lane.IDLE},
        spawned=kernel.spawned,
        live=len(kernel.tasks),
        done={kind.name.lower(): kernel.done[kind] for kind in OutcomeKind},
        steals=sum(s.steals for s in stats),
        steals_failed=sum(s.steals_failed for s in stats),
        counters=dict(sorted(kernel.counters.items())),
        seconds=kernel.now_ns / 1e9,
    )
