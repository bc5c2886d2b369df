"""`bursar demo`: show one program while it runs, and a summary at the end.

The program runs twice. The first run has no observer, and shows how many decisions the program takes. The second run is
shown. Both must have the same fingerprint, because an observer does not change the schedule. The program and its view
are in `bursar_demo` (`examples/demo/bursar_demo/`).
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from bursar.cli import EXIT_FAILED, EXIT_INTERRUPTED, complain, refuse
from bursar.cli.console import make_console
from bursar.errors import BursarError
from bursar.text import counted
from bursar_demo.account import account
from bursar_demo.program import make_runtime, service
from bursar_demo.show import run_shown
from bursar_demo.watch import Watch


def demo(
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Logical workers.")] = 4,
    tasks: Annotated[
        int, typer.Option(min=1, max=10_000, help="Pages that the service fetches, one task per page.")
    ] = 240,
    seconds: Annotated[float, typer.Option(min=0.0, max=600.0, help="Duration of the live view.")] = 6.0,
    plain: Annotated[bool, typer.Option("--plain", help="Lines of text instead of a live view.")] = False,
) -> None:
    """Watch a small service run: budgets, cancellation, supervision, and which task waited for what."""
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
        complain("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    console.print(account(watch, store))
    same = watch.runtime.fingerprint == rehearsal.fingerprint
    console.print(verdict(watch.runtime.fingerprint, same))
    if not same:
        raise SystemExit(EXIT_FAILED)


def title(seed: int, workers: int, tasks: int) -> Text:
    setting = f"seed {seed}, {counted(workers, 'worker')}, {counted(tasks, 'page')} to fetch"
    return Text.assemble(("bursar demo", "bold cyan"), f": {setting}\n")


def verdict(fingerprint: str, same: bool) -> Text:
    text = (
        "the same as in a run without an observer" if same else "NOT the same as without an observer: a bug in Bursar"
    )
    return Text.assemble("\nfingerprint ", (fingerprint, "bold cyan"), "  ", (text, "green" if same else "bold red"))
