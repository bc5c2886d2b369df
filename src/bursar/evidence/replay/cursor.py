"""The tape: a trace with its next record in sight, and the observer that holds a program to it, event by event.

REPLAY-2  after the first difference nothing is compared, and no task is polled any more
REPLAY-3  an error of the replay is raised only where no code of the program is on the stack

The law tells its observer what happens while it happens, often from the middle of a task. So the first difference is
kept, and raised with the next event that the pump itself tells.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, cast

from bursar.errors import Divergence, HostLost, TraceCut, TraceError
from bursar.law.kernel import Kernel
from bursar.law.task import Task
from bursar.text import brief
from bursar.trace.events import KINDS, TraceContext, TraceRecord
from bursar.trace.file_format import TEXT_BYTES_MAX
from bursar.trace.reader import Trace
from bursar.trace.writer import versions

BEFORE: Final = 5  # equal events that a divergence shows before the two that differ
NOISE: Final = frozenset(  # what depends on the host, and has no effect: a call at a bad moment, a turn in between
    {"scheduler_reentrancy_deferred", "scheduler_host_handoff"}
)
TORN_DOWN: Final = "run_torn_down"  # what comes after it happened while nobody drove the program any more
OUTER: Final = frozenset({"host_turn", "scheduler_step_begin", "scheduler_step_end"})  # by the pump itself (REPLAY-3)


class ReplayCursor:
    """The trace with the next record in sight, and the observer that holds the program to it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.number = 0  # of the next record
        self.next: TraceRecord | None = None
        self.failure: TraceError | Divergence | HostLost | None = None
        self.kernel: Kernel | None = None
        self.is_virtual = trace.header["clock"] == "virtual" or trace.header["host"] == "virtual"
        self._records = trace.records()
        self._cut: TraceCut | None = None
        self._before: deque[tuple[int, TraceRecord]] = deque(maxlen=BEFORE)
        self._load()

    def _load(self) -> None:
        try:
            self.next = next((record for record in self._records if not self._is_noise(record)), None)
        except TraceCut as cut:
            self.next, self._cut = None, cut

    def _is_noise(self, record: TraceRecord) -> bool:
        noise = record.name in NOISE
        self.number += noise
        return noise

    def upcoming(self, name: str) -> TraceRecord | None:
        """The next record, if it is of that kind."""
        return self.next if self.next is not None and self.next.name == name else None

    def now_ns(self) -> int:
        """The time; where the trace says nothing about it, it stood still."""
        record = self.upcoming("host_turn") or self.upcoming("clock")
        return record.numbers[-1] if record is not None else 0

    def advance(self) -> None:
        assert self.next is not None, "there is one"
        self._before.append((self.number, self.next))
        self.number += 1
        self._load()

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        """The program did something: it must be what comes next."""
        if self.failure is None and name not in NOISE:
            kind = KINDS[name]
            numbers, text = kind.describe(self.kernel, task, detail)
            data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
            happened = TraceRecord(kind, tuple(numbers), data[:TEXT_BYTES_MAX])
            if self.next is not None and self.next.same(happened):
                self.advance()
                return
            self.differ(happened)
        if name in OUTER:
            assert self.failure is not None, "REPLAY-2"
            raise self.failure

    # ---- the end of the agreement

    def differ(self, happened: TraceRecord | str) -> None:
        """The program and the trace part here. Only the first time counts (REPLAY-2)."""
        if self.failure is None and not self._ended_early():
            told = happened if isinstance(happened, str) else self._describe(happened)
            recorded = "nothing more: the run was over" if self.next is None else self._describe(self.next)
            self.failure = Divergence(
                f"{self.trace.path}: at event {self.number:,} the program does something else than the trace says",
                recorded,
                told,
                number=self.number,
                before=tuple(f"{number:,} {self._describe(record)}" for number, record in self._before),
                hint=self._hint(happened),
            )

    def over(self) -> None:
        """The program is over: was that all?"""
        if self.failure is None and (self.next is not None or self._cut is not None):
            self.differ("nothing more: the program is over")

    def _ended_early(self) -> bool:
        """The recorded run did not come to its end: neither can the replay, and up to here it was right."""
        if self._cut is not None:
            same = f"up to there the program did the same again, {self.number:,} events long"
            self.failure = TraceCut(f"{self._cut}; {same}", self._cut.record)
        elif self.upcoming(TORN_DOWN) is not None:
            by = (self.trace.ending or {}).get("error")
            self.failure = HostLost(f"the recorded run was stopped here, by {by}")
        return self.failure is not None

    def _describe(self, record: TraceRecord) -> str:
        event = TraceContext().event(*record)
        task = self.kernel.tasks.get(event.task_id) if self.kernel is not None else None
        return f"{brief(event)} of {task.name!r}" if task is not None else brief(event)

    def _hint(self, happened: TraceRecord | str) -> str:
        made_with, here = self.trace.header.get("versions"), versions()
        for name in ("bursar", "python"):
            there = cast("dict[str, str]", made_with).get(name) if isinstance(made_with, dict) else None
            if there != here[name]:
                return f"the trace was made with {name} {there}, this is {here[name]}"
        told = (happened.text if isinstance(happened, TraceRecord) else b"") + (self.next.text if self.next else b"")
        if b"aclose for " in told:
            return "an async generator was collected at another moment: close it, with contextlib.aclosing"
        return (
            "the program was changed, or something that no trace holds decides what it does: "
            "random, time, the order of a set, a file; bursar.entropy, bursar.now and bursar.host_entropy are safe"
        )
