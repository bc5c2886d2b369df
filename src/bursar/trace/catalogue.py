"""The catalogue of events: the name and the fields of each kind, and which fields depend on the host.

The law and the pump call their observer with (name, task, detail). `describe` turns task and detail into the numbers
and the text of the event's kind. No other code knows the form of a detail.

Many texts come from the program. So every text is shortened by `brief`, and characters that UTF-8 cannot hold are
replaced. So a trace file and an observer in memory hold the same text.

A field that is marked `host` may differ between hosts, or between runs on a real clock: times, turns, batches. All
fields of a kind that is marked `host` may differ. All other fields must be the same on every host.

Rejected: a class for each kind. Fifty classes with three lines each say less than one table. The format on disk, the
page about it and the checks of the reader would each need a second list of the kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from bursar.law.budget import COMPONENTS, UNITS_MAX, Budget
from bursar.law.cancel import CancelKind, CancelPhase, CancelReason, outward
from bursar.law.costs import Cost
from bursar.law.lanes import Lane, Worker
from bursar.law.nursery import Nursery, NurseryState
from bursar.law.obligation import Obligation, Settled
from bursar.law.state import Outcome, OutcomeKind, State
from bursar.law.task import Task
from bursar.law.timers import Timer, TimerKind
from bursar.law.wake import Notice, Wait
from bursar.text import brief, type_name
from bursar.trace.host_answer_codec import error_in, pack_answer

if TYPE_CHECKING:
    from bursar.law.admission.gate import Gate
    from bursar.law.admission.ticket import Ticket

NONE: Final = -1  # how an absent number is written
INJECTOR: Final = 0xFFFF  # stands for the worker where a queue belongs to no worker
QUEUES: Final = ("cancel", "timed", "pinned", "stealable", "injector")
CANCEL_KINDS: Final = tuple(CancelKind)


def _names(enum: type[IntEnum]) -> tuple[str, ...]:
    return tuple(member.name.lower() for member in enum)


LANES: Final = _names(Lane)
YES_NO: Final = ("no", "yes")
SPAWNED: Final = ("no", "yes", "pending", "again")  # pinned or not; the last two wait for permission; "again": a retry


class Field(NamedTuple):
    """One number of a record: its name, its `struct` code, whether it depends on the host, and what its values mean."""

    name: str
    code: str
    host: bool = False
    names: tuple[str, ...] = ()  # of its values, from 0; empty: the value is a plain number

    def shown(self, value: int) -> int | str:
        """The value as commands and exports show it."""
        if self.name == "decision_hash":
            return f"{value:016x}"
        return self.names[value] if 0 <= value < len(self.names) else value


Numbers = tuple[int, ...]
Described = tuple[Numbers, str | bytes]
Describe = Callable[[Any, Task | None, Any], Described]  # kernel, task, detail


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event."""

    code: int
    name: str
    fields: tuple[Field, ...]
    text: str  # the name of its text; "": the kind has no text
    host: bool
    describe: Describe
    error_class: Callable[[str], str]  # text → the class of the error that the event reports; "": no error
    layout: struct.Struct  # its code, its numbers, and the length of its text if the kind has a text
    names: tuple[str, ...]  # of its fields

    def named(self, numbers: Numbers) -> dict[str, int]:
        """The numbers of a record, by the names of their fields."""
        return dict(zip(self.names, numbers, strict=True))


TASK: Final = Field("task_id", "Q")
REGION: Final = Field("region_id", "Q")
GENERATION: Final = Field("generation", "Q")
NOTICE: Final = Field("notice", "B", names=_names(Notice))
TIMER: Final = Field("timer_id", "Q")
COMPONENT: Final = Field("component", "b", names=(*COMPONENTS, "named"))  # NONE: only the turn ended
MONEY: Final = tuple(Field(name, "q") for name in COMPONENTS)

KINDS: Final[dict[str, Kind]] = {}
BY_CODE: Final[dict[int, Kind]] = {}


def _no_error(text: str) -> str:
    return ""


def _kind(
    name: str,
    *fields: Field,
    describe: Describe,
    text: str = "",
    host: bool = False,
    error: str | Callable[[str], str] = _no_error,
) -> None:
    """Add a kind. Its code is its position, so add a new kind at the end, or raise the schema's number."""
    code = len(KINDS) + 1
    codes = "".join(field.code for field in fields)
    KINDS[name] = BY_CODE[code] = Kind(
        code,
        name,
        fields,
        text,
        host,
        _with_plain_text(describe) if text else describe,
        (lambda _: error) if isinstance(error, str) else error,
        struct.Struct(f"<B{codes}{'I' if text else ''}"),
        tuple(field.name for field in fields),
    )


