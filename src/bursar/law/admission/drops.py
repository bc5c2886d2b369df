"""Unread drops: the end of a nursery's block raises them, so that no drop is silent.

A drop is *read* when a program gets the outcome from the handle: `await task`, `task.wait()`, `task.result` or
`task.outcome`. If a task awaits the dropped task at that moment, the drop is read at once. A drop that the program
asked for (`task.drop()`) is not counted here, because the program knows of it.

A nursery keeps a count and the first few names. Rejected: a list of all dropped tasks. A server that sheds load would
keep all of them until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from bursar.errors import TaskDropped
from bursar.text import counted

if TYPE_CHECKING:
    from bursar.law.admission.ticket import Ticket
    from bursar.law.nursery import Nursery
    from bursar.law.task import Task

NAMED_MAX: Final = 8  # how many dropped tasks the error names


class Drops:
    """The unread drops of one nursery."""

    __slots__ = ("first", "raises", "unread")

    def __init__(self, raises: bool = True) -> None:
        self.raises = raises  # whether the end of the block raises them
        self.unread = 0
        self.first: list[tuple[Ticket, str]] = []  # the first few, each with its name and why it was dropped


def note_drop(task: Task, ticket: Ticket, detail: str) -> None:
    """A limit of the gate is about to drop a task. A supervisor sees the drop itself, and the root has no block."""
    nursery = task.nursery
    if nursery.owner is None or nursery.ends is not None or task.waiters:
        return
    if nursery.drops is None:
        nursery.drops = Drops()
    drops = nursery.drops
    drops.unread += 1
    ticket.unread = True
    if len(drops.first) < NAMED_MAX:
        drops.first.append((ticket, f"{task.name!r} ({detail})"))


def read_drop(task: Task) -> None:
    """A program gets the outcome of a dropped task."""
    ticket = cast("Any", task.ticket)
    if ticket is not None and ticket.unread:
        ticket.unread = False
        if task.nursery.drops is not None:
            task.nursery.drops.unread -= 1


def count_unread(nursery: Nursery) -> int:
    """How many drops the end of the block would raise."""
    drops = nursery.drops
    return drops.unread if drops is not None and drops.raises else 0


def error_of(nursery: Nursery) -> TaskDropped | None:
    """The error for the unread drops of a nursery; None if there are none. In a cancelled nursery they do not count."""
    unread = count_unread(nursery)
    if not unread or (nursery.reason is not None and not nursery.failures):
        return None
    assert nursery.drops is not None, "unread drops are counted in it"
    names = ", ".join(text for ticket, text in nursery.drops.first if ticket.unread)
    return TaskDropped(
        f"{counted(unread, 'task')} of {nursery.name} never started, and no code read that: {names or 'no names kept'}"
        f"{' and more' if names and unread > NAMED_MAX else ''}; await the tasks or read their `outcome`, raise the "
        'limits of the Authority, or state nursery(on_drop="record")'
    )
