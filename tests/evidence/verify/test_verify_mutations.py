"""Every change of one record that matters is found, even if the forger makes a matching digest.

`EXCUSES` is the complete list of changes that do not matter: after each of them, the trace is the trace of another run
that the law allows. An excuse names a field, and says when it holds. A change that passes without an excuse is a
failure of `verify`.
"""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from support import programs
from support.evidence import DIGEST_BYTES, REPORTS, Trace
from support.law import COMPONENTS, Notice, Settled
from support.rare_programs import INCIDENTS
from support.trace_forgery import Change, Forgery, TraceRecord

import bursar
from bursar import OutcomeKind, TraceError
from bursar.evidence.verify import verify

# ---- when a change does not matter


def _of_task(records: list[TraceRecord], at: int, *names: str) -> TraceRecord | None:
    """The next record after `at` about the same task that has one of these names."""
    task = records[at].of("task_id")
    return next((r for r in records[at + 1 :] if r.name in names and r.of("task_id") == task), None)


def _always(records: list[TraceRecord], change: Change) -> bool:
    return True


def _nobody_interrupts(records: list[TraceRecord], change: Change) -> bool:
    """The task gets no cancel request while it waits."""
    before = records[change.at - 1]
    if change.before.of("interruptible"):  # it could wait for asyncio; or, unbilled, for the children that it leaves
        return before.name not in ("charged", "timer_armed") or before.numbers[1:] == (1, 0, 0, 0, 1)
    found = _of_task(records, change.at, "cancel_requested", "cleanup_cut", "task_enqueued")
    return found is None or found.name == "task_enqueued"


def _nothing_to_shield(records: list[TraceRecord], change: Change) -> bool:
    """Neither the task nor an outer scope gets a cancel request while this scope is open."""
    task, depth = change.before.of("task_id"), 0
    opened = {"scope_opened": 1, "nursery_opened": 1, "scope_left": -1, "nursery_closed": -1}
    for at, record in enumerate(records):
        if record.kind.fields and record.numbers[0] == task:
            depth += opened.get(record.name, 0)
            if at == change.at:
                outside = depth
            elif at > change.at and depth < outside:
                return True
            elif at > change.at and record.name == "cancel_requested" and record.of("scope") < outside:
                return False
    return True


def _never_delivered(records: list[TraceRecord], change: Change) -> bool:
    return _of_task(records, change.at, "cancel_delivered") is None


def _told_before(records: list[TraceRecord], change: Change) -> bool:
    """The text is in another record too, or the law made it: then it is checked."""
    return change.before.of("cause") != 1 and _of_task(records, change.at, "cancel_delivered") is None


def _disarmed(records: list[TraceRecord], change: Change) -> bool:
    timer = change.before.of("timer_id")
    return any(r.name == "timer_disarmed" and r.of("timer_id") == timer for r in records[change.at :])


def _next_door(records: list[TraceRecord], change: Change) -> bool:
    return abs(change.before.of("host_turn_id") - change.after.of("host_turn_id")) == 1


def _one_of(field: str, *pairs: set[int]) -> Callable[[list[TraceRecord], Change], bool]:
    return lambda records, change: {change.before.of(field), change.after.of(field)} in pairs


def _over(records: list[TraceRecord], change: Change) -> bool:
    task = change.before.of("task_id")
    return any(r.name == "task_done" and r.of("task_id") == task for r in records[: change.at])


def _still_an_error(records: list[TraceRecord], change: Change) -> bool:
    return bool(change.before.text) and bool(change.after.text)


def _after_one_op(records: list[TraceRecord], change: Change) -> bool:
    """The task had just paid one op: it may have yielded by itself."""
    before = records[change.at - 1]
    return before.name == "charged" and before.numbers[1:] == (1, 0, 0, 0, 0)


def _still_too_much(records: list[TraceRecord], change: Change) -> bool:
    """Another cost that the task could not pay either; or its turn had ended, whatever the cost."""
    short = change.before.of("component")
    return short < 0 or change.field != COMPONENTS[short] or change.after.of(change.field) > 0


def _nothing_follows(records: list[TraceRecord], change: Change) -> bool:
    return change.before.of("notice") in (Notice.MERGED, Notice.STALE)


def _never_admitted(records: list[TraceRecord], change: Change) -> bool:
    return _of_task(records, change.at, "task_admitted") is None


def _by_hand(records: list[TraceRecord], change: Change) -> bool:
    return change.before.of("by") >= 0


def _left_at_once(records: list[TraceRecord], change: Change) -> bool:
    """The task was in its cleanup, and left the scope without an await: it did not have to get the request."""
    return records[change.at + 1].name in ("scope_left", "nursery_closing", "nursery_closed")


