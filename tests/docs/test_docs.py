"""The documents are true: programs run and print the output shown, links lead to a target, the reference names every
public name, the law computes the worked values of the chain, and the records of the native kernel have the stated
sizes.

The language of a fenced block says how it is checked:

    python            a whole program. It runs in its own namespace. Its output must equal the `text` block right after
                      it; without such a block it must print nothing
    text              the expected output of the program before it, and nothing else
    python-fragment   a part of a program: it must compile, with top-level await allowed
    sh                commands: their make targets and bursar commands must exist
    toml              a workflow: it must be valid
    c                 an excerpt of native/ or examples/c: each of its lines must occur there
    (none)            a drawing
"""

import ast
import builtins
import contextlib
import dataclasses
import functools
import gc
import inspect
import io
import json
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from support.law import PROFILES, chain
from support.metered import require_meter
from support.requests import library
from support.workflow import AUTHORITY, TASK, TOP, parse_text

import bursar
from bursar.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
)
LANGUAGES = {"python", "text", "python-fragment", "sh", "toml", "c", ""}


class Block(NamedTuple):
    """One fenced block: where it is, what it is, and what stands in the `text` block right after it."""

    file: str
    line: int  # of its first line of text, counted from 1
    language: str
    text: str
    shown: str  # "" if there is none

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def lines_of(document: Path) -> list[str]:
    return document.read_text(encoding="utf-8").splitlines()


def fences(lines: Sequence[str], document: object) -> list[tuple[int, int, str]]:
    """Every fenced block as (index of its opening line, index of its closing line, language)."""
    found: list[tuple[int, int, str]] = []
    opened: tuple[int, str] | None = None
    for index, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = index, line[3:].strip()
        else:
            assert line == "```", f"{document}:{index + 1}: a fence inside a fence"
            found.append((opened[0], index, opened[1]))
            opened = None
    assert opened is None, f"{document}: the fence of line {opened[0] + 1 if opened else 0} is not closed"
    return found


def blocks_of(lines: Sequence[str], name: str) -> list[Block]:
    """The blocks of one document, or of one docstring."""
    found: list[Block] = []
    marks = fences(lines, name)
    for here, (start, end, language) in enumerate(marks):
        shown = ""
        if here + 1 < len(marks) and marks[here + 1][2] == "text":
            next_start, next_end, _ = marks[here + 1]
            if not "".join(lines[end + 1 : next_start]).strip():
                shown = "\n".join([*lines[next_start + 1 : next_end], ""])
        text = "\n".join([*lines[start + 1 : end], ""])
        found.append(Block(name, start + 2, language, text, shown))
    return found


@functools.cache
def blocks() -> list[Block]:
    """The blocks of all documents and docstrings."""
    found: list[Block] = []
    for document in DOCUMENTS:
        found += blocks_of(lines_of(document), str(document.relative_to(ROOT)))
    for source in sorted((ROOT / "src").rglob("*.py")):
        for name, docstring in docstrings(source):
            found += blocks_of(docstring.splitlines(), name)
    return found


def docstrings(source: Path) -> Iterator[tuple[str, str]]:
    """The docstrings of a file that hold blocks, from its text: at run time a twin in C may stand in its place."""
    text = source.read_text(encoding="utf-8")
    if "```" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{source.relative_to(ROOT)}:{node.name}", ast.get_docstring(node) or ""


def of(language: str) -> list[Block]:
    return [block for block in blocks() if block.language == language]


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    lines = lines_of(document)
    for start, end, _ in fences(lines, document):
        lines[start : end + 1] = [""] * (end + 1 - start)
    return "\n".join(lines)


def native_library() -> None:
    try:
        library.path()
    except bursar.NativeUnavailable as none:
        pytest.skip(str(none))


def native_extension() -> types.ModuleType:
    """Skips where there is none."""
    try:
        from bursar import _native
    except ImportError:
        pytest.skip("this build has no native extension")
    return _native


# ---- programs


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_a_program_prints_what_is_shown(block):
    if "meter_memory=True" in block.text:
        require_meter()
    if "bursar.native(" in block.text:
        native_library()
    source = "\n" * (block.line - 1) + block.text  # so that a traceback names the line of the document
    code = compile(source, block.file, "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(code, {"__name__": "__main__"})
        gc.collect()  # a coroutine that was never awaited complains here
    assert printed.getvalue() == block.shown


def test_fragments_compile():
    for block in of("python-fragment"):
        source = "\n" * (block.line - 1) + block.text
        compile(source, block.file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def test_workflows_are_workflows():
    for block in of("toml"):
        assert parse_text(block.text, ROOT / block.file).steps
    assert of("toml")


def workflow_keys() -> dict[str, set[str]]:
    """The keys in the first column of the tables under each heading of the reference of workflow files."""
    text = (ROOT / "docs" / "reference" / "workflow-file.md").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        found[heading] = set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE))
    return found


