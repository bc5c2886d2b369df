"""Checks the codes of invariants (`BUDGET-3`) against their table, docs/internals/invariants.md.

`faults` is a function of texts, so that a test can plant a fault. A file states a code in its header, in a line of its
own: the code, two spaces, the rule. A file asserts a code in the message of an `assert`, a `raise`, a `LAW_RULE` or a
`rule`. The table names both places; nothing else does.

After a file has moved, `python tests/support/invariant_codes.py` writes the places that it finds into the table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLE: Final = "docs/internals/invariants.md"
FOLDERS: Final = ("src", "native", "tests", "docs", "scripts", "benchmarks", "examples")
SUFFIXES: Final = (".py", ".c", ".h", ".S", ".md", ".cmake", ".txt", ".json")
PLANTED: Final = "tests/project/test_invariant_codes.py"  # is full of faults, on purpose
IN_TEXT: Final = ("by test", "by construction")  # instead of the files that assert a rule
OTHER_WORDS: Final = {"UTF", "SHA", "MPL", "EXAMPLE"}  # encodings, licences, and the codes that tests invent
OLD_STYLE_ALLOWED: Final = {"C11", "C17", "C23"}  # standards

CODE: Final = r"[A-Z]{3,}-\d+"
CITED: Final = re.compile(rf"(?<![\w-]){CODE}(?![\w-])")
STATED: Final = re.compile(rf"^(?: ?\*\s+)?({CODE})  \S", re.MULTILINE)
STATED_IN_MARKDOWN: Final = re.compile(rf"^\| ({CODE}) \|", re.MULTILINE)
ASSERTED_IN_C: Final = re.compile(
    rf'\b(?:LAW_RULE|_Static_assert|assert|rule|rule_holds|PyErr_SetString)\s*\([^;{{}}]*"({CODE})"'
)
OLD_STYLE: Final = re.compile(r"""(?<![-\w/:])([A-Z]\d{1,2})(?![-\w+]|": \d)""")
BARE_LIST: Final = re.compile(r"^(?: ?\*\s+)?Invariants:\s*$", re.MULTILINE)
OTHER_ID: Final = re.compile(r"^\| `?([A-Z][A-Z0-9]*-\d+)`? \|", re.MULTILINE)

Texts = Mapping[str, str]


@dataclass
class Row:
    code: str
    rule: str
    stated: list[str]
    asserted: list[str]
    tested: list[str]

    def __str__(self) -> str:
        cells = (self.stated, self.asserted, self.tested)
        return f"| {self.code} | {self.rule} | {' | '.join(_cell(places) for places in cells)} |"


def _cell(places: list[str]) -> str:
    return "<br>".join(place if place in IN_TEXT else f"`{place}`" for place in places) or "–"


def _places(cell: str) -> list[str]:
    return [place.strip().strip("`") for place in cell.split("<br>") if place.strip() != "–"]


def rows(table: str) -> list[Row]:
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if re.fullmatch(CODE, cells[0]) and len(cells) == 5:
            found.append(Row(cells[0], cells[1], *map(_places, cells[2:])))
    return found


def stated(texts: Texts) -> dict[str, list[str]]:
    """Where each code is stated, Python first."""
    found: dict[str, list[str]] = {}
    for path in sorted(texts, key=lambda path: (not path.endswith(".py"), path)):
        if path.startswith(("src/", "native/", "tests/", "benchmarks/")):
            for code in _codes_stated(path, texts[path]):
                found.setdefault(code, []).append(path)
    return found


def _codes_stated(path: str, text: str) -> list[str]:
    if path.endswith(".md"):
        return STATED_IN_MARKDOWN.findall(text)
    if path.endswith(".py") and STATED.search(text):
        return STATED.findall(ast.get_docstring(ast.parse(text)) or "")
    return STATED.findall(text)


def asserted(texts: Texts) -> dict[str, list[str]]:
    """Which sources assert each code, Python first."""
    found: dict[str, list[str]] = {}
    for path in sorted(texts, key=lambda path: (not path.endswith(".py"), path)):
        if path.startswith(("src/", "native/")):
            for code in sorted(_codes_asserted(path, texts[path])):
                found.setdefault(code, []).append(path)
    return found


def _codes_asserted(path: str, text: str) -> set[str]:
    if path.endswith((".c", ".h")):
        return set(ASSERTED_IN_C.findall(text))
    if not path.endswith(".py") or not CITED.search(text):
        return set()
    messages = [node.msg if isinstance(node, ast.Assert) else node.exc for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Assert | ast.Raise)]  # fmt: skip
    constants = [part.value for message in messages if message for part in ast.walk(message)
                 if isinstance(part, ast.Constant) and isinstance(part.value, str)]  # fmt: skip
    return {
        code for constant in constants for code in CITED.findall(constant) if code.rsplit("-", 1)[0] not in OTHER_WORDS
    }