def _commute(records: list[TraceRecord], change: Change) -> bool:
    """Two acts of one task in one poll, neither of which causes the other; or only their texts differ."""
    first, second = change.before, change.after
    same_task = first.numbers[:1] == second.numbers[:1] or "obligation_made" in (first.name, second.name)
    return first[:2] == second[:2] or (same_task and {first.name, second.name} <= ACTS)


ACTS = {
    "failure_unraised",
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
    "timer_armed",
}


class Excuse(NamedTuple):
    what: str
    kind: str
    field: str
    when: Callable[[list[TraceRecord], Change], bool]


IDLE_REPORTS = (
    "result_lost",
    "asyncgen_failed",
    "failure_unraised",
    "cleanup_failed",
    "cleanup_ignored",
    "connection_lost",
)
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
    Excuse("text", "task_dropped", "detail", _by_hand),  # see `test_the_words_of_a_drop_are_the_program_s`
    Excuse("text", "host_answer", "answer", _always),
    Excuse("text", "task_done", "error_class", _still_an_error),
    Excuse("text", "cancel_requested", "detail", _told_before),
    *(Excuse("text", report, "detail", _always) for report in REPORTS),
    # limits that were never reached: less would have been enough, or more would not have been used
    *(Excuse("number", "task_spawned", component, _always) for component in COMPONENTS),
    *(Excuse("number", "nursery_opened", component, _always) for component in COMPONENTS),
    *(Excuse("number", "recharged", component, _always) for component in COMPONENTS),
    *(Excuse("number", "task_exhausted", component, _still_too_much) for component in COMPONENTS),
    # whose credit it is matters only when that is used up
    Excuse("number", "task_tidies", "owner_id", _always),
    # choices of the program that had no effect
    Excuse("number", "scope_opened", "shielded", _nothing_to_shield),
    Excuse("number", "task_blocked", "interruptible", _nobody_interrupts),
    Excuse("number", "timer_armed", "deadline_ns", _disarmed),
    Excuse("number", "task_submitted", "priority", _never_admitted),  # see `test_a_priority_that_never_counted`
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
    *(Excuse(what, "host_answer", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, "scheduler_reentrancy_deferred", "", _always) for what in ("delete", "duplicate")),
    *(Excuse(what, report, "", _always) for report in IDLE_REPORTS for what in ("delete", "duplicate")),
    # the money may as well have come out of the purse, which could have paid
    Excuse("delete", "minted", "", _always),
    # no task spawned into the nursery afterwards: it may as well have stayed open
    Excuse("delete", "nursery_sealed", "", _always),
    # it may as well have let `Cancelled` pass
    Excuse("delete", "cancel_swallowed", "", _always),
    Excuse("delete", "cancel_requested", "", _never_delivered),
    Excuse("delete", "cancel_delivered", "", _left_at_once),
    Excuse("delete", "task_exhausted", "", _after_one_op),
)


def excused(records: list[TraceRecord], change: Change) -> bool:
    if change.what == "swap":
        return _commute(records, change)
    told = (change.what, change.before.name, change.field)
    return any(told == excuse[:3] and excuse.when(records, change) for excuse in EXCUSES)


# ---- the traces

GENERATED = (2, 10, 13, 14, 32, 34, 59, 85, 112)
RARE = (
    "deadlock",
    "cut_off_for_its_time",
    "out_of_budget",
    "held_and_recharged",
    "supervised",
    "forgotten_generators",
    "leaks",
    "siblings",
    "misfortunes",
    "admitted",
    "lent",
)
CHANGES = 75  # of each trace
CHANGES_SLOW = 1500


def record(path: Path, which: int | str) -> None:
    if isinstance(which, str):
        INCIDENTS[which](path)
        return
    runtime = programs.runtime_for(which, (1, 4)[which % 2])
    runtime._record = path
    programs.run(runtime, programs.make(Random(which)))


def escapes(forgery: Forgery, changes: int, random: Random) -> tuple[list[str], int]:
    """The changes that pass without an excuse, and the number of changes that were found."""
    passed, caught = [], 0
    for _ in range(changes):
        records, change = forgery.change(random)
        try:
            forgery.verify(records)
        except TraceError:
            caught += 1
            continue
        if not excused(forgery.records, change):
            passed.append(str(change))
    return passed, caught


@pytest.mark.parametrize("which", [*GENERATED, *RARE])
def test_every_change_that_matters_is_caught(which, tmp_path):
    record(tmp_path / "run.trace", which)
    forgery = Forgery(tmp_path / "run.trace")
    forgery.verify(forgery.records)
    passed, caught = escapes(forgery, CHANGES, Random(str(which)))
    assert not passed
    assert caught > CHANGES * 0.8


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", [*GENERATED, *RARE])
def test_many_more_changes_are_caught(which, tmp_path):
    record(tmp_path / "run.trace", which)
    passed, _ = escapes(Forgery(tmp_path / "run.trace"), CHANGES_SLOW, Random(f"{which} again"))
    assert not passed


