"""Checks of arguments at the public boundary, one function for each kind of argument.

Each raises a `TypeError` or a `ValueError` that names the argument, what was given and what is expected. The law does
not check again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from bursar.text import brief

T = TypeVar("T")


def require_instance(argument: str, value: object, kind: type, expected: str) -> None:
    """Raise TypeError unless `value` is a `kind`. `expected` shows how to write one."""
    if not isinstance(value, kind):
        raise TypeError(f"{argument}={brief(value, repr)}: must be {expected}")


def require_choice(argument: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless `value` is one of `choices`. A misspelled value gets a suggestion."""
    known = [str(choice) for choice in choices]
    if not isinstance(value, str):
        raise TypeError(f"{argument}={brief(value, repr)}: must be one of {', '.join(known)}")
    if value not in known:
        raise ValueError(
            f"{argument}={brief(value, repr)}: must be one of {', '.join(known)}{suggestion(value, known)}"
        )


def suggestion(value: str, known: Iterable[str]) -> str:
    """ "; did you mean 'service'?", or nothing if no known name is similar."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(value, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(argument: str, values: Any, kind: type[T], expected: str) -> tuple[T, ...]:
    """The values as a tuple. Raises TypeError unless each of them is a `kind`."""
    try:
        found = tuple(values)
    except TypeError:
        raise TypeError(f"{argument}={brief(values, repr)}: must be a list of {expected}") from None
    for value in found:
        if not isinstance(value, kind):
            raise TypeError(f"{argument}: {brief(value, repr)} is not {expected}")
    return found
