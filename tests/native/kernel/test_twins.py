"""Compares the table of the seam (`bursar.seam.TWINS`) with the built module: C replaces what is declared (SEAM-2)."""

import ast
import importlib
import inspect
import pkgutil
import runpy
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.extension import fresh_extension
from support.kernel import NATIVE, ONLY_IN_C, TWINS, Twin, derived_from_c, methods_on, seam

import bursar

if not NATIVE:
    pytest.skip("this process has the kernel in Python", allow_module_level=True)

for package in ("ops", "drive", "threads", "law"):  # the modules that declare something
    for module in pkgutil.walk_packages([f"{bursar.__path__[0]}/{package}"], f"bursar.{package}."):
        importlib.import_module(module.name)

LOADED = importlib.import_module("bursar._native")
IGNORED = seam._OF_EVERY_CLASS | {"__parameters__", "__annotations__", "__hash__", "__match_args__"}
IDS = [name.removeprefix("bursar.") for name in TWINS]


C = fresh_extension()


def own(kind: type) -> set[str]:
    """What a class defines: methods, attributes and slots, and the attributes that its methods assign."""
    names = set(vars(kind)) | set(vars(kind).get("__annotations__", ()))
    if kind.__module__ != "bursar._native":
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
        names |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
        }
    return names - IGNORED


def known(kind: type) -> set[str]:
    """What a class and its bases define."""
    names: set[str] = set()
    for base in kind.__mro__[:-1]:
        names |= own(base) if base.__module__.startswith("bursar.") else set(vars(base)) - IGNORED
    return names


def faults(twin: Twin, c: ModuleType = C) -> list[str]:
    """How a row differs from the C type."""
    made: Any = getattr(c, twin.c, None)
    if made is None or twin.how == "function":
        return [] if callable(made) else [f"C has no {twin.c}"]
    in_c = set(vars(made)) - IGNORED
    found = [f"only C has {name}" for name in in_c - known(twin.python) - twin.adds]
    found += [f"C does not add {name}" for name in twin.adds - in_c]
    if twin.how == "whole":
        public = {name for name in own(twin.python) if not name.startswith("_") or name.startswith("__")}
        lacking = {
            name for name in public if not hasattr(getattr(importlib.import_module("bursar._native"), twin.c), name)
        }
        found += [f"C lacks {name}" for name in lacking - twin.omits]
        found += [f"C does not omit {name}" for name in twin.omits - lacking]
    else:
        slots = {name for base in twin.python.__mro__ for name in vars(base).get("__slots__", ())}
        classes = twin.python.__mro__[:-1] if twin.how == "derived" else (twin.python,)
        defined = {name for base in classes for name in vars(base)} - IGNORED - slots
        found += [f"C replaces {name}" for name in (in_c & defined) - twin.replaces]
        found += [f"C does not replace {name}" for name in twin.replaces - (in_c & defined)]
    return sorted(found)


@pytest.mark.parametrize("name", TWINS, ids=IDS)
def test_a_row_of_the_table_agrees_with_the_module(name: str):
    twin = TWINS[name]
    if twin.how == "derived":  # it has the fields of several classes of the law
        twin = twin._replace(adds=frozenset(vars(getattr(C, twin.c))) - IGNORED - known(twin.python))
    assert faults(twin) == []


def test_every_type_of_the_module_has_a_row_or_is_only_in_c():
    types = {name for name, thing in vars(C).items() if isinstance(thing, type)}
    in_both = {twin.c for twin in TWINS.values() if twin.how != "function"}
    assert in_both | set(ONLY_IN_C) == types
    assert not in_both & set(ONLY_IN_C)


def test_a_row_that_is_wrong_is_found():
    task = TWINS["bursar.ops.task.Task"]
    assert faults(task._replace(replaces=frozenset())) == ["C replaces result"]
    assert faults(task._replace(replaces=frozenset({"result", "cancel"}))) == ["C does not replace cancel"]
    request = TWINS["bursar.request.Request"]
    assert faults(request._replace(adds=frozenset({"__iter__", "__next__"}))) == ["only C has send"]
    assert faults(request._replace(adds=request.adds | {"receive"})) == ["C does not add receive"]
    core = TWINS["bursar.ops.channel.ChannelCore"]
    assert faults(core._replace(omits=frozenset())) == ["C lacks buffer"]
    assert faults(core._replace(omits=frozenset({"buffer", "room"}))) == ["C does not omit room"]
    assert faults(core._replace(c="Nothing")) == ["C has no Nothing"]


class _Handle:
    def result(self) -> None: ...
    def new_method(self) -> None: ...


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the extension and a copy of the table, for declarations of a test."""
    copy = fresh_extension()
    monkeypatch.setattr(seam, "_native", copy)
    monkeypatch.setattr(seam, "TWINS", {})
    return copy


@pytest.mark.parametrize("replaces", [(), ("result", "new_method"), ("resume",)])
def test_a_method_that_c_replaces_and_the_class_does_not_say_is_an_error(apart: ModuleType, replaces: tuple[str, ...]):
    with pytest.raises(SystemError, match=r"SEAM-2: .*_Handle and its C type do not agree on"):
        methods_on("TaskHandle", replaces=replaces)(_Handle)
    assert "new_method" not in vars(apart.TaskHandle)


def test_the_methods_that_c_does_not_replace_are_put_on_the_type(apart: ModuleType):
    made = methods_on("TaskHandle", replaces={"result"})(_Handle)
    assert made is apart.TaskHandle
    assert made.new_method is _Handle.new_method
    assert made.result is not _Handle.result


def test_a_kernel_that_does_not_say_what_c_replaces_is_an_error(apart: ModuleType):
    class Law:
        def step(self) -> None: ...

    with pytest.raises(SystemError, match="do not agree on step"):
        derived_from_c("Kernel", Law, replaces=())
    assert derived_from_c("Kernel", Law, replaces={"step"}) is apart.Kernel


# ---- the page


SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "seam_table.py"))


def test_the_page_shows_the_table():
    text = SCRIPT["PAGE"].read_text(encoding="utf-8")
    assert SCRIPT["page"](text) == text, "run scripts/seam_table.py"
    assert SCRIPT["page"](text.replace("| `TaskHandle` |", "| `Handle` |")) != text.replace("`TaskHandle`", "`Handle`")
