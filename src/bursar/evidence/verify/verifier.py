"""`verify`: check that the law allows every record of a trace.

The model (`model_tasks`, `model_families`, `model_gates`) follows the tasks. This file follows what surrounds them:
turns, batches, the clock, the beginning and the end. The trace is read once, record by record, and the model holds only
tasks that live. Verification ends at the first record that the law does not allow. The error has the record's number
and says what the law would have done.

What the program chose (which task it woke, what it charged, its names) and what the host answered is accepted if it was
possible. `verify` shows that the law was kept; `replay` shows that the program did it.

Rejected: the chain alone as proof. The chain shows that a trace was not changed by accident, but a forger can compute
it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from bursar.errors import BursarError, TraceError
from bursar.evidence.verify.model_gates import Gates
from bursar.evidence.verify.model_tasks import Records
from bursar.law.cancel import CancelKind
from bursar.law.chain import fingerprint
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX
from bursar.law.obligation import Settled
from bursar.law.task import Task
from bursar.text import brief, type_name
from bursar.trace.catalogue import CANCEL_KINDS
from bursar.trace.events import TraceRecord
from bursar.trace.host_answer_codec import unpack_answer
from bursar.trace.reader import Trace

SHUTDOWN: Final = CANCEL_KINDS.index(CancelKind.SHUTDOWN)
PUMP: Final = frozenset(  # events of the pump itself
    {
        "host_turn",
        "clock",
        "outside",
        "scheduler_step_begin",
        "scheduler_step_end",
        "scheduler_reentrancy_deferred",
        "scheduler_burst_limit_reached",
        "scheduler_host_handoff",
        "run_torn_down",
    }
)
ALONE: Final = frozenset(  # acts of the runtime between batches
    {"cleanup_cut", "nursery_closing", "nursery_closed"}
)
STUCK: Final = frozenset({"cancel_requested", "cleanup_cut"})  # acts of the runtime when no task can ever run again
IN_PASSING: Final = frozenset(  # may come between a charge and what was paid for
    {"charged", "clock", "host_answer", "named_amounts"}
)
AFTERMATH: Final = frozenset(  # consequences of the end of a poll
    {
        "task_woken",
        "stale_wake",
        "obligation_made",
        "nursery_cancelling",
        "cancel_requested",
        "task_spawned",
        "named_amounts",
    }
)
ENDING: Final = frozenset(  # the first records that the end of a task may have
    {
        "task_done",
        "task_blocked",
        "obligation_settled",
        "cleanup_ended",
        "scope_left",
        "nursery_closing",
        "nursery_cancelling",
        "nursery_closed",
        "cancel_requested",
        "failure_unraised",
    }
)
LAWFUL: Final = {"cancel_streak_max": CANCEL_STREAK_MAX, "timed_streak_max": TIMED_STREAK_MAX, "root_region": 1}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` checked: the number of `events` and `decisions`, and the `fingerprint`."""

    events: int
    decisions: int
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.events:,} events and {self.decisions:,} decisions follow the law; fingerprint {self.fingerprint}"


class Stage(Enum):
    """What the pump does between two records. The values complete the messages of errors."""

    START = "before the first batch"
    INTAKE = "at the beginning of a batch"
    STEP = "in a step"
    BETWEEN = "between two steps of a batch"
    REST = "after a batch"
    TORN = "after the run was torn down"


