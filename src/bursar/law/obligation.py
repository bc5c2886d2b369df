"""Obligations: promises that a task must settle before it ends.

Examples are a reserved place in a channel, a hold of a semaphore, an unanswered call. A task makes an obligation in one
step and commits or aborts it in another. A task that ends with an open obligation has leaked it. The report names the
place in the program that made the obligation. The obligation is aborted, so that tasks that wait for it continue and
the nursery can close.

OBLIGATION-1  an obligation is settled exactly once: committed, aborted or leaked
OBLIGATION-2  a DONE task holds none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bursar.text import NamedInt

if TYPE_CHECKING:
    from bursar.law.task import Task


class Settled(NamedInt):
    """How an obligation was settled."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2
    LEAKED = 3


class Obligation:
    """One obligation. Aborting it calls `undo`, which gives the place or the hold back."""

    __slots__ = ("holder", "id", "note", "origin", "settled", "undo", "what")

    def __init__(
        self,
        id: int,
        holder: Task,
        what: str,
        origin: str,
        undo: Callable[[], None],
        note: Callable[[str, Task, Obligation], None] | None = None,
    ) -> None:
        self.id = id
        self.holder = holder
        self.what = what
        self.origin = origin
        self.undo = undo
        self.settled = Settled.OPEN
        self.note = note  # where the evidence goes
        if holder.obligations is None:
            holder.obligations = {}
        holder.obligations[id] = self
        if note is not None:
            note("obligation_made", holder, self)

    def settle(self, how: Settled) -> None:
        """Settle the obligation (OBLIGATION-1). Aborting and leaking call `undo`; committing does not."""
        assert self.settled is Settled.OPEN, "OBLIGATION-1"
        self.settled = how
        held = self.holder.obligations
        assert held is not None, "OBLIGATION-2"
        del held[self.id]
        if self.note is not None:
            self.note("obligation_settled", self.holder, self)
        if how is not Settled.COMMITTED:
            self.undo()

    def __str__(self) -> str:
        return f"{self.what}, made at {self.origin}"


def leaked(task: Task) -> list[Obligation]:
    """Settle all open obligations of the task as leaked, newest first. Returns them."""
    open_ones = list((task.obligations or {}).values())
    for obligation in reversed(open_ones):
        obligation.settle(Settled.LEAKED)
    return open_ones
