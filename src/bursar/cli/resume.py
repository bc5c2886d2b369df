"""`bursar resume [WORKFLOW|JOURNAL|ID]`: continue a run that was stopped or killed, or that failed.

Tasks that are done stay done. All other tasks run, also those that failed. A task whose definition has changed, and all
tasks that depend on it, run again, and the command says so. Without an argument: the newest run that is not finished.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import refuse
from bursar.cli.workflow import carry_out
from bursar.cli.workflow_options import Again, AsJson, AsPlain
from bursar.errors import BursarError
from bursar.workflow import store
from bursar.workflow.file import read
from bursar.workflow.journal_reader import head


def resume(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKFLOW|JOURNAL|ID",
            help="A workflow file (its newest run), a journal, or the id of a run; "
            "by default the newest unfinished run.",
            show_default=False,
        ),
    ] = None,
    plain: AsPlain = False,
    as_json: AsJson = False,
    again: Again = None,
) -> None:
    """Continue a workflow where it stopped."""
    try:
        path = store.find(what).resolve()
        about = head(path)
        if about.file is None:
            refuse(
                f"{path}: a Python program ran this workflow; run that program again, with run(journal=…, resume=True)"
            )
        workflow = read(about.file)
    except BursarError as error:
        refuse(str(error))
    carry_out(workflow, path, resume=True, again=again or (), plain=plain, as_json=as_json)
