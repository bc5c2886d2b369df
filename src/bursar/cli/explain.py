"""`bursar explain WORKFLOW TASK`: where a task of a workflow stands, and why; while it runs, or afterwards.

The answer is read from the journal, which the run keeps up to date: transitions as they happen, what tasks wait for
once a second. So it can be asked from another terminal, and after the run was killed.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from bursar.cli import refuse
from bursar.errors import BursarError


def explain(
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW|JOURNAL|ID", help="The newest run of the workflow.", show_default=False)
    ],
    task: Annotated[str, typer.Argument(help="The name of the task.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say where a task of a workflow stands, and what it waits for or waited for."""
    from bursar.workflow import journal_reader as record
    from bursar.workflow import store

    try:
        path = store.find(workflow)
        found = record.task(path, task)
    except BursarError as error:
        refuse(str(error))
    if as_json:
        print(json.dumps({"run": path.stem, **dataclasses.asdict(found)}))
    else:
        print(f"{record.explained(found)}\n  in the run {path.stem}")
