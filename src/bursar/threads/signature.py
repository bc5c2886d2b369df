"""Which parameter of a plain function is annotated `Checkpoint`, and how the function is called with one.

The annotation may be written as text (`from __future__ import annotations`), may be optional, may stand anywhere among
the parameters; the function may be a partial, a bound method, or an object that can be called. Text is looked up where
the function was written; if it cannot be, because the name was imported for type checkers only, the word counts.

Asking `inspect` costs more than a whole task, so what is found out about a plain function is kept as long as it lives.
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
    """Where a function wants its checkpoint."""

    at: int  # among the positional arguments; -1: by keyword only
    name: str  # the keyword; "": by position only


_KNOWN: Final[weakref.WeakKeyDictionary[FunctionType, Place | None]] = weakref.WeakKeyDictionary()


def place_of(fn: Any) -> Place | None:
    """Where `fn` wants a checkpoint; None: nowhere."""
    if type(fn) is FunctionType:
        annotations = fn.__annotations__
        of_parameters = annotations and (len(annotations) > 1 or "return" not in annotations)
        return _of_function(fn) if of_parameters else None
    if type(fn) is BuiltinFunctionType or type(fn) is type:
        return None  # nobody annotates what is written in C
    if type(fn) is MethodType and type(fn.__func__) is FunctionType and _of_function(fn.__func__) is None:
        return None
    return _look(fn)


def arguments(place: Place, args: tuple[Any, ...], checkpoint: Checkpoint) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with the checkpoint in its place among them."""
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
    """Ask `inspect`. What has no signature has no checkpoint either."""
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
    """The names that the text of an annotation is about."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    written: Any = inspect.unwrap(fn)
    if not hasattr(written, "__globals__"):
        written = getattr(written, "__call__", written)  # noqa: B004 (the method itself is wanted)
    written = getattr(written, "__func__", written)
    return getattr(written, "__globals__", {})
