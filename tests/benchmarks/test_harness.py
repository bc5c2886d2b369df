"""The harness measures what it says, and each workload does what it is timed for. No test looks at a time."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bursar_benchmarks import NAMES, cases, child, harness, scale
from bursar_benchmarks import __main__ as command
from bursar_benchmarks.harness import Case, Meter, Row, Sample, WrongCount

ALL_CASES = [case for listed in cases.WORKLOADS.values() for case in listed] + scale.CASES
# rloop leaves two sockets of its own to the collector, whenever one of its loops is closed.
UNTIDY = {"rloop": pytest.mark.filterwarnings("ignore::ResourceWarning")}
RUNNABLE = [
    pytest.param(case, peer, id=f"{case.name}-{peer}", marks=UNTIDY.get(peer, ()))
    for case in ALL_CASES
    for peer in case.peers
    if harness.installed(peer)
]


def counting(cost: float, log: list[str] | None = None, peer: str = "") -> harness.Run:
    """A run that does what it is asked for and costs `cost` for each operation."""

    def run(size: int, meter: Meter) -> int:
        if log is not None:
            log.append(f"{peer} {size}")
        meter.put(cost * size)
        return size

    return run


def failing(error: Callable[[], BaseException]) -> harness.Run:
    def run(size: int, meter: Meter) -> int:
        raise error()

    return run


def case_of(**peers: harness.Run) -> Case:
    return Case("made up", "units/op", 1.0, 100, 50, 10, peers)


def by_peer(rows: list[Row]) -> dict[str, Row]:
    return {row.peer: row for row in rows}


# The harness


def test_peers_take_turns_in_every_round_after_a_tiny_run_of_each() -> None:
    log: list[str] = []
    case = case_of(asyncio=counting(1, log, "asyncio"), floor=counting(1, log, "floor"))
    harness.measure(case, size=20, repeats=3)
    assert log == ["asyncio 10", "floor 10"] + ["asyncio 20", "floor 20"] * 3


def test_best_median_and_ratio() -> None:
    case = case_of(bursar=counting(1), floor=counting(1))
    taken = {
        "bursar": [Sample(8.0), Sample(4.0), Sample(6.0)],
        "floor": [Sample(3.0), Sample(1.0), Sample(2.0), Sample(9.0)],
    }
    rows = by_peer(harness.summarize(case, 10, taken))
    assert (rows["bursar"].best, rows["bursar"].median, rows["bursar"].ratio) == (4.0, 6.0, 1.0)
    assert (rows["floor"].best, rows["floor"].median, rows["floor"].ratio) == (1.0, 2.5, 0.25)
    assert rows["floor"].samples == (3.0, 1.0, 2.0, 9.0)


def test_stages_are_those_of_the_best_sample() -> None:
    taken = {"asyncio": [Sample(2.0, {"spawn": 2.0}), Sample(1.0, {"spawn": 0.5})]}
    rows = by_peer(harness.summarize(case_of(asyncio=counting(1)), 10, taken))
    assert rows["asyncio"].stages == {"spawn": 0.5}


def test_without_the_baseline_there_is_no_ratio() -> None:
    rows = by_peer(harness.summarize(case_of(floor=counting(1)), 10, {"floor": [Sample(1.0)]}))
    assert rows["floor"].ratio is None


def test_cost_is_per_operation_over_all_runs() -> None:
    taken = harness.sample(case_of(floor=counting(3.0)), "floor", 10, runs=4)
    assert taken.cost == pytest.approx(3.0)


def test_one_stage_can_be_what_counts() -> None:
    def run(size: int, meter: Meter) -> int:
        meter.put(100.0)
        meter.stages["cancel"] = 20.0
        return size

    case = Case("made up", "units/op", 1.0, 100, 50, 10, {"floor": run}, stage="cancel")
    assert harness.sample(case, "floor", 10).cost == 2.0


def test_what_hardly_varies_is_not_repeated_for_long() -> None:
    case = Case("made up", "units/op", 1.0, 100, 50, 10, {"floor": counting(1)}, repeats_max=2)
    assert len(by_peer(harness.measure(case, size=10, repeats=5))["floor"].samples) == 2
    assert len(by_peer(harness.measure(case, size=10, repeats=1))["floor"].samples) == 1


def test_whoever_looks_on_between_samples_can_stop_it() -> None:
    log: list[str] = []

    def between() -> None:
        if len(log) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.measure(case_of(floor=counting(1, log, "floor")), size=20, repeats=5, between=between)
    assert log == ["floor 10", "floor 20", "floor 20"]


def test_a_wrong_count_is_an_error() -> None:
    case = case_of(asyncio=lambda size, meter: size - 1)
    with pytest.raises(WrongCount, match="asyncio: 9 operations were done, 10 were asked for"):
        harness.measure(case, size=10, repeats=1)


def test_every_peer_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(peer: str) -> bool:
        return peer in ("asyncio", "trio")

    monkeypatch.setattr(harness, "installed", installed)
    case = case_of(bursar=counting(1), asyncio=counting(1), trio=failing(RecursionError))
    rows = by_peer(harness.measure(case, size=10, repeats=2))
    others = dict.fromkeys(harness.PEERS, "n/a")
    assert {peer: row.status for peer, row in rows.items()} == others | {
        "bursar": "absent",
        "asyncio": "ok",
        "trio": "failed",
    }
    assert list(rows) == list(harness.PEERS)
    assert rows["trio"].detail == "RecursionError"


def test_a_peer_is_installed_if_its_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(harness.installed(peer) for peer, package in harness.PEERS.items() if package is None)
    monkeypatch.setattr(harness, "PEERS", {"trio": "no_such_package_here"})
    assert not harness.installed("trio")


def test_a_peer_that_failed_is_not_asked_again() -> None:
    asked: list[str] = []

    def take(peer: str) -> Sample:
        asked.append(peer)
        return Sample(0.0, error="broken") if peer == "trio" else Sample(1.0)

    harness.interleave(["asyncio", "trio"], 3, take)
    assert asked == ["asyncio", "trio", "asyncio", "asyncio"]


def test_an_impatient_run_begins_no_round_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def take(peer: str) -> Sample:
        nonlocal now
        now += 2.0
        return Sample(1.0)

    monkeypatch.setattr("time.monotonic", lambda: now)
    assert [len(harness.interleave(["asyncio"], 5, take, patience_s)["asyncio"]) for patience_s in (1, 5, 6, 99)] == [
        1,
        2,
        3,
        5,
    ]


def test_the_root_cause_is_named() -> None:
    outer = ValueError("outer")
    outer.__cause__ = RecursionError("inner")
    assert harness.root_cause(outer) == "ValueError from RecursionError"
    assert harness.root_cause(ValueError()) == "ValueError"


def test_the_meter_adds_spans_and_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.0, 20.0, 25.0])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    meter = Meter()
    meter.start()
    meter.lap("spawn")
    meter.stop("join")
    meter.start()
    meter.stop()
    assert meter.total == 3.0 + 5.0
    assert meter.stages == {"spawn": 1.0, "join": 2.0}


def test_the_meter_refuses_to_start_or_stop_twice() -> None:
    meter = Meter()
    with pytest.raises(RuntimeError, match="does not run"):
        meter.stop()
    meter.start()
    with pytest.raises(RuntimeError, match="already runs"):
        meter.start()


# The workloads


@pytest.mark.parametrize(("case", "peer"), RUNNABLE)
def test_a_workload_does_what_it_is_timed_for(case: Case, peer: str) -> None:
    meter = Meter()
    assert case.peers[peer](case.tiny, meter) == case.tiny
    meter.start()  # raises if the workload left the meter running
    assert case.stage is None or case.stage in meter.stages
    gc.collect()  # what a peer left behind is of this test


def test_every_name_stands_for_a_workload() -> None:
    assert tuple(cases.WORKLOADS) == NAMES


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in ALL_CASES}) == len(ALL_CASES)


def test_bursar_takes_part_in_every_case() -> None:
    assert [case.name for case in ALL_CASES if "bursar" not in case.peers] == []


def test_every_peer_of_a_case_is_known() -> None:
    assert {peer for case in ALL_CASES for peer in case.peers} == set(harness.PEERS)


def test_a_wrong_sum_of_skynet_is_a_wrong_count() -> None:
    from bursar_benchmarks.workloads.skynet import checked

    assert checked(4950, 100) == 100
    assert checked(4951, 100) != 100


def test_a_quick_look_leaves_out_what_takes_long() -> None:
    quick = {case.name: size for case, size in cases.chosen(["parked"], quick=True)}
    full = {case.name: size for case, size in cases.chosen(["parked"], quick=False)}
    assert set(full) - set(quick) == {"parked task, of a million"}
    assert full["parked task, of a million"] == 1_000_000
    assert all(size <= full[name] for name, size in quick.items())


# Children


def test_a_sample_comes_back_from_a_child() -> None:
    case = cases.find("parked task")
    taken = child.sample_in_child(case, "floor", 20_000)
    assert taken.error is None
    assert taken.cost > 0


def test_a_child_finds_the_cases_of_the_checkout() -> None:
    taken = child.sample_in_child(scale.CASES[0], "floor", 1_000)
    assert taken.error is None


def test_a_child_that_fails_says_so() -> None:
    taken = child.sample_in_child(case_of(floor=counting(1)), "floor", 10)
    assert taken.error is not None
    assert "there is no case 'made up'" in taken.error
    hasty = Case("made up", "units/op", 1.0, 100, 50, 10, {"floor": counting(1)}, timeout_s=0.001)
    assert child.sample_in_child(hasty, "floor", 10).error == "no answer within 0.001 s"


def test_a_failing_peer_in_a_child_is_an_answer() -> None:
    answered = child.answer(case_of(floor=failing(RecursionError)), "floor", 100, 1)
    assert answered.error == "RecursionError"


# Scale


def test_growth_is_the_most_expensive_size_over_the_first() -> None:
    assert scale.growth([2.0, 1.0, 5.0, 4.0]) == 2.5


def test_scale_states_both_growths() -> None:
    rows = [
        Row("scale: x", peer, "us/task", size, "ok", best=cost, median=cost, stages={"spawn": cost / 2})
        for peer, costs in {"bursar": (1.0, 3.0), "floor": (1.0, 2.0)}.items()
        for size, cost in zip((1_000, 10_000), costs, strict=True)
    ]
    text = scale.render(rows)
    assert "+2.00  x3.00   beyond; x1.50 of floor's" in text
    assert "+1.00  x2.00   control" in text
    assert "scale: x  spawn  0.50   1.50    +1.00  x3.00" in text


def test_scale_shows_an_absent_bursar() -> None:
    case = scale.CASES[0]
    rows = [row for size in (10, 20) for row in harness.summarize(case, size, {"floor": [Sample(1.0)]})]
    assert "absent  absent  -      -       not measured" in scale.render(rows)


# The command


def test_the_command_runs_what_is_named_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cases.WORKLOADS, "yields", [case_of(bursar=counting(2), floor=counting(1))])
    path = tmp_path / "rows.json"
    assert command.main(["--quick", "--json", str(path), "yields"]) == 0
    printed = capsys.readouterr().out
    assert "python" in printed
    assert "made up" in printed
    written = json.loads(path.read_text(encoding="utf-8"))
    floor = next(row for row in written["rows"] if row["peer"] == "floor")
    assert (floor["size"], floor["best"], floor["ratio"], len(floor["samples"])) == (50, 1.0, 0.5, 3)


def test_the_command_refuses_a_name_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nonsense"])
    assert "no such workload: nonsense" in capsys.readouterr().err
