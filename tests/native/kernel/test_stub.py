"""`_native.pyi` names every type, method, attribute and function of the built module, with its parameters."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.extension import fresh_extension
from support.kernel import NATIVE, ONLY_IN_C, TWINS, seam

import bursar

if not NATIVE:
    pytest.skip("this process has the kernel in Python", allow_module_level=True)

for name in ("bursar.threads.portal", "bursar.threads.job"):
    importlib.import_module(name)
STUB = Path(bursar.__file__).with_name("_native.pyi")
TEXT = STUB.read_text(encoding="utf-8")
FOR_CHECKERS = {"BuildInfo", "T_co"}  # names of the stub that only a type checker needs
IGNORED = seam._OF_EVERY_CLASS


C = fresh_extension()


def stub_of(text: str) -> tuple[dict[str, ast.stmt], dict[str, str]]:
    """What a stub defines itself, and what it imports from a Python module: name in C → name in Python."""
    modules: dict[str, str] = {}
    defined: dict[str, ast.stmt] = {}
    taken: dict[str, str] = {}
    for node in ast.parse(text).body:
        match node:
            case ast.ImportFrom(module=str() as module, names=names) if module.startswith("bursar"):
                for alias in names:
                    full = f"{module}.{alias.name}"
                    if alias.asname == alias.name:
                        taken[alias.name] = full
                    modules[alias.asname or alias.name] = full
            case ast.ClassDef() | ast.FunctionDef():
                defined[node.name] = node
            case ast.AnnAssign(target=ast.Name(id=name)):
                defined[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(value=ast.Name(id=module), attr=attr)):
                taken[name] = f"{modules[module]}.{attr}"
            case ast.Assign(targets=[ast.Name(id=name)]):
                defined[name] = node
            case _:
                pass
    return defined, taken


def parameters(node: ast.FunctionDef, method: bool) -> str:
    """The name, the kind and whether it has a default, for each parameter of a stub except `self` or `cls`."""
    a = node.args
    before, usual = [x.arg for x in a.posonlyargs], [x.arg for x in a.args]
    if method:
        (before or usual).pop(0)
    optional = {x.arg for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}
    plain = [x.arg for x in [*a.posonlyargs, *a.args]]
    optional |= set(plain[len(plain) - len(a.defaults) :])
    shown = [*before, *(["/"] if before else []), *usual]
    shown += [f"*{a.vararg.arg}"] if a.vararg else ["*"] if a.kwonlyargs else []
    shown += [x.arg for x in a.kwonlyargs]
    return ", ".join(f"{x}=..." if x in optional else x for x in shown)


def introspected(thing: Any, bound: bool) -> str | None:
    """The same for a function in C, or None if it has no signature."""
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return None
    found = [p for p in signature.parameters.values() if not (bound and p.name == "self")]
    shown: list[str] = []
    for i, p in enumerate(found):
        if p.kind is p.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(p.name if p.default is p.empty else f"{p.name}=...")
        if p.kind is p.POSITIONAL_ONLY and not any(q.kind is q.POSITIONAL_ONLY for q in found[i + 1 :]):
            shown.append("/")
    return ", ".join(shown)


def members(node: ast.ClassDef) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            found[part.name] = part
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            found[part.target.id] = part
    return {name: part for name, part in found.items() if name not in IGNORED}


def faults_of_class(name: str, node: ast.ClassDef) -> Iterator[str]:
    kind = getattr(C, name)
    twin = next((twin for twin in TWINS.values() if twin.c == name), None)
    written = members(node)
    if twin is None:
        expected = set(vars(kind)) - IGNORED
    elif twin.how == "derived":
        in_python = {key for base in twin.python.__mro__ for key in vars(base)} | set(_assigned(twin.python))
        expected = set(vars(kind)) - IGNORED - in_python
    else:
        expected = set(twin.adds)
    yield from (f"{name}.{key} is missing" for key in expected - written.keys())
    yield from (f"{name}.{key} is not in the module" for key in written.keys() - expected)
    for key in expected & written.keys():
        part, thing = written[key], vars(kind)[key]
        if isinstance(part, ast.FunctionDef) and type(thing).__name__ == "method_descriptor":
            said = introspected(thing, bound=True)
            stated = parameters(part, method=True)
            if said is not None and said.replace(", /", "") != stated.replace(", /", ""):
                yield f"{name}.{key}({stated}) is ({said})"


def _assigned(kind: type) -> Iterator[str]:
    """The attributes that the methods of a class and of its bases assign."""
    for base in kind.__mro__[:-1]:
        for node in ast.walk(ast.parse(inspect.getsource(base))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id


def faults(text: str) -> list[str]:
    """How a stub differs from the built module."""
    defined, taken = stub_of(text)
    public = {name for name in vars(C) if not name.startswith("__")}
    found = [f"{name} is missing" for name in public - defined.keys() - taken.keys()]
    found += [f"{name} is not in the module" for name in (defined.keys() | taken.keys()) - public - FOR_CHECKERS]
    found += [f"{name} is no twin of {python}" for name, python in taken.items() if TWINS[python].c != name]
    for name, node in defined.items():
        if isinstance(node, ast.ClassDef) and name in public:
            found += faults_of_class(name, node)
        elif isinstance(node, ast.FunctionDef) and name in public:
            said = introspected(getattr(C, name), bound=False)
            if said is not None and said != parameters(node, method=False):
                found.append(f"{name}({parameters(node, method=False)}) is ({said})")
    return sorted(found)


def test_the_stub_agrees_with_the_module():
    assert faults(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("def unexposed() -> list[str]:", "def unexposed_names() -> list[str]:", "unexposed is missing"),
        ("class Arguments:", "class Argument:", "Argument is not in the module"),
        ("    def before(self)", "    def after(self)", "TraceRing.after is not in the module"),
        ("    def notify_once(self) -> bool: ...\n", "", "MemoryAccount.notify_once is missing"),
        ("def paid(self, bytes: int, /)", "def paid(self, octets: int, /)", "MemoryAccount.paid(octets, /) is (bytes)"),
        ("def expose(things: dict[str, Any], /)", "def expose(thing: Any, /)", "expose(thing, /) is (things, /)"),
        ("    def flush_uses(self) -> None: ...\n", "", "Kernel.flush_uses is missing"),
        ("from bursar.ops.sync import Event as Event\n", "", "Event is missing"),
    ],
)
def test_a_stub_that_is_wrong_is_found(old: str, new: str, fault: str):
    assert old in TEXT
    assert fault in faults(TEXT.replace(old, new, 1))


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if twin.how in ("function", "methods")])
def test_a_function_in_c_takes_the_parameters_of_its_twin(name: str):
    twin = TWINS[name]
    pairs = [(twin.python, getattr(C, twin.c))]
    if twin.how == "methods":
        pairs = [(vars(twin.python)[method], vars(getattr(C, twin.c))[method]) for method in twin.replaces]
    for python, c in pairs:
        said = introspected(c, bound=True)
        if said is not None and callable(python):
            assert said == introspected(python, bound=True)


def test_the_stub_defines_what_exists_only_in_c():
    assert set(ONLY_IN_C) <= {name for name, node in stub_of(TEXT)[0].items() if isinstance(node, ast.ClassDef)}
