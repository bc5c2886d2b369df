"""Bursar as a guest in asyncio: an asyncio task awaits `run`, which runs a Bursar program in the loop of that task.

If the asyncio task is cancelled, it cancels the program and waits for its end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, TypeVar, TypeVarTuple

from bursar.errors import HostLost, HostMisuse, TaskCancelled
from bursar.hosts.asyncio import AsyncioHost, running_loop
from bursar.hosts.asyncio_bridge import from_asyncio
from bursar.law.admission.authority import Authority
from bursar.law.budget import Budget
from bursar.law.capability import Capability
from bursar.runtime import Cleanup, Runtime
from bursar.text import brief
from bursar.trace.ring import Memory
from bursar.tracebacks import hide_own_frames

__all__ = ["AsyncioHost", "from_asyncio", "guest", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run(
    fn: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    budget: Budget | None = None,
    profile: str = "service",
    seed: int = 0,
    workers: int = 1,
    clock: Literal["real", "virtual"] = "real",
    record: str | os.PathLike[str] | Memory | None = None,
    capabilities: Iterable[Capability] | None = None,
    steal: str = "random",
    cleanup: Cleanup | None = None,
    yield_interval: int | None = None,
    dump_signal: int | None = None,
    meter_memory: bool = False,
    admission: Authority | None = None,
) -> T:
    """Run `fn(*args)` as a Bursar program in the running asyncio loop. Awaited by an asyncio task.

    The keywords are those of `bursar.run` except `host`; `dump_signal` is refused, because asyncio handles the signals.
    Cancelling the asyncio task cancels the program and waits for its end.
    Raises `HostMisuse` if no asyncio task awaits it.
    """
    runtime = Runtime(
        budget=budget,
        profile=profile,
        seed=seed,
        workers=workers,
        clock=clock,
        host=AsyncioHost(),
        record=record,
        capabilities=capabilities,
        steal=steal,
        cleanup=cleanup,
        yield_interval=yield_interval,
        dump_signal=dump_signal,
        meter_memory=meter_memory,
        admission=admission,
    )
    try:
        return await guest(runtime, fn, *args)
    except BaseException as error:
        hide_own_frames(error)
        raise


async def guest(runtime: Runtime, fn: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
    """Do what `run` does with your own runtime, made with `host=AsyncioHost()`."""
    loop = running_loop("a guest of asyncio was started")
    waiter = asyncio.current_task()
    if waiter is None:
        raise HostMisuse(
            "bursar.asyncio.run must be awaited by an asyncio task; "
            "in a Bursar task write `await from_asyncio(run(main))`, or spawn `main` into a nursery"
        )
    if getattr(runtime.pump.host, "asyncio_loop", None) is not loop:
        raise HostMisuse(f"host {runtime.pump.host.name!r} does not run in this asyncio loop; use host=AsyncioHost()")
    over = asyncio.Event()
    runtime.on_end = lambda: None if loop.is_closed() else over.set()
    runtime.start(fn, *args)
    cancelled: asyncio.CancelledError | None = None
    try:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                detail = f": {brief(error)}" if error.args else ""
                runtime.cancel(f"asyncio task {waiter.get_name()!r} was cancelled{detail}")
    finally:  # an asyncio task is closed at this await, instead of cancelled, only if its loop has gone
        runtime.pump.stop(HostLost("the asyncio task that awaited the program was closed; cancel it instead"))
    if cancelled is not None:
        raise cancelled from _failure(runtime)
    try:
        return runtime.result()
    except BaseException as error:
        hide_own_frames(error)
        raise


def _failure(runtime: Runtime) -> Exception | None:
    """The error of a program that failed while it was being cancelled. None: it did not fail."""
    try:
        runtime.result()
    except TaskCancelled:
        return None
    except Exception as error:
        return error
    return None
