"""Async generators: closed in the runtime that iterated them, even when a task forgets one half way.

Python tells us when a generator is first iterated and when it is about to be collected. A collected one is closed by a
task of its own in the root nursery; those that are left at the end of the run are closed then, in the order of
their first iteration.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any

from bursar.errors import BudgetExceeded
from bursar.execution.coroutine import start
from bursar.law.kernel import Kernel
from bursar.law.nursery import NurseryState


class AsyncGenerators:
    """Keeps track of the async generators of one runtime."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._live: dict[int, weakref.ref[AsyncGenerator[Any, Any]]] = {}
        self._count = 0

    @contextmanager
    def hooked(self) -> Generator[None]:
        """Listen while the runtime runs in this thread."""
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._first, finalizer=self._finalize)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*before)

    def _first(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._count += 1
        number = self._count
        self._live[number] = weakref.ref(generator, lambda _: self._live.pop(number, None))

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Called by the collector, anywhere: only spawn."""
        if self._kernel.root.state is NurseryState.OPEN:
            self._spawn_close(generator)

    def close_all(self) -> bool:
        """Spawn a close for every generator that is still open. False: there was none."""
        left = [ref() for ref in list(self._live.values())]
        self._live.clear()
        for generator in left:
            if generator is not None:
                self._spawn_close(generator)
        return any(generator is not None for generator in left)

    def _spawn_close(self, generator: AsyncGenerator[Any, Any]) -> None:
        kernel = self._kernel
        current, kernel.current = kernel.current, None  # the runtime itself spawns this
        try:
            task = kernel.spawn(kernel.root, name=f"aclose {getattr(generator, '__qualname__', generator)!s}")
            start(task, _close, (generator,))
        except BudgetExceeded:
            kernel.counters["asyncgen_unclosed"] += 1  # the root purse is dry: there is nobody to close it
        finally:
            kernel.current = current


async def _close(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()
