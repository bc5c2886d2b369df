"""Checks of what a user wrote. An error says where the mistake is, what is expected, and what the user probably meant.

A check is a function of a value and its place in the file. It returns the value in the form that the program needs, or
raises `WorkflowError`. `table` combines checks: every key must be known, and an unknown key gets a suggestion.

Rejected: a schema language with a library. There are only thirty keys, good messages are the purpose, and a workflow
file must be readable with the standard library alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from bursar.errors import WorkflowError
from bursar.law.timers import SECONDS_MAX
from bursar.text import brief

Check = Callable[[Any, str], Any]
T = TypeVar("T")

WHOLE_MAX: Final = (1 << 63) - 1  # what the kernels and the journal can count
NAMES_SHOWN: Final = 10  # names of tasks in a message
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")


def meant(word: object, known: Iterable[str]) -> str:
    """A suggestion for a mistyped word, "; did you mean …?", or "" if no known word is similar."""
    spellings = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word).lower(), spellings, n=1, cutoff=0.6)
    return f"; did you mean {spellings[near[0]]!r}?" if near else ""


def choice(name: object, known: Iterable[str]) -> str:
    """A suggestion for a mistyped name of a task, or the first names that there are."""
    names = list(known)
    more = ", …" if len(names) > NAMES_SHOWN else ""
    return meant(name, names) or f"; the tasks are {', '.join(names[:NAMES_SHOWN])}{more}"


def wrong(where: str, expected: str, value: object) -> WorkflowError:
    return WorkflowError(f"{where}: must be {expected}, not {brief(value, repr)}")


def table(value: Any, where: str, keys: Mapping[str, Check]) -> dict[str, Any]:
    """A table with known keys only, and each value checked."""
    found: dict[str, Any] = {}
    for key, inner in mapping(value, where).items():
        check = keys.get(key)
        if check is None:
            hint = meant(key, keys) or f"; the keys are {', '.join(sorted(keys))}"
            raise WorkflowError(f"{where}: there is no key {key!r}{hint}")
        found[key] = check(inner, f"{where}, {key}")
    return found


def mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(where, "a table", value)
    return cast("dict[str, Any]", value)


def text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise wrong(where, "a non-empty string", value)
    return value


def whole(least: int, most: int = WHOLE_MAX) -> Check:
    def check(value: Any, where: str) -> int:
        if type(value) is not int or not least <= value <= most:
            limited = most < WHOLE_MAX or (type(value) is int and value > most)
            span = f" from {least:,} to {most:,}" if limited else f", {least} or more"
            raise wrong(where, f"a whole number{span}", value)
        return value

    return check


def number(least: float, most: float) -> Callable[[Any, str], float]:
    def check(value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise wrong(where, f"a number from {least:g} to {most:,.0f}", value)
        return float(value)

    return check


def seconds(value: Any, where: str) -> float:
    """A number of seconds, or a number with a unit: `"90s"`, `"1.5 m"`, `"2h"`, `"250ms"`."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise wrong(where, 'a time: seconds as a number, or "250ms", "90s", "5m", "2h"', value)
        return _SECONDS(float(match[1]) * _UNITS[match[2]], where)
    return _SECONDS(value, where)


_SECONDS: Final = number(0, SECONDS_MAX)


def one_of(*words: str) -> Check:
    def check(value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in words:
            near = meant(value, words) if isinstance(value, str) else ""
            raise WorkflowError(f"{where}: must be one of {', '.join(words)}, not {brief(value, repr)}{near}")
        return value

    return check


def list_of(check: Callable[[Any, str], T], what: str) -> Callable[[Any, str], list[T]]:
    def checked(value: Any, where: str) -> list[T]:
        if not isinstance(value, list):
            raise wrong(where, f"a list of {what}", value)
        items = cast("list[Any]", value)
        return [check(item, f"{where}, item {index}") for index, item in enumerate(items, 1)]

    return checked


def table_of(check: Callable[[Any, str], T]) -> Callable[[Any, str], dict[str, T]]:
    """A table with any keys, and each value checked."""

    def checked(value: Any, where: str) -> dict[str, T]:
        return {key: check(inner, f"{where}, {key}") for key, inner in mapping(value, where).items()}

    return checked
