"""Every change of one record that matters is caught, even if the forger makes the digest fit.

`EXCUSES` is the whole list of changes that do not matter: after each of them the trace is that of another run, which the
law allows just as well. An excuse says of which field it speaks, and `when` it holds; a change that passes and has no
excuse is a failure of `verify`, as is an excuse that is wider than it must be.
"""

import io
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from support import programs
from support.forge import Change, Forgery, Record

import bursar
from bursar import Budget, TraceError
from bursar.evidence.events import REPORTS
from bursar.evidence.trace import Trace
from bursar.evidence.verify import verify
from bursar.law.budget import COMPONENTS
from bursar.law.obligation import Settled
from bursar.law.state import OutcomeKind
from bursar.law.wake import Notice

# ---- when a change does not matter


def _of_task(records: list[Record], at: int, *names: str) -> Record | None:
    """The next record after `at` about the same task that has one of these names."""
    task = records[at]["task_id"]
    return next((r for r in records[at + 1 :] if r.name in names and r["task_id"] == task), None)


def _always(records: list[Record], change: Change) -> bool:
    return True


def _nobody_asked(*until: str) -> Callable[[list[Record], Change], bool]:
    """No request to stop reaches the task before one of these records."""

    def holds(records: list[Record], change: Change) -> bool:
        found = _of_task(records, change.at, "cancel_requested", "cleanup_cut", *until)
        return found is None or found.name in until

    return holds


def _never_delivered(records: list[Record], change: Change) -> bool:
    return _of_task(records, change.at, "cancel_delivered") is None


def _told_before(records: list[Record], change: Change) -> bool:
    """The words come back in another record, or have been made up by the law: then they are checked."""
    return change.before["cause"] != 1 and _of_task(records, change.at, "cancel_delivered") is None


def _disarmed(records: list[Record], change: Change) -> bool:
    timer = change.before["timer_id"]
    return any(r.name == "timer_disarmed" and r["timer_id"] == timer for r in records[change.at :])


def _next_door(records: list[Record], change: Change) -> bool:
    return abs(change.before["host_turn_id"] - change.after["host_turn_id"]) == 1


def _one_of(field: str, *pairs: set[int]) -> Callable[[list[Record], Change], bool]:
    return lambda records, change: {change.before[field], change.after[field]} in pairs


def _over(records: list[Record], change: Change) -> bool:
    task = change.before["task_id"]
    return any(r.name == "task_done" and r["task_id"] == task for r in records[: change.at])


def _still_an_error(records: list[Record], change: Change) -> bool:
    return bool(change.before.text) and bool(change.after.text)


def _after_one_op(records: list[Record], change: Change) -> bool:
    """It had just paid one op: it may as well have given way of its own accord."""
    before = records[change.at - 1]
    return before.name == "charged" and before.numbers[1:] == (1, 0, 0, 0, 0)


def _nothing_follows(records: list[Record], change: Change) -> bool:
    return change.before["notice"] in (Notice.MERGED, Notice.STALE)


def _left_at_once(records: list[Record], change: Change) -> bool:
    """The task cleaned up already, and left the block without awaiting anything: it need not have been told."""
    return records[change.at + 1].name in ("scope_left", "nursery_closing", "nursery_closed")


def _same_poll(records: list[Record], change: Change) -> bool:
    """Two things that one task does in one poll, of which neither leads to the other."""
    return {change.before.name, change.after.name} <= ACTS and change.before["task_id"] == change.after["task_id"]


ACTS = {
    "charged",
    "capability_denied",
    "scope_opened",
    "scope_left",
    "nursery_opened",
    "nursery_closing",
    "nursery_closed",
    "obligation_made",
    "obligation_settled",
    "cancel_requested",
}


class Excuse(NamedTuple):
    what: str
    kind: str
    field: str
    when: Callable[[list[Record], Change], bool]


COMMITTED_OR_ABORTED = {Settled.COMMITTED, Settled.ABORTED}
RETURNED_OR_CANCELLED = {OutcomeKind.OK, OutcomeKind.CANCELLED}
FAILED_OR_PANICKED = {OutcomeKind.FAILED, OutcomeKind.PANICKED}

EXCUSES = (
    # words of the program
    Excuse("text", "task_spawned", "name", _always),
    Excuse("text", "nursery_opened", "name", _always),
    Excuse("text", "task_blocked", "reason", _always),
    Excuse("text", "capability_denied", "error", _always),
    Excuse("text", "outside", "label", _always),
    Excuse("text", "task_done", "error_class", _still_an_error),
    Excuse("text", "cancel_requested", "detail", _told_before),
    *(Excuse("text", report, "detail", _always) for report in REPORTS),
    # limits that were never reached: less would have been enough, or more would not have been used
    *(Excuse("number", "task_spawned", component, _always) for component in COMPONENTS),
    *(Excuse("number", "nursery_opened", component, _always) for component in COMPONENTS),
    # whose credit it is matters only when that is used up
    Excuse("number", "task_tidies", "owner_id", _always),
    # choices of the program that had no effect
    Excuse("number", "scope_opened", "shielded", _nobody_asked("scope_left")),
    Excuse("number", "task_blocked", "interruptible", _nobody_asked("scheduler_step_decision")),
    Excuse("number", "timer_armed", "deadline_ns", _disarmed),
    # choices of the program that are no affair of the law
    Excuse("number", "obligation_settled", "settled", _one_of("settled", COMMITTED_OR_ABORTED)),
    Excuse("number", "task_done", "outcome", _one_of("outcome", RETURNED_OR_CANCELLED, FAILED_OR_PANICKED)),
    # nothing is kept of a task that is over
    Excuse("number", "stale_wake", "task_id", _over),
    Excuse("number", "stale_wake", "region_id", _over),
    Excuse("number", "stale_wake", "generation", _over),
    # a host that was woken by something that we cannot see may have begun a new turn for it, or not
    Excuse("number", "host_turn", "host_turn_id", _next_door),
    # things that happened, or did not, without leading to anything
    *(Excuse(what, "capability_denied", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, "stale_wake", "", _nothing_follows) for what in ("delete", "duplicate")),
    *(Excuse(what, "task_woken", "", _nothing_follows) for what in ("delete", "duplicate")),
    *(Excuse(what, "outside", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, "asyncgen_failed", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, "failure_unraised", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, "cleanup_failed", "", _always) for what in ("delete", "duplicate")),
    Excuse("delete", "cancel_swallowed", "", _always),
    Excuse("delete", "cancel_requested", "", _never_delivered),
    Excuse("delete", "cancel_delivered", "", _left_at_once),
    Excuse("delete", "task_exhausted", "", _after_one_op),
)


def excused(records: list[Record], change: Change) -> bool:
    if change.what == "swap":
        return _same_poll(records, change)
    told = (change.what, change.before.name, change.field)
    return any(told == excuse[:3] and excuse.when(records, change) for excuse in EXCUSES)


# ---- the traces


def generated(path: Path, number: int) -> None:
    runtime = programs.runtime_for(number, (1, 4)[number % 2], record=path)
    programs.run(runtime, programs.make(Random(number)))
