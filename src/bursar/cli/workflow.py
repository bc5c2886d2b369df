"""How `bursar run` and `bursar resume` run a workflow: the journal, the view, the exit code.

Exit codes: 0 every task is done; 1 a task failed or was dropped, or was cancelled because of that; 2 the workflow or
the journal cannot be used; 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. A stopped run first stops its tasks
in good order.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from bursar.cli import complain, refuse
from bursar.errors import BursarError, WorkflowError
from bursar.text import brief
from bursar.workflow import store
from bursar.workflow.execute import Execution
from bursar.workflow.file import read
from bursar.workflow.journal import open_journal
from bursar.workflow.model import Workflow
from bursar.workflow.summary import Report
from bursar.workflow.view import Json, Plain, Silent


def run_workflow_file(
    file: Path,
    journal: Path | None,
    *,
    no_journal: bool,
    resume: bool,
    again: list[str],
    plain: bool,
    as_json: bool,
    seed: int,
) -> NoReturn:
    """Run the workflow in a file, with the journal that the options ask for."""
    if no_journal and (journal is not None or resume or again):
        refuse("--no-journal cannot be combined with --journal, --resume or --again, which need a journal")
    try:
        workflow = read(file)
        path: Path | None = None
        if not no_journal:
            unfinished = [one.path for one in store.of_workflow(file) if not one.finished] if resume else []
            path = journal or next(iter(unfinished), None) or store.new_path(workflow)
            store.prune()
    except BursarError as error:
        refuse(str(error))
    path = None if path is None else path.resolve()
    carry_out(workflow, path, resume=resume, again=again, plain=plain, as_json=as_json, seed=seed)


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
    """Run a workflow, and end the command with the exit code of the run."""
    if workflow.file is not None:
        os.chdir(workflow.file.parent)  # relative paths in a workflow start at its folder
    with contextlib.ExitStack() as stack:
        try:
            journal = None if path is None else stack.enter_context(open_journal(path, workflow, resume))
            view = choose_view(plain, as_json)
            stack.callback(view.close)
            if as_json:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # tasks may print what is not JSON
            execution = Execution(workflow, journal=journal, again=again, listener=view, **runtime)
            report = run_to_the_end(execution)
        except WorkflowError as error:
            stack.close()
            refuse(f"{workflow.file}: {error}")
        except BursarError as error:
            stack.close()
            refuse(str(error))
        if execution.recorder.listener_error is not None:
            complain(f"the output of the run could not be written: {brief(execution.recorder.listener_error, repr)}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise Python's last flush fails and prints an error
        else:
            view.finish(report)
    raise SystemExit(report.exit_code)


def choose_view(plain: bool, as_json: bool) -> Silent:
    """The live view on a terminal, lines of text elsewhere."""
    if plain and as_json:
        refuse("--plain and --json exclude each other; choose one of them")
    if as_json:
        return Json(sys.stdout)
    if plain or not sys.stdout.isatty():
        return Plain(sys.stdout)
    from rich.console import Console  # only the live view needs rich

    from bursar.workflow.live import Live

    return Live(Console())


def run_to_the_end(execution: Execution) -> Report:
    """The report of a run, also of one that Ctrl-C ended."""
    try:
        return execution.run()
    except KeyboardInterrupt:
        complain("interrupted")
        return execution.report()
