"""How a benchmark is measured, for every workload and every peer alike.

A *case* is one workload at one size, and holds one function per peer. A *sample* is one run of one such function.
Samples are interleaved: one of every peer, then again one of every peer. So a noisy minute of the machine disturbs all
peers, not only one. A sample counts CPU time of the process (`time.process_time`), not wall time, unless the case
counts bytes. The cyclic garbage collector stays enabled, as users have it. `gc.collect()` runs before each sample, so
that no sample pays for garbage of the sample before. Every peer first does one tiny run that is not counted: it does
the late imports and warms up the interpreter. Both the best and the median of the samples are kept: the best depends
on the code, the median also on other load of the machine.

Not measured: latency, wall time. Rejected: `timeit`, because it disables the collector and cannot interleave. Rejected:
subtracting an "empty run", because the start of a runtime is part of its cost.

HARNESS-1  A run returns the number of its operations. If this is not the size that it was given, that is an error.
HARNESS-2  A peer that is not installed, has no such workload, or fails, is a row that says so. No row is left out.
HARNESS-3  Bursar runs as `bursar.run(main)` with no keyword: budgets, lanes and the decision chain are on.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, Final, TypeVar

PEERS: Final[Mapping[str, str | None]] = {
    "bursar": None,
    "asyncio": None,
    "gather": None,  # asyncio without groups, where that is another program
    "uvloop": "uvloop",
    "rloop": "rloop",
    "trio": "trio",
    "anyio": "anyio",
    "gevent": "gevent",
    "floor": None,
}
"""Every peer, and the package that it needs, if any."""
BASELINE = "bursar"
REPEATS = 5
REPEATS_QUICK = 3
PATIENCE_QUICK_S = 6.0
"""A quick run starts no round of samples that would end after this time. So a busy machine takes fewer samples, and no
more time."""


class WrongCount(Exception):
    """A run did another number of operations than it was asked for, so its time means nothing."""


class Meter:
    """Adds up what a sample cost: CPU seconds from `start` to `stop`, by named stages, or any value."""

    __slots__ = ("_mark", "_started", "stages", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.stages: dict[str, float] = {}
        self._started: float | None = None
        self._mark = 0.0

    def start(self) -> None:
        """Begin (or begin again: several spans add up)."""
        if self._started is not None:
            raise RuntimeError("the meter already runs; stop it before it is started again")
        self._started = self._mark = time.process_time()

    def lap(self, stage: str) -> None:
        """Book the time since the last mark under `stage`."""
        now = time.process_time()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._mark
        self._mark = now

    def stop(self, stage: str | None = None) -> None:
        """End the span; with `stage`, book its last part under that name."""
        if self._started is None:
            raise RuntimeError("the meter does not run; start it before it is stopped")
        if stage is not None:
            self.lap(stage)
        self.total += (time.process_time() if stage is None else self._mark) - self._started
        self._started = None

    def put(self, value: float) -> None:
        """Count something other than time, such as bytes."""
        self.total += value


Run = Callable[[int, Meter], int]
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Case:
    """One workload. `peers` lacks peers that cannot run it; `factor` turns totals into `unit`s."""

    name: str
    unit: str
    factor: float
    size: int
    quick: int | None
    """The size for a quick look. None: too long for that, and left out."""
    tiny: int
    peers: Mapping[str, Run]
    isolated: bool = False
    """Each sample in a process of its own: for memory, and for peers that may break."""
    stage: str | None = None
    """Count this stage of the run only."""
    repeats_max: int | None = None
    """At most this many samples: for a case that hardly varies and takes long."""
    timeout_s: float = 900
    """An isolated sample that takes longer has failed: a quadratic peer must not hold up the whole run."""
    home: str = "bursar_benchmarks.cases"
    """The module whose `find` returns this case, for a child process that gets only the name of the case."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The cost per operation, in the unit of the case, whole and by stage; or why there is none."""

    cost: float
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one peer in one case. `ratio` is its best cost over Bursar's: above 1 it costs more than Bursar."""

    case: str
    peer: str
    unit: str
    size: int
    status: str
    best: float | None = None
    median: float | None = None
    ratio: float | None = None
    detail: str = ""
    samples: tuple[float, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict[str, float])


