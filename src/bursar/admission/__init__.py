"""Admission: may a task start? Priorities, dependencies, resources, pause, drop, retry.

The room is laid out and not built. Until it is, every task is admitted at once, and what only admission could honour
is refused by name, so that no program believes it has something that it has not.
"""

from __future__ import annotations

from enum import IntEnum

from bursar.errors import NotBuilt


class Priority(IntEnum):
    """The class in which a task waits for permission. It never decides who runs next."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


def refuse_what_is_not_built(*, depends: bool, priority: Priority, needs: object, retry: object) -> None:
    """Raise `NotBuilt` for the keywords of `spawn` that belong to this room."""
    if depends:
        raise NotBuilt(
            "spawn: a task among the arguments, or in after=, is a dependency; "
            "dependencies belong to admission, which is not built yet. Await the task inside the new one."
        )
    if needs is not None:
        raise NotBuilt("spawn(needs=...): resources belong to admission, which is not built yet")
    if retry is not None:
        raise NotBuilt("spawn(retry=...): retries belong to admission, which is not built yet")
    if priority is not Priority.NORMAL:
        raise NotBuilt("spawn(priority=...): priorities act at admission, which is not built yet")