# ---- two of the excuses, in full: what is forged is, to the byte, what another run leaves behind


def dropped(path: Path, priority: int, words: str) -> list[TraceRecord]:
    """The records of a run in which a task of this priority waits and is dropped with this text."""

    async def main():
        async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as n:
            n.spawn(nap)
            n.spawn(nap, priority=priority).drop(words)

    async def nap():
        await bursar.sleep(1)

    bursar.run(main, clock="virtual", record=path)
    return Forgery(path).records


@pytest.mark.parametrize("priority", [-5, 10, 51, 10**6])
def test_a_priority_that_never_counted(tmp_path, priority):
    """The record of an admission has the priority too, and the two must agree. A task that was never admitted may have
    been compared with others; if the law would have decided otherwise, the change is found. In the remaining cases, a
    program with another priority leaves the same trace, so no verifier can find the change."""
    forged = dropped(tmp_path / "a.trace", 50, "enough")
    places = [at for at, record in enumerate(forged) if record.name == "task_submitted"]
    forged[places[-1]] = forged[places[-1]].with_number(2, priority)
    assert forged == dropped(tmp_path / "b.trace", priority, "enough")


def test_the_words_of_a_drop_are_the_program_s(tmp_path):
    """The law makes the text of a drop that the law decides, so that text is checked."""
    forged = dropped(tmp_path / "a.trace", 50, "enough")
    (at,) = [at for at, record in enumerate(forged) if record.name == "task_dropped"]
    forged[at] = forged[at]._replace(text=b"too much")
    assert forged == dropped(tmp_path / "b.trace", 50, "too much")


def test_a_place_is_asked_for_when_the_children_are_behind(tmp_path):
    """The two records cannot be exchanged."""
    record(tmp_path / "run.trace", "lent")
    forgery = Forgery(tmp_path / "run.trace")
    found = [at for at, asked in enumerate(forgery.records) if asked.name == "permit_asked"]
    assert found
    for at in found:
        records = list(forgery.records)
        assert records[at - 1].name == "nursery_closed"
        records[at - 1 : at + 1] = records[at], records[at - 1]
        with pytest.raises(TraceError, match="asks for what it lent before nursery"):
            forgery.verify(records)


@pytest.mark.parametrize("which", ["real_time", "interrupted", "in_asyncio"])
def test_on_a_real_clock_only_times_have_some_play(which, tmp_path):
    """A deadline and a time may change as long as no timer fires in another batch."""
    record(tmp_path / "run.trace", which)
    forgery, random = Forgery(tmp_path / "run.trace"), Random(which)
    for _ in range(CHANGES):
        records, change = forgery.change(random)
        names = {change.before.name, change.after.name if change.after else ""}
        if change.field in ("now_ns", "deadline_ns") or "clock" in names:
            continue
        try:
            forgery.verify(records)
        except TraceError:
            continue
        assert excused(forgery.records, change), str(change)


def test_without_a_digest_that_fits_every_change_at_all_is_caught(tmp_path):
    record(tmp_path / "run.trace", 2)
    forgery, random = Forgery(tmp_path / "run.trace"), Random(0)
    digest = forgery.data[-DIGEST_BYTES:]
    for _ in range(300):
        records, _change = forgery.change(random)
        data = forgery.written(records)[:-DIGEST_BYTES] + digest
        with pytest.raises(TraceError):
            verify(Trace.of(io.BytesIO(data), "a changed trace"))


def test_every_bit_of_the_file_counts(tmp_path):
    record(tmp_path / "run.trace", "asks_itself_to_stop")
    data = (tmp_path / "run.trace").read_bytes()
    random = Random(1)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << random.randrange(8)
        with pytest.raises(TraceError):
            verify(Trace.of(io.BytesIO(bytes(changed)), "a damaged trace"))


def test_garbage_that_passes_the_container_raises_nothing_but_trace_errors(tmp_path):
    """Several changes at once, anywhere; and records of other traces in between."""
    record(tmp_path / "a.trace", 32)
    record(tmp_path / "b.trace", "supervised")
    forgery, other, random = Forgery(tmp_path / "a.trace"), Forgery(tmp_path / "b.trace"), Random(2)
    for _ in range(150):
        records, _change = forgery.change(random)
        at = random.randrange(len(records))
        strange = random.choices(other.records, k=random.randrange(1, 30))
        with suppress(TraceError):
            forgery.verify([*records[:at], *strange, *records[random.randrange(at, len(records)) :]])
