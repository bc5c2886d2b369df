"""Every program in `examples/`, run as its opening text says: it prints what it claims to print.

An example's docstring ends in two sections. `Run:` holds the command line, which is executed as written; `Prints:`
holds what must appear on standard output, whether the file is run by `bursar run` or by Python itself.
"""

import ast
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.time_limits import WAIT_S

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(params=EXAMPLES, ids=lambda file: file.stem)
def example(request):
    return request.param


def sections(file):
    """The opening text, the command line, and the expected output."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    opening, found, rest = text.partition("\n\nRun:\n")
    assert found, f"{file.name} does not say how to run it"
    command, found, prints = rest.partition("\n\nPrints:\n")
    assert found, f"{file.name} does not say what it prints"
    return opening, command.strip(), dedent(prints).rstrip("\n") + "\n"


def printed(*command):
    """What a command prints, in a fresh process with a hash seed of its own."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(random.randrange(2**32)), "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


def test_opens_with_a_paragraph_and_has_a_main(example):
    opening, command, _ = sections(example)
    assert len(opening.split()) >= 20
    assert shlex.split(command)[:3] == ["bursar", "run", f"examples/{example.name}"]
    text = example.read_text(encoding="utf-8")
    assert "async def main():" in text
    assert 'if __name__ == "__main__":' in text


def test_prints_what_it_says_when_python_runs_it(example):
    assert printed(sys.executable, str(example)) == sections(example)[2]


def test_prints_what_it_says_when_bursar_runs_it(example):
    _, command, expected = sections(example)
    _, *arguments = shlex.split(command)
    assert printed(str(Path(sys.executable).parent / "bursar"), *arguments) == expected
