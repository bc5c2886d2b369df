"""Gives a spawned task its code: the coroutine that the driver will poll, and a copy of the caller's context.

`OURS` lists the coroutines of Bursar that run no code of the program. Any thread may poll these.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine
from inspect import CO_COROUTINE
from types import CodeType, CoroutineType, FunctionType
from typing import Any, Final, cast

from bursar.backend import Task
from bursar.seam import NATIVE, expose_to_c
from bursar.text import brief

OURS: Final[list[CodeType]] = []  # the code of such coroutines
Function = Callable[..., Coroutine[Any, Any, Any]]
# How a plain function runs: the coroutine of its task, by whether its arguments contain tasks. `threads.job` registers
# both coroutines.
PLAIN: Final[dict[bool, Function]] = {}


def start(task: Task, fn: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> None:
    """Give a spawned task its code and a copy of the caller's context.

    If the call itself fails (wrong arguments), the task fails with that error, at its first poll.
    """
    if NATIVE and type(fn) is FunctionType and fn.__code__.co_flags & CO_COROUTINE:
        cast("Any", task.nursery).kernel.start(task, fn, args)  # the usual case: C calls `fn` when the task begins
        return
    task.context = contextvars.copy_context()
    try:
        work = fn(*args)
        of_python = type(work) is CoroutineType  # the usual case, at a fraction of the cost of an ABC
        if not of_python and not isinstance(work, Coroutine):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"task {task.name!r}: {brief(fn, repr)} returned {brief(work, repr)}, "
                "not a coroutine; is its wrapper `async`?"
            )
        task.work = work
    except Exception as error:
        task.work = _raise(error)


async def _raise(error: Exception) -> None:
    raise error


expose_to_c(raise_later=_raise)
