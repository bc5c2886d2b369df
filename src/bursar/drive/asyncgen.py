"""Closes async generators in the runtime that iterated them, even if a task drops one before its end.

The task that first iterates a generator owns it. If that task is cancelled or fails, its generators are closed when it
ends, in the order of their first iteration. This does not wait for the collector: the traceback of the error refers to
the frames that hold the generators, often in a cycle, so the moment would be another one in each kernel.

A generator of a task that continues, or that returned, may be held by other code. Python calls a hook when such a
generator is about to be collected. It may be called anywhere, in any thread, so it only notes the generator and wakes
the host. At the end of the run, all generators that are still open are closed.

One task per owner closes the owner's generators. Closing is cleanup: it has the authority of the owner, and uses its
cleanup credit. So a task cannot save ops by dropping its generators.

ASYNCGEN-1  after a task was cancelled or failed, no generator that it began is open and waits for the collector
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
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
    """Whether the generator needs closing. A finished generator may still be alive, perhaps in a traceback, and it is
    not known until when. It needs no task."""
    return generator is not None and getattr(generator, "ag_frame", generator) is not None


class AsyncGenerators:
    """Keeps track of the async generators of one runtime."""

    def __init__(self, kernel: Kernel, wake: Callable[[], None]) -> None:
        self._kernel = kernel
        self._live: dict[int, tuple[weakref.ref[Gen], Task]] = {}  # by identity, in the order of first iteration
        self.begun: dict[Task, list[int]] = {}  # the identities by owner, in the same order; some are gone
        self._sweep_at = SWEEP_MIN
        self.collected: deque[tuple[Gen, Task]] = deque()  # any thread may append
        self._closing: dict[Task, deque[Gen]] = {}  # the generators that are being closed, by owner
        self._wake = wake
        self._before: Any = None  # the hooks that were set before ours; None: ours are not set
        self._throughout = False  # the loop is Bursar's own: no other code runs between two batches

    def hook(self) -> None:
        """Set the hooks while the runtime polls tasks in this thread. `unhook` restores the hooks before them."""
        if self._throughout:
            return
        self._before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._first, finalizer=self._finalize)

    def hook_throughout(self) -> None:
        """Keep the hooks set from now on, between batches too, until `unhook_throughout`."""
        self.hook()
        self._throughout = True

    def unhook_throughout(self) -> None:
        """Restore the hooks that were set before. Idempotent."""
        self._throughout = False
        self.unhook()

    def unhook(self) -> None:
        """Restore the hooks that were set before. Idempotent."""
        if self._throughout:
            return
        if self._before is not None:
            sys.set_asyncgen_hooks(*self._before)
            self._before = None

    def _first(self, generator: Gen) -> None:
        owner = self._kernel.current
        if owner is None:
            return  # no task of this runtime iterates it
        if len(self._live) >= self._sweep_at:
            self._sweep()
        self._live.pop(id(generator), None)  # an earlier generator with the same identity is gone
        self._live[id(generator)] = (weakref.ref(generator), owner)
        self.begun.setdefault(owner, []).append(id(generator))

    def _sweep(self) -> None:
        """Forget the generators that are gone."""
        self._live = {key: entry for key, entry in self._live.items() if entry[0]() is not None}
        self._sweep_at = 2 * len(self._live) + SWEEP_MIN
        self.begun.clear()
        for key, (_, owner) in self._live.items():
            self.begun.setdefault(owner, []).append(key)

    def close_begun(self, owner: Task) -> None:
        """A task was cancelled or failed: close its generators after this poll (ASYNCGEN-1)."""
        for key in self.begun.pop(owner, ()):
            ref, by = self._live.get(key, (None, None))
            if ref is not None and by is owner and is_open(generator := ref()):
                del self._live[key]
                self.collected.append((generator, owner))

    def _finalize(self, generator: Gen) -> None:
        """The collector calls this anywhere, in any thread: only note the generator and wake the host."""
        entry = self._live.pop(id(generator), None)
        if entry is not None:
            self.collected.append((generator, entry[1]))
            self._wake()

    def close_collected(self) -> None:
        """Close the generators that the collector found since the last call."""
        while self.collected:
            self._close_later(*self.collected.popleft())

    def close_all(self) -> bool:
        """Close every generator that is still open. Returns False if there was none."""
        left = [(generator, owner) for ref, owner in self._live.values() if is_open(generator := ref())]
        self._live.clear()
        self.begun.clear()
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
            self._kernel.counters["asyncgen_unclosed"] += 1  # the root purse is empty, so no task can close it
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
                    detail = f"{name} raised {brief(error, repr)} while it was closed"
                    self._kernel.report("asyncgen_failed", task, detail)
        finally:
            del self._closing[owner]
            self._kernel.counters["asyncgen_unclosed"] += len(queue)
