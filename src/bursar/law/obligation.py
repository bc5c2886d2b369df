"""Obligations: promises in two phases that a task must settle before it ends.

A reserved place in a channel, a held ticket, an unanswered call: each is made in one step and committed or
aborted in another. A task that ends with one open has leaked it. The leak is reported with the place in the
program where the promise was made, the obligation is aborted, so that whoever waits behind it goes on, and
the region closes all the same.

OBLIGATION-1  an obligation is settled exactly once: committed, aborted or leaked
OBLIGATION-2  a DONE task holds none
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.law.task import Task


class Settled(IntEnum):
    """What became of an obligation."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2
    LEAKED = 3


class Obligation:
    """One open promise. `undo` is what aborting it does: give the place, the ticket, the turn back."""

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
        """Close it (OBLIGATION-1). Committing keeps what was done; aborting and leaking undo it."""
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
    """Settle as leaked whatever the task still holds, newest first, and say what that was."""
    open_ones = list((task.obligations or {}).values())
    for obligation in reversed(open_ones):
        obligation.settle(Settled.LEAKED)
    return open_ones