def test_the_reference_has_every_key_of_a_workflow_file():
    keys = workflow_keys()
    assert keys["`[task.NAME]`"] == set(TASK)
    assert keys["`[authority]`"] == set(AUTHORITY)
    assert keys["At the top"] | {"authority", "defaults", "task"} == set(TOP)


def test_excerpts_are_found_in_the_sources():
    files = [*ROOT.glob("native/**/*.[ch]"), *ROOT.glob("examples/c/*.c")]
    sources = [path.read_text(encoding="utf-8") for path in files]
    lines = {line for source in sources for line in source.splitlines()}
    assert not [f"{block}: {line}" for block in of("c") for line in block.text.splitlines() if line not in lines]


def test_every_fence_has_a_known_language():
    assert not [f"{block}: {block.language}" for block in blocks() if block.language not in LANGUAGES]


def test_every_text_block_is_the_output_of_a_program():
    everything = blocks()
    stray = [
        str(block)
        for before, block in zip([None, *everything], everything, strict=False)
        if block.language == "text"
        and (before is None or before.language != "python" or before.shown != block.text or not block.text.strip())
    ]
    assert not stray


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for block in of("sh") for name in re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)}
    assert {"demo", "test"} <= named <= targets


def test_commands_exist():
    named = {name for block in of("sh") for name in re.findall(r"^bursar ([a-z]+)", block.text, re.MULTILINE)}
    assert named <= set(COMMANDS)


# ---- links


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(document: Path) -> list[str]:
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)) if "://" not in target]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    broken: list[str] = []
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert not {page for page in ROOT.glob("docs/**/*.md") if page != index} - linked


INTERNALS = [
    "docs/internals/memory.md",
    *(f"docs/internals/native/{name}.md" for name in ("records", "seam", "fast-paths", "collector", "tests")),
]


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "HACKING.md", *INTERNALS])
def test_source_files_that_are_named_exist(name):
    """Paths in code spans: `law/decide.py` in the package, `task.c` in the C kernel, `tests/...` in the checkout."""
    named = re.findall(r"`([\w/]+\.(?:py|c|h|pyi))`", prose(ROOT / name))
    roots = (ROOT, ROOT / "src" / "bursar", ROOT / "native" / "python")
    assert named
    assert not [path for path in named if not any((root / path).exists() for root in roots)]


# ---- the reference: pages of directives, and the docstrings that these show


def directives() -> list[str]:
    """What the pages of the reference show: the path of every `::: path`."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    return [
        path for page in pages for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def at(path: str) -> object:
    """What stands at a path: a module, and then attributes."""
    return pkgutil.resolve_name(path)


def test_the_reference_shows_every_public_name_once_and_no_other():
    shown = [path.removeprefix("bursar.") for path in directives() if path.count(".") == 1]
    assert sorted(shown) == sorted(bursar.__all__)


@pytest.mark.parametrize("module", ["asyncio", "browser", "evidence.replay", "evidence.verify", "workflow"])
def test_the_reference_shows_every_public_name_of_a_package(module):
    public = at(f"bursar.{module}:__all__")
    assert isinstance(public, list)
    assert {f"bursar.{module}.{name}" for name in public} <= set(directives())


@pytest.mark.parametrize("path", directives())
def test_what_the_reference_shows_has_a_docstring(path):
    assert (inspect.getdoc(at(path)) or "").strip()


KNOWN_TYPES = {"Any", "Host", "Iterable", "Literal", "Mapping", "Memory", "PathLike", "os", "real", "virtual"}


def internal_types(thing: object) -> set[str]:
    """The types that a constructor takes and that a program cannot make: such a constructor serves Bursar itself."""
    if not isinstance(thing, type) or dataclasses.is_dataclass(thing):
        return set()
    annotations = getattr(vars(thing).get("__init__"), "__annotations__", {}).values()
    words = {word for annotation in annotations for word in re.findall(r"\w+", str(annotation))}
    return words - KNOWN_TYPES - set(bursar.__all__) - set(dir(builtins))


def test_the_reference_shows_no_constructor_that_a_program_cannot_call():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)\n(?!(?:    .*\n)*.*merge_init_into_class: false)", pages + "\n", re.MULTILINE)
    assert len(shown) > 100
    assert {path: found for path in shown if (found := internal_types(at(path)))} == {}


def test_a_constructor_that_takes_the_kernel_is_found():
    class Planted:
        def __init__(self, kernel: "Kernel") -> None: ...  # noqa: F821

    assert internal_types(Planted) == {"Kernel"}


def public_attributes(thing: type) -> set[str]:
    public_bases = [base for base in thing.__bases__ if base.__name__ in bursar.__all__]
    inherited = {name for base in (int, str, tuple, Exception, OSError, *public_bases) for name in dir(base)}
    return {attribute for attribute in dir(thing) if not attribute.startswith("_")} - inherited


PUBLIC_CLASSES = sorted(name for name in bursar.__all__ if isinstance(getattr(bursar, name), type))


def undocumented(thing: type, names: Iterable[str]) -> list[str]:
    """The attributes that nothing explains: a method or property without a docstring, or a field, member of an
    enumeration or constant that the docstring of the class does not name."""
    said = set(re.findall(r"\w+", inspect.getdoc(thing) or ""))
    return [name for name in names if not explained(inspect.getattr_static(thing, name), name in said)]


def explained(attribute: object, named: bool) -> bool:
    kinds = property | classmethod | staticmethod | types.GetSetDescriptorType
    if isinstance(attribute, kinds) or callable(attribute):
        return bool((inspect.getdoc(attribute) or "").strip())
    return named


@pytest.mark.parametrize("path", [path for path in directives() if isinstance(at(path), type)])
def test_everything_public_of_a_class_is_explained(path):
    thing = at(path)
    assert isinstance(thing, type)
    assert (thing.__doc__ or "").strip()
    assert not undocumented(thing, sorted(public_attributes(thing)))


def test_what_is_not_explained_is_found():
    class Bare:
        """Has a field, `told`."""

        def method(self): ...

        told = 1
        untold = 2

    assert undocumented(Bare, ["method", "told", "untold"]) == ["method", "untold"]


HELP = """
import inspect, json, sys, bursar

