"""Functions whose annotations are text, for `test_signature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bursar import Checkpoint
from bursar import Checkpoint as Place

if TYPE_CHECKING:
    import bursar as unknown_here


def last(a: int, b: int, checkpoint: Checkpoint):
    return checkpoint, a, b


def optional(a: int, b: int, *, checkpoint: Checkpoint | None = None):
    return checkpoint, a, b


def under_another_name(a, place: Place, b):
    return place, a, b


def for_type_checkers_only(a, b, checkpoint: unknown_here.Checkpoint):
    return checkpoint, a, b


def plain(a: int, b: unknown_here.Task) -> Checkpoint: ...


class Thing:
    def __call__(self, a: int, b: int, checkpoint: Checkpoint):
        return checkpoint, a, b
