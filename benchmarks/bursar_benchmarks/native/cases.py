"""The cases of the native benchmarks, their peers and their goals.

A *program* is one small file, `<peer>/<workload>.<c|cpp|go>`. It measures itself (measure.h says how) and prints one
line per round. A *case* runs the programs of one workload. A goal is about the best figures: Bursar's is at most a
limit, or a number of times below a peer's. The targets of the first documents about Bursar are much easier, and are
only printed.

Bursar's programs use the C interface with a limited budget, so that every spawn, op and message is paid for. Guards,
cancellation and statistics are always on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PEERS: Final[Mapping[str, str]] = {
    "bursar": "",
    "go": "apt-get install golang-go",
    "tbb": "apt-get install libtbb-dev",
    "boost": "apt-get install libboost-fiber-dev libboost-context-dev",
    "plain": "",  # no peer: the same without any runtime, where that means something
}
"""Every peer, and the command that installs it."""

TITLES: Final[Mapping[str, str]] = {
    "bursar": "Bursar",
    "go": "Go",
    "tbb": "oneTBB",
    "boost": "Boost",
    "plain": "without",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """Bursar's best must be at most `limit`, or `times` times below the best of `peer`."""

    peer: str | None = None
    times: float = 1.0
    limit: float = 0.0

    def reached(self, best: Mapping[str, float]) -> bool | None:
        """Whether the goal is reached; None if a figure is missing."""
        if "bursar" not in best or (self.peer is not None and self.peer not in best):
            return None
        return best["bursar"] <= (self.limit if self.peer is None else best[self.peer] / self.times)

    def __str__(self) -> str:
        if self.peer is None:
            return f"at most {self.limit:g}"
        named = TITLES[self.peer]
        if self.times < 1:
            return f"at most {1 / self.times:g} times {named}"
        return f"no more than {named}" if self.times == 1 else f"{self.times:g} times below {named}"


@dataclass(frozen=True, slots=True)
class Case:
    """One workload. `key` is the value of a program's line that counts."""

    name: str
    title: str
    unit: str
    size: int
    quick: int
    goals: tuple[Goal, ...]
    program: str = ""
    """The workload of the programs, where it is not the name of the case."""
    key: str = "cpu"
    workers: int = 1
    over_one: bool = False
    """The figure is that of `workers` divided by that of one worker."""
    rounds: int = 5
    seed: str = ""
    """The target of the first documents about Bursar."""

    @property
    def source(self) -> str:
        return self.program or self.name


CASES: Final = (
    Case(
        "spawn_join",
        "spawn and join, nurseries of 1000",
        "ns",
        1_000_000,
        300_000,
        (Goal("go", 5), Goal("tbb")),
        seed="more than 1 M spawns/s: 1000",
    ),
    Case("switch", "raw switch", "ns", 10_000_000, 2_000_000, (Goal("boost"),), seed="below 1 µs: 1000"),
    Case("yield", "yield through the scheduler", "ns", 2_000_000, 500_000, (Goal("go", 2), Goal("boost", 2))),
    Case("ping_pong", "message, ping-pong over two channels", "ns", 1_000_000, 300_000, (Goal("go", 2.5),)),
    Case("skynet", "skynet, per leaf", "ns", 1_000_000, 100_000, (Goal("tbb"),), rounds=3),
    Case("fib", "fork and join fib, per fork", "ns", 24, 20, (Goal("tbb"),)),
    Case(
        "parked",
        "parked, guarded task",
        "bytes",
        200_000,
        50_000,
        (Goal(limit=4608),),
        key="bytes",
        rounds=1,
        seed="below 16 KB",
    ),
    Case(
        "unstarted", "task that has not begun", "bytes", 1_000_000, 300_000, (Goal(limit=256),), key="bytes", rounds=1
    ),
    Case(
        "two_fib",
        "CPU time, two workers over one, fib",
        "ratio",
        26,
        22,
        (Goal(limit=1.05),),
        program="fib",
        workers=2,
        over_one=True,
    ),
    Case(
        "two_skynet",
        "the same, skynet",
        "ratio",
        1_000_000,
        100_000,
        (Goal(limit=1.05),),
        program="skynet",
        workers=2,
        over_one=True,
        rounds=3,
    ),
    Case(
        "steal",
        "spawn until a searching thief runs it, median; without: a flag from processor to processor",
        "ns",
        2_000,
        1_000,
        (Goal(limit=500),),
        key="p50",
        workers=2,
        seed="below 10 µs",
    ),
    Case(
        "wake",
        "notification when no worker sleeps; without: a futex wake",
        "ns",
        100_000_000,
        10_000_000,
        (Goal("plain", 50),),
    ),
    Case("tick", "loop with a tick; without: the loop", "ns", 100_000_000, 20_000_000, (Goal("plain", 1 / 1.05),)),
)


def find(name: str) -> Case:
    """The case of that name; KeyError if there is none."""
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(name)
