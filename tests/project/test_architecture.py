"""ARCHITECTURE.md is true: its layers and folders are all there are, and every file and function that it names exists.

The functions are checked twice: they must be defined, and the program of the page must call them.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from project.test_layers import LAYERS
from support.law import Kernel

import bursar

ROOT = Path(__file__).parents[2]
PACKAGE = Path(bursar.__file__).parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TASK, WORKFLOW = "One task, from spawn to result", "One workflow, from the command to the last entry of the journal"

# Runs a program and prints `file function` for each function of Bursar that it called, in any thread.
WATCH = """
import sys, threading
called = set()
def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(ROOT):
        called.add((code.co_filename[len(ROOT) + 1 :].replace("\\\\", "/"), code.co_qualname))
threading.setprofile(watch)
sys.setprofile(watch)
try:
    RUN
except SystemExit as end:
    assert not end.code, end
finally:
    sys.setprofile(None)
for file, name in sorted(called):
    print("called", file, name)
"""


class Claim(NamedTuple):
    """`file`: `function`."""

    file: str
    name: str


def section(title: str, page: str = PAGE) -> str:
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table that begins with this column."""
    table = text[text.index(f"| {head} |") :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def block(text: str, language: str) -> str:
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def claims(text: str) -> list[Claim]:
    """Each function that the text names behind its file."""
    found = re.findall(r"`([\w/.]+\.(?:py|c|h))`: ((?:`[\w.]+`(?:, )?)+)", text)
    return [Claim(file, name) for file, names in found for name in quoted(names)]


def find(file: str) -> Path | None:
    """A file by its path from the root, or as the columns of the tables shorten it."""
    shortened = (PACKAGE / file,) if file.endswith(".py") else (ROOT / "native" / "python" / file,)
    return next((path for path in (ROOT / file, *shortened) if path.is_file()), None)


@cache
def defined(path: Path) -> set[str]:
    """The functions of a Python file, by their qualified names."""

    def walk(body: list[ast.stmt], prefix: str) -> set[str]:
        found: set[str] = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + node.name)
            elif isinstance(node, ast.ClassDef):
                found |= walk(node.body, f"{prefix}{node.name}.")
        return found

    return walk(ast.parse(path.read_text(encoding="utf-8")).body, "")


def is_defined(claim: Claim) -> bool:
    path = find(claim.file)
    if path is None:
        return False
    if path.suffix == ".py":
        return claim.name in defined(path)
    return bool(re.search(rf"^{claim.name}\([^;{{]*\)\s*\{{", path.read_text(encoding="utf-8"), re.MULTILINE))


def false_claims(page: str) -> list[str]:
    """What the page says of files and functions that is not so."""
    files = [file for file in quoted(page) if re.fullmatch(r"[\w/.-]+\.(py|c|h|md)", file)]
    missing = [f"no file {file}" for file in files if find(file) is None]
    return missing + [f"no function {claim.name} in {claim.file}" for claim in claims(page) if not is_defined(claim)]


def called_by(run: str, folder: Path) -> set[Claim]:
    """The functions that a program calls, on the kernel in Python."""
    code = WATCH.replace("RUN", run.replace("\n", "\n    ")).replace("ROOT", repr(str(PACKAGE)))
    done = subprocess.run(
        [sys.executable, "-c", f"import bursar\n{code}"],
        cwd=folder,
        env={**os.environ, "BURSAR_KERNEL": "python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {Claim(*line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("called ")}


def not_called(text: str, called: set[Claim]) -> list[Claim]:
    table = text[text.index("| step |") :].partition("\n\n")[0]
    return [claim for claim in claims(table) if claim.file.endswith(".py") and claim not in called]


def test_every_file_and_function_exists():
    assert false_claims(PAGE) == []
    assert len(claims(PAGE)) > 80, "the page is read"


@pytest.mark.parametrize(
    "wrong",
    [
        "`law/kernel.py`: `Kernel.spwan`",
        "`law/kernels.py`",
        "`law/spawn.c`: `k_spawned`",
        "`law/spawn.h`: `k_spawn`",  # declared there, and not defined
        "`native/law/decide.h`: `law_decides`",
    ],
)
def test_a_wrong_claim_is_found(wrong):
    assert false_claims(f"See {wrong}.")


def test_the_layers_are_those_that_are_checked():
    assert [quoted(row[0])[0] for row in rows(section("The layers"), "layer")] == list(LAYERS)


def test_every_native_folder_is_in_the_map():
    table = rows(section("The layers"), "folder")
    named = {Path(name) for row in table for name in quoted(row[0])}
    twins = {Path("native/python", name) for row in table if "`native/python`" in row[0] for name in quoted(row[1])}
    native = ROOT / "native"
    inside = [*native.iterdir(), *(native / "python").iterdir()]
    folders = {path.relative_to(ROOT) for path in inside if path.is_dir() and any(path.rglob("*.[chS]"))}
    assert named <= folders
    assert folders <= named | twins
    assert all((PACKAGE / path.name).is_dir() for path in twins & folders)


def test_the_kernel_is_these_four_classes():
    classes = [quoted(row[0])[0] for row in rows(section("The layers"), "class")]
    assert [cls.__name__ for cls in Kernel.__mro__[-2::-1]] == classes


def test_every_file_of_the_law_is_named():
    named = {file for file in quoted(section("The layers")) if re.fullmatch(r"law/\w+\.py", file)}
    assert named == {f"law/{path.name}" for path in (PACKAGE / "law").glob("*.py")} - {"law/__init__.py"}


def test_the_program_calls_each_function_of_its_walk(tmp_path):
    text = section(TASK)
    program = block(text, "python")
    called = called_by(f"exec({program!r}, {{}})", tmp_path)
    assert not_called(text, called) == []
    assert not_called(f"{text[: text.index('| step |')]}| step |\n| `law/cancel.py`: `deliver` |", called), "planted"


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("gcov")), reason="needs gcc and gcov")
def test_the_program_calls_each_function_of_its_walk_in_c(tmp_path):
    spec = importlib.util.spec_from_file_location("files_of_a_task", ROOT / "scripts" / "files_of_a_task.py")
    assert spec is not None
    assert spec.loader is not None
    coverage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(coverage)
    coverage.build(ROOT, tmp_path)
    text = section(TASK)
    called = {(Path(file), name) for (file, name), n in coverage.count(tmp_path, block(text, "python")).items() if n}
    usual = [re.sub(r"<br>otherwise .*", "", row[3]) for row in rows(text, "step")]
    walk = [claim for cell in usual for claim in claims(cell)]
    assert len(walk) > 30, "the table is read"
    assert [claim for claim in walk if (find(claim.file), claim.name) not in called] == []


def test_the_workflow_calls_each_function_of_its_walk(tmp_path):
    text = section(WORKFLOW)
    (tmp_path / "pipeline.toml").write_text(block(text, "toml"), encoding="utf-8")
    (tmp_path / "steps.py").write_text("def double(text):\n    return 2 * int(text)\n", encoding="utf-8")
    run = "from bursar.cli import main\nsys.argv[1:] = 'run pipeline.toml --plain --journal j.sqlite'.split()\nmain()"
    assert not_called(text, called_by(run, tmp_path)) == []
