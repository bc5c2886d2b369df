"""The command line. One module per command, each with one function of the same name, or one group of commands.

A command's module is imported when the command is named, and imports at its top what the command needs. So
`bursar --help` loads no command: the table `COMMANDS` has its texts. Rejected: the texts from the commands' docstrings.
`bursar --help` then imported every command, and took a third more time.

The core of Bursar needs no other package; the command line needs typer and rich. `main` checks that both are installed
before it imports them, and otherwise says how to install them.

Exit codes: 0 the command succeeded; 1 the program failed, or a check found a fault; 2 the command is not possible as
written; 3 the program's budget is spent; 130 interrupted by Ctrl-C; 143 a workflow was stopped by SIGTERM.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

    import typer

COMMANDS = {
    "run": "Run the `async def main` of FILE, or the workflow in FILE. SIGUSR1 prints the tree of its tasks.",
    "resume": "Continue a workflow where it stopped.",
    "explain": "Say what state a task of a workflow is in, and what it waits for or waited for.",
    "replay": "Run a recorded program again on its recorded inputs, and check that it does the same.",
    "trace": "Show, check, compare and export the traces of `bursar run --record`.",
    "demo": "Watch a small service run: budgets, cancellation, supervision, and which task waited for what.",
    "bench": "Measure Bursar beside asyncio, uvloop, rloop, trio, anyio and gevent, if they are installed.",
    "info": "Show the version, the kernel, the native extension, the C library, Python, the platform, settings and "
    "profiles.",
}
"""The commands in the order of `bursar --help`, each with the first sentences of its own help."""

NEEDED = ("typer", "rich")

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_BUDGET = 3
EXIT_INTERRUPTED = 130


def main() -> None:
    """The console script `bursar`."""
    try:
        for package in NEEDED:
            if find_spec(package) is None:
                refuse(f"the command line needs {package}, which is not installed; pip install 'bursar[cli]'")
        app = build_app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)  # nothing runs yet, so there is nothing to report
    app()


def build_app() -> typer.Typer:
    """The Typer application. It knows the names of the commands, and loads a command when it is named."""
    import typer

    from bursar.cli.group import LazyGroup

    app = typer.Typer(
        name="bursar",
        cls=LazyGroup,
        help="Run async programs and workflows with budgets, priorities and traces; ask why a task waits.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name, text in COMMANDS.items():
        app.command(name, help=text)(lambda: None)  # a placeholder: the group loads the command itself
    return app


def complain(message: str) -> None:
    """Print an error message to stderr, so that it does not mix with the output of the command."""
    print(f"bursar: {message}", file=sys.stderr)


def refuse(message: str) -> NoReturn:
    """End the command because it is not possible as written. The message says what to do."""
    complain(message)
    raise SystemExit(EXIT_REFUSED)


def same_file(one: Path, other: Path) -> bool:
    """Whether a write to the first file would destroy the second."""
    try:
        return one.samefile(other)
    except OSError:
        return False  # at least one of them does not exist
