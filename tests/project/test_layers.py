"""The layers of `src/bursar`: a package imports only packages above it in this list, by no way around.

Imports inside functions and under `TYPE_CHECKING` count like any other, with one exception: the type of the reason in
`Cancelled`, which is an error and so stands above the law. Only `bursar/__init__.py` and `cli/` know everything. No
module gets around the list by a string: the name of a module is refused, and so is what imports or runs a string.
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
    "arguments",
    "tracebacks",
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
BY_STRING = {"__import__", "builtins", "eval", "exec", "importlib", "pkgutil", "runpy", "sys.modules"}
MAY_BY_STRING = {  # the strings are the program's, or name modules of Pyodide
    "bursar.hosts.browser": {"importlib"},
    "bursar.threads.signature": {"eval"},
    "bursar.workflow.step": {"importlib"},
}
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
                yield text.partition(":")[0], node.lineno
            case _:
                pass


def is_module(text: str) -> bool:
    """Whether a string is the name of a module of Bursar, which only `import_module` and the like have a use for."""
    if not text.startswith("bursar.") or text == "bursar.":
        return False
    path = ROOT.joinpath(*text.partition(":")[0].split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def by_string(tree: ast.AST):
    """Everything in the code that can import or run a string, and the line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                used = [name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                used = [f"{name}.{attribute}"]
            case ast.Import(names=names):
                used = [name.name for name in names]
            case ast.ImportFrom(module=str() as name, names=names):
                used = [name, *(f"{name}.{part.name}" for part in names)]
            case _:
                used = []
        for name in used:
            package = name.partition(".")[0]
            if name in BY_STRING:
                yield name, node.lineno
            elif package in BY_STRING and not name.startswith("importlib.metadata"):
                yield package, node.lineno


def faults(module: str, source: str) -> list[str]:
    """What `module` imports that is not above it, and what it could import by a string."""
    own = layer(module)
    tree = ast.parse(source)
    free = BY_STRING if own == "cli" else MAY_BY_STRING.get(module, set())
    found = [f"{module}:{line} uses {name}" for name, line in by_string(tree) if name not in free]
    for name, line in imported(tree):
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
        "NAMES = {'bursar.runtime:Runtime'}",
        "import importlib\n\nimportlib.import_module('bursar' + '.runtime')",
        "from importlib import import_module as load",
        "import importlib.util",
        "__import__('bursar' + '.runtime')",
        "import sys\n\nsys.modules['bursar']",
        "from sys import modules",
        "exec('from bursar.runtime import Runtime')",
        "from builtins import exec as run",
        "import pkgutil",
    ],
)
def test_a_way_around_is_found(source):
    assert faults("bursar.ops.task", source)
    assert not faults("bursar.cli.run", source) or source.startswith("from ..")


def test_every_exception_is_needed():
    for module, names in MAY_BY_STRING.items():
        tree = ast.parse(modules()[module].read_text("utf-8"))
        assert {name for name, _ in by_string(tree)} == names


def test_what_is_above_may_be_imported():
    source = '"""See `bursar.runtime`."""\nfrom bursar.law.task import Task\nfrom bursar.ops import task\n'
    assert faults("bursar.ops.nursery", source) == []