def _with_plain_text(describe: Describe) -> Describe:
    """The same function, but its text is short and can be written as UTF-8."""

    def bounded(kernel: Any, task: Task | None, detail: Any) -> Described:
        numbers, text = describe(kernel, task, detail)
        if isinstance(text, bytes):
            return numbers, text
        text = brief(text)
        return numbers, text if text.isascii() else text.encode("utf-8", "replace").decode()

    return bounded


def _id(task: Task | None) -> int:
    return task.id if task is not None else 0


def _money(budget: Budget) -> Numbers:
    return tuple(NONE if amount is None else amount for amount in budget.as_tuple())


def _cost(cost: Cost) -> Numbers:
    """The amounts by component. A sum stops at UNITS_MAX, as in the record of what a task has spent."""
    amounts = [0] * len(COMPONENTS)
    for component, amount in cost:
        if isinstance(component, int):
            amounts[component] = min(amounts[component] + amount, UNITS_MAX)
    return tuple(amounts)


def _counters(kernel: Any, task: Task | None, amounts: Iterable[tuple[str, int]]) -> Described:
    return (_id(task),), " ".join(f"{name}={amount}" for name, amount in amounts).encode()


def _only_task(kernel: Any, task: Task | None, detail: Any) -> Described:
    return (_id(task),), ""


def _text_only(kernel: Any, task: Task | None, detail: Any) -> Described:
    return (_id(task),), detail


def _nothing(kernel: Any, task: Task | None, detail: Any) -> Described:
    return (), ""


# ---- the host

HOST_TIME: Final = Field("now_ns", "q", host=True)

_kind(
    "host_turn",
    Field("host_turn_id", "Q", host=True),
    Field("microtask_batch_id", "Q", host=True),
    HOST_TIME,
    describe=lambda kernel, task, detail: (detail, ""),
    host=True,
)
_kind("clock", HOST_TIME, describe=lambda kernel, task, now_ns: ((now_ns,), ""), host=True)
_kind("outside", describe=lambda kernel, task, label: ((), label), text="label", host=True)
_kind(
    "host_answer",
    TASK,
    describe=lambda kernel, task, detail: ((_id(task),), pack_answer(*detail)),
    text="answer",
    host=True,
    error=error_in,
)

# ---- the scheduler


def _decision(kernel: Any, task: Task | None, detail: Any) -> Described:
    assert task is not None, "a decision is for a task"
    lane, worker, streak, limit = detail
    return (task.id, lane, worker, streak, limit, task.generation, kernel.chain), ""


_kind("scheduler_step_begin", describe=_nothing)
_kind(
    "scheduler_step_decision",
    TASK,
    Field("lane", "B", names=LANES),
    Field("worker", "H"),
    Field("cancel_streak", "H"),
    Field("cancel_streak_limit", "H"),
    GENERATION,
    Field("decision_hash", "Q"),
    describe=_decision,
)
_kind(
    "scheduler_step_end",
    TASK,
    Field("state", "B", names=_names(State)),
    describe=lambda kernel, task, state: ((_id(task), state), ""),
)
_kind("scheduler_reentrancy_deferred", describe=_nothing, host=True, error="ReentrantPump")
_kind("scheduler_burst_limit_reached", describe=_nothing, host=True)
_kind("scheduler_host_handoff", describe=_nothing, host=True)

# ---- tasks


def _spawned(kernel: Any, task: Task | None, budget: Budget) -> Described:
    assert task is not None, "a task is spawned"
    how = int(task.pinned)
    if task.ticket is not None:
        how = SPAWNED.index("again" if cast("Ticket", task.ticket).retry_of is not None else "pending")
    return (task.id, task.nursery.id, _id(kernel.current), how, *_money(budget)), task.name


def _enqueued(kernel: Any, task: Task | None, detail: tuple[Worker | None, int | None]) -> Described:
    """The queue of the task, and the deadline of the timer that woke it."""
    assert task is not None, "a task is queued"
    worker, deadline_ns = detail
    deadline = NONE if deadline_ns is None else deadline_ns
    if worker is None:
        return (task.id, QUEUES.index("injector"), INJECTOR, deadline), ""
    ready = "pinned" if task.pinned else "stealable"
    queue = {Lane.CANCEL: "cancel", Lane.TIMED: "timed"}.get(task.lane or Lane.READY, ready)
    return (task.id, QUEUES.index(queue), worker.id, deadline), ""


def _done(kernel: Any, task: Task | None, outcome: Outcome) -> Described:
    assert task is not None, "a task is done"
    error = type_name(outcome.error) if outcome.error is not None else ""
    return (task.id, outcome.kind, *task.spent), error


def _blocked(kernel: Any, task: Task | None, wait: Wait) -> Described:
    return (_id(task), bool(wait.interruptible)), brief(wait, lambda wait: wait.reason)


def _woken(kernel: Any, task: Task | None, detail: tuple[int, Notice]) -> Described:
    return (_id(task), *detail), ""


