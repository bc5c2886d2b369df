"""The group of all commands. It imports the module of a command when the command line names the command."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


class LazyGroup(TyperGroup):
    """A group of placeholders: each has the name and the help text of a command, and enough for `bursar --help`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begins with, and the arguments behind it."""
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, placeholder if name is None else load(name), rest


def load(name: str) -> Any:
    """The command itself: the function, or the group of commands, that the module `name` calls by its own name."""
    found = getattr(importlib.import_module(f"bursar.cli.{name}"), name)
    app = typer.Typer()
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    return get_group(app).commands[name]
