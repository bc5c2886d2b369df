"""`bursar resume [WORKFLOW|JOURNAL|ID]`: go on with a run that was stopped, killed or failed.

Tasks that are done stay done. Everything else runs, also what failed; a task whose definition has changed since, and
all that depend on it, run again, and that is said. Without an argument: the newest run that is not finished.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import refuse
from bursar.cli.workflow import Again, AsJson, AsPlain, carry_out
from bursar.errors import BursarError


def resume(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKFLOW|JOURNAL|ID]", help="By default the newest unfinished run.", show_default=False
        ),
    ] = None,
    plain: AsPlain = False,
    as_json: AsJson = False,
    again: Again = None,
) -> None:
    """Go on with a workflow where it stopped."""
    from bursar.workflow import store
    from bursar.workflow.file import read
    from bursar.workflow.journal_reader import head

    try:
        path = store.find(what).resolve()
        about = head(path)
        if about.file is None:
            refuse(
                f"{path}: this workflow was run from Python; run that program again, with run(journal=…, resume=True)"
            )
        workflow = read(about.file)
    except BursarError as error:
        refuse(str(error))
    carry_out(workflow, path, resume=True, again=again or (), plain=plain, as_json=as_json)
