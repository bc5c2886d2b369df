"""Every C file of native/python has a header of its own, and every fast path stands beside its slow twin."""

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native" / "python"
HEADERS = {"module/module.c": "module/module_state.h"}  # the module has no contract but its state

DEFINED = re.compile(r"^(?!.*\bstatic\b)[A-Za-z_][\w *]*\n(\w+)\(", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def header_of(root: Path, source: Path) -> Path:
    name = source.relative_to(root)
    return root / HEADERS.get(name.as_posix(), name.with_suffix(".h").as_posix())


def undeclared(root: Path) -> list[str]:
    """The sources without a header of their own, and the functions that another header declares, or none."""
    found = []
    for source in sorted(root.rglob("*.c")):
        header = header_of(root, source)
        name = source.relative_to(root).as_posix()
        if not header.exists():
            found.append(f"{name} has no header")
            continue
        declared = COMMENT.sub("", header.read_text())
        for function in DEFINED.findall(COMMENT.sub("", source.read_text())):
            if not function.startswith("PyInit_") and not re.search(rf"\b{function}\(", declared):
                found.append(f"{name} defines {function}, which {header.name} does not declare")
    return found


def without_contract(root: Path) -> list[str]:
    """The headers that do not open with a comment that says what they are."""
    return [path.name for path in sorted(root.rglob("*.h")) if not re.match(r"/\* .{25,}", path.read_text())]


def lonely(root: Path) -> list[str]:
    """The headers of fast paths without a slow twin beside them, and those that a build cannot switch off."""
    found = []
    for path in sorted(root.rglob("*_fast.h")):
        twin = path.with_name(path.name.replace("_fast.h", ".c"))
        if not twin.exists():
            found.append(f"{path.name} has no twin {twin.name}")
        if "FAST_PATHS" not in path.read_text():
            found.append(f"{path.name} does not ask FAST_PATHS")
    return found


def test_every_source_has_a_header_that_declares_what_it_defines():
    assert undeclared(NATIVE) == []


def test_every_header_says_what_it_is():
    assert without_contract(NATIVE) == []


def test_every_fast_path_stands_beside_its_twin_and_can_be_switched_off():
    assert lonely(NATIVE) == []


def test_a_violation_is_found(tmp_path):
    (tmp_path / "alone.c").write_text("/* Alone. */\nint\nalone(void)\n{\n}\n")
    functions = "static int\nhidden(void)\n{\n}\n\nint\nshown(void)\n{\n}\n\nint\nmissed(void)\n{\n}\n"
    (tmp_path / "pair.c").write_text(functions)
    (tmp_path / "pair.h").write_text("/* missed() */\nint shown(void);\n")
    (tmp_path / "other_fast.h").write_text("/* Nothing. */\n")
    assert undeclared(tmp_path) == ["alone.c has no header", "pair.c defines missed, which pair.h does not declare"]
    assert without_contract(tmp_path) == ["other_fast.h", "pair.h"]
    assert lonely(tmp_path) == ["other_fast.h has no twin other.c", "other_fast.h does not ask FAST_PATHS"]
