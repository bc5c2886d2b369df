"""The table "From Python" of docs/internals/cpython.md names every file that uses what a row is about.

The table "From C" has its tests in test_native_rules.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bursar"
TOO_COMMON = {"send", "throw", "close", "signal", "RuntimeError", "PyDLL", "raise"}  # they say nothing about a file
OF_CPYTHON = re.compile(r"(?:cr|gi|ag|co|f|tb)_[a-z]+")  # coroutines, generators, code, frames, tracebacks


def words(text: str) -> set[str]:
    """The names that a file uses and its strings, without docstrings."""
    tree = ast.parse(text)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word):
                found.add(word)
            case ast.Constant(value=str() as word) if id(node) not in docs:
                found.add(word)
            case _:
                pass
    return found


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def table(page: str) -> list[tuple[set[str], set[str]]]:
    """The rows: what is used, and the files that use it."""
    part = page.partition("\n## From Python\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    return [
        ({span.rpartition(".")[2] for span in spans(what)} - TOO_COMMON, set(spans(where))) for what, where, _ in rows
    ]


ROWS = table((ROOT / "docs" / "internals" / "cpython.md").read_text(encoding="utf-8"))
USED = {path.relative_to(PACKAGE).as_posix(): words(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


@pytest.mark.parametrize(("names", "files"), ROWS, ids=lambda found: " ".join(sorted(found)))
def test_a_row_names_every_file(names, files):
    assert files <= set(USED)
    if names:
        assert files == {file for file, used in USED.items() if used & names}


def unlisted(used: set[str], rows: list[tuple[set[str], set[str]]]) -> set[str]:
    return {word for word in used if OF_CPYTHON.fullmatch(word)} - {name for names, _ in rows for name in names}


def test_every_attribute_that_only_cpython_has_is_listed():
    assert {file: found for file, used in USED.items() if (found := unlisted(used, ROWS))} == {}


def test_what_is_not_listed_is_found():
    rows = table("\n## From Python\n| what | where | why |\n|---|---|---|\n| `x.cr_code`, `send` | `a.py` | b |\n")
    assert rows == [({"cr_code"}, {"a.py"})]
    source = '"""gi_code"""\nx.cr_code\ngetattr(x, "ag_code")\nx.f_lasti\n'
    assert unlisted(words(source), rows) == {"ag_code", "f_lasti"}
