"""Text helpers: how Bursar prints a program's objects and counts things.

Nothing here depends on the rest of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

TEXT_MAX: Final = 400  # characters of a program's own text that a message repeats


class NamedInt(IntEnum):
    """Numbers with names that print by name: `str(State.READY)` is `READY`."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


def brief(thing: object, how: Callable[[Any], str] = str) -> str:
    """The text of a program's object for a message. It is short, and a broken `__str__` raises nothing here."""
    try:
        text = str.__str__(how(thing))
    except BaseException:
        text = f"<{type_name(thing)} that cannot be printed>"
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def storable(text: str) -> str:
    """The text with an escape for each lone surrogate, such as a file name that is not UTF-8 contains. Files, databases
    and terminals refuse a lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode()


def type_name(thing: object) -> str:
    """The real name of an object's class, even if its metaclass reports another one."""
    return type.__dict__["__name__"].__get__(type(thing))


def counted(n: int, what: str) -> str:
    """ "1 task", "2 tasks"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
