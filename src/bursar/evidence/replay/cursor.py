"""The replay cursor: the position in a trace, and the observer that compares each event of a program with it.

REPLAY-2  after the first difference, no event is compared and no task is polled
REPLAY-3  an error of the replay is raised only where no code of the program is on the stack

The law calls its observer at once, often while a task's code is on the stack. So the cursor keeps the first difference,
and raises it at the next event that comes from the pump itself.
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
NOISE: Final = frozenset(  # not compared: these depend on the host and have no effect on the run
    {"scheduler_reentrancy_deferred", "scheduler_host_handoff"}
)
TORN_DOWN: Final = "run_torn_down"  # after this record, no pump drove the program
OUTER: Final = frozenset({"host_turn", "scheduler_step_begin", "scheduler_step_end"})  # by the pump itself (REPLAY-3)


class ReplayCursor:
    """The next record of a trace, and the observer that compares the program with it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.number = 0  # of the next record
        self.next: TraceRecord | None = None
        self.turn = 0  # of the host, before the next record
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
        self.turn += record.name == "scheduler_host_handoff"
        return noise

    def upcoming(self, name: str) -> TraceRecord | None:
        """The next record if it is of this kind, otherwise None."""
        return self.next if self.next is not None and self.next.name == name else None

    def now_ns(self) -> int:
        """The time of the next record. 0: the record has no time, so the time of the run stays as it is."""
        record = self.upcoming("host_turn") or self.upcoming("clock")
        return record.numbers[-1] if record is not None else 0

    def cpu_ns(self, task: Task) -> int | None:
        """The processor time that the recorded run measured here. None: it measured none."""
        record = self.upcoming("cpu_charged")
        return record.numbers[1] if record is not None and record.numbers[0] == task.id else None

    def advance(self) -> None:
        assert self.next is not None, "there is a next record"
        self._before.append((self.number, self.next))
        if self.next.name == "host_turn":
            self.turn = self.next.numbers[0]
        self.number += 1
        self._load()

    def __call__(self, name: str, task: Task | None, detail: Any) -> None:
        """Compare an event of the program with the next record."""
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

    # ---- differences

    def differ(self, happened: TraceRecord | str) -> None:
        """Keep the difference between program and trace. Only the first one counts (REPLAY-2)."""
        if self.failure is None and not self._ended_early():
            described = happened if isinstance(happened, str) else self._describe(happened)
            recorded = "nothing more: the run was over" if self.next is None else self._describe(self.next)
            self.failure = Divergence(
                f"{self.trace.path}: at event {self.number:,} the program does not do what the trace says",
                recorded,
                described,
                number=self.number,
                before=tuple(f"{number:,} {self._describe(record)}" for number, record in self._before),
                hint=self._hint(happened),
            )

    def over(self) -> None:
        """The program has ended: check that the trace has too."""
        if self.failure is None and (self.next is not None or self._cut is not None):
            self.differ("nothing more: the program is over")

    def _ended_early(self) -> bool:
        """Whether the recorded run did not reach its end. Then the replay ends here too, without a difference."""
        if self._cut is not None:
            same = f"up to there the program did the same again: {self.number:,} events"
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
                return f"the trace was made with {name} {there}; this is {name} {here[name]}"
        texts = (happened.text if isinstance(happened, TraceRecord) else b"") + (self.next.text if self.next else b"")
        if b"aclose for " in texts:
            return "an async generator was collected at another moment: close it, with contextlib.aclosing"
        return (
            "the program was changed, or its behaviour depends on something that is not in the trace: "
            "random, time, the order of a set, a file; bursar.entropy, bursar.now and bursar.host_entropy are safe"
        )
