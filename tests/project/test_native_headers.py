"""Every C file has a header with its contract, and every fast path is beside its slow twin.

The header of X.c is X.h in the same folder. X_py.c is what Python sees of X.c, and shares its header. The contract of a
function that C programs call is in native/include: a file of native/abi that defines only such functions needs no
header of its own, and its opening names the public one.
"""

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"
FOLDERS = ("abi", "engine", "fiber", "law", "python")
HEADERS = {"module/module.c": "module/module_state.h"}  # the module has no contract but its state

DEFINED = re.compile(r"^(?!.*\bstatic\b)[A-Za-z_][\w *]*\n(\w+)\(", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def header_of(root: Path, source: Path) -> Path:
    name = source.relative_to(root)
    header = name.with_name(f"{name.stem.removesuffix('_py')}.h")
    return root / HEADERS.get(name.as_posix(), header.as_posix())


def undeclared(root: Path, include: Path | None = None) -> list[str]:
    """The sources without a header, and the functions that another header declares, or none.

    `include` is the folder of public headers, if sources of `root` define what these declare."""
    public = {path.name: COMMENT.sub("", path.read_text()) for path in sorted(include.glob("*.h"))} if include else {}
    found = []
    for source in sorted(root.rglob("*.c")):
        header = header_of(root, source)
        name = source.relative_to(root).as_posix()
        text = source.read_text()
        functions = [
            function
            for function in DEFINED.findall(COMMENT.sub("", text))
            if not function.startswith("PyInit_") and not any(declares(shown, function) for shown in public.values())
        ]
        if header.exists():
            declared = COMMENT.sub("", header.read_text())
            found += [
                f"{name} defines {function}, which {header.name} does not declare"
                for function in functions
                if not declares(declared, function)
            ]
        elif functions or not public:
            found.append(f"{name} has no header")
        elif not any(f"include/{shown}" in text.partition("*/")[0] for shown in public):
            found.append(f"{name} does not name the header with its contract")
    return found


def declares(header: str, function: str) -> bool:
    return re.search(rf"\b{function}\(", header) is not None


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
    assert undeclared(NATIVE / "python") == []
    assert undeclared(NATIVE / "fiber") == []
    assert undeclared(NATIVE / "engine") == []
    assert undeclared(NATIVE / "abi", NATIVE / "include") == []


def test_every_header_says_what_it_is():
    assert [name for folder in (*FOLDERS, "include") for name in without_contract(NATIVE / folder)] == []


def test_every_fast_path_is_beside_its_twin_and_can_be_switched_off():
    assert lonely(NATIVE / "python") == []


def test_a_violation_is_found(tmp_path):
    (tmp_path / "alone.c").write_text("/* Alone. */\nint\nalone(void)\n{\n}\n")
    functions = "static int\nhidden(void)\n{\n}\n\nint\nshown(void)\n{\n}\n\nint\nmissed(void)\n{\n}\n"
    (tmp_path / "pair.c").write_text(functions)
    (tmp_path / "pair.h").write_text("/* missed() */\nint shown(void);\n")
    (tmp_path / "pair_py.c").write_text("int\nshown(void)\n{\n}\n\nint\nhidden_py(void)\n{\n}\n")
    (tmp_path / "other_fast.h").write_text("/* Nothing. */\n")
    assert undeclared(tmp_path) == [
        "alone.c has no header",
        "pair.c defines missed, which pair.h does not declare",
        "pair_py.c defines hidden_py, which pair.h does not declare",
    ]
    assert without_contract(tmp_path) == ["other_fast.h", "pair.h"]
    assert lonely(tmp_path) == ["other_fast.h has no twin other.c", "other_fast.h does not ask FAST_PATHS"]


def test_a_public_contract_is_named_and_a_private_one_has_a_header(tmp_path):
    (include := tmp_path / "include").mkdir()
    (root := tmp_path / "abi").mkdir()
    (include / "open.h").write_text("int shown(void);\n")
    (root / "named.c").write_text("/* Contract: include/open.h. */\nint\nshown(void)\n{\n}\n")
    (root / "unnamed.c").write_text("/* Nothing. */\nint\nshown(void)\n{\n}\n")
    (root / "private.c").write_text("/* Contract: include/open.h. */\nint\nkept(void)\n{\n}\n")
    assert undeclared(root, include) == [
        "private.c has no header",
        "unnamed.c does not name the header with its contract",
    ]
