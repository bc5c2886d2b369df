"""What `bursar run`, `bursar resume` and `bursar explain` share about workflows: views, journals, exit codes.

What runs workflows is imported only by who runs one: the other commands start without it.

Exit codes: 0 every task is done; 1 a task failed, was dropped, or was cancelled because of that; 2 the workflow or the
journal cannot be used; 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP: after all that ran was stopped in good
order.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bursar.cli import complain, refuse
from bursar.errors import BursarError, WorkflowError
from bursar.text import brief

if TYPE_CHECKING:
    from bursar.workflow.execute import Execution
    from bursar.workflow.model import Workflow
    from bursar.workflow.summary import Report
    from bursar.workflow.view import Silent

PANEL = "Workflows"

AsPlain = Annotated[bool, typer.Option("--plain", help="Lines of text instead of a live view.", rich_help_panel=PANEL)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.", rich_help_panel=PANEL)]
Again = Annotated[
    list[str] | None,
    typer.Option(metavar="TASK", help="Run this task, and all behind it, once more.", rich_help_panel=PANEL),
]


def choose_view(plain: bool, as_json: bool) -> Silent:
    """The live view where somebody looks, lines elsewhere."""
    from bursar.workflow.view import Json, Plain

    if plain and as_json:
        refuse("--plain and --json: choose one of the two")
    if as_json:
        return Json(sys.stdout)
    if plain or not sys.stdout.isatty():
        return Plain(sys.stdout)
    from rich.console import Console

    from bursar.workflow.live import Live

    return Live(Console())


def carry_out(
    workflow: Workflow,
    path: Path | None,
    *,
    resume: bool,
    again: Iterable[str],
    plain: bool,
    as_json: bool,
    **runtime: Any,
) -> NoReturn:
    """Run a workflow and end the command as it ended."""
    from bursar.workflow.execute import Execution
    from bursar.workflow.journal import open_journal

    if workflow.file is not None:
        os.chdir(workflow.file.parent)  # paths in a workflow are those of its folder
    with contextlib.ExitStack() as stack:
        try:
            book = None if path is None else stack.enter_context(open_journal(path, workflow, resume))
            view = choose_view(plain, as_json)
            stack.callback(view.close)
            if as_json:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # what the tasks print is not JSON
            execution = Execution(workflow, journal=book, again=again, listener=view, **runtime)
            report = run_to_the_end(execution)
        except WorkflowError as error:
            stack.close()
            refuse(f"{workflow.file}: {error}")
        except BursarError as error:
            stack.close()
            refuse(str(error))
        if execution.listener_error is not None:
            complain(f"nobody was there to listen to the end: {brief(execution.listener_error, repr)}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python fails to flush what is left, and says so
        else:
            view.finish(report)
    raise SystemExit(report.exit_code)


def run_to_the_end(execution: Execution) -> Report:
    """The report of a run, however it was stopped."""
    try:
        return execution.run()
    except KeyboardInterrupt:
        complain("interrupted")
        return execution.report()