class _Verifier(Gates):
    """The model, and the pump around it."""

    def __init__(self, header: dict[str, Any], records: Records) -> None:
        super().__init__(header, records)
        self._burst: int = header["burst_limit"]
        self._virtual: bool = header["clock"] == "virtual"
        self._stage = Stage.START
        self._turn = 0
        self._batch = 0
        self._fired = 0  # timers, in this batch
        self._outside = 0  # posts that were delivered, in this turn
        self._label = ""  # of the last of these posts
        self._steps = 0  # decisions, in this turn
        self._polled: Task | None = None  # the task of the current step
        self._first = 0  # the number of the first record of this poll
        self._full = False  # the last batch reached a limit
        self._same_turn: bool | None = False  # whether the next batch belongs to this turn; None: not known
        self._alarm_ns: int | None = None  # the deadline that virtual time may jump to

    def follow(self, record: TraceRecord) -> None:
        """Take one act, and all its consequences."""
        if self._stage is Stage.TORN:
            self._torn(record)
            return
        if record.name not in PUMP:
            self._enter(record)
            if self.current is not None and self.current.id in self.returned:
                self._ends(record)
        number = self.records.number
        take = getattr(self, "on_" + record.name, None)
        if take is None:
            raise self.records.wrong("no earlier record leads to this")
        take(*record.numbers)
        if self.named_record is not None and record.name != "named_amounts":
            raise self.records.wrong("the record before it has amounts of named counters, which belong to no act")
        if record.name not in IN_PASSING:
            self.paid = None
        if self.records.number == number:
            raise self.records.wrong("the law would have recorded nothing")

    def _enter(self, record: TraceRecord) -> None:
        """PUMP-2: tasks act only in steps, and the outside acts only at the beginning of a batch."""
        if self._stage is Stage.STEP and (self.current is not None or record.name in AFTERMATH):
            return
        alone = record.name in ALONE
        if record.name == "task_spawned":
            alone = record.numbers[3] == 1  # pinned: by the runtime
        elif record.name == "cancel_requested":
            alone = record.numbers[1] == SHUTDOWN
        if alone and self._stage is Stage.INTAKE:
            self._batch_over()
        if alone and self._stage is Stage.BETWEEN and record.name != "task_spawned":
            raise self.records.wrong("a task is runnable: the law would have begun a step")
        if record.name in STUCK and alone and len(self.timers):
            raise self.records.wrong("the law would have waited for a timer")
        if self._stage is Stage.STEP or (not alone and not (self._stage is Stage.INTAKE and self._outside)):
            raise self.records.wrong(f"nothing can cause this {self._stage.value}")

    def _ends(self, record: TraceRecord) -> None:
        """The code of the running task has ended. Only the end of the task can follow, after its children."""
        own = record.name == "obligation_settled" and record.numbers[2] != Settled.LEAKED
        if record.name not in ENDING or own:
            raise self.records.wrong("the code of the task has ended, and can do nothing more")

    def on_cancel_delivered(self, id: int, *cause: int) -> None:
        """A task that gets `Cancelled` before its first poll never begins."""
        unbegun = self._acting(id).generation == 1 and self.records.number == self._first
        super().on_cancel_delivered(id, *cause)
        if unbegun:
            self.returned.add(id)

    # ---- turns and batches

    def on_host_turn(self, turn: int, batch: int, now_ns: int) -> None:
        if self._stage in (Stage.INTAKE, Stage.BETWEEN):
            self._batch_over()
        if self._stage not in (Stage.START, Stage.REST):
            raise self.records.wrong(f"no batch begins {self._stage.value}")
        turns = {None: (0, 1), True: (0,), False: (1,)}[self._same_turn]
        if batch != self._batch + 1 or turn - self._turn not in turns:
            raise self.records.wrong(f"batch {self._batch + 1} of turn {self._turn + turns[-1]} comes next")
        if self._virtual and now_ns not in (self.now_ns, self._alarm_ns):
            raise self.records.wrong(f"virtual time is {self.now_ns:,} ns, or jumps to the next deadline")
        self.records.advance()
        if turn != self._turn:
            self._steps = self._outside = 0
        self._turn, self._batch = turn, batch
        self._stage = Stage.INTAKE
        self._fired = self.advance(now_ns, self._burst)

    def on_clock(self, now_ns: int) -> None:
        if now_ns <= self.now_ns or self._virtual or self._stage not in (Stage.INTAKE, Stage.STEP):
            raise self.records.wrong(f"it is {self.now_ns:,} ns: only a later time is recorded, and only in a batch")
        self.records.advance()
        self.now_ns = now_ns

    def on_outside(self) -> None:
        if self._stage is not Stage.INTAKE or self._outside >= self._burst or self.records.next is None:
            raise self.records.wrong(self._too_many_posts())
        self._outside += 1
        self._label = self.records.next.decoded_text
        self.records.advance()

    def on_stale_timer(self, id: int, region: int, timer: int, generation: int) -> None:
        if self._stage is not Stage.INTAKE or self._label != f"alarm {timer} {generation}":
            raise self.records.wrong("the host posted no alarm of this timer")
        super().on_stale_timer(id, region, timer, generation)

    def on_scheduler_step_begin(self) -> None:
        if self._stage not in (Stage.INTAKE, Stage.BETWEEN) or not self.runnable:
            raise self.records.wrong(f"no step begins {self._stage.value} with {self.runnable} runnable tasks")
        self.records.advance()
        self._steps += 1
        self._stage = Stage.STEP
        self._polled = self.step()
        if self._polled is None:
            raise self.records.wrong("the law would have found nothing to dispatch")
        self._first = self.records.number

    def on_scheduler_step_end(self, id: int, state: int) -> None:
        task, self._polled = self._polled, None
        if task is None or self.current is not None:
            raise self.records.wrong("no step has begun" if task is None else f"task {task.id} still runs")
        if self._armed:
            raise self.records.wrong("a timer was armed for a wait, but the task does not wait")
        self.step_over(task)
        self._stage = Stage.BETWEEN
        if not self.runnable or self._steps == self._burst:
            self._batch_over()

    def _batch_over(self) -> None:
        """What the pump asks of the host after a batch: another call at once, a handoff first (PUMP-3), or an alarm."""
        if self.runnable and self._steps < self._burst:
            raise self.records.wrong("a task is runnable: the law would have begun a step")
        self._stage = Stage.REST
        self._full = max(self._fired, self._outside, self._steps) >= self._burst
        deadline_ns = self.timers.next_deadline_ns()
        left = bool(self.runnable) or (deadline_ns is not None and deadline_ns <= self.now_ns)
        self._same_turn = True if left and not self._full else None
        self._alarm_ns = None if left else deadline_ns
        if left and self._full and not self.records.comes("scheduler_burst_limit_reached"):
            raise self.records.wrong("the limit is reached: the pump would have handed over to the host")

    def on_scheduler_burst_limit_reached(self) -> None:
        if self._stage in (Stage.INTAKE, Stage.BETWEEN):
            self._batch_over()
        if self._stage is not Stage.REST or not self._full:
            raise self.records.wrong("no limit is reached here")
        self._full, self._same_turn = False, False
        self.records.advance()
        if not self.records.comes("scheduler_host_handoff"):
            raise self.records.wrong("the limit is reached: the pump would have handed over to the host")
        self.records.advance()

    def on_scheduler_host_handoff(self) -> None:
        """A handoff without a limit: the host could not wait for the whole batch, which goes on in its next turn."""
        if self._stage is not Stage.BETWEEN or not self.runnable or self._steps == self._burst:
            raise self.records.wrong("no batch is cut here")
        self.records.advance()
        self._turn += 1

    def on_scheduler_reentrancy_deferred(self) -> None:
        if self._stage in (Stage.START, Stage.REST):
            raise self.records.wrong("no batch has begun")
        self.records.advance()

    def on_host_answer(self, id: int) -> None:
        """An answer to the running task, or to a post that is delivered."""
        if self.current is None and self._label.startswith("calls "):
            self._called(id)
        else:
            self._by_known_task(id)
        self.records.advance()

    def _called(self, id: int) -> None:
        """One post delivers many calls of other threads (see `bursar.threads.portal`); each call counts as a post."""
        self._known(id)
        assert self.records.next is not None, "`follow` has this record"
        asked, n = unpack_answer(self.records.next.text)
        if asked != "calls" or type(n) is not int or not 0 <= n <= self._burst:
            raise self.records.wrong(self._too_many_posts())
        self._outside += max(n, 1) - 1

    def _too_many_posts(self) -> str:
        return f"from outside, at most {self._burst} posts a turn are delivered, at the beginning of a batch"

    def on_capability_denied(self, id: int) -> None:
        self._by_known_task(id)
        self.records.advance()

    def _by_known_task(self, id: int) -> None:
        if self.current is not None:
            self._acting(id)
        self._live(id)

    def on_call_failed(self, id: int) -> None:
        if self.current is not None or not self._label.startswith("calls "):
            raise self.records.wrong("no call of another thread was delivered")
        self._known(id)
        self.records.advance()

    def _known(self, id: int) -> None:
        """A call belongs to the task that opened the portal. This task may have ended since the call."""
        if not 0 < id < self._next_id:
            raise self.records.wrong(f"there never was a task {id}")

    def on_task_spawned(self, id: int, region: int, spawner: int, pinned: int, *granted: int) -> None:
        main = self._stage is Stage.START and not self.spawned
        super().on_task_spawned(id, region, spawner, pinned, *granted)
        if pinned == 1 and not main and self.tasks[id].credit_of is None:
            raise self.records.wrong("the runtime spawns only the first task, and tasks that clean up for another task")

    # ---- the end

    def on_run_torn_down(self) -> None:
        self._stage = Stage.TORN
        self.records.advance()

    def _torn(self, record: TraceRecord) -> None:
        """The runtime closes the coroutines. What their code still does is not checked, but no task may run again."""
        if record.name in PUMP or record.name in ("task_spawned", "scheduler_step_decision"):
            raise self.records.wrong("the run was torn down")
        self.records.advance()

    def end(self, ending: dict[str, Any]) -> None:
        """After the last record."""
        error = ending.get("error")
        if self._stage is Stage.TORN:
            if not error:
                raise self.records.wrong("the run was torn down, but the end names no error")
            return
        if error:
            raise self.records.wrong(f"the end names {brief(error, repr)}, but the run was not torn down")
        if self.tasks or not self.spawned or not self.root.state.terminal or len(self.timers):
            live = "1 task lives" if len(self.tasks) == 1 else f"{len(self.tasks):,} tasks live"
            raise self.records.wrong(f"the law would have gone on: {live}")


def verify(trace: Trace) -> Verdict:
    """Check a trace against the law: derive every decision again.

    Raises `TraceError` at the first record that the law does not lead to. Raises `BursarError` under `python -O`, which
    removes the law's assertions.
    """
    if not __debug__:
        raise BursarError("verify needs the assertions of the law, which `python -O` leaves out; run it without -O")
    for name, value in LAWFUL.items():
        if trace.header.get(name) != value:
            raise TraceError(f"{trace.path}: {name} is {trace.header.get(name)!r}; in this version it is {value}")
    records = Records(trace.records())
    try:
        verifier = _Verifier(trace.header, records)
        while records.next is not None:
            verifier.follow(records.next)
        verifier.end(trace.ending or {})
    except TraceError:
        raise
    except Exception as refused:  # an assertion or an error of the law: a forged trace can cause any of them
        raise records.wrong(f"the law refuses: {type_name(refused)}: {brief(refused)}") from refused
    return Verdict(records.number, verifier.decisions, fingerprint(verifier.chain))
