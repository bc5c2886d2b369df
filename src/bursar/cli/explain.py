"""`bursar explain WORKFLOW TASK`: the state of a task of a workflow and its reason, during the run or afterwards.

The command reads the journal. The run writes each transition there at once, and the reasons of waiting tasks once a
second. So the command works from another terminal, and after the run was killed.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from bursar.cli import refuse
from bursar.errors import BursarError
from bursar.workflow import journal_reader, store


def explain(
    workflow: Annotated[
        str,
        typer.Argument(
            metavar="WORKFLOW|JOURNAL|ID",
            help="A workflow file (its newest run), a journal, or the id of a run.",
            show_default=False,
        ),
    ],
    task: Annotated[str, typer.Argument(help="The name of the task.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what state a task of a workflow is in, and what it waits for or waited for."""
    try:
        path = store.find(workflow)
        found = journal_reader.task(path, task)
    except BursarError as error:
        refuse(str(error))
    if as_json:
        print(json.dumps({"run": path.stem, **dataclasses.asdict(found)}))
    else:
        print(f"{journal_reader.explained(found)}\n  in the run {path.stem}")
