"""Scale: does one task cost the same among a thousand tasks and among a million?

Measured, for Bursar, with asyncio and the floor as controls: the cost per task of each workload at 1k, 10k, 100k and
1M tasks, each sample in a fresh process. A sample covers at least `TASKS_MIN` tasks, so at small sizes it is several
runs. Every size gets the same number of samples. *Growth* is the cost at the most expensive size over the cost at 1k.
The goal is at most `GOAL`. If each task scanned a list of all tasks, growth would be about 1000.

The runtime does not cause all growth: a million tasks do not fit the caches, new memory comes from the system page by
page, the collector walks a larger heap, and a heap of timers has a logarithm. The controls meet the same effects at the
same sizes, so growth that they share is no quadratic behaviour of Bursar. The floor grows by a large factor because it
starts from almost nothing: read its factor together with the added microseconds, which are printed too. One control is
left out: asyncio's cancel of many tasks on one event is itself quadratic, and a million tasks would take hours. trio
takes no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bursar_benchmarks.child import sample_in_child
from bursar_benchmarks.grid import grid
from bursar_benchmarks.harness import PEERS, Case, Row, Run, installed, interleave, summarize
from bursar_benchmarks.report import number
from bursar_benchmarks.workloads import cancel, fan_in, spawn_join, timers, yields

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SIZES_QUICK = (1_000, 10_000)
REPEATS = 3
REPEATS_QUICK = 1
TASKS_MIN = 50_000
GOAL = 1.5
CONTROLS = ("bursar", "asyncio", "floor")


def _case(name: str, peers: Mapping[str, Run], taking_part: Sequence[str] = CONTROLS) -> Case:
    chosen = {peer: peers[peer] for peer in taking_part}
    return Case(f"scale: {name}", "us/task", 1e6, SIZES[-1], SIZES_QUICK[-1], 500, chosen, isolated=True, home=__name__)


CASES = [
    _case("spawn-join", spawn_join.PEERS),
    _case("five yields each", yields.FIVE_EACH),
    _case("senders on one channel", fan_in.PEERS),
    _case("cancel, an event each", cancel.OWN_EVENT),
    _case("cancel, ONE event", cancel.ONE_EVENT, ("bursar", "floor")),
    _case("timers", timers.ALL_ARMED),
]


def find(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.name == name)


def measure(case: Case, *, sizes: Sequence[int], repeats: int) -> list[Row]:
    """Every peer at every size, interleaved over both."""
    peers = [peer for peer in PEERS if peer in case.peers and installed(peer)]
    entries = [(peer, size) for size in sizes for peer in peers]
    taken = interleave(
        entries, repeats, lambda entry: sample_in_child(case, *entry, runs=max(1, TASKS_MIN // entry[1]))
    )
    rows: list[Row] = []
    for size in sizes:
        rows += summarize(case, size, {peer: taken[peer, size] for peer in peers})
    return [row for row in rows if row.peer in case.peers]


def growth(costs: Sequence[float]) -> float:
    """The cost at the most expensive size over the cost at the first."""
    return max(costs) / costs[0]


def _line(rows: Sequence[Row], costs: Sequence[float]) -> tuple[list[str], float | None]:
    cells = [number(cost) if row.status == "ok" else row.status for row, cost in zip(rows, costs, strict=True)]
    if any(row.status != "ok" for row in rows) or costs[0] <= 0:
        return [*cells, "-", "-"], None
    grown = growth(costs)
    return [*cells, f"+{number(max(costs) - costs[0])}", f"x{grown:.2f}"], grown


def _verdict(mine: float | None, controls: Mapping[str, float]) -> str:
    """Compares growth with the goal, and with every control: the most favourable control alone would flatter Bursar."""
    if mine is None:
        return "not measured"
    text = "within" if mine <= GOAL else "beyond"
    return "; ".join([text, *(f"x{mine / grown:.2f} of {peer}'s" for peer, grown in controls.items())])


def render(rows: Sequence[Row]) -> str:
    """Cost per task by size with the controls, and the same of Bursar by stage."""
    sizes = list(dict.fromkeys(row.size for row in rows))
    whole = [["workload", "peer", *(f"{size:,}" for size in sizes), "added", "growth", f"goal: <= {GOAL}"]]
    stages = [["workload", "stage", *(f"{size:,}" for size in sizes), "added", "growth"]]
    for name in dict.fromkeys(row.case for row in rows):
        by_peer = {
            peer: [row for row in rows if (row.case, row.peer) == (name, peer)]
            for peer in dict.fromkeys(row.peer for row in rows if row.case == name)
        }
        lines = {peer: _line(found, [row.best or 0.0 for row in found]) for peer, found in by_peer.items()}
        controls = {peer: grown for peer, (_, grown) in lines.items() if peer != "bursar" and grown}
        for peer, (cells, grown) in lines.items():
            whole.append([name, peer, *cells, _verdict(grown, controls) if peer == "bursar" else "control"])
        ours = by_peer["bursar"]
        for stage in ours[0].stages:
            cells, _ = _line(ours, [row.stages.get(stage, 0.0) for row in ours])
            stages.append([name, stage, *cells])
    legend = "us per task, best of the samples; added and growth: the most expensive size against the first"
    return "\n".join([legend, grid(whole), "", "Bursar by stage (of the best sample)", grid(stages)])
