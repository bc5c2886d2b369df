"""docs/internals/checklist.md keeps its word: every id has a row, and every row names a test that exists and runs.

The list that the ids come from is not part of this repository, so it stands here: how many of each kind there are.
"""

import re
from pathlib import Path

from support.c_tests import c_tests

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "checklist.md"
COUNTS = {
    "CS": 4, "CT": 3, "TK": 5, "BG": 6, "DQ": 6, "WK": 3, "WI": 5, "SI": 3, "SO": 5, "MW": 7, "NU": 18, "NI": 8,
    "NC": 3, "NX": 1, "TO": 6, "PC": 9, "AL": 4, "AE": 10, "AB": 3, "CH": 15, "SF": 3, "P3": 6, "AR": 1,
}  # fmt: skip
FAULTS = 31
MORE = 22
COMPILER = {"AL-1", "AL-2", "AL-3", "AL-4", "AE-1", "AE-2", "AE-8", "AB-1", "AB-2"}  # about a compiler's output alone


def rows() -> list[tuple[str, str]]:
    """(id, what it is shown by)."""
    found = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(id, cell) for id, cell in found]


def expected() -> list[str]:
    listed = [f"{kind}-{n}" for kind, count in COUNTS.items() for n in range(1, count + 1)]
    faults = [f"FAULT-{n}" for n in range(1, FAULTS + 1)]
    return [*listed, *faults, *(f"MORE-{n}" for n in range(1, MORE + 1))]


def fault(cell: str) -> str:
    """What is wrong with the last cell of a row; "" if nothing is."""
    named = re.findall(r"`([^`]+)::(\w+)`", cell)
    missing = [f"{path}::{name}" for path, name in named if name not in known(ROOT / path)]
    return "names no test" if not named else f"no such test: {', '.join(missing)}" if missing else ""


def known(path: Path) -> set[str]:
    return c_tests(path) if path.is_file() and path.is_relative_to(ROOT / "tests") else set()


def test_the_list_has_all_of_them():
    assert sum(COUNTS.values()) == 134


def test_every_id_has_exactly_one_row_in_order():
    assert [id for id, _ in rows()] == expected()


def test_every_row_names_tests_that_exist_and_run():
    wrong = {id: fault(cell) for id, cell in rows() if id not in COMPILER and fault(cell)}
    assert not wrong


def test_only_what_is_about_a_compilers_output_waits_for_it():
    assert {id for id, cell in rows() if cell == "room: compiler"} == COMPILER


def test_a_row_without_its_test_is_found_out():
    assert fault("nothing") == "names no test"
    assert "no such test" in fault("`tests/native/runtime/test_checklist.c::no_such_function`")
    assert "no such test" in fault("`tests/native/runtime/no_such_file.c::scenarios`")
    assert "no such test" in fault("`tests/native/runtime/test_checklist.c::adds`")  # a task, not a test
    assert not fault("`tests/native/runtime/test_checklist.c::scenarios`")


def test_every_program_is_one_that_ctest_runs():
    files = {path for _, cell in rows() for path, _ in re.findall(r"`([^`]+)::(\w+)`", cell)}
    lists = (ROOT / "tests/native/engine/CMakeLists.txt").read_text(encoding="utf-8")
    for path in files:
        folder, name = Path(path).parent.name, Path(path).stem
        by_name = name in lists or name.removeprefix("explore_") in lists
        assert name.startswith("test_") if folder != "engine" else by_name, path