def _exhausted(kernel: Any, task: Task | None, detail: tuple[int, Cost]) -> Described:
    """The component that was short, and the whole cost: a verifier checks that the task could not pay it."""
    component, cost = detail
    return (_id(task), component, *_cost(cost)), ""


def _stale(kernel: Any, task: Task | None, detail: tuple[int, int]) -> Described:
    """With the region, because the task may be DONE. 0: it ended before there was an observer, and left its nursery."""
    nursery = task.nursery if task is not None else None
    return (_id(task), nursery.id if nursery is not None else 0, *detail), ""


_kind(
    "task_spawned",
    TASK,
    REGION,
    Field("spawner_id", "Q"),
    Field("pinned", "B", names=SPAWNED),
    *MONEY,
    describe=_spawned,
    text="name",
)
_kind(
    "task_enqueued",
    TASK,
    Field("queue", "B", names=QUEUES),
    Field("worker", "H"),
    Field("deadline_ns", "q", host=True),
    describe=_enqueued,
)
_kind("task_dequeued", TASK, describe=_only_task)
_kind("task_woken", TASK, GENERATION, NOTICE, describe=_woken)
_kind("stale_wake", TASK, REGION, GENERATION, NOTICE, describe=_stale, error="StaleWake")
_kind("task_blocked", TASK, Field("interruptible", "B", names=YES_NO), describe=_blocked, text="reason")
_kind("task_exhausted", TASK, COMPONENT, *MONEY, describe=_exhausted)
_kind(
    "task_done",
    TASK,
    Field("outcome", "B", names=_names(OutcomeKind)),
    *MONEY,
    describe=_done,
    text="error_class",
    error=lambda text: text,
)

# ---- timers


def _timer(kernel: Any, task: Task | None, timer: Timer) -> Described:
    return (_id(task), timer.id, timer.generation), ""


_kind(
    "timer_armed",
    TASK,
    TIMER,
    GENERATION,
    Field("deadline_ns", "q", host=True),
    Field("kind", "B", names=_names(TimerKind)),
    describe=lambda kernel, task, timer: ((_id(task), timer.id, timer.generation, timer.deadline_ns, timer.kind), ""),
)
_kind("timer_disarmed", TASK, TIMER, GENERATION, describe=_timer)
_kind("timer_fired", TASK, TIMER, GENERATION, describe=_timer)
_kind("stale_timer", TASK, REGION, TIMER, GENERATION, describe=_stale, error="StaleTimer")

# ---- ownership


def _nursery(kernel: Any, task: Task | None, nursery: Nursery) -> Described:
    return (_id(task), nursery.id), ""


def _opened(kernel: Any, task: Task | None, detail: tuple[Nursery, Budget]) -> Described:
    nursery, budget = detail
    return (_id(task), nursery.id, *_money(budget)), nursery.name


def _reason(kernel: Any, task: Task | None, reason: CancelReason) -> Described:
    by = NONE if reason.by is None else reason.by
    return (_id(task), CANCEL_KINDS.index(reason.kind), by), reason.detail


def _requested(kernel: Any, task: Task | None, reason: CancelReason) -> Described:
    """The reason, and the number of the scope: 0 is the task itself, 1 its outermost cancel scope.

    Several scopes may have this reason. The newest request is in the innermost scope.
    """
    assert task is not None, "a scope belongs to a task"
    scopes = list(outward(task))
    asked = next(i for i, s in enumerate(scopes) if s.reason is reason and s.phase is CancelPhase.REQUESTED)
    numbers, detail = _reason(kernel, task, reason)
    return (*numbers, len(scopes) - 1 - asked), detail


def _cancelling(kernel: Any, task: Task | None, nursery: Nursery) -> Described:
    assert nursery.reason is not None, "a request has a reason"
    (_, *cause), _ = _reason(kernel, task, nursery.reason)
    return (_id(task), nursery.id, *cause), ""


_CAUSE: Final = (Field("cause", "B", names=tuple(map(str, CANCEL_KINDS))), Field("by", "q"))

_kind("nursery_opened", TASK, REGION, *MONEY, describe=_opened, text="name")
_kind("nursery_closing", TASK, REGION, describe=_nursery)
_kind("nursery_cancelling", TASK, REGION, *_CAUSE, describe=_cancelling)
_kind(
    "nursery_closed",
    TASK,
    REGION,
    Field("state", "B", names=_names(NurseryState)),
    describe=lambda kernel, task, nursery: ((_id(task), nursery.id, nursery.state), ""),
)
_kind("cancel_requested", TASK, *_CAUSE, Field("scope", "I"), describe=_requested, text="detail")
_kind("cancel_delivered", TASK, *_CAUSE, describe=_reason, text="detail")
_kind("cleanup_begun", TASK, describe=_only_task)
_kind("cleanup_ended", TASK, describe=_only_task)


