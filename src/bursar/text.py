"""Text helpers: how Bursar prints a program's objects and counts things.

Nothing here depends on the rest of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

TEXT_MAX: Final = 400  # of a program's own words that we repeat


def brief(thing: object, how: Callable[[Any], str] = str) -> str:
    """A program's object in our words: short, plain, and never an error of its own."""
    try:
        text = str.__str__(how(thing))
    except BaseException:
        text = f"<{type_name(thing)} that cannot be printed>"
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def type_name(thing: object) -> str:
    """The name of an object's class, whatever its metaclass says about it."""
    return type.__dict__["__name__"].__get__(type(thing))


def counted(n: int, what: str) -> str:
    """ "1 task", "2 tasks"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