def of(thing):
    return inspect.getdoc(thing) or ""

found = {name: of(getattr(bursar, name)) for name in bursar.__all__}
for name, attributes in json.load(sys.stdin).items():
    for attribute in attributes:
        found[f"{name}.{attribute}"] = of(inspect.getattr_static(getattr(bursar, name), attribute))
json.dump(found, sys.stdout)
"""


def help_of(kernel: str) -> dict[str, str]:
    """Every public docstring, as a process with that kernel has it."""
    methods = {name: sorted(public_attributes(getattr(bursar, name))) for name in PUBLIC_CLASSES}
    done = subprocess.run(
        [sys.executable, "-c", HELP],
        env=os.environ | {"BURSAR_KERNEL": kernel},
        input=json.dumps(methods),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_help_is_the_same_on_both_kernels():
    native_extension()
    native, python = help_of("native"), help_of("python")
    assert {name: text for name, text in native.items() if text != python[name]} == {}


def test_the_profiles_are_all_there():
    page = (ROOT / "docs" / "reference" / "running.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(PROFILES) <= set(rows)


# ---- the worked values of the chain


def table(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of chain.md."""
    text = (ROOT / "docs" / "internals" / "chain.md").read_text(encoding="utf-8")
    section = text.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"
    ]
    assert len(rows) > 3, f"no table under {heading!r}"
    return rows[2:]


def number(text: str) -> int:
    return int(text.replace(",", ""), 0)


def test_worked_values_of_the_mixer():
    assert [out for _, out in table("mix64")] == [f"{chain.mix64(number(x)):016x}" for x, _ in table("mix64")]


def test_worked_values_of_the_start():
    rows = table("seed_chain")
    assert [row[2] for row in rows] == [f"{chain.seed_chain(number(s), number(w)):016x}" for s, w, _ in rows]


def test_worked_values_of_the_links():
    """Each row continues the one above it, from the chain of seed 42 with 4 workers."""
    value = chain.seed_chain(42, 4)
    for *fields, expected in table("link"):
        value = chain.link(value, *map(number, fields))
        assert f"{value:016x}" == expected, fields


def test_worked_values_of_the_streams():
    for seed, purpose, *draws in table("Stream"):
        stream = chain.RandomStream(number(seed), number(purpose))
        assert [f"{stream.next():016x}" for _ in draws] == draws


# ---- the records of the native kernel


@pytest.mark.skipif(sys.maxsize < 2**32 or bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="other sizes")
def test_the_records_are_as_large_as_is_said():
    native = native_extension()
    page = (ROOT / "docs" / "internals" / "native" / "records.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)
    assert len(said) > 5
    assert said == [(name, str(getattr(native, name).__basicsize__)) for name, _ in said]
