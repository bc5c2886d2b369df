"""The floor: the same coroutines, driven by the smallest loop that Python can express.

The loop has no cancel scopes, no budgets, no fairness, no errors, no timers and no results: nothing that makes a
runtime usable. It shows how much of a figure is the cost of CPython itself, which no runtime written in Python can
avoid.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Coroutine, Generator

Coro = Coroutine[None, None, object]


class FloorCancelled(BaseException):
    """What the floor throws into a coroutine to end it."""


@types.coroutine
def switch() -> Generator[None, None, None]:
    """Give the turn back to the loop."""
    yield


def drive(ready: deque[Coro]) -> None:
    """Run coroutines in turn, first in first out, until all have ended."""
    pop, push = ready.popleft, ready.append
    while ready:
        coro = pop()
        try:
            coro.send(None)
        except StopIteration:
            continue
        push(coro)


def finish(coro: Coro) -> None:
    """Resume a coroutine that is to end now."""
    try:
        coro.send(None)
    except StopIteration:
        return
    raise RuntimeError("the coroutine waits again, and was expected to end")


def cut(coro: Coro) -> None:
    """Cancel a parked coroutine."""
    try:
        coro.throw(FloorCancelled())
    except FloorCancelled:
        return
    raise RuntimeError("the coroutine waits again, and was expected to end")
