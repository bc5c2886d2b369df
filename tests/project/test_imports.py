"""Tests reach internals through the faces of tests/support, or mirror the module that they import. See there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import FACES, PUBLIC

import bursar

TESTS = Path(__file__).parents[1]
SOURCE = Path(bursar.__file__).parents[1]
OUTERMOST = "bursar.cli"  # nothing is built on it
FILES = [file for file in sorted(TESTS.rglob("*.py")) if "node_modules" not in file.parts]


def is_module(name: str) -> bool:
    path = SOURCE / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def modules_used(text: str) -> Iterator[str]:
    """The modules of the package that a file imports, or names as `bursar.drive.pump`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name if is_module(name) else node.module for name in whole)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bursar":
            name = f"bursar.{node.attr}"
            if is_module(name) and node.attr not in bursar.__all__:
                yield name


def is_mirrored(module: str, file: Path) -> bool:
    name = module.rpartition(".")[2]
    return file.stem == f"test_{name}" or file.stem.startswith(f"test_{name}_")


def trespasses(file: Path, text: str) -> list[str]:
    """The internal modules that this file must not use."""
    if file.parent == TESTS / "support" and file.stem in FACES:
        return []
    ours = {module for module in modules_used(text) if module == "bursar" or module.startswith("bursar.")}
    free = {module for module in ours if module in PUBLIC or module.startswith(OUTERMOST)}
    return sorted(module for module in ours - free if not is_mirrored(module, file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(TESTS).as_posix())
def test_internals_come_from_the_support_modules(file):
    found = trespasses(file, file.read_text(encoding="utf-8"))
    assert not found, f"import {', '.join(found)} through tests/support: see tests/support/__init__.py"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("test_pump.py", "from bursar.drive.pump import Pump", []),
        ("test_pump_ends.py", "from bursar.drive import pump", []),
        ("test_task.py", "from bursar.drive.pump import Pump", ["bursar.drive.pump"]),
        ("test_task.py", "from bursar.drive import pump", ["bursar.drive.pump"]),
        ("test_task.py", "import bursar.drive.pump", ["bursar.drive.pump"]),
        ("test_task.py", "import bursar\n\nbursar.law.cancel.cut()", ["bursar.law"]),
        ("conftest.py", "def f():\n    from bursar.backend import NATIVE", ["bursar.backend"]),
        ("test_task.py", "from bursar import Runtime\nfrom bursar.errors import HostLost", []),
    ],
)
def test_a_planted_import_is_found(name, text, found):
    assert trespasses(TESTS / "unit" / name, text) == found


def test_a_face_does_nothing_but_import():
    for face in FACES:
        doc, *rest = ast.parse((TESTS / "support" / f"{face}.py").read_text(encoding="utf-8")).body
        assert isinstance(doc, ast.Expr)
        assert all(isinstance(node, ast.ImportFrom) for node in rest), face
