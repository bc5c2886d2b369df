"""What a plain function must not be, and must not return: something of the loop's that a thread would lose.

Most of what Bursar offers is no `async def`: `bursar.sleep`, `event.wait` and their like only describe a request, which
a task then awaits. Spawned, such a function looks plain. But it belongs into the loop, where the kernel is; so it is
called there, and what it asks for is awaited: `n.spawn(bursar.sleep, 1)` is a task that sleeps.

A function of the program's that runs on a thread and returns a coroutine, or a request, has done nothing yet, and
nobody will await what it returned. That is never meant: its task fails, and the error says what to pass instead.

Rejected: a mark on each of these functions. Half of them are written in C, which takes none, and whoever adds one would
have to think of it. And to await in the task whatever a thread returned: it would keep its slot all that while.
"""

from __future__ import annotations

import functools
import inspect
from types import CoroutineType
from typing import Any, Final, NoReturn, cast

from bursar.backend import Task, tell
from bursar.request import Request
from bursar.text import brief

# Whose functions and methods belong into the loop. Not the others: `bursar.run`, a workflow or a portal may well be
# used on a thread.
MODULES: Final = frozenset(
    {
        "bursar._native",
        "bursar.supervision.actor",
        "bursar.ops.channel",
        "bursar.ops.clock",
        "bursar.ops.budget",
        "bursar.io.files",
        "bursar.hosts.browser",
        "bursar.hosts.asyncio_bridge",
        "bursar.ops.nursery",
        "bursar.ops.scope",
        "bursar.ops.select",
        "bursar.io.serve",
        "bursar.io.signals",
        "bursar.io.streams",
        "bursar.supervision.supervisor",
        "bursar.ops.sync",
        "bursar.ops.task",
    }
)
TO_AWAIT: Final = (CoroutineType, Request)


def is_own(fn: Any) -> bool:
    """Whether it is one of Bursar's own, or makes a request."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isclass(fn) and issubclass(fn, Request):
        return True
    module: object = getattr(cast("object", fn), "__module__", None)
    if module is None:  # a method in C does not say: then whatever it is a method of does, or what that derives from
        return any(_is_ours(kind.__module__) for kind in type(getattr(cast("object", fn), "__self__", None)).__mro__)
    return _is_ours(module)


def _is_ours(module: object) -> bool:
    return type(module) is str and module in MODULES


def refuse_awaitable(task: Task, returned: Any) -> NoReturn:
    """In its thread: a function returned something that was to be awaited."""
    told = f"task {brief(task.name)!r}: the function ran on a thread and returned "
    if inspect.iscoroutine(returned):
        told += f"the coroutine {brief(returned.__qualname__)!r}, which nobody awaits; pass the async function itself: "
        if inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
            returned.close()  # or Python would say the same, later and elsewhere
        raise TypeError(f"{told}spawn(fn, x), not spawn(lambda: fn(x))")
    what = brief(returned, lambda request: type(request).__qualname__.lstrip("_"))
    raise TypeError(f"{told}a request, {what}, which nobody awaits; spawn an `async def` that awaits it")


tell(own_modules=MODULES, refuse_awaitable=refuse_awaitable)
