"""The layers of `src/bursar`: a package imports only packages above it in this list, by no way around.

Imports inside functions and under `TYPE_CHECKING` count like any other, with one exception: the type of the reason in
`Cancelled`, which is an error and so stands above the law. Only `bursar/__init__.py` and `cli/` know everything. A
string with the name of a module is refused, so that no `import_module` gets around the list.
"""

import ast
from pathlib import Path

import pytest

import bursar

ROOT = Path(bursar.__file__).parent
LAYERS = (
    "_native",  # C: a leaf, as far as Python is concerned
    "errors",
    "text",
    "settings",
    "law",
    "seam",
    "backend",
    "request",
    "ops",
    "trace",
    "drive",
    "threads",
    "fibers",
    "io",
    "hosts",
    "runtime",
    "browser",
    "supervision",
    "evidence",
    "asyncio",
    "workflow",
    "cli",
)
EXCEPT = {("bursar.errors", "bursar.law.cancel")}
HEIGHT = {name: height for height, name in enumerate(LAYERS)}


def layer(module: str) -> str:
    """The layer of `bursar.a.b`: a. The package itself knows everything and so is below all."""
    return module.split(".")[1] if "." in module else "cli"


def imported(tree: ast.AST):
    """Every module that the code names, and the line: also in functions, and in strings that are no docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((name.name, node.lineno) for name in node.names)
            case ast.ImportFrom(module="bursar"):
                yield from (
                    (f"bursar.{name.name}" if name.name in HEIGHT else "bursar", node.lineno) for name in node.names
                )
            case ast.ImportFrom(level=0):
                yield node.module or "", node.lineno
            case ast.ImportFrom():
                yield "a relative import", node.lineno
            case ast.Constant(value=str() as text) if id(node) not in docs and is_module(text):
                yield text, node.lineno
            case _:
                pass


def is_module(text: str) -> bool:
    """Whether a string is the name of a module of Bursar, which only `import_module` and the like have a use for."""
    if not text.startswith("bursar.") or text == "bursar.":
        return False
    path = ROOT.joinpath(*text.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def faults(module: str, source: str) -> list[str]:
    """What `module` imports that is not above it."""
    own = layer(module)
    found = []
    for name, line in imported(ast.parse(source)):
        ours = (name == "bursar" or name.startswith("bursar.")) and (module, name) not in EXCEPT
        if name == "a relative import" or (ours and HEIGHT.get(layer(name), len(LAYERS)) > HEIGHT[own]):
            found.append(f"{module}:{line} imports {name}")
    return found


def modules() -> dict[str, Path]:
    names = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in sorted(ROOT.rglob("*.py"))}
    found = {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}
    return {name: path for name, path in found.items() if name != "bursar"}


def test_a_module_imports_only_what_is_above_it():
    assert [fault for module, path in modules().items() for fault in faults(module, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import bursar.runtime",
        "import bursar",
        "from bursar import Runtime",
        "from bursar import runtime",
        "from bursar.hosts.selector import SelectorHost",
        "from ..hosts import selector",
        "def late():\n    from bursar.threads import pool",
        "if TYPE_CHECKING:\n    from bursar.drive.pump import Pump",
        "import_module('bursar.threads.pool')",
        "NAMES = {'bursar.supervision.actor'}",
    ],
)
def test_a_way_around_is_found(source):
    assert faults("bursar.ops.task", source)
    assert not faults("bursar.cli.run", source) or source.startswith("from ..")


def test_what_is_above_may_be_imported():
    source = '"""See `bursar.runtime`."""\nfrom bursar.law.task import Task\nfrom bursar.ops import task\n'
    assert faults("bursar.ops.nursery", source) == []
