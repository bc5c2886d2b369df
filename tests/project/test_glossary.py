"""No retired word of docs/internals/glossary.md is an identifier or the name of a file or folder again."""

from __future__ import annotations

import io
import re
import tokenize
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "glossary.md"
FOLDERS = ("src", "native", "tests", "examples", "benchmarks", "scripts")
PYTHON, C = (".py", ".pyi"), (".c", ".h")

# A comment, a string, a character, or an identifier: only the last one is a group.
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|([A-Za-z_]\w*)', re.DOTALL)


class Retired(NamedTuple):
    word: str  # with `*` for any characters
    kind: str  # "name" or "file"
    where: str  # a folder, or "." for all

    def covers(self, path: str) -> bool:
        return self.where == "." or path.startswith(f"{self.where}/")


def read(page: str) -> list[Retired]:
    """The rows of the table of retired words."""
    found = []
    for line in page.partition("## Retired words")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        words = re.findall(r"`([^`]+)`", cells[0])
        places = [place.strip() for place in cells[2].split(",")]
        found += [Retired(word, cells[1], place) for word in words for place in places]
    return found


def identifiers(path: str, text: str) -> set[str]:
    """Every identifier of a Python or a C file."""
    if path.endswith(PYTHON):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return {token.string for token in tokens if token.type == tokenize.NAME}
    return {match[1] for match in C_TOKEN.finditer(text) if match[1]}


def violations(table: list[Retired], path: str, text: str) -> list[str]:
    """The retired words of one file."""
    here = [entry for entry in table if entry.covers(path)]
    stems = {part.removeprefix("test_") for part in (*Path(path).parts[:-1], Path(path).stem)}
    found = [f"{path}: the file name {entry.word!r}" for entry in here if entry.kind == "file" and entry.word in stems]
    names = [entry.word for entry in here if entry.kind == "name"]
    plain = {word for word in names if "*" not in word}
    patterns = [word for word in names if "*" in word]
    for name in sorted(identifiers(path, text)):
        if name in plain or any(fnmatchcase(name, pattern) for pattern in patterns):
            found.append(f"{path}: {name}")
    return found


@cache
def sources() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in PYTHON + C and not {"build", "node_modules", "__pycache__"} & set(path.parts)
    ]


def test_no_retired_word_is_used_again():
    table = read(PAGE.read_text(encoding="utf-8"))
    assert [line for path, text in sources() for line in violations(table, path, text)] == []


def test_the_table_is_read():
    table = read(PAGE.read_text(encoding="utf-8"))
    assert len(table) > 150
    assert {entry.kind for entry in table} == {"name", "file"}
    assert all(entry.where == "." or (ROOT / entry.where).is_dir() for entry in table)


def unknown(page: str, known: set[str]) -> list[str]:
    """Names in the tables of concepts that no source has: identifiers, with `*` for any ending, or files."""
    lines = [line for line in page.partition("## Retired words")[0].splitlines() if line.startswith("|")]
    found = []
    for span in re.findall(r"`([^`]+)`", "\n".join(lines)):
        if "/" in span or span.endswith(".h"):
            if not (ROOT / span).exists() and not list(ROOT.glob(f"native/**/{span}")):
                found.append(span)
            continue
        for word in re.findall(r"[A-Za-z_]\w*\*?", span):
            if not (any(name.startswith(word[:-1]) for name in known) if word.endswith("*") else word in known):
                found.append(word)
    return found


def test_every_name_of_the_tables_exists():
    known = {name for path, text in sources() for name in identifiers(path, text)}
    assert unknown(PAGE.read_text(encoding="utf-8"), known) == []


def test_a_name_that_does_not_exist_is_found():
    page = "| `Ticket`, `k_*`, `no_such_name`, `z_*`, `native/no/such/file.h` |\n## Retired words\n| `gone` |"
    assert unknown(page, {"Ticket", "k_spawn"}) == ["no_such_name", "z_*", "native/no/such/file.h"]


TABLE = """
| outside | name | . | before the table: not read |
## Retired words
| retired | kind | where | now |
|---|---|---|---|
| `Permit`, `permit_*` | name | . | `Ticket` |
| `State` | name | native/python | `ModuleState` |
| `doom` | file | . | `deferred_error` |
"""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("src/a.py", "class Permit: ...\n", ["src/a.py: Permit"]),
        ("tests/a.py", "x.permit_of(y)\n", ["tests/a.py: permit_of"]),
        ("src/a.py", "# Permit\n'Permit'\n", []),
        ("native/python/a.c", "typedef struct State State; /* Permit */\n", ["native/python/a.c: State"]),
        ("native/engine/a.c", 'int State; char *s = "Permit"; // permit_x\n', []),
        ("native/a.h", "int permit_new(void);\n", ["native/a.h: permit_new"]),
        ("native/python/law/doom.c", "\n", ["native/python/law/doom.c: the file name 'doom'"]),
        ("tests/test_doom.py", "\n", ["tests/test_doom.py: the file name 'doom'"]),
        ("src/doom/a.py", "\n", ["src/doom/a.py: the file name 'doom'"]),
        ("src/a.py", "Ticket, State = 1, 2\n", []),
    ],
)
def test_a_planted_violation_is_found(path, text, found):
    assert violations(read(TABLE), path, text) == found
