"""The command line. One module per command, each holding one function of the same name, or one group of commands.

The core of Bursar needs no other package; the command line needs typer and rich. So nothing here imports
them before `main` runs, and where they are missing `main` says how to get them.

Exit codes: 0 done, 1 the program failed (or what was to be checked does not hold), 2 the command could not be carried
out as written, 3 the program's budget ran out, 130 interrupted from the keyboard, 143 a workflow was stopped by
SIGTERM.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

    import typer

COMMANDS = ("run", "resume", "explain", "replay", "trace", "demo", "bench", "info")
NEEDED = {"typer", "rich"}

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_BUDGET = 3
EXIT_INTERRUPTED = 130


def main() -> None:
    """The console script `bursar`."""
    try:
        app = build_app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in NEEDED:
            raise
        refuse(f"the command line needs {missing}, which is not installed; pip install 'bursar[cli]'")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)  # nothing has begun that could tell of it
    app()


def build_app() -> typer.Typer:
    """The Typer application with every command in it."""
    import typer

    app = typer.Typer(
        name="bursar",
        help="Budget is the tick. Capability is the trust. Nursery is the scope. Evidence is the proof.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name in COMMANDS:
        command = getattr(importlib.import_module(f"bursar.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def complain(message: str) -> None:
    """Say that something is wrong, where it does not get into the way of what the command prints."""
    print(f"bursar: {message}", file=sys.stderr)


def refuse(message: str) -> NoReturn:
    """End the command because it cannot be carried out as written. The message names the remedy."""
    complain(message)
    raise SystemExit(EXIT_REFUSED)


def same_file(one: Path, other: Path) -> bool:
    """Whether writing the one would destroy the other."""
    try:
        return one.samefile(other)
    except OSError:
        return False  # one of them is not there
