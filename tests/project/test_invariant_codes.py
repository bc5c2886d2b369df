"""The codes of invariants: the project keeps to their table, and every kind of fault is found when it is planted."""

from pathlib import Path

import pytest
from support.invariant_codes import TABLE, faults, located, read, rows

import bursar

ROOT = Path(__file__).parents[2]

LAW = '"""Purses.\n\nPURSE-1  never negative\nPURSE-2  whole\n"""\n\nassert left >= 0, "PURSE-1"\n'
TWIN = '/* Purses.\n *\n * PURSE-1  never negative\n */\nLAW_RULE(left >= 0, "PURSE-1");\n'
PROVEN = 'def test_whole():\n    """PURSE-1."""\n'
BOTH = "`src/purse.py`<br>`native/purse.h`"
ROWS = f"""\
| PURSE-1 | A purse is never negative. | {BOTH} | {BOTH} | `tests/p.py` |
| PURSE-2 | A charge is whole. | `src/purse.py` | by test | `tests/p.py::test_whole` |
"""
PROJECT = {"src/purse.py": LAW, "native/purse.h": TWIN, "tests/p.py": PROVEN, TABLE: ROWS}


@pytest.fixture(scope="module")
def project():
    return read(ROOT)


def test_the_project_keeps_to_its_table(project):
    assert faults(project) == [], "has a file moved? `python tests/support/invariant_codes.py` finds its new place"


def test_the_table_has_rules_of_every_part(project):
    words = {row.code.rsplit("-", 1)[0] for row in rows(project[TABLE])}
    assert {"BUDGET", "CANCEL", "GATE", "PUMP", "DEQUE", "STACK", "RECORD"} <= words


def test_the_places_in_the_table_are_those_that_are_found(project):
    assert located(project) == project[TABLE]


def test_no_trace_holds_a_code(project, tmp_path):
    """A code may be in the text of an error. What a run records must not depend on how rules are numbered."""

    async def main():
        async with bursar.nursery() as n:
            n.spawn(bursar.sleep, 1).cancel()
            n.spawn(bursar.sleep, 1)

    path = tmp_path / "run.trace"
    bursar.run(main, clock="virtual", record=path)
    recorded = path.read_bytes()
    assert not [row.code for row in rows(project[TABLE]) if row.code.encode() in recorded]


def test_a_sound_project_has_no_faults():
    assert faults(PROJECT) == []


PLANTED = {
    "a second file states a rule": (
        {"src/other.py": LAW.replace('assert left >= 0, "PURSE-1"\n', "")},
        "states a rule",
    ),
    "one file states a rule twice": (
        {"src/purse.py": LAW.replace("PURSE-2  whole", "PURSE-1  whole")},
        "states a rule",
    ),
    "a second C file states a rule": ({"native/b.h": "/*\n * PURSE-1  never negative\n */\n"}, "states a rule"),
    "no file states a rule": ({"src/purse.py": LAW.replace("PURSE-2  whole\n", "")}, "PURSE-2 is stated in []"),
    "a rule is stated and has no row": ({"src/new.py": '"""\nPURSE-3  new\n"""\n'}, "PURSE-3 is stated in src/new.py"),
    "two rows for one code": ({TABLE: ROWS + ROWS}, "PURSE-1 has two rows"),
    "a comment cites what does not exist": ({"src/new.py": "x = 1  # PURSE-9\n"}, "cites PURSE-9"),
    "a page cites what does not exist": ({"docs/a.md": "See PURSE-9.\n"}, "docs/a.md cites PURSE-9"),
    "an assertion in Python is gone": ({"src/purse.py": LAW.replace(', "PURSE-1"', "")}, "PURSE-1 is asserted in"),
    "an assertion in C is gone": ({"native/purse.h": TWIN.replace("LAW_RULE", "printf")}, "PURSE-1 is asserted in"),
    "the code is only in a comment": (
        {"src/purse.py": LAW.replace(', "PURSE-1"', "  # PURSE-1")},
        "PURSE-1 is asserted in",
    ),
    "an assertion that the table lacks": ({"src/b.py": 'assert x, "PURSE-2"\n'}, "PURSE-2 is asserted in ['src/b.py']"),
    "an assertion without a row": (
        {"src/b.py": 'assert x, "PURSE-7"\n'},
        "PURSE-7 is asserted in src/b.py and has no row",
    ),
    "the test file is gone": ({"tests/p.py": ""}, "PURSE-1 is not tested by tests/p.py"),
    "the test that is named is gone": (
        {"tests/p.py": '"""PURSE-1."""\n'},
        "PURSE-2 is not tested by tests/p.py::test_whole",
    ),
    "nothing shows a rule": ({TABLE: ROWS.replace("`tests/p.py::test_whole`", "–")}, "PURSE-2 is neither asserted"),
    "a list without codes": ({"native/b.c": "/*\n * Invariants:\n *   1. whole\n */\n"}, "native/b.c has a list"),
    "an old code in a comment": ({"src/b.py": "x = 1  # B3\n"}, "src/b.py has B3"),
    "an old code in an assertion": ({"native/b.c": 'LAW_RULE(x, "W1");\n'}, "native/b.c has W1"),
    "a requirement has the code of a rule": (
        {"docs/list.md": "| `PURSE-1` | x |\n"},
        "is the code of an invariant too",
    ),
}


@pytest.mark.parametrize(("change", "said"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_fault_is_found(change, said):
    assert any(said in fault for fault in faults({**PROJECT, **change}))


def test_what_is_no_code_is_left_alone():
    fine = "UTF-8, SHA-256, C11, HOST:S1, -O2, 0x1F80, P3-1 of a list, EXAMPLE-1\n"
    assert faults({**PROJECT, "docs/a.md": fine}) == []


def test_a_file_that_moved_is_found_again():
    moved = {**PROJECT, "src/law/purse.py": LAW, "tests/law/p.py": PROVEN}
    del moved["src/purse.py"], moved["tests/p.py"]
    assert faults(moved)
    moved[TABLE] = located(moved)
    assert faults(moved) == []
