"""References to results: `Ref` and `Template` in the arguments of a step, `${step}` in a workflow file.

A reference has the name of a step and, after dots, a path into its result: `${script}`, `${script.title}`,
`${images.0}`. A string that is only a reference stands for the value itself. In a longer string the value becomes
text: a string as it is, everything else as JSON. `$${` stands for `${`.

RESULT-1  a result that JSON can hold is passed on as JSON holds it: tuples become lists, keys become strings. So a step
    gets the same value from a step that just ran as from a journal.
RESULT-2  a result that JSON cannot hold is passed on unchanged, and the journal does not keep it
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from bursar.errors import WorkflowError
from bursar.text import brief, type_name

RESULT_MAX: Final = 1 << 20  # characters of JSON: a journal keeps no larger result; a task should write it to a file

NESTING_MAX: Final = 100  # levels of lists and tables in an argument: functions here are recursive

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_INSIDE: Final = re.compile(rf"({NAME})((?:\.[^.{{}}]+)*)")


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of a step, or a part of it."""

    step: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "${" + ".".join((self.step, *self.path)) + "}"


@dataclass(frozen=True, slots=True)
class Template:
    """A string that contains references."""

    parts: tuple[str | Ref, ...]

    def __str__(self) -> str:
        return "".join(str(part) if isinstance(part, Ref) else part.replace("${", "$${") for part in self.parts)


def parse(text: str) -> str | Ref | Template:
    """The references in a string of a workflow file. Raises `ValueError` for a malformed one."""
    parts: list[str | Ref] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        if match[1] is None:
            parts.append("${")
            continue
        inside = _INSIDE.fullmatch(match[1])
        if inside is None:
            raise ValueError(
                f"{match[0]} is not a reference to a task: write ${{task}} or ${{task.key}}, or $${{ for ${{"
            )
        parts.append(Ref(inside[1], tuple(inside[2].split(".")[1:])))
    parts.append(text[end:])
    parts = [part for part in parts if part != ""]
    if not any(isinstance(part, Ref) for part in parts):
        return "".join(cast("list[str]", parts))
    if len(parts) == 1:
        return parts[0]
    return Template(tuple(parts))


def convert(value: Any, leaf: Callable[[Any], Any], levels: int = NESTING_MAX) -> Any:
    """A copy of the value with every leaf of its lists, tuples and tables replaced. Raises `ValueError` if it has more
    levels."""
    if levels < 0:
        raise ValueError(f"the value is nested too deeply; {NESTING_MAX} levels are possible")
    if isinstance(value, dict):
        return {key: convert(inner, leaf, levels - 1) for key, inner in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        items = [convert(inner, leaf, levels - 1) for inner in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return leaf(value)


def references(value: Any) -> Iterator[str]:
    """The names of the steps that a value refers to."""
    match value:
        case Ref():
            yield value.step
        case Template():
            yield from (part.step for part in value.parts if isinstance(part, Ref))
        case dict():
            for inner in cast("dict[Any, Any]", value).values():
                yield from references(inner)
        case list() | tuple():
            for inner in cast("list[Any]", value):
                yield from references(inner)
        case _:
            pass


def fill(value: Any, results: Mapping[str, Any]) -> Any:
    """A value with its references replaced by results."""

    def leaf(found: Any) -> Any:
        if isinstance(found, Ref):
            return _look(found, results)
        if isinstance(found, Template):
            return "".join(part if isinstance(part, str) else as_text(_look(part, results)) for part in found.parts)
        return found

    return convert(value, leaf)


def _look(ref: Ref, results: Mapping[str, Any]) -> Any:
    value: Any = results[ref.step]
    for key in ref.path:
        try:
            value = value[int(key)] if type(value) in (list, tuple) else value[key]
        except (LookupError, TypeError, ValueError):
            whole = brief(results[ref.step], repr)
            told = f"{ref}: there is no {key!r} in the result of task {ref.step!r}, which is {whole}"
            raise WorkflowError(told) from None
    return value


def as_text(value: Any) -> str:
    """A result as an argument of a command."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Kept:
    """A result, and how a journal keeps it: as `json`, or not at all because of `why_not`."""

    value: Any
    json: str | None
    why_not: str = ""


def keep(value: Any) -> Kept:
    """How a journal keeps a result, and what is passed on (RESULT-1, RESULT-2)."""
    try:
        text = json.dumps(value)
        again = json.loads(text)
    except Exception as error:  # also what the methods of the value raise
        return Kept(value, None, f"it is a {type_name(value)} that JSON cannot hold ({brief(error)})")
    if len(text) > RESULT_MAX:
        return Kept(again, None, f"it is {len(text):,} characters of JSON, and {RESULT_MAX:,} are kept at most")
    return Kept(again, text)
