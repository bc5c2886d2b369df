"""Finds the parameter of a plain function that is annotated `Checkpoint`, and passes a checkpoint for it.

The annotation may be text (`from __future__ import annotations`), may be optional, and may be on any parameter. The
function may be a partial, a bound method, or a callable object. Text is looked up in the globals of the function. If
that fails, because the name was imported for type checkers only, the word `Checkpoint` in the text counts.

A call of `inspect` costs more than a whole task, so the result for a function is kept as long as the function lives.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
import weakref
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from bursar.ops.checkpoint import Checkpoint

_WORD: Final = re.compile(rf"\b{Checkpoint.__name__}\b")


class Place(NamedTuple):
    """The parameter for the checkpoint."""

    at: int  # its position among the positional arguments; -1: only by keyword
    name: str  # its keyword; "": only by position


_KNOWN: Final[weakref.WeakKeyDictionary[FunctionType, Place | None]] = weakref.WeakKeyDictionary()


def place_of(fn: Any) -> Place | None:
    """The parameter of `fn` for a checkpoint, or None."""
    if type(fn) is FunctionType:
        annotations = fn.__annotations__
        of_parameters = annotations and (len(annotations) > 1 or "return" not in annotations)
        return _of_function(fn) if of_parameters else None
    if type(fn) is BuiltinFunctionType or type(fn) is type:
        return None  # functions written in C have no annotations
    if type(fn) is MethodType and type(fn.__func__) is FunctionType and _of_function(fn.__func__) is None:
        return None
    return _look(fn)


def arguments(place: Place, args: tuple[Any, ...], checkpoint: Checkpoint) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with the checkpoint added at its place."""
    if 0 <= place.at <= len(args):
        return (*args[: place.at], checkpoint, *args[place.at :]), {}
    return args, {place.name: checkpoint} if place.name else {}


def _of_function(fn: FunctionType) -> Place | None:
    try:
        return _KNOWN[fn]
    except KeyError:
        found = _KNOWN[fn] = _look(fn)
        return found


def _look(fn: Any) -> Place | None:
    """Ask `inspect`. An object without a signature has no checkpoint."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except Exception:  # a signature may be computed by the program's own code
        return None
    bound: dict[str, Any] = fn.keywords if isinstance(fn, functools.partial) else {}
    for index, parameter in enumerate(parameters):
        if parameter.name in bound or not _means_checkpoint(parameter.annotation, fn):
            continue
        match parameter.kind:
            case inspect.Parameter.POSITIONAL_ONLY:
                return Place(index, "")
            case inspect.Parameter.POSITIONAL_OR_KEYWORD:
                return Place(index, parameter.name)
            case inspect.Parameter.KEYWORD_ONLY:
                return Place(-1, parameter.name)
            case _:
                pass  # *args and **kwargs are not one parameter
    return None


def _means_checkpoint(annotation: Any, fn: Any) -> bool:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, _globals_of(fn))
        except Exception:
            return _WORD.search(annotation) is not None
    return annotation is Checkpoint or Checkpoint in typing.get_args(annotation)


def _globals_of(fn: Any) -> dict[str, Any]:
    """The names that the text of an annotation may use."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    written: Any = inspect.unwrap(fn)
    if not hasattr(written, "__globals__"):
        written = getattr(written, "__call__", written)  # noqa: B004 (the method itself is wanted)
    written = getattr(written, "__func__", written)
    return getattr(written, "__globals__", {})