def _obligation(kernel: Any, task: Task | None, obligation: Obligation) -> Described:
    return (_id(task), obligation.id, obligation.settled), obligation.what


for _name in ("obligation_made", "obligation_settled"):
    _kind(
        _name,
        TASK,
        Field("obligation_id", "Q"),
        Field("settled", "B", names=_names(Settled)),
        describe=_obligation,
        text="what",
    )

# ---- economy

_kind("charged", TASK, *MONEY, describe=lambda kernel, task, cost: ((_id(task), *_cost(cost)), ""))
_kind("budget_held", TASK, describe=_text_only, text="component")
_kind("budget_exceeded", TASK, describe=_text_only, text="component", error="BudgetExceeded")
_kind("recharged", TASK, *MONEY, describe=lambda kernel, task, amount: ((_id(task), *_money(amount)), ""))
_kind(
    "capability_denied",
    TASK,
    describe=lambda kernel, task, error: ((_id(task),), f"{type_name(error)}: {brief(error)}"),
    text="error",
    error=lambda text: text.partition(":")[0],
)

# ---- reports of problems (`Kernel.report`)

REPORTS: Final = (
    "cleanup_cut",
    "cancel_swallowed",
    "obligation_leaked",
    "result_lost",
    "asyncgen_failed",
    "failure_unraised",
    "cleanup_failed",
    "cleanup_ignored",
    "asyncio_abandoned",
    "connection_lost",
    "call_failed",
)


def _report(name: str) -> None:
    _kind(name, TASK, describe=_text_only, text="detail", error=name)


for _name in REPORTS[:-1]:  # the last one was added later, below: a code must not change
    _report(_name)

# ---- other changes of the state, which a verifier needs

_kind(
    "scope_opened",
    TASK,
    Field("shielded", "B", names=YES_NO),
    describe=lambda kernel, task, block: ((_id(task), block.shielded), ""),
)
_kind("scope_left", TASK, describe=_only_task)
_kind("task_tidies", TASK, Field("owner_id", "Q"), describe=lambda kernel, task, owner: ((_id(task), owner.id), ""))
_kind("minted", TASK, *MONEY, describe=lambda kernel, task, amount: ((_id(task), *_money(amount)), ""))
_kind("run_torn_down", describe=_nothing, host=True)
_report("call_failed")
_kind("settled", TASK, *MONEY, describe=lambda kernel, task, difference: ((_id(task), *difference), ""))


# ---- admission


def _submitted(kernel: Any, task: Task | None, detail: tuple[Ticket, bytes]) -> Described:
    ticket, asked = detail
    return (_id(task), ticket.gate.number, ticket.priority, _id(ticket.retry_of)), asked


def _admitted(kernel: Any, task: Task | None, detail: tuple[int, int]) -> Described:
    return (_id(task), *detail, kernel.chain), ""


def _dropped(kernel: Any, task: Task | None, reason: CancelReason) -> Described:
    by = NONE if reason.by is None else reason.by
    return (_id(task), by, kernel.chain), reason.detail


def _gate(kernel: Any, task: Task | None, gate: Gate) -> Described:
    return (_id(task), gate.number), gate.authority._written().encode()


_kind("gate_opened", TASK, REGION, describe=_gate, text="authority")
_kind(
    "task_submitted",
    TASK,
    Field("gate_id", "Q"),
    Field("priority", "q"),
    Field("retry_of", "Q"),
    describe=_submitted,
    text="asked",
)
_kind(
    "task_admitted",
    TASK,
    Field("priority", "q"),
    Field("effective", "q", host=True),
    Field("decision_hash", "Q"),
    describe=_admitted,
)
_kind(
    "task_dropped",
    TASK,
    Field("by", "q"),
    Field("decision_hash", "Q"),
    describe=_dropped,
    text="detail",
    error="TaskDropped",
)
_kind(
    "pause_requested",
    TASK,
    Field("within_ns", "q"),  # the time for reaching a checkpoint; NONE: the task is paused at once
    describe=lambda kernel, task, within_ns: ((_id(task), NONE if within_ns is None else within_ns), ""),
)
for _name in (
    "pause_reached",
    "task_paused",
    "resume_requested",
    "task_resumed",
    "permit_lent",
    "permit_asked",
    "permit_granted",
):
    _kind(_name, TASK, describe=_only_task)

# ---- named counters

# The amounts of named counters in the next record: a charge, a shortage, a recharge, or a stated budget.
_kind("named_amounts", TASK, describe=_counters, text="amounts")
_kind(
    "cpu_charged",  # an input: a replay takes the time from here
    TASK,
    Field("used_ns", "q", host=True),
    describe=lambda kernel, task, used_ns: ((_id(task), used_ns), ""),
)
_kind("nursery_sealed", TASK, REGION, describe=_nursery)
