"""The documents hold what they say: their programs run and print what is shown, their links lead somewhere, the
reference names everything that is public, the worked values of the chain come out of the law, and the records of the
native kernel are as large as is said.

Fences have a meaning here:

    python            a whole program. It runs in a namespace of its own; what it prints must be the `text` block
                      right after it, or nothing if there is none
    text              only ever that expected output
    python-fragment   a piece of a program: it must compile, top-level await allowed
    sh                commands: the make targets and the bursar commands in it must exist
    toml              a workflow: it must be one
    c                 an excerpt of native/ or examples/c: each of its lines must be found there
    (none)            a drawing
"""

import ast
import contextlib
import functools
import gc
import inspect
import io
import re
import sys
import sysconfig
import types
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
from support.metered import require_meter

import bursar
from bursar.cli import COMMANDS
from bursar.fibers import library
from bursar.law import chain
from bursar.law.profile import PROFILES
from bursar.workflow.file import AUTHORITY, TASK, TOP, parse_text

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


def fences(document: Path) -> list[tuple[int, int, str]]:
    """Every fenced block as (index of its opening line, index of its closing line, language)."""
    found: list[tuple[int, int, str]] = []
    opened: tuple[int, str] | None = None
    for index, line in enumerate(lines_of(document)):
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


@functools.cache
def blocks() -> list[Block]:
    """The blocks of all documents."""
    found: list[Block] = []
    for document in DOCUMENTS:
        lines, marks = lines_of(document), fences(document)
        for here, (start, end, language) in enumerate(marks):
            shown = ""
            if here + 1 < len(marks) and marks[here + 1][2] == "text":
                next_start, next_end, _ = marks[here + 1]
                if not "".join(lines[end + 1 : next_start]).strip():
                    shown = "\n".join([*lines[next_start + 1 : next_end], ""])
            text = "\n".join([*lines[start + 1 : end], ""])
            found.append(Block(str(document.relative_to(ROOT)), start + 2, language, text, shown))
    return found


def of(language: str) -> list[Block]:
    return [block for block in blocks() if block.language == language]


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    lines = lines_of(document)
    for start, end, _ in fences(document):
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


INTERNALS = [f"docs/internals/{name}.md" for name in ("native-kernel", "memory")]


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "HACKING.md", *INTERNALS])
def test_source_files_that_are_named_exist(name):
    """Paths in code spans: `law/decide.py` in the package, `task.c` in the C kernel, `tests/...` in the checkout."""
    named = re.findall(r"`([\w/]+\.(?:py|c|h|pyi))`", prose(ROOT / name))
    roots = (ROOT, ROOT / "src" / "bursar", ROOT / "native" / "python")
    assert named
    assert not [path for path in named if not any((root / path).exists() for root in roots)]


# ---- the reference


class Entry(NamedTuple):
    """One entry of the reference: `### name` or `### name(parameters)`, and what is said about it."""

    signature: str | None
    text: str


@functools.cache
def entries() -> dict[str, Entry]:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    parts = re.split(r"^### `([^`]+)`$", text, flags=re.MULTILINE)[1:]
    found: dict[str, Entry] = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        name, bracket, rest = heading.partition("(")
        assert name not in found, f"{name} has two entries"
        found[name] = Entry(bracket + rest if bracket else None, re.split(r"^## ", body, flags=re.MULTILINE)[0])
    return found


def test_the_reference_has_an_entry_for_every_public_name_and_no_other():
    assert sorted(entries()) == sorted(bursar.__all__)


def parameters(signature: str) -> list[tuple[str, bool]]:
    """The parameters in the text of a signature, and whether each has a default."""
    written = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(written, ast.FunctionDef)
    arguments = written.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = len(plain) - len(arguments.defaults)
    found = [(argument.arg, place >= required) for place, argument in enumerate(plain)]
    if arguments.vararg:
        found.append((f"*{arguments.vararg.arg}", False))
    found += [
        (a.arg, default is not None) for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append((f"**{arguments.kwarg.arg}", False))
    return found


def real_parameters(function: object) -> list[tuple[str, bool]]:
    prefixes = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (prefixes.get(p.kind, "") + p.name, p.default is not p.empty)
        for p in inspect.signature(function).parameters.values()
        if p.name != "self"
    ]


@pytest.mark.parametrize("name", [name for name in bursar.__all__ if name.islower()])
def test_the_reference_gives_the_signature_of_every_function(name):
    signature = entries()[name].signature
    assert signature is not None
    assert parameters(signature) == real_parameters(getattr(bursar, name))


@pytest.mark.parametrize("name", sorted(name for name in bursar.__all__ if not name.islower()))
def test_the_reference_gives_signatures_of_classes_as_they_are(name):
    entry, thing = entries()[name], getattr(bursar, name)
    if entry.signature is not None:
        assert parameters(entry.signature) == real_parameters(thing)
    for method, signature in re.findall(r"`\.(\w+)(\([^`]*\))`", entry.text):
        assert parameters(signature) == real_parameters(getattr(thing, method)), method


# What is public in Python's sense but serves Bursar's own parts, and so is not for programs to use.
SHARED = {"answer_oldest", "bind", "kernel", "waiters"}
ENDPOINT = {"box", "closed", "kernel", "require_usable", "unwatch", "waits", "watch"}
INTERNAL = {
    "Actor": {"mailbox", "over", "run_by", "taken"},
    "Call": {"drop", "taken_by"},
    "Capability": {"seal"},
    "Child": {"again", "ended", "wants_restart"},
    "Event": SHARED,
    "Listener": ENDPOINT | {"accepted", "kind", "tls"},
    "Nursery": {"inside"},
    "Portal": {"answer", "require_open", "resting", "stopped"},
    "ReceiveEnd": {"unread", "waiting"},
    "SendEnd": {"waiting"},
    "Runtime": {"batch_begins", "batch_ends", "ended", "ending", "interrupted", "poll", "stuck"},  # for its parts
    "Semaphore": SHARED | {"give", "holders", "label", "permits", "take_back", "take_one"},
    "Stream": ENDPOINT | {"ahead", "ended", "taken"},
    "Supervisor": {"adopt", "inside"},
    "Task": {"inside"},
}


def public_attributes(name: str, thing: type) -> set[str]:
    public_bases = [base for base in thing.__bases__ if base.__name__ in bursar.__all__]
    inherited = {name for base in (int, str, tuple, Exception, OSError, *public_bases) for name in dir(base)}
    found = {attribute for attribute in dir(thing) if not attribute.startswith("_")} - inherited
    return found - INTERNAL.get(name, set())


@pytest.mark.parametrize("name", sorted(name for name in bursar.__all__ if isinstance(getattr(bursar, name), type)))
def test_the_reference_names_every_attribute(name):
    said = set(re.findall(r"`\.?(\w+)", entries()[name].text)) | set(
        re.findall(r"\w+", entries()[name].signature or "")
    )
    assert not public_attributes(name, getattr(bursar, name)) - said


def test_the_profiles_are_all_there():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
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
        stream = chain.Stream(number(seed), number(purpose))
        assert [f"{stream.next():016x}" for _ in draws] == draws


# ---- the records of the native kernel


@pytest.mark.skipif(sys.maxsize < 2**32 or bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="other sizes")
def test_the_records_are_as_large_as_is_said():
    native = native_extension()
    page = (ROOT / "docs" / "internals" / "native-kernel.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)
    assert len(said) > 5
    assert said == [(name, str(getattr(native, name).__basicsize__)) for name, _ in said]
