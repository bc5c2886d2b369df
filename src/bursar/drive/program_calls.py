"""Marks the functions that call the program's code.

An asynchronous exception may be raised in the program's code, but not inside Bursar's own records. `interrupt` walks
the stack from the inside out: a marked function is where Bursar ends and the program begins.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

CALLS_PROGRAM: Final[set[CodeType]] = set()


def calls_program(function: F) -> F:
    """Marks a function of Bursar that calls the program's code."""
    CALLS_PROGRAM.add(cast("FunctionType", function).__code__)
    return function
