"""Async generators: closed in the runtime that iterated them, even when a task forgets one half way.

Python tells us when a generator is first iterated and when it is about to be collected. The second may happen anywhere,
in any thread, so the collector only leaves a note and wakes the host; the pump then spawns a task that closes what
was forgotten, in the order of its first iteration, one task for each owner. Those that are left at the end of the
run are closed then. Closing is cleanup: it has the authority of the task that iterated the generator and lives on
that task's cleanup credit, so forgetting generators gains nothing.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeGuard

from bursar.backend import Kernel, Task
from bursar.errors import BudgetExceeded
from bursar.ops.start import start
from bursar.text import brief

SWEEP_MIN: Final = (
    64  # generators that ran to their end are forgotten when so many more are listed than lived last time
)

Gen = AsyncGenerator[Any, Any]


def is_open(generator: Gen | None) -> TypeGuard[Gen]:
    """Whether there is anything to close. One that came to its end may live on, in a traceback perhaps, and when that
    goes is nobody's decision: no task is spawned for it."""
    return generator is not None and getattr(generator, "ag_frame", generator) is not None


class AsyncGenerators:
    """Keeps track of the async generators of one runtime."""

    def __init__(self, kernel: Kernel, wake: Callable[[], None]) -> None:
        self._kernel = kernel
        self._live: dict[int, tuple[weakref.ref[Gen], Task]] = {}  # by identity, in the order of first iteration
        self._sweep_at = SWEEP_MIN
        self.collected: deque[tuple[Gen, Task]] = deque()  # appended to from anywhere
        self._closing: dict[Task, deque[Gen]] = {}  # what is being closed, by owner
        self._wake = wake
        self._before: Any = None  # whoever listened before; None: we do not listen
        self._throughout = False  # the loop is ours: nobody else's code runs between two batches

    def hook(self) -> None:
        """Listen, while the runtime polls tasks in this thread; whoever listened before does so again afterwards."""
        if self._throughout:
            return
        self._before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._first, finalizer=self._finalize)

    @contextmanager
    def hooked(self) -> Generator[None]:
        """Listen for as long as the block runs."""
        self.hook()
        self._throughout = True
        try:
            yield
        finally:
            self._throughout = False
            self.unhook()

    def unhook(self) -> None:
        """Idempotent."""
        if self._throughout:
            return
        before, self._before = self._before, None
        if before is not None:
            sys.set_asyncgen_hooks(*before)

    def _first(self, generator: Gen) -> None:
        owner = self._kernel.current
        if owner is None:
            return  # iterated by code that is not ours
        if len(self._live) >= self._sweep_at:
            self._live = {key: entry for key, entry in self._live.items() if entry[0]() is not None}
            self._sweep_at = 2 * len(self._live) + SWEEP_MIN
        self._live.pop(id(generator), None)  # an earlier one of the same identity is gone
        self._live[id(generator)] = (weakref.ref(generator), owner)

    def _finalize(self, generator: Gen) -> None:
        """Called by the collector, anywhere: only leave a note."""
        entry = self._live.pop(id(generator), None)
        if entry is not None:
            self.collected.append((generator, entry[1]))
            self._wake()

    def close_collected(self) -> None:
        """See to what the collector has found since the last look."""
        while self.collected:
            self._close_later(*self.collected.popleft())

    def close_all(self) -> bool:
        """See to every generator that is still open. False: there was none."""
        left = [(generator, owner) for ref, owner in self._live.values() if is_open(generator := ref())]
        self._live.clear()
        self.collected.extend(left)
        found = bool(self.collected)
        self.close_collected()
        return found

    def _close_later(self, generator: Gen, owner: Task) -> None:
        queue = self._closing.get(owner)
        if queue is not None:
            queue.append(generator)
            return
        try:
            task = self._kernel.spawn_tidying(owner, f"aclose for {owner.name}")
        except BudgetExceeded:
            self._kernel.counters["asyncgen_unclosed"] += 1  # the root purse is dry: there is nobody to close it
            return
        self._closing[owner] = deque([generator])
        start(task, self._close, (owner, task))

    async def _close(self, owner: Task, task: Task) -> None:
        queue = self._closing[owner]
        try:
            while queue:
                generator = queue.popleft()
                try:
                    await generator.aclose()
                except Exception as error:
                    name = brief(getattr(generator, "__qualname__", generator))
                    told = f"{name} raised {brief(error, repr)} while it was closed"
                    self._kernel.report("asyncgen_failed", task, told)
        finally:
            del self._closing[owner]
            self._kernel.counters["asyncgen_unclosed"] += len(queue)
