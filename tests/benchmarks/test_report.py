"""The table, the picture and the file say what was measured, who was not here, and who failed."""

from __future__ import annotations

import io
import json
import os
import signal
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bursar_benchmarks import harness
from bursar_benchmarks.harness import Case, Row
from bursar_benchmarks.interrupt import interruptible
from bursar_benchmarks.plot import svg, write_svg
from bursar_benchmarks.report import SCHEMA, cpu_model, machine, memory, notes, number, write_json
from bursar_benchmarks.table import heading, show, table

FACTS = {"cpu": "<a & b>", "cores": "2", "python": "CPython", "bursar": "1, python kernel"}
ROWS = [
    Row("spawn <many>", "bursar", "us/task", 1_000, "ok", 2.0, 2.5, 1.0, samples=(2.0, 3.0)),
    Row("spawn <many>", "asyncio", "us/task", 1_000, "ok", 5.0, 6.0, 2.5, samples=(5.0, 7.0)),
    Row("spawn <many>", "gather", "us/task", 1_000, "n/a"),
    Row("spawn <many>", "trio", "us/task", 1_000, "failed", detail="TrioInternalError from RecursionError"),
    Row("spawn <many>", "gevent", "us/task", 1_000, "absent"),
    Row("spawn <many>", "floor", "us/task", 1_000, "ok", 0.5, 0.5, 0.25),
    Row("yield", "bursar", "ns/yield", 10, "ok", 1234.0, 1250.0, 1.0),
    Row("yield", "asyncio", "ns/yield", 10, "ok", 0.0, 0.0, 0.0),
    Row("yield", "gather", "ns/yield", 10, "n/a"),
    Row("yield", "trio", "ns/yield", 10, "ok", 2468.0, 2468.0, 2.0),
    Row("yield", "gevent", "ns/yield", 10, "absent"),
    Row("yield", "floor", "ns/yield", 10, "n/a"),
]


def printed(*things: object) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=120, no_color=True, highlight=False)
    for thing in things:
        console.print(thing)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.0, "1,234,567"), (99.94, "99.9"), (12.34, "12.3"), (1.0, "1.00"), (0.001, "0.00")]
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_the_table_has_a_column_for_whoever_took_part():
    lines = printed(table(ROWS))
    assert lines[0].split() == ["workload", "unit", "bursar", "asyncio", "trio", "floor"]
    assert lines[2].split() == ["spawn", "<many>", "us/task", "2.00", "5.00", "failed", "0.50"]
    assert lines[3].split() == ["1,000", "×2.50", "×0.25"]
    assert lines[4].split() == ["(2.50)", "(6.00)", "(0.50)"]
    assert lines[5].split() == ["yield", "ns/yield", "1,234", "0.00", "2,468", "–"]


def test_without_a_baseline_the_table_has_no_ratio():
    lines = printed(table([Row("yield", "asyncio", "ns/yield", 10, "ok", 5.0, 6.0)]))
    assert [line.split() for line in lines[2:]] == [["yield", "ns/yield", "5.00"], ["10"], ["(6.00)"]]


def test_who_is_missing_or_failed_is_said():
    _, absent, failed = notes(ROWS)
    assert absent.startswith("not installed, so left out: gevent; pip install")
    assert failed == "failed: trio at spawn <many>: TrioInternalError from RecursionError"
    out = io.StringIO()
    show(Console(file=out, width=200, no_color=True), ROWS)
    assert absent in out.getvalue()  # brackets and all


def test_the_picture_is_well_formed_and_has_a_bar_per_row(tmp_path):
    path = tmp_path / "bars.svg"
    write_svg(path, ROWS, FACTS)
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    space = "{http://www.w3.org/2000/svg}"
    bars = [shape for shape in root.iter(f"{space}rect") if shape.get("class") == "bar"]
    assert len(bars) == sum(row.status == "ok" for row in ROWS)
    widths = [float(bar.get("width", "")) for bar in bars]
    assert max(widths[:3]) == widths[1]  # asyncio is the most expensive of its group
    assert widths[0] == pytest.approx(0.4 * widths[1], abs=0.1)
    assert widths[4] == 1.0  # a cost of nothing is seen
    words = ["".join(shape.itertext()) for shape in root.iter(f"{space}text")]
    assert any("<a & b>" in text for text in words)
    assert "5.00  ×2.50" in words


def test_a_picture_of_nothing_is_a_picture():
    assert ElementTree.fromstring(svg([], FACTS)).tag.endswith("svg")


def test_the_file_holds_every_sample(tmp_path):
    path = tmp_path / "rows.json"
    write_json(path, FACTS, ROWS, complete=False)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert set(written) == {"schema", "machine", "argv", "complete", "rows"}
    assert written["schema"] == SCHEMA
    assert written["complete"] is False
    assert written["machine"] == FACTS
    assert set(written["rows"][0]) == set(Row.__dataclass_fields__)
    assert written["rows"][1]["samples"] == [5.0, 7.0]


def test_the_machine_is_described():
    facts = machine()
    assert list(facts)[:6] == ["cpu", "cores", "memory", "os", "python", "bursar"]
    assert facts["bursar"].endswith(" kernel")
    assert {peer for peer, package in harness.PEERS.items() if package} <= set(facts)
    assert cpu_model()
    assert memory()
    assert any(line.startswith("cores") for line in printed(heading(facts)))


def test_an_interrupt_waits_for_the_sample_and_then_stops():
    before = signal.getsignal(signal.SIGINT)
    told: list[str] = []
    done: list[int] = []

    def run(size: int, meter: harness.Meter) -> int:
        done.append(size)
        if len(done) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            done.append(0)  # the sample goes on
        return size

    case = Case("made up", "units/op", 1.0, 100, 50, 10, {"floor": run})
    with pytest.raises(KeyboardInterrupt), interruptible(told.append) as between:
        harness.measure(case, size=20, repeats=5, between=between)
    assert done == [10, 20, 20, 0]
    assert len(told) == 1
    assert signal.getsignal(signal.SIGINT) is before
