"""Async generators: closed in the runtime that iterated them, even when a task forgets one half way.

Python tells us when a generator is first iterated and when it is about to be collected. A collected one is closed by a
task of its own in the root nursery; those that are left at the end of the run are closed then, in the order of
their first iteration. The closing task has the authority of the task that iterated the generator and spends that
task's money, or after its end the money of whoever it went back to: forgetting a generator gains nothing.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any

from bursar.errors import BudgetExceeded, brief
from bursar.execution.coroutine import start
from bursar.law.budget import Pools
from bursar.law.kernel import Kernel
from bursar.law.nursery import NurseryState
from bursar.law.task import Task


class AsyncGenerators:
    """Keeps track of the async generators of one runtime."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._live: dict[int, tuple[weakref.ref[AsyncGenerator[Any, Any]], Task | None]] = {}

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
        self._live[id(generator)] = (weakref.ref(generator), self._kernel.current)

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Called by the collector, anywhere: only spawn."""
        _, owner = self._live.pop(id(generator), (None, None))
        if self._kernel.root.state is NurseryState.OPEN:
            self._spawn_close(generator, owner)

    def close_all(self) -> bool:
        """Spawn a close for every generator that is still open. False: there was none."""
        left = [(ref(), owner) for ref, owner in list(self._live.values())]
        self._live.clear()
        for generator, owner in left:
            if generator is not None:
                self._spawn_close(generator, owner)
        return any(generator is not None for generator, _ in left)

    def _spawn_close(self, generator: AsyncGenerator[Any, Any], owner: Task | None) -> None:
        kernel = self._kernel
        current, kernel.current = kernel.current, None  # the runtime itself spawns this
        try:
            name = f"aclose {getattr(generator, '__qualname__', repr(generator))}"
            task = kernel.spawn(kernel.root, name=name, pinned=True)
        except BudgetExceeded:
            kernel.counters["asyncgen_unclosed"] += 1  # the root purse is dry: there is nobody to close it
            return
        finally:
            kernel.current = current
        if owner is not None:
            task.capabilities = owner.capabilities
            task.pools = task.purse_of = self._payer(owner)
        start(task, self._close, (generator, task))

    def _payer(self, owner: Task) -> Pools:
        """The pools of the task, or those that its money went back to."""
        while owner.outcome is not None:
            nursery = owner.nursery
            if not nursery.state.terminal or nursery.owner is None:
                return nursery.pools
            owner = nursery.owner
        return owner.pools

    async def _close(self, generator: AsyncGenerator[Any, Any], task: Task) -> None:
        try:
            await generator.aclose()
        except Exception as error:
            self._kernel.report("asyncgen_failed", task, f"raised {brief(error, repr)} while it was closed")
