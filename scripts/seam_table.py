"""Writes the table of docs/internals/native/seam.md: what exists in Python and in C, from `bursar.seam.TWINS`.

The native kernel must run: only then is the table complete.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import bursar
from bursar.seam import ONLY_IN_C, TWINS, Twin

PAGE = Path(__file__).resolve().parents[1] / "docs" / "internals" / "native" / "seam.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
DECLARING = ("request", "drive", "ops", "threads")  # the modules and packages that declare something, beside `backend`


def load() -> None:
    """Import every module that declares a twin."""
    for name in DECLARING:
        package = importlib.import_module(f"bursar.{name}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"bursar.{name}."):
            importlib.import_module(module.name)


def code(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def replaced(twin: Twin) -> str:
    if twin.how in ("function", "whole"):
        return "everything" + (f", without {code(twin.omits)}" if twin.omits else "")
    return code(twin.replaces) or "only `__init__` and the slots"


def table() -> str:
    """The two tables of the page."""
    load()
    lines = ["| Python | C | C replaces | C adds |", "|---|---|---|---|"]
    for name, twin in sorted(TWINS.items()):
        lines.append(f"| `{name.removeprefix('bursar.')}` | `{twin.c}` | {replaced(twin)} | {code(twin.adds)} |")
    lines += ["", "These types exist only in C:", "", "| type | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in sorted(ONLY_IN_C.items())]
    return "\n" + "\n".join(lines) + "\n\n"


def page(text: str) -> str:
    """The text of the page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    assert bursar.__file__, "an installed package"
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
