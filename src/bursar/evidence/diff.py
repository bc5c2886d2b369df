"""The first difference between two traces.

`LAW` compares what must be equal: everything that does not depend on the host. `EVERYTHING` compares all values of the
records. Only the first difference is given. After it, almost every event differs, and a list of them would hide the
first. Neither file is held in memory.
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

BEFORE: Final = 3  # how many equal events are shown before the difference
AFTER: Final = 3  # how many events of each side are shown from the difference on


class View(NamedTuple):
    """Which parts of a trace are compared."""

    header: Callable[[str], bool]  # whether the entry of this name is compared
    event: Callable[[Event], tuple[Any, ...] | None]  # what is compared of the event; None: nothing


def _every(name: str) -> bool:
    return True


LAW: Final = View(LAW_HEADER.__contains__, Event.essence)
EVERYTHING: Final = View(_every, Event.whole)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two traces. `left` and `right` begin with the first events that differ. A side is empty
    if its trace ended before, and both are empty if only the headers differ."""

    header: dict[str, tuple[Any, Any]]  # the entries that differ
    same: int  # events that were compared and equal
    before: list[Event]  # the last of the equal events, from the left trace
    left: list[Event]
    right: list[Event]


Seen = tuple[Event, tuple[Any, ...]]


def diff(left: Trace, right: Trace, view: View = LAW) -> Difference | None:
    """The first difference of two traces, or None. With `view=EVERYTHING`, also in what depends on the host."""
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
