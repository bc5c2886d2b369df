"""docs/internals/admission-checklist.md keeps its word: every id has its row, and every row names tests that exist.

The lists that the ids come from are not part of this repository, so they stand here: how many of each kind there are.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "internals" / "admission-checklist.md"
FAULTS = "tests/law/admission/test_faults.py"
TESTS = {"POOL": 10, "FLOW": 2, "STATE": 28, "LOOP": 6, "MORE": 9}
FOUND_FAULTS = {"A": 7, "B": 15, "COST": 3, "SIMPLE": 3}


def rows() -> dict[str, list[str]]:
    """id -> the tests that show it."""
    found = re.findall(r"^\| `([A-Z]+-\d+)` \| [^|]+ \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len({id for id, _ in found}) == len(found), "an id has two rows"
    return {id: re.findall(r"`([^`]+)`", cell) for id, cell in found}


@cache
def functions(path: Path) -> dict[str, ast.FunctionDef]:
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return path.startswith("tests/") and name.startswith("test_") and name in functions(ROOT / path)


def ids(counts: dict[str, int]) -> list[str]:
    return [f"{kind}-{n}" for kind, count in counts.items() for n in range(1, count + 1)]


def test_every_id_has_its_row_in_order():
    assert list(rows()) == ids({**TESTS, **FOUND_FAULTS})


def test_every_row_names_tests_that_exist():
    wrong = {id: [test for test in tests if not exists(test)] for id, tests in rows().items()}
    assert not {id: tests for id, tests in wrong.items() if tests}
    assert all(rows().values())


def test_every_fault_is_shown_on_a_naive_scheduler():
    """By `@fault(naive.…)`; or, where it is about cost, by a call of the toy in the test itself."""
    for id in ids(FOUND_FAULTS):
        shown = [functions(ROOT / FAULTS)[test.partition("::")[2]] for test in rows()[id] if test.startswith(FAULTS)]
        assert shown, id
        assert any("naive." in ast.unparse(test) or "toy_" in ast.unparse(test) for test in shown), id


def test_every_test_of_a_fault_has_its_row():
    named = {test.partition("::")[2] for tests in rows().values() for test in tests if test.startswith(FAULTS)}
    assert {name for name in functions(ROOT / FAULTS) if name.startswith("test_")} == named


def test_a_row_without_its_test_is_found_out():
    assert not exists(f"{FAULTS}::test_none")
    assert not exists("tests/law/admission/no_such_file.py::test_none")
    assert not exists(f"{FAULTS}::growth")
    assert exists("tests/law/admission/test_checklist.py::test_a_row_without_its_test_is_found_out")