def faults(texts: Texts) -> list[str]:
    """Everything that is wrong, one sentence each."""
    table = rows(texts[TABLE])
    return [*_faults_of_rows(table, texts), *_faults_of_citations({row.code for row in table}, texts)]


def _faults_of_rows(table: list[Row], texts: Texts) -> Iterator[str]:
    where, checked = stated(texts), asserted(texts)
    codes = [row.code for row in table]
    yield from (f"{code} has two rows" for code in sorted({code for code in codes if codes.count(code) > 1}))
    yield from (f"{code} is stated in {where[code][0]} and has no row" for code in sorted(set(where) - set(codes)))
    yield from (
        f"{code} is asserted in {checked[code][0]} and has no row" for code in sorted(set(checked) - set(codes))
    )
    for row in table:
        found = where.get(row.code, [])
        if found != row.stated:
            yield f"{row.code} is stated in {found}, not in {row.stated}"
        in_python = [path for path in found if path.endswith(".py")]
        if not found or len(in_python) > 1 or len(found) - len(in_python) > 1:
            yield f"{row.code} is stated in {found}: one Python file, one C file, or one of each states a rule"
        claimed = [place for place in row.asserted if place not in IN_TEXT]
        if claimed != checked.get(row.code, []):
            yield f"{row.code} is asserted in {checked.get(row.code, [])}, not in {claimed}"
        if not row.asserted or (row.asserted == ["by test"] and not row.tested):
            yield f"{row.code} is neither asserted, nor tested, nor so by construction"
        yield from (
            f"{row.code} is not tested by {place}" for place in row.tested if not _tests(place, row.code, texts)
        )


def _tests(place: str, code: str, texts: Texts) -> bool:
    """Whether a test file mentions the code, or the test that is named exists."""
    path, _, name = place.partition("::")
    if not path.startswith("tests/") or path not in texts:
        return False
    if not name:
        return _covers(texts[path], code)
    return re.search(rf"\bdef {name}\(" if path.endswith(".py") else rf"\b{name}\b", texts[path]) is not None


def _covers(text: str, code: str) -> bool:
    """Whether a text mentions a code, by itself or in a range (`HELP-1 to HELP-4`)."""
    word, number = code.rsplit("-", 1)
    ranges = re.findall(rf"\b{word}-(\d+) to {word}-(\d+)\b", text)
    return code in CITED.findall(text) or any(int(first) <= int(number) <= int(last) for first, last in ranges)


def _faults_of_citations(codes: set[str], texts: Texts) -> Iterator[str]:
    others = {path: set(OTHER_ID.findall(text)) for path, text in texts.items() if path.startswith("docs/")}
    others[TABLE] = set()
    for path, ids in others.items():
        yield from (f"{code} of {path} is the code of an invariant too" for code in sorted(ids & codes))
    known = codes.union(*others.values())
    for path, text in texts.items():
        for code in sorted(set(CITED.findall(text)) - known):
            if code.rsplit("-", 1)[0] not in OTHER_WORDS:
                yield f"{path} cites {code}, which does not exist"
        for code in sorted(set(OLD_STYLE.findall(text)) - OLD_STYLE_ALLOWED):
            yield f"{path} has {code}: the code of an invariant is a word and a number, as in BUDGET-3"
        if path.endswith((".py", ".c", ".h")) and BARE_LIST.search(text):
            yield f"{path} has a list of invariants without codes"


def located(texts: Texts) -> str:
    """The table, with the places where its codes are stated, asserted and tested now."""
    where, checked = stated(texts), asserted(texts)
    table = texts[TABLE]
    for row in rows(table):
        old = str(row)
        row.stated = where.get(row.code, [])
        row.asserted = checked.get(row.code) or [place for place in row.asserted if place in IN_TEXT] or ["by test"]
        row.tested = [_found_again(place, texts) for place in row.tested]
        table = table.replace(old, str(row))
    return table


def _found_again(place: str, texts: Texts) -> str:
    """The place of a test whose file has moved, if only one file has its name."""
    path, *name = place.split("::")
    same = [other for other in texts if other.startswith("tests/") and Path(other).name == Path(path).name]
    return "::".join([same[0] if path not in texts and len(same) == 1 else path, *name])


def read(root: Path) -> dict[str, str]:
    """The texts of the project, by path."""
    files = [path for folder in FOLDERS for path in (root / folder).rglob("*")] + [*root.glob("*.md")]
    files = [path for path in files if "node_modules" not in path.parts and path != root / PLANTED]
    texts = [path for path in sorted(files) if path.suffix in SUFFIXES and path.is_file()] + [root / "Makefile"]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in texts}


if __name__ == "__main__":
    here = Path(__file__).parents[2]
    (here / TABLE).write_text(located(read(here)), encoding="utf-8")
