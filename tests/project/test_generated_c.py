"""The headers below native/law/generated say what the law in Python says, and no C file says it a second time."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
GENERATED = NATIVE / "law" / "generated"
GENERATOR = runpy.run_path(str(ROOT / "scripts" / "generate_c.py"))

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DEFINED = re.compile(
    r"#\s*define\s+(\w+)|^\s*\[?(\w+)\]? = |[{,] (\w+) = |\b(NOTE_\w+),|\} (\w+);|(\w+)\[\w*\] = ", re.MULTILINE
)


def bare(text: str) -> str:
    return COMMENT.sub("", text)


def generated_names() -> set[str]:
    """Every name that a generated header defines, and each without its prefix: that is how a copy would be called."""
    text = "\n".join(bare(path.read_text(encoding="utf-8")) for path in GENERATED.glob("*.h"))
    names = {name for match in DEFINED.finditer(text) for name in match.groups() if name}
    return names | {name.removeprefix("LAW_") for name in names if name.startswith("LAW_") and name.count("_") > 1}


def defined_by_hand(text: str, names: set[str]) -> list[str]:
    """Those names that a C file gives a value, or a type, of its own."""
    found = re.findall(
        r"#\s*define\s+(\w+)|(?:^|[{,])\s*(\w+) = (?!LAW_)[^,;]*[,}]|\}\s*(Law\w+);"
        r"|\w[ *]+([A-Z]\w+)(?:\[\w*\])* = (?!LAW_)",
        bare(text),
        re.MULTILINE,
    )
    return sorted({name for match in found for name in match if name in names})


def sources() -> list[Path]:
    paths = (path for folder in (NATIVE, ROOT / "tests" / "native") for path in folder.rglob("*.[ch]"))
    return [path for path in paths if path.parent != GENERATED]


def test_the_headers_are_what_the_law_says():
    assert GENERATOR["stale"](GENERATED) == [], "run scripts/generate_c.py"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("enums.h", "LAW_STATE_READY = 1", "LAW_STATE_READY = 2"),
        ("transitions.h", "1u << LAW_STATE_RUNNING", "1u << LAW_STATE_BLOCKED"),
        ("costs.h", "LAW_SPAWN_COSTS_OPS = 1", "LAW_SPAWN_COSTS_OPS = 2"),
        ("limits.h", "UINT32_C(16)", "UINT32_C(17)"),
        ("trace_records.h", "FIELD_STEP_END_STATE = 1", "FIELD_STEP_END_STATE = 0"),
        ("docstrings.h", "Happens once", "Happens twice"),
    ],
)
def test_a_stale_header_is_found(tmp_path: Path, name: str, old: str, new: str):
    folder = shutil.copytree(GENERATED, tmp_path / "generated")
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert GENERATOR["stale"](folder) == [name]


def test_a_missing_and_a_superfluous_header_are_found(tmp_path: Path):
    folder = shutil.copytree(GENERATED, tmp_path / "generated")
    (folder / "limits.h").rename(folder / "bounds.h")
    assert GENERATOR["stale"](folder) == ["bounds.h", "limits.h"]


def test_the_law_changes_and_the_headers_are_stale(monkeypatch: pytest.MonkeyPatch):
    from support.law import decide_module

    monkeypatch.setattr(decide_module, "CANCEL_STREAK_MAX", 17)
    assert GENERATOR["stale"](GENERATED) == ["limits.h"]


def test_no_c_file_defines_by_hand_what_is_generated():
    names = generated_names()
    assert {"LAW_STATE_READY", "LAW_UNITS_MAX", "LawState", "NOTE_SPAWNED", "LAW_ROW_OP", "LAW_STATE_MOVES"} <= names
    found = {
        str(path.relative_to(ROOT)): defined_by_hand(path.read_text(encoding="utf-8"), names) for path in sources()
    }
    assert {path: taken for path, taken in found.items() if taken} == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("#define LAW_UNITS_MAX 5\n", "LAW_UNITS_MAX"),
        ("enum { TIMER_WAKE = 0, TIMER_CLEANUP = 2 };\n", "TIMER_WAKE"),
        ("typedef enum {\n    LAW_STATE_READY = 1,\n} State;\n", "LAW_STATE_READY"),
        ("typedef enum { A } LawState;\n", "LawState"),
        ("enum { STEAL_ATTEMPTS_MAX = 4 };\n", "STEAL_ATTEMPTS_MAX"),
        ("static const int64_t LAW_UNITS_MAX = 5;\n", "LAW_UNITS_MAX"),
        ("static const uint8_t LAW_STATE_MOVES[8] = {0};\n", "LAW_STATE_MOVES"),
    ],
)
def test_a_copy_by_hand_is_found(text: str, name: str):
    assert name in defined_by_hand(text, generated_names())