def installed(peer: str) -> bool:
    """Whether `peer` can be run here."""
    package = PEERS[peer]
    return package is None or importlib.util.find_spec(package) is not None


def load(module: str) -> Any:
    """A module of a peer. It may be missing where Bursar's own code is checked, so its types are not known."""
    return importlib.import_module(module)


def root_cause(error: BaseException) -> str:
    """The error's type, and the type at the bottom of its chain where that is another."""
    bottom = error
    while (below := bottom.__cause__ or bottom.__context__) is not None:
        bottom = below
    names = [type(error).__name__]
    if type(bottom) is not type(error):
        names.append(type(bottom).__name__)
    return " from ".join(names)


def sample(case: Case, peer: str, size: int, runs: int = 1) -> Sample:
    """Run `peer` in this process `runs` times; raises what a run raises."""
    run = case.peers[peer]
    meter = Meter()
    gc.collect()
    for _ in range(runs):
        count = run(size, meter)
        if count != size:
            raise WrongCount(f"{case.name}, {peer}: {count} operations were done, {size} were asked for")
    each = case.factor / (size * runs)
    total = meter.total if case.stage is None else meter.stages[case.stage]
    return Sample(total * each, {name: spent * each for name, spent in meter.stages.items()})


def attempt(case: Case, peer: str, size: int) -> Sample:
    """Like `sample`, but a failing peer is an answer; a wrong count is our mistake and is raised."""
    if case.isolated:
        from bursar_benchmarks.child import sample_in_child

        return sample_in_child(case, peer, size)
    try:
        return sample(case, peer, size)
    except WrongCount:
        raise
    except Exception as error:
        return Sample(0.0, error=root_cause(error))


def interleave(
    entries: Sequence[K], repeats: int, take: Callable[[K], Sample], patience_s: float = inf
) -> dict[K, list[Sample]]:
    """Take `repeats` rounds of one sample of every entry (a peer); one that failed is not asked again.

    The first round is always taken. A later round starts only if it would end within `patience_s`, at the speed so far.
    """
    taken: dict[K, list[Sample]] = {entry: [] for entry in entries}
    began = time.monotonic()
    for number in range(repeats):
        if number and (time.monotonic() - began) * (number + 1) / number > patience_s:
            break
        for entry in entries:
            if not taken[entry] or taken[entry][-1].error is None:
                taken[entry].append(take(entry))
    return taken


def summarize(case: Case, size: int, taken: Mapping[str, Sequence[Sample]]) -> list[Row]:
    """One row per peer of `PEERS`, in that order, also for those of which there is no sample."""
    baseline = min((one.cost for one in taken.get(BASELINE, ()) if one.error is None), default=0.0)
    return [_row(case, size, peer, taken.get(peer, ()), baseline) for peer in PEERS]


def _row(case: Case, size: int, peer: str, samples: Sequence[Sample], baseline: float) -> Row:
    if peer not in case.peers:
        return Row(case.name, peer, case.unit, size, "n/a", detail="has no meaning for this peer")
    if not samples:
        return Row(case.name, peer, case.unit, size, "absent", detail="not installed")
    if samples[-1].error is not None:
        return Row(case.name, peer, case.unit, size, "failed", detail=samples[-1].error)
    best = min(samples, key=lambda one: one.cost)
    costs = tuple(one.cost for one in samples)
    return Row(
        case=case.name,
        peer=peer,
        unit=case.unit,
        size=size,
        status="ok",
        best=best.cost,
        median=median(costs),
        ratio=best.cost / baseline if baseline else None,
        samples=costs,
        stages=best.stages,
    )


def measure(
    case: Case,
    *,
    size: int,
    repeats: int,
    patience_s: float = inf,
    between: Callable[[], None] = lambda: None,
) -> list[Row]:
    """All peers of one case, interleaved. `between` is called after every sample, and may raise to stop all."""

    def take(peer: str) -> Sample:
        taken = attempt(case, peer, size)
        between()
        return taken

    present = [peer for peer in PEERS if peer in case.peers and installed(peer)]
    if not case.isolated:  # a child warms up by itself
        for peer in present:
            attempt(case, peer, case.tiny)
    rounds = min(repeats, case.repeats_max or repeats)
    return summarize(case, size, interleave(present, rounds, take, patience_s))
