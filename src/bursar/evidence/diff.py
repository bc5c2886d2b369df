"""The first difference between two traces.

Two runs are compared as what they must have in common (`LAW`: everything but what belongs to the host) or record by
record (`EVERYTHING`). One difference is enough: after it the runs are two different stories, and a list of all that
follows would only hide where they parted. Neither file is held in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from bursar.trace.events import Event
from bursar.trace.file_format import LAW_HEADER
from bursar.trace.reader import Trace

BEFORE: Final = 3  # events that are still the same
AFTER: Final = 3  # events of each side from the difference on


class View(NamedTuple):
    """What of a trace is compared."""

    header: Callable[[str], bool]
    event: Callable[[Event], tuple[Any, ...] | None]  # None: not at all


def _every(name: str) -> bool:
    return True


LAW: Final = View(LAW_HEADER.__contains__, Event.essence)
EVERYTHING: Final = View(_every, Event.whole)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two traces part. `left` and `right` are empty if only the headers differ, or one is at its end."""

    header: dict[str, tuple[Any, Any]]  # the entries that differ
    same: int  # events that were compared and equal
    before: list[Event]  # the last of these, as the left side has them
    left: list[Event]
    right: list[Event]


Seen = tuple[Event, tuple[Any, ...]]


def diff(left: Trace, right: Trace, view: View = LAW) -> Difference | None:
    """The first difference of two traces, or None. With `view=EVERYTHING` the host's part counts too."""
    header = {
        name: (left.header.get(name), right.header.get(name))
        for name in sorted(filter(view.header, left.header.keys() | right.header.keys()))
        if left.header.get(name) != right.header.get(name)
    }
    ours, theirs = _seen(left, view), _seen(right, view)
    before: deque[Event] = deque(maxlen=BEFORE)
    same = 0
    for a, b in zip_longest(ours, theirs):
        if a is None or b is None or a[1] != b[1]:
            return Difference(header, same, list(before), _from(a, ours), _from(b, theirs))
        before.append(a[0])
        same += 1
    return Difference(header, same, list(before), [], []) if header else None


def _seen(trace: Trace, view: View) -> Iterator[Seen]:
    for event in trace.events():
        compared = view.event(event)
        if compared is not None:
            yield event, compared


def _from(first: Seen | None, rest: Iterator[Seen]) -> list[Event]:
    return [] if first is None else [first[0], *(event for event, _ in islice(rest, AFTER - 1))]
