"""The console that commands print to."""

from __future__ import annotations

import os
import sys
from typing import Final

from rich.console import Console

WIDTH_PIPED: Final = 100  # columns, if the output is no terminal


def make_console(plain: bool) -> Console:
    """The console of stdout. If stdout is no terminal, or if `plain`, it uses no colours and no control sequences."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a character that the encoding lacks must not end the command
    console = Console(highlight=False)
    if plain or not console.is_terminal:
        width = WIDTH_PIPED if not console.is_terminal and "COLUMNS" not in os.environ else None
        return Console(highlight=False, force_terminal=False, no_color=True, width=width)
    return console
