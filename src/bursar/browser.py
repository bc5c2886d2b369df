"""Bursar in a page: `run` starts a program in the event loop of the page, of a web worker, or of Node.

Only this module uses Pyodide's asyncio loop, because the caller needs something to await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from bursar.errors import TaskCancelled
from bursar.hosts.browser import BrowserHost
from bursar.runtime import Runtime
from bursar.tracebacks import hide_own_frames

__all__ = ["guest", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts, **keywords: Any) -> asyncio.Task[T]:
    """Start `fn(*args)` as the main task of a new runtime in this page, and return an awaitable of its result.

    The keywords are those of `Runtime`. In JavaScript the result is a promise. Its `cancel()` cancels the program,
    which cleans up first.
    """
    host = keywords.pop("host", None) or BrowserHost.of_page()
    return guest(Runtime(host=host, **keywords), fn, *args)


def guest(runtime: Runtime, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> asyncio.Task[T]:
    """Do what `run` does with your own runtime, made with a `BrowserHost`."""
    return asyncio.ensure_future(_until_over(runtime, fn, *args))


async def _until_over(runtime: Runtime, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
    over = asyncio.Event()
    runtime.on_end = over.set
    runtime.start(fn, *args)
    cancelled: asyncio.CancelledError | None = None
    while not over.is_set():
        try:
            await over.wait()
        except asyncio.CancelledError as error:
            cancelled = error
            runtime.cancel("cancelled from outside")
    try:
        return runtime.result()
    except BaseException as error:
        if cancelled is None or not isinstance(error, TaskCancelled):
            hide_own_frames(error)
            raise
    raise cancelled
