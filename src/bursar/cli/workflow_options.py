"""The options that `bursar run` and `bursar resume` share for workflows."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Workflows"

AsPlain = Annotated[bool, typer.Option("--plain", help="Lines of text instead of a live view.", rich_help_panel=PANEL)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line.", rich_help_panel=PANEL)]
Again = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TASK", help="Run this task, and all tasks that depend on it, once more.", rich_help_panel=PANEL
    ),
]
