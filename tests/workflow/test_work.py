"""The failure of a function keeps its traceback wherever the failure is shown, without the frames of Bursar."""

import json
import sqlite3
import sys

import pytest
from support.workflow import Json, Plain
from support.workflow import journal_reader as reader

from bursar.workflow import Workflow, work


def plain():
    return inner()


async def coroutine():
    return inner()


def inner():
    raise LookupError("a key is missing")


def exits():
    sys.exit(3)


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def unprintable():
    raise Unprintable


def failed(call, tmp_path, **keywords):
    w = Workflow("w")
    w.task("a", call, **keywords)
    report = w.run(journal=tmp_path / "journal")
    assert report.tasks["a"].state == "failed"
    return report.tasks["a"]


@pytest.mark.parametrize("call", [plain, coroutine])
def test_the_traceback_begins_with_the_function(call, tmp_path):
    task = failed(call, tmp_path)
    lines = task.traceback.split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert f"in {call.__name__}" in lines[1]
    assert lines[-1] == "LookupError: a key is missing"
    assert sum(line.startswith("  File ") for line in lines) == 2
    (attempt,) = reader.task(tmp_path / "journal", "a").attempts
    assert attempt.traceback == task.traceback
    said = reader.explained(reader.task(tmp_path / "journal", "a"))
    assert all(f"    {line}" in said for line in lines)


@pytest.mark.parametrize("call", [exits, unprintable])
def test_any_exception_has_its_traceback(call, tmp_path):
    assert f"in {call.__name__}" in failed(call, tmp_path).traceback


@pytest.mark.parametrize(
    "keywords", [{"run": int, "args": ["x"]}, {"shell": "exit 3"}, {"shell": "sleep 100", "timeout": 0.0}]
)
def test_without_a_frame_of_the_program_there_is_no_traceback(keywords, tmp_path):
    given = dict(keywords)
    assert failed(given.pop("run", None), tmp_path, **given).traceback == ""


def test_the_causes_are_part_of_it(tmp_path):
    def chained():
        try:
            inner()
        except LookupError as error:
            raise RuntimeError("no result") from error

    said = failed(chained, tmp_path).traceback
    assert "LookupError: a key is missing" in said
    assert said.endswith("RuntimeError: no result")


def test_a_long_traceback_is_cut_in_its_middle(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "TRACEBACK_MAX", 100)
    said = failed(plain, tmp_path).traceback
    assert len(said) == 103
    assert said.startswith("Traceback")
    assert said.endswith("LookupError: a key is missing")


def test_views_show_it(tmp_path, capsys):
    w = Workflow("w")
    w.task("a", plain)
    w.run(listener=Json(sys.stdout))
    (event,) = [
        found for line in capsys.readouterr().out.splitlines() if (found := json.loads(line))["event"] == "failed"
    ]
    assert "in plain" in event["traceback"]
    w.run(listener=Plain(sys.stdout))
    assert "\n             Traceback (most recent call last):\n" in capsys.readouterr().out


def test_the_second_attempt_clears_the_traceback_of_the_first(tmp_path):
    seen = []

    def once():
        seen.append(1)
        if len(seen) == 1:
            inner()

    w = Workflow("w")
    w.task("a", once, retry=1)
    report = w.run(journal=tmp_path / "journal")
    assert report.ok
    assert report.tasks["a"].traceback == ""
    first, second = reader.task(tmp_path / "journal", "a").attempts
    assert "in once" in first.traceback
    assert second.traceback is None


def test_an_older_journal_is_read_and_continued(tmp_path):
    path = tmp_path / "journal"
    failed(plain, tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE attempt DROP COLUMN traceback")
        db.execute("PRAGMA user_version=1")
    db.close()
    assert reader.task(path, "a").attempts[0].traceback is None
    w = Workflow("w")
    w.task("a", plain)
    w.run(journal=path, resume=True)
    assert [bool(attempt.traceback) for attempt in reader.task(path, "a").attempts] == [False, True]
