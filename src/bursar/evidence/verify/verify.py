"""`verify`: whether a trace is one that the law could have left behind.

The model (`model_tasks`, `model_families`) follows the tasks; here is what surrounds them: turns, batches,
the clock, the beginning, the end. The trace is read once, record by record, and the memory that takes is that
of the tasks that live. The first record that does not fit ends it, by its number, with what the law would have done.

What the program chose (whom it woke, what it charged, how it named things) and what the host brought is taken as it is
told, as long as it was possible: `verify` says that the law was kept, `replay` that the program did it.

Rejected: taking the chain for proof. It shows that a trace was not changed by accident; whoever forges one works the
chain out anew.
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
PUMP: Final = frozenset(  # what the pump tells of itself
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
ALONE: Final = frozenset(  # what the runtime does by itself when no batch is under way
    {"cleanup_cut", "nursery_closing", "nursery_closed"}
)
STUCK: Final = frozenset({"cancel_requested", "cleanup_cut"})  # what it does when every task waits, and for nothing
IN_PASSING: Final = frozenset({"charged", "clock", "host_answer"})  # what may lie between a bill and what it is for
AFTERMATH: Final = frozenset(  # what the end of a poll leads to
    {"task_woken", "stale_wake", "obligation_made", "nursery_cancelling", "cancel_requested", "task_spawned"}
)
ENDING: Final = frozenset(  # what the end of a task may begin with
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
    """Where the pump stands between two records."""

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
        self._outside = 0  # things that came in, in this turn
        self._label = ""  # of the last of them
        self._steps = 0  # decisions, in this turn
        self._polled: Task | None = None  # the task of the step that is under way
        self._first = 0  # the number of the first record of that poll
        self._full = False  # the last batch reached a limit
        self._same_turn: bool | None = False  # whether the next batch belongs to this turn; None: not known
        self._alarm_ns: int | None = None  # the deadline that virtual time may jump to

    def follow(self, record: TraceRecord) -> None:
        """Take one act, and all that follows from it."""
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
            raise self.records.wrong("nothing that happened before leads to this")
        take(*record.numbers)
        if record.name not in IN_PASSING:
            self.paid = None
        if self.records.number == number:
            raise self.records.wrong("the law would have told nothing")

    def _enter(self, record: TraceRecord) -> None:
        """PUMP-2: tasks act in steps; from outside something enters at the beginning of a batch."""
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
            raise self.records.wrong("something is runnable: the law would have begun a step")
        if record.name in STUCK and alone and len(self.timers):
            raise self.records.wrong("the law would have waited for a timer")
        if self._stage is Stage.STEP or (not alone and not (self._stage is Stage.INTAKE and self._outside)):
            raise self.records.wrong(f"this does not happen by itself, {self._stage.value}")

    def _ends(self, record: TraceRecord) -> None:
        """The code of the task that runs is over: what is left is to end it, after its children."""
        own = record.name == "obligation_settled" and record.numbers[2] != Settled.LEAKED
        if record.name not in ENDING or own:
            raise self.records.wrong("the code of the task is over, and does nothing any more")

    def on_cancel_delivered(self, id: int, *cause: int) -> None:
        """A task that is told before it has begun never begins."""
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
            raise self.records.wrong(f"it is {self.now_ns:,} ns: only a later time is told, and only in a batch")
        self.records.advance()
        self.now_ns = now_ns

    def on_outside(self) -> None:
        if self._stage is not Stage.INTAKE or self._outside >= self._burst or self.records.next is None:
            raise self.records.wrong(f"at the beginning of a batch, {self._burst} a turn at most come in from outside")
        self._outside += 1
        self._label = self.records.next.said
        self.records.advance()

    def on_stale_timer(self, id: int, region: int, timer: int, generation: int) -> None:
        if self._stage is not Stage.INTAKE or self._label != f"alarm {timer} {generation}":
            raise self.records.wrong("no alarm of this timer came in from outside")
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
            raise self.records.wrong("no step is under way" if task is None else f"task {task.id} still runs")
        if self._armed:
            raise self.records.wrong("a timer was armed for a wait, and the task does not wait")
        self.step_over(task)
        self._stage = Stage.BETWEEN
        if not self.runnable or self._steps == self._burst:
            self._batch_over()

    def _batch_over(self) -> None:
        """What the host is asked for after a batch: to come back at once, to give way first (PUMP-3), or to wait."""
        if self.runnable and self._steps < self._burst:
            raise self.records.wrong("something is runnable: the law would have begun a step")
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
        """On its own: a host that could not wait for the whole batch had its turn in the middle of it."""
        if self._stage is not Stage.BETWEEN or not self.runnable or self._steps == self._burst:
            raise self.records.wrong("no batch is cut here")
        self.records.advance()

    def on_scheduler_reentrancy_deferred(self) -> None:
        if self._stage in (Stage.START, Stage.REST):
            raise self.records.wrong("no batch is under way")
        self.records.advance()

    def on_host_answer(self, id: int) -> None:
        """By the task that runs; or it is told, when something comes in from outside, what the host says to that."""
        if self.current is None and self._label.startswith("calls "):
            self._called(id)
        else:
            self._by_known_task(id)
        self.records.advance()

    def _called(self, id: int) -> None:
        """One message is about many calls of other threads (see `bursar.portal`): each of them came in."""
        self._known(id)
        assert self.records.next is not None, "it is what is followed"
        asked, n = unpack_answer(self.records.next.text)
        if asked != "calls" or type(n) is not int or not 0 <= n <= self._burst:
            raise self.records.wrong(f"at the beginning of a batch, {self._burst} a turn at most come in from outside")
        self._outside += max(n, 1) - 1

    def on_capability_denied(self, id: int) -> None:
        self._by_known_task(id)
        self.records.advance()

    def _by_known_task(self, id: int) -> None:
        if self.current is not None:
            self._acting(id)
        self._live(id)

    def on_call_failed(self, id: int) -> None:
        if self.current is not None or not self._label.startswith("calls "):
            raise self.records.wrong("no other thread called")
        self._known(id)
        self.records.advance()

    def _known(self, id: int) -> None:
        """Calls are made for the task that opened the portal, even if it ended after they had come."""
        if not 0 < id < self._next_id:
            raise self.records.wrong(f"there never was a task {id}")

    def on_task_spawned(self, id: int, region: int, spawner: int, pinned: int, *granted: int) -> None:
        main = self._stage is Stage.START and not self.spawned
        super().on_task_spawned(id, region, spawner, pinned, *granted)
        if pinned == 1 and not main and self.tasks[id].credit_of is None:
            raise self.records.wrong("the runtime spawns the first task, and such as tidy up for another one")

    # ---- the end

    def on_run_torn_down(self) -> None:
        self._stage = Stage.TORN
        self.records.advance()

    def _torn(self, record: TraceRecord) -> None:
        """Coroutines are closed where they stand. What their code still does binds nobody, and nobody runs any more."""
        if record.name in PUMP or record.name in ("task_spawned", "scheduler_step_decision"):
            raise self.records.wrong("the run was torn down")
        self.records.advance()

    def end(self, ending: dict[str, Any]) -> None:
        """After the last record."""
        error = ending.get("error")
        if self._stage is Stage.TORN:
            if not error:
                raise self.records.wrong("the run was torn down, and the end names no error")
            return
        if error:
            raise self.records.wrong(f"the end names {brief(error, repr)}, but the run was not torn down")
        if self.tasks or not self.spawned or not self.root.state.terminal or len(self.timers):
            live = "1 task lives" if len(self.tasks) == 1 else f"{len(self.tasks):,} tasks live"
            raise self.records.wrong(f"the law would have gone on: {live}")


def verify(trace: Trace) -> Verdict:
    """Check a trace against the law: derive every decision again.

    Raises `TraceError` at the first record that does not follow, and `BursarError` under `python -O`, which leaves out
    the law's assertions.
    """
    if not __debug__:
        raise BursarError("verify needs the assertions of the law, which `python -O` leaves out; run it without -O")
    for name, value in LAWFUL.items():
        if trace.header.get(name) != value:
            raise TraceError(f"{trace.path}: {name} is {trace.header.get(name)!r}, and {value} in this law")
    records = Records(trace.records())
    try:
        verifier = _Verifier(trace.header, records)
        while records.next is not None:
            verifier.follow(records.next)
        verifier.end(trace.ending or {})
    except TraceError:
        raise
    except Exception as refused:  # an assertion or a refusal of the law itself, whatever a forger led it to
        raise records.wrong(f"the law refuses: {type_name(refused)}: {brief(refused)}") from refused
    return Verdict(records.number, verifier.decisions, fingerprint(verifier.chain))
