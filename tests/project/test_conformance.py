"""docs/conformance.md keeps its word: every requirement has a row, and every row can be checked.

The documents that the requirements come from are not part of this repository, so their tags, rules and names
are listed here as data. A row that says `held` must name a source file that exists and a test that is defined
in the file it names; a row for a room not yet built must name a place that the room owns, and claim no test.

The last tests show requirements that speak about the code as a whole and that no test of a single file can show.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from support.c_tests import c_tests

import bursar

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"

# section -> how many tags each of its parts has: {1: {1: 2}} stands for 1.1.1 and 1.1.2
SCHED_PARTS = {
    1: {1: 2},
    2: {1: 2, 2: 4, 3: 2, 4: 2, 5: 1, 6: 2, 7: 2},
    3: {1: 3, 2: 3, 3: 4, 4: 3, 5: 1, 6: 2, 7: 1},
    4: {1: 2, 2: 2, 3: 1},
    5: {1: 2, 2: 2, 3: 4, 4: 5},
    6: {1: 1, 2: 3, 3: 1, 4: 5},
    7: {1: 2, 2: 1, 3: 2, 4: 2},
    8: {1: 3, 2: 1, 3: 1},
    9: {1: 1, 2: 1, 3: 1},
    10: {2: 4},
    11: {1: 1, 2: 1},
    12: {1: 1},
    13: {1: 1, 2: 1},
    14: {1: 1},
    15: {1: 2, 2: 2},
}
SCHED_TAGS = {
    f"SCHED:{section}.{part}.{n}"
    for section, parts in SCHED_PARTS.items()
    for part, count in parts.items()
    for n in range(1, count + 1)
}
# the tags that are used twice, and what tells the two uses apart
SCHED_DOUBLES = {
    "SCHED:3.3.1": ("thread-local", "costs"),
    "SCHED:5.1.1": ("budget", "task"),
    "SCHED:5.2.1": ("budget", "task"),
    "SCHED:5.2.2": ("budget", "task"),
}
# tables and lists: how many rows each has in its document, for each of which there is at least one here
SCHED_TABLES = {
    "SCHED:3.2.3 (": 3,
    "SCHED:3.3.1 (costs: ": 8,
    "SCHED:3.6.1 (": 6,
    "SCHED:4.1.1 (": 5,
    "SCHED:4.3.1 (": 3,
    "SCHED:5.2.2 (task: ": 7,
    "SCHED:7.3.1 (": 3,
    "SCHED:10.1 (": 4,
    "SCHED:11.1.1 (": 5,
    "SCHED:13.1.1 (": 4,
    "SCHED:13.2.1 (": 3,
    "SCHED:14.1.1 (": 5,
}
NURSERY_TOPICS = {
    "idea": 3,
    "concept": 4,
    "state": 8,
    "bind": 4,
    "await": 4,
    "notify": 4,
    "race": 3,
    "promise": 4,
    "lower": 4,
    "map": 4,
    "tests": 6,
    "profile": 4,
}
HOST_RULES = [
    *(f"I{n}" for n in range(1, 7)),
    *(f"S{n}" for n in range(1, 7)),
    *(f"P{n}" for n in range(1, 4)),
    *(f"F{n}" for n in range(1, 5)),
    *(f"parity.{n}" for n in range(1, 6)),
    *(f"parity.{what}" for what in ("outcomes", "phases", "obligations", "fingerprint")),
    *(f"fixture.{what}" for what in ("seed", "snapshot", "script", "fingerprint", "command")),
    *(f"gate.{n}" for n in range(1, 5)),
]
PRIORITY_SECTIONS = {
    1: 3,
    2: 1,
    3: 3,
    4: 1,
    5: 2,
    6: 2,
    7: 2,
    8: 4,
    9: 1,
    10: 2,
    11: 1,
}  # section -> how many rows it needs
DAG_RULES = [
    *(f"submit.{n}" for n in range(1, 6)),
    *(f"dispatch.{what}" for what in ("score", "ties")),
    *(f"resources.{what}" for what in ("cpu", "soft", "escape")),
    *(f"pause.{what}" for what in ("waiting", "running")),
    *("aging", "reservation", "wakeup", "failure", "resume", "cancel", "threads", "fallback", "settings", "bench"),
]
FIXTURES = [
    "sched.browser.lane_precedence.cancel_timed_ready",
    "sched.browser.fairness.cancel_streak_bound",
    "sched.browser.fairness.drain_mode_double_bound",
    "sched.browser.wake.dedup_cross_turn",
    "sched.browser.reentrancy.defer_not_reenter",
    "sched.browser.yield.single_wake_pending_then_ready",
    "sched.browser.timer.late_wakeup_after_cancel",
    "sched.browser.timer.catchup_bounded_batches",
    "sched.browser.authority.fail_closed_no_fallback",
]
EVENTS = [
    "scheduler_step_begin",
    "scheduler_step_decision",
    "scheduler_step_end",
    "scheduler_reentrancy_deferred",
    "scheduler_burst_limit_reached",
    "scheduler_host_handoff",
]
EVENT_FIELDS = [
    "task_id",
    "region_id",
    "lane",
    "decision_seq",
    "decision_hash",
    "host_turn_id",
    "microtask_batch_id",
    "cancel_streak",
    "cancel_streak_limit",
    "error_class",
]
CONTRADICTIONS = [
    *(str(n) for n in range(1, 28)),
    *(f"CONFLICT-{n}" for n in range(1, 14)),
    *(f"({letter})" for letter in "abcdefghij"),
]
# a room not yet built -> the places it owns
ROOMS = {
    "compiler": ("compiler/",),
}


class Row(NamedTuple):
    id: str
    requirement: str
    where: list[str]
    shown_by: list[str]
    status: str

    @property
    def tag(self) -> str:
        """The id without what is in brackets after it."""
        return self.id.partition(" (")[0]


@cache
def cells() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    tables = [line for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in tables]


def rows() -> list[Row]:
    return [
        Row(ticked(cell[0])[0], cell[1], ticked(cell[2]), ticked(cell[3]), cell[4])
        for cell in cells()
        if len(cell) == 5 and cell[0].startswith("`")
    ]


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def source(where: str) -> Path:
    return ROOT / where if where.startswith("native/") else ROOT / "src" / "bursar" / where


@cache
def defined(path: Path) -> set[str]:
    """The names that can stand behind `::`: functions, classes, `Class::method`, assigned test classes; in C, tests."""
    if path.suffix == ".c":
        return c_tests(path)
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inside = (n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            names.update(f"{node.name}::{n.name}" for n in inside)
        if isinstance(node, ast.Assign):
            names.update(name.id for to in node.targets for name in ast.walk(to) if isinstance(name, ast.Name))
    return names


def faults(row: Row) -> list[str]:
    """What is wrong with a row; nothing, if all is well."""
    if not row.requirement:
        return ["says nothing"]
    if row.status == "held":
        return [*missing_sources(row), *missing_tests(row)]
    room = row.status.removeprefix("room: ")
    if room == row.status or room not in ROOMS:
        return [f"unknown status {row.status!r}"]
    found = [f"{where} is not in room {room}" for where in row.where if not where.startswith(ROOMS[room])]
    if not row.where:
        found.append("names no place")
    if row.shown_by:
        found.append("claims a test for a room that is not built")
    return found


def missing_sources(row: Row) -> list[str]:
    if not row.where:
        return ["names no source file"]
    return [f"no source file {where}" for where in row.where if not source(where).is_file()]


def missing_tests(row: Row) -> list[str]:
    found = [] if row.shown_by else ["names no test"]
    for test in row.shown_by:
        path, _, name = test.partition("::")
        file = ROOT / path
        if not path.startswith("tests/") or not file.is_file():
            found.append(f"no test file {path}")
        elif file.suffix == ".py" and not name.rpartition("::")[2].lower().startswith("test"):
            found.append(f"{test} names no test")
        elif name not in defined(file):
            found.append(f"no {name} in {path}")
    return found


def test_every_row_can_be_checked():
    found = [f"{row.id}: {fault}" for row in rows() for fault in faults(row)]
    assert not found, "\n".join(found)


def test_ids_are_unique():
    ids = [row.id for row in rows()]
    assert sorted(ids) == sorted(set(ids))


def test_every_table_line_is_understood():
    first = {5: r"id|`[^`]+`", 3: r"no\.|\d+|CONFLICT-\d+|\([a-z]\)"}
    strange = [cell for cell in cells() if not re.fullmatch(first.get(len(cell), "(?!)"), cell[0])]
    assert not strange


def test_the_list_of_tags_is_complete():
    assert len(SCHED_TAGS) + len(SCHED_DOUBLES) == 95


def test_every_scheduler_tag_has_a_row():
    assert not SCHED_TAGS - {row.tag for row in rows()}


def test_no_row_cites_an_unknown_scheduler_tag():
    cited = {row.tag for row in rows() if row.tag.startswith("SCHED:")}
    assert cited - SCHED_TAGS == {"SCHED:10.1"}  # the profile matrix, which has no tag of its own


@pytest.mark.parametrize(("tag", "uses"), SCHED_DOUBLES.items())
def test_a_tag_used_twice_has_rows_for_both_uses(tag, uses):
    ids = [row.id for row in rows() if row.tag == tag]
    for use in uses:
        assert any(id.startswith(f"{tag} ({use}") for id in ids), use
    assert all(id.startswith(tuple(f"{tag} ({use}" for use in uses)) for id in ids), ids


@pytest.mark.parametrize(("start", "count"), SCHED_TABLES.items())
def test_every_row_of_a_table_has_a_row(start, count):
    assert len([row for row in rows() if row.id.startswith(start)]) >= count


@pytest.mark.parametrize(("topic", "count"), NURSERY_TOPICS.items())
def test_every_nursery_topic_has_its_rows(topic, count):
    assert len([row for row in rows() if row.id.startswith(f"NURSERY:{topic}.")]) >= count


@pytest.mark.parametrize("rule", HOST_RULES)
def test_every_host_rule_has_a_row(rule):
    assert any(row.tag == f"HOST:{rule}" for row in rows())


@pytest.mark.parametrize(("section", "count"), PRIORITY_SECTIONS.items())
def test_every_section_of_the_priority_document_has_its_rows(section, count):
    assert len([row for row in rows() if row.tag == f"PRIORITY:{section}"]) >= count


@pytest.mark.parametrize("rule", DAG_RULES)
def test_every_rule_of_the_resource_document_has_a_row(rule):
    assert any(row.tag == f"DAG:{rule}" for row in rows())


@pytest.mark.parametrize("name", [*FIXTURES, *EVENTS, *(f"field.{name}" for name in EVENT_FIELDS)])
def test_every_fixture_event_and_field_has_a_row(name):
    assert any(row.id == name for row in rows())


def test_every_contradiction_has_a_reading():
    settled = {cell[0]: cell[2] for cell in cells() if len(cell) == 3}
    assert all(settled.get(item) for item in CONTRADICTIONS)


HERE = f"tests/project/{Path(__file__).name}"
GOOD = Row("x", "words", ["errors.py"], [f"{HERE}::test_ids_are_unique"], "held")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (GOOD._replace(requirement=""), "says nothing"),
        (GOOD._replace(status="done"), "unknown status 'done'"),
        (GOOD._replace(status="room: cellar"), "unknown status 'room: cellar'"),
        (GOOD._replace(where=[]), "names no source file"),
        (GOOD._replace(where=["law/nothing.py"]), "no source file law/nothing.py"),
        (GOOD._replace(shown_by=[]), "names no test"),
        (GOOD._replace(shown_by=["tests/nothing.py::test_a"]), "no test file tests/nothing.py"),
        (GOOD._replace(shown_by=[f"{HERE}::rows"]), "rows names no test"),
        (GOOD._replace(shown_by=[f"{HERE}::test_none"]), "no test_none in"),
        (GOOD._replace(shown_by=["tests/native/law/test_chain.c::test_none"]), "no test_none in"),
        (GOOD._replace(shown_by=["tests/native/runtime/test_checklist.c::adds"]), "no adds in"),
        (GOOD._replace(status="room: compiler"), "errors.py is not in room compiler"),
        (GOOD._replace(status="room: compiler", where=["compiler/"]), "claims a test for a room"),
    ],
)
def test_a_bad_row_is_found_out(row, fault):
    assert any(fault in found for found in faults(row)), faults(row)


def test_a_good_row_is_not():
    assert not faults(GOOD)


# ---- requirements about the code as a whole

SOURCES = sorted((ROOT / "src" / "bursar").rglob("*.py"))


def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def called(node: ast.AST) -> str:
    """The last part of the name that is called, if the node is a call of a name."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_there_is_no_hidden_state(path):
    assert not any(isinstance(node, ast.Global) for node in nodes(path))
    assert not any(called(node) in ("local", "ContextVar") for node in nodes(path))


def test_only_the_runtime_makes_a_kernel():
    makers = [path.name for path in SOURCES if any(called(node) == "Kernel" for node in nodes(path))]
    assert makers == ["runtime.py"]


def test_the_public_names_offer_no_scheduler():
    inner = ("scheduler", "kernel", "dispatch", "worker", "loop")
    assert [name for name in bursar.__all__ if name.lower().startswith(inner) or name.lower().endswith(inner)] == []
