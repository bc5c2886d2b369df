"""The list of all workloads, by the name of their file, and the way from a case's name to the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks import cancel, channel, deep, parked, scale, spawn_join, timers, yields
from benchmarks.harness import Case

WORKLOADS: Mapping[str, Sequence[Case]] = {
    "spawn_join": spawn_join.CASES,
    "yields": yields.CASES,
    "channel": channel.CASES,
    "parked": parked.CASES,
    "cancel": cancel.CASES,
    "timers": timers.CASES,
    "deep": deep.CASES,
}


def find(name: str) -> Case:
    """The case of that name, the ones of `scale` among them."""
    for case in (*(case for cases in WORKLOADS.values() for case in cases), *scale.CASES):
        if case.name == name:
            return case
    raise LookupError(f"there is no case {name!r}")
