"""The group of commands: a command's module is imported when the command is named, and not before."""

import inspect
import subprocess
import sys

import pytest
from support.time_limits import WAIT_S

from bursar.cli import COMMANDS
from bursar.cli.group import load

LOADED = """
import sys
from bursar.cli import main
try:
    main()
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
RARE = {
    "asyncio",
    "bursar.asyncio",
    "bursar.evidence",
    "bursar.trace",
    "bursar.workflow",
    "bursar_benchmarks",
    "bursar_demo",
    "email",
    "importlib.metadata",
    "json",
    "sqlite3",
    "ssl",
}
"""Modules that only some commands need."""


def loaded(*words: str) -> set[str]:
    """The modules that a command imports."""
    answer = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert "Usage: " in answer.stdout
    return set(answer.stderr.splitlines()[-1].split())


def commands_among(modules: set[str]) -> set[str]:
    return {name for name in COMMANDS if f"bursar.cli.{name}" in modules}


def test_the_list_of_commands_loads_no_command():
    modules = loaded("--help")
    assert commands_among(modules) == set()
    assert modules & RARE == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_no_other_command(name):
    allowed = {"run"} if name == "replay" else set()  # it uses the import of programs from `bursar run`
    assert commands_among(loaded(name, "--help")) == {name} | allowed


def test_a_program_starts_without_what_only_a_workflow_needs():
    assert loaded("run", "--help") & {"bursar.workflow", "bursar.evidence", "sqlite3"} == set()


@pytest.mark.parametrize(("name", "text"), COMMANDS.items())
def test_the_list_says_what_the_command_says_of_itself(name, text):
    assert inspect.cleandoc(load(name).help).startswith(text)


def test_a_mistyped_command_is_refused_with_the_nearest_one(bursar):
    answer = bursar("inf")
    assert answer.returncode == 2
    assert "No such command 'inf'" in answer.stderr
    assert "info" in answer.stderr
