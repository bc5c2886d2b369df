"""The benchmark of recording measures the same program four ways."""

from __future__ import annotations

import pytest

from bursar_benchmarks import harness, record
from bursar_benchmarks.harness import Row


@pytest.mark.parametrize("case", record.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("way", record.WAYS)
def test_every_way_does_as_many_operations_as_it_was_asked_for(case, way):
    assert harness.sample(case, way, case.tiny).cost > 0


def test_the_ratio_is_over_the_run_that_is_not_recorded(monkeypatch):
    monkeypatch.setattr(
        harness, "sample", lambda case, way, size: harness.Sample({"off": 2.0, "memory": 3.0}.get(way, 5.0))
    )
    rows = record.measure(quick=True, repeats=2)
    assert [(row.peer, row.ratio) for row in rows[:3]] == [("off", 1.0), ("memory", 1.5), ("file", 2.5)]
    assert len(rows) == len(record.WAYS) * len(record.CASES)


def test_the_table_has_a_line_for_each_program():
    rows = [Row("record, yield", way, "ns/yield", 10, "ok", 1.0, 2.0, 3.0) for way in record.WAYS]
    heading, _, line, *_ = record.render(rows).splitlines()
    assert heading.split() == ["workload", "size", "unit", *record.WAYS]
    assert line.count("1.00 (2.00) ×3.00") == len(record.WAYS)
