"""`bursar demo`: one program, shown while it runs and accounted for when it is over.

The program is run twice: unwatched, which also tells how long it is, and then watched. Both runs must end with the
same fingerprint: whoever watches does not touch the schedule. What is run and shown lives in `bursar_demo`
(`examples/demo/bursar_demo/`), which is loaded when the command runs.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from bursar.cli import EXIT_FAILED, EXIT_INTERRUPTED, refuse
from bursar.errors import BursarError
from bursar.text import counted

WIDTH_PIPED: Final = 100  # columns where there is no terminal to ask


def demo(
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Logical workers.")] = 4,
    tasks: Annotated[int, typer.Option(min=1, max=10_000, help="Pages that the service fetches, a task each.")] = 240,
    seconds: Annotated[float, typer.Option(min=0.0, max=600.0, help="How long the show takes.")] = 6.0,
    plain: Annotated[bool, typer.Option("--plain", help="Lines of text instead of the live view.")] = False,
) -> None:
    """Watch a small service run: budgets, cancellation, supervision, and who waited for what."""
    from bursar_demo.account import account
    from bursar_demo.program import make_runtime, service
    from bursar_demo.show import run_shown
    from bursar_demo.watch import Watch

    try:
        rehearsal = make_runtime(seed, workers)
    except BursarError as error:
        refuse(str(error))
    console = make_console(plain)
    try:
        console.print(title(seed, workers, tasks))
        rehearsal.run(service, tasks)
        watch = Watch(make_runtime(seed, workers), tasks)
        store = run_shown(watch, rehearsal.statistics(), console, seconds)
    except KeyboardInterrupt:
        print("bursar: interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    console.print(account(watch, store))
    same = watch.runtime.fingerprint == rehearsal.fingerprint
    console.print(verdict(watch.runtime.fingerprint, same))
    if not same:
        raise SystemExit(EXIT_FAILED)


def make_console(plain: bool) -> Console:
    """Where to print. Without a terminal, or if asked to be plain: no colours and no control sequences."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a narrow encoding must not end the show
    console = Console(highlight=False)
    if plain or not console.is_terminal:
        width = WIDTH_PIPED if not console.is_terminal and "COLUMNS" not in os.environ else None
        return Console(highlight=False, force_terminal=False, no_color=True, width=width)
    return console


def title(seed: int, workers: int, tasks: int) -> Text:
    setting = f"seed {seed}, {counted(workers, 'worker')}, {counted(tasks, 'page')} to fetch"
    return Text.assemble(("bursar demo", "bold cyan"), f": {setting}\n")


def verdict(fingerprint: str, same: bool) -> Text:
    again = "the same as in a first run that nobody watched" if same else "NOT that of the first run: a bug in Bursar"
    return Text.assemble("\nfingerprint ", (fingerprint, "bold cyan"), "  ", (again, "green" if same else "bold red"))
