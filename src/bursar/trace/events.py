"""Events: each record of a trace, completed with what the records before it say.

A record holds only what is new. The other fields of an event follow from earlier records: number and hash of the
decision, turn and batch of the host, cancel streak and its limit, lane. `TraceContext` derives these fields. They are
not recorded, so a record cannot contradict them. `fingerprint` is a hash over what must be the same on every host.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from bursar.law.lanes import Lane
from bursar.law.state import State
from bursar.trace.catalogue import BY_CODE, CANCEL_KINDS, KINDS, LANES, NONE, QUEUES, REPORTS, Field, Kind, Numbers
from bursar.trace.host_answer_codec import pack_answer, unpack_answer

__all__ = [  # with names of the catalogue and of the codec of answers
    "BY_CODE",
    "CANCEL_KINDS",
    "KINDS",
    "LANES",
    "MANDATORY",
    "NONE",
    "QUEUES",
    "REPORTS",
    "Event",
    "Field",
    "Kind",
    "Numbers",
    "TraceContext",
    "TraceRecord",
    "fingerprint",
    "pack_answer",
    "unpack_answer",
]

_ADDRESS: Final = re.compile(rb"\b0x[0-9A-Fa-f]+")

MANDATORY: Final = (
    "task_id",
    "region_id",
    "lane",
    "decision_seq",
    "decision_hash",
    "host_turn_id",
    "microtask_batch_id",
    "cancel_streak",
    "cancel_streak_limit",
    "error_class",  # empty unless something failed
)


class TraceRecord(NamedTuple):
    """One event as a trace holds it: only what is new."""

    kind: Kind
    numbers: Numbers
    text: bytes

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def decoded_text(self) -> str:
        return self.text.decode("utf-8", "replace")

    def same(self, other: TraceRecord) -> bool:
        """Whether the records are equal. Addresses of objects in their texts may differ."""
        if self.kind is not other.kind or self.numbers != other.numbers:
            return False
        return self.text == other.text or _ADDRESS.sub(b"0x", self.text) == _ADDRESS.sub(b"0x", other.text)

    def __str__(self) -> str:
        return str(TraceContext().event(*self))


class Event(NamedTuple):
    """One event of a trace, with everything that is known about it.

    Attributes:
        number: Its number in the trace, from 0.
        name: Its kind.
        task_id: The task that it is about; otherwise the polled task, or 0.
        region_id: The nursery that it is about; otherwise the nursery of the task, or 0.
        lane: The lane of the current step.
        decision_seq: How many decisions there were.
        decision_hash: The decision chain after the last decision.
        host_turn_id: The turn of the host.
        microtask_batch_id: The batch.
        cancel_streak: The cancel streak after the last decision.
        cancel_streak_limit: The longest streak that was allowed then.
        error_class: The class of the error; empty unless something failed.
        now_ns: The time of the run in nanoseconds.
        numbers: The values of the fields of its kind.
        text: Its text, if its kind has one.
        blob: Its bytes, if its kind has any.
    """

    number: int
    name: str
    task_id: int
    region_id: int
    lane: str
    decision_seq: int
    decision_hash: int
    host_turn_id: int
    microtask_batch_id: int
    cancel_streak: int
    cancel_streak_limit: int
    error_class: str
    now_ns: int
    numbers: dict[str, int]
    text: str
    blob: bytes = b""

    def as_dict(self) -> dict[str, Any]:
        """The event for JSON: the mandatory fields first, then those of its kind."""
        kind = KINDS[self.name]
        return {
            "event": self.name,
            **{name: getattr(self, name) for name in MANDATORY},
            "decision_hash": f"{self.decision_hash:016x}",  # many JSON readers keep only 53 bits of a number
            "now_ns": self.now_ns,
            **{f.name: f.shown(self.numbers[f.name]) for f in kind.fields if f.name not in MANDATORY},
            **({kind.text: self.text} if kind.text and kind.text not in MANDATORY else {}),
        }

    def essence(self) -> tuple[Any, ...] | None:
        """What must be the same on every host. None: the whole event depends on the host."""
        kind = KINDS[self.name]
        if kind.host:
            return None
        text = "" if self.name in REPORTS else self.text  # a report quotes paths and objects of the program
        return (self.name, *(int(self.numbers[f.name]) for f in kind.fields if not f.host), text)

    def whole(self) -> tuple[Any, ...]:
        """All values of its record."""
        return (self.name, *self.numbers.values(), self.text)

    def __str__(self) -> str:
        kind = KINDS[self.name]
        parts = [f"{f.name}={f.shown(self.numbers[f.name])}" for f in kind.fields]
        if kind.text:
            parts.append(f"{kind.text}={self.text!r}")
        return f"{self.name}({', '.join(parts)})"


@dataclass(slots=True)
class TraceContext:
    """What the records so far say about the next one."""

    hash: int = 0  # of the decision chain; at the beginning of a trace, `Trace.seed_hash`
    number: int = 0
    seq: int = 0
    turn: int = 0
    batch: int = 0
    streak: int = 0
    limit: int = 0
    lane: int = Lane.IDLE  # of the current step
    running: int = 0  # the id of the task that the current step polls
    now_ns: int = 0
    regions: dict[int, int] = field(default_factory=dict[int, int])  # live task → its nursery

    def copy(self) -> TraceContext:
        return replace(self, regions=dict(self.regions))

    def skip(self, kind: Kind, numbers: Numbers) -> None:
        """Take in a record, but make no event of it."""
        change = _BEFORE.get(kind.name) or _AFTER.get(kind.name)
        if change is not None:
            change(self, kind.named(numbers))
        self.number += 1

    def event(self, kind: Kind, numbers: Numbers, text: str | bytes) -> Event:
        """The event of a record."""
        named = kind.named(numbers)
        if kind.name in _BEFORE:
            _BEFORE[kind.name](self, named)
        task_id = named.get("task_id", self.running)
        plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
        event = Event(
            number=self.number,
            name=kind.name,
            task_id=task_id,
            region_id=named.get("region_id", self.regions.get(task_id, 0)),
            lane=LANES[self.lane] if self.lane < len(LANES) else str(self.lane),
            decision_seq=self.seq,
            decision_hash=self.hash,
            host_turn_id=self.turn,
            microtask_batch_id=self.batch,
            cancel_streak=self.streak,
            cancel_streak_limit=self.limit,
            error_class=kind.error_class(plain),
            now_ns=self.now_ns,
            numbers=named,
            text=plain,
            blob=text if isinstance(text, bytes) else b"",
        )
        if kind.name in _AFTER:
            _AFTER[kind.name](self, named)
        self.number += 1
        return event


Change = Callable[[TraceContext, dict[str, int]], None]


def _turn_begun(context: TraceContext, numbers: dict[str, int]) -> None:
    context.turn, context.batch = numbers["host_turn_id"], numbers["microtask_batch_id"]
    _clock_read(context, numbers)


def _turn_over(context: TraceContext, numbers: dict[str, int]) -> None:
    context.turn += 1  # no `host_turn` follows if the batch was cut: it goes on in the next turn


def _clock_read(context: TraceContext, numbers: dict[str, int]) -> None:
    context.now_ns = max(context.now_ns, numbers["now_ns"])


def _decided(context: TraceContext, numbers: dict[str, int]) -> None:
    context.seq += 1
    context.hash, context.lane, context.running = numbers["decision_hash"], numbers["lane"], numbers["task_id"]
    context.streak, context.limit = numbers["cancel_streak"], numbers["cancel_streak_limit"]


def _admitted(context: TraceContext, numbers: dict[str, int]) -> None:
    context.hash = numbers["decision_hash"]


def _joined_region(context: TraceContext, numbers: dict[str, int]) -> None:
    context.regions[numbers["task_id"]] = numbers["region_id"]


def _step_over(context: TraceContext, numbers: dict[str, int]) -> None:
    context.lane, context.running = Lane.IDLE, 0
    if numbers["state"] == State.DONE:
        context.regions.pop(numbers["task_id"], None)


_BEFORE: Final[dict[str, Change]] = {  # changes that hold for the event itself and for those after it
    "host_turn": _turn_begun,
    "clock": _clock_read,
    "scheduler_step_decision": _decided,
    "task_spawned": _joined_region,
    "task_admitted": _admitted,
    "task_dropped": _admitted,
}
_AFTER: Final[dict[str, Change]] = {  # changes that hold only for those after it
    "scheduler_step_end": _step_over,
    "scheduler_host_handoff": _turn_over,
}


def fingerprint(events: Iterable[Event]) -> str:
    """A hash over the essence of the events, as sixteen hexadecimal digits. It is the same on every host."""
    digest = hashlib.blake2b(digest_size=8)
    for event in events:
        essence = event.essence()
        if essence is not None:
            digest.update(repr(essence).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
