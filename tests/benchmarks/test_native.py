"""The harness of the native benchmarks: what it builds, runs, leaves out, and says about goals."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bursar_benchmarks.native import build, measure
from bursar_benchmarks.native.__main__ import render, verdicts
from bursar_benchmarks.native.build import Built, source
from bursar_benchmarks.native.cases import CASES, PEERS, Case, Goal

CASE = Case("fib", "fork and join", "ns", 10, 5, (Goal("go", 2), Goal("tbb"), Goal(limit=3)), rounds=2)


def program(folder: Path, name: str, body: str) -> Path:
    """A program that gets the three numbers of the command line as `workers`, `size` and `rounds`."""
    path = folder / name
    head = f"#!{sys.executable}\nimport sys\nworkers, size, rounds = map(int, sys.argv[1:])\n"
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path


def fake(folder: Path, **bodies: str) -> Built:
    return Built({(peer, "fib"): program(folder, peer, body) for peer, body in bodies.items()})


def lines(values: str) -> str:
    return f"for value in {values}: print(f'cpu={{value}} wall=1000')"


def test_every_round_of_every_process_is_a_sample(tmp_path):
    built = fake(tmp_path, bursar=lines("[4, 2][:rounds]"), go=lines("[size, 8]"))
    rows = {row.peer: row for row in measure.measure(CASE, built, size=12, repeats=2)}
    assert rows["bursar"].samples == (4, 2, 4, 2)
    assert (rows["bursar"].best, rows["bursar"].median, rows["bursar"].ratio) == (2, 3, 1)
    assert (rows["go"].best, rows["go"].ratio) == (8, 4)
    assert rows["boost"].status == "n/a"


def test_one_number_of_workers_over_another(tmp_path):
    case = Case("two", "two over one", "ratio", 1, 1, (), program="fib", workers=2, over_one=True)
    built = fake(tmp_path, bursar=lines("[30 if workers == 2 else 20]"))
    rows = measure.measure(case, built, size=1, repeats=3)
    assert rows[0].samples == (1.5, 1.5, 1.5)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('wrong: the sum')", "wrong: the sum"),
        ("sys.exit(3)", "exit status 3"),
        ("print('wall=1')", "no cpu in what it printed"),
    ],
)
def test_a_program_without_a_figure_is_a_row_that_says_why(tmp_path, body, said):
    rows = measure.measure(CASE, fake(tmp_path, bursar=lines("[1]"), go=body), size=1, repeats=2)
    assert [(row.status, row.detail) for row in rows if row.peer == "go"] == [("failed", said)]
    assert rows[0].samples == (1, 1)


def test_who_is_not_installed_is_left_out_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    built = build.build(tmp_path, ["fib"])
    assert set(built.missing) == set(PEERS)
    assert built.missing["go"] == "no go command; apt-get install golang-go"
    rows = measure.measure(CASE, built, size=1, repeats=1)
    assert [row.status for row in rows] == ["absent"] * 4 + ["n/a"]
    assert verdicts(CASE, rows) == [
        "2 times below Go: not known",
        "no more than oneTBB: not known",
        "at most 3: not known",
    ]


def test_goals_are_about_the_best_figures(tmp_path):
    built = fake(tmp_path, bursar=lines("[4, 9]"), go=lines("[8]"), tbb=lines("[3.9, 9]"))
    rows = measure.measure(CASE, built, size=1, repeats=1)
    assert verdicts(CASE, rows) == [
        "2 times below Go: reached",
        "no more than oneTBB: NOT reached",
        "at most 3: NOT reached",
    ]
    heading, _, line = render({"fib": rows}).splitlines()
    assert heading.split()[:3] == ["workload", "unit", "Bursar"]
    assert "4.00 (6.50) ×1.00" in line
    assert "8.00 (8.00) ×2.00" in line


def test_there_is_a_program_for_every_case_and_every_peer_in_a_goal():
    for case in CASES:
        for peer in {"bursar", *(goal.peer for goal in case.goals if goal.peer is not None)}:
            assert source(peer, case.source).exists(), (case.name, peer)


def test_no_program_is_without_a_case():
    known = {case.source for case in CASES} | {"measure"}
    for peer, suffix in build.SUFFIXES.items():
        assert {path.stem for path in (build.HERE / peer).glob(f"*.{suffix}")} <= known


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_real_program_is_built_and_run(tmp_path):
    built = build.build(tmp_path, ["tick"], peers=["plain"])
    values = measure.run(built.programs["plain", "tick"], 1, 1000, 3, "cpu")
    assert len(values) == 3
    assert min(values) > 0


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_program_that_does_not_compile_is_an_error_with_what_the_compiler_said(tmp_path):
    with pytest.raises(build.BuildError, match=r"nothing\.c"):
        build.compile_one("plain", "nothing", tmp_path / "out", None)
