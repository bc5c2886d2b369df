"""The list of all workloads by name, and the function that runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Final

from bursar_benchmarks.harness import Case, Row, measure
from bursar_benchmarks.workloads import (
    buffered,
    cancel,
    deep,
    fan_in,
    native,
    parked,
    ping_pong,
    skynet,
    spawn_join,
    submit,
    timers,
    yields,
)

WORKLOADS: Final[Mapping[str, Sequence[Case]]] = {
    "spawn_join": spawn_join.CASES,
    "yields": yields.CASES,
    "channel": [*ping_pong.CASES, *buffered.CASES, *fan_in.CASES],
    "parked": parked.CASES,
    "cancel": cancel.CASES,
    "deep": deep.CASES,
    "timers": timers.CASES,
    "skynet": skynet.CASES,
    "submit": submit.CASES,
    "native": native.CASES,
}


def find(name: str) -> Case:
    """The case of that name."""
    for case in chain.from_iterable(WORKLOADS.values()):
        if case.name == name:
            return case
    raise LookupError(f"there is no case {name!r}")


def chosen(names: Sequence[str], *, quick: bool) -> list[tuple[Case, int]]:
    """The cases of the named workloads, each with its size."""
    cases = chain.from_iterable(WORKLOADS[name] for name in names)
    sized = ((case, case.quick if quick else case.size) for case in cases)
    return [(case, size) for case, size in sized if size is not None]


def run(
    cases: Sequence[tuple[Case, int]],
    *,
    repeats: int,
    patience_s: float = inf,
    tell: Callable[[str], None],
    between: Callable[[], None] = lambda: None,
) -> Iterator[list[Row]]:
    """Measure one case after the other; `tell` gets the name of the next case, `between` may raise to stop."""
    for number, (case, size) in enumerate(cases, 1):
        tell(f"[{number}/{len(cases)}] {case.name}")
        yield measure(case, size=size, repeats=repeats, patience_s=patience_s, between=between)
