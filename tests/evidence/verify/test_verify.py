"""`verify`: a trace that the law allows passes; for any other trace, the error names the first wrong record."""

import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from support import admission_programs, programs
from support.evidence import KINDS, Trace, verifier
from support.evidence import model_tasks as model
from support.hosts import SelectorHost, VirtualHost
from support.law import Lane, link
from support.rare_programs import INCIDENTS
from support.trace_forgery import Forgery, TraceRecord

import bursar
from bursar import Runtime, TraceError
from bursar.evidence.verify import verify

CALLS_MAX = 400  # of Python functions, for one decision and the events around it: twice what it takes

PROGRAMS = 300
CHUNK = 50

# kinds that no program and no host brings about by itself: they only ever follow from something
CONSEQUENCES = {
    "scheduler_step_decision",
    "task_dequeued",
    "task_tidies",
    "timer_disarmed",
    "timer_fired",
    "cleanup_begun",
    "budget_held",
    "budget_exceeded",
    "obligation_leaked",
    "asyncio_abandoned",
    "task_submitted",
    "task_admitted",
    "task_paused",
    "task_resumed",
    "permit_granted",
}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.trace"


def recorded(path: Path, fn, *args, **keywords) -> Runtime:
    runtime = Runtime(record=path, **{"clock": "virtual", **keywords})
    runtime.run(fn, *args)
    return runtime


# ---- what passes


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_generated_programs_follow_the_law(first, path):
    for number in range(first, first + CHUNK):
        runtime = programs.runtime_for(number, (1, 4)[number % 2], steal=programs.POLICIES[number // 2 % 3])
        runtime._record = path
        programs.run(runtime, programs.make(Random(number)))
        verdict = verify(Trace(path))
        assert (verdict.fingerprint, verdict.decisions) == (runtime.fingerprint, runtime.kernel.decisions)
        assert verdict.events == sum(1 for _ in Trace(path).records())


@pytest.mark.parametrize("name", INCIDENTS)
def test_rare_things_follow_the_law(name, path):
    INCIDENTS[name](path)
    verdict = verify(Trace(path))
    assert verdict.decisions > 0


def test_the_rare_things_happened(tmp_path):
    """The programs of these tests produce almost every kind of event."""
    seen = set()
    for name, record in INCIDENTS.items():
        record(tmp_path / name)
        seen |= {kind.name for kind, _, _ in Trace(tmp_path / name).records()}
    assert set(KINDS) - seen <= {
        "host_answer",
        "scheduler_reentrancy_deferred",
        "stale_wake",
        "stale_timer",
        "result_lost",
        "connection_lost",
        "call_failed",
        "settled",  # needs a C compiler: tests/fibers/test_run.py
    }


@pytest.mark.parametrize("number", [3, 6, 9, 32])
def test_generated_programs_follow_the_law_on_the_selector_host(number, path):
    runtime = programs.runtime_for(number, 2, host=SelectorHost())
    runtime._record = path
    programs.run(runtime, programs.make(Random(number)))
    assert verify(Trace(path)).fingerprint == runtime.fingerprint


def test_the_verdict_counts_and_names(path):
    runtime = recorded(path, naps, 2)
    verdict = verify(Trace(path))
    assert str(verdict) == (
        f"{verdict.events} events and {verdict.decisions} decisions follow the law; fingerprint {runtime.fingerprint}"
    )


def test_every_kind_of_event_has_its_rule():
    acts = {name.removeprefix("on_") for name in dir(verifier._Verifier) if name.startswith("on_")}
    assert acts | CONSEQUENCES == set(KINDS)
    assert not acts & CONSEQUENCES


def test_what_it_takes_is_in_proportion_to_the_tasks_that_live(path, monkeypatch):
    """A thousand tasks, one after the other: the model never holds more than a few."""
    most = 0
    finish = model.Model.finish

    def watched(self, task, outcome):
        nonlocal most
        most = max(most, len(self.tasks) + len(self._nurseries) + len(self._debtors) + len(self.timers))
        return finish(self, task, outcome)

    monkeypatch.setattr(model.Model, "finish", watched)
    recorded(path, one_after_the_other, 1000)
    assert verify(Trace(path)).decisions > 2000
    assert most < 10


def test_its_work_grows_with_the_decisions_and_no_faster(path):
    """Counts calls of Python functions, because seconds depend on the machine."""

    def calls_for(tasks):
        calls = 0

        def count(frame, event, arg):
            nonlocal calls
            calls += event == "call"

        recorded(path, one_after_the_other, tasks)
        sys.setprofile(count)
        try:
            found = verify(Trace(path))
        finally:
            sys.setprofile(None)
        return calls, found.decisions

    few, many = calls_for(100), calls_for(1000)
    assert many[0] / many[1] <= 1.05 * few[0] / few[1]
    assert many[0] / many[1] < CALLS_MAX


async def nap(seconds):
    await bursar.sleep(seconds)


async def naps(count):
    async with bursar.nursery() as n:
        for i in range(count):
            n.spawn(nap, 1 + i)


async def one_after_the_other(count):
    for _ in range(count):
        async with bursar.nursery() as n:
            n.spawn(nap, 1)


# ---- what does not


def rechained(forgery: Forgery, records: list[TraceRecord]) -> list[TraceRecord]:
    """The hash of every decision is computed again, as a forger would who knows the chain."""
    chain, regions, done = forgery.seed_hash, {}, []
    for record in records:
        done.append(record)
        if record.name == "task_spawned":
            regions[record.of("task_id")] = record.of("region_id")
        elif record.name == "scheduler_step_decision":
            task, lane, worker, streak, limit, generation, _ = record.numbers
            chain = link(chain, task, regions[task], lane, worker, streak, limit, generation)
            done[-1] = record.with_number(6, chain)
    return done


async def two_wait_their_turn():
    async with bursar.nursery() as n:
        n.spawn(bursar_checkpoints, name="first")
        n.spawn(bursar_checkpoints, name="second")


async def bursar_checkpoints():
    await bursar.checkpoint()


def test_a_decision_that_the_law_would_not_have_made_is_named_though_everything_else_fits(path):
    """Two tasks in one queue, polled in the wrong order, with all records, all hashes and the digest to match."""
    recorded(path, two_wait_their_turn)
    forgery = Forgery(path)
    steps = [i for i, record in enumerate(forgery.records) if record.name == "scheduler_step_begin"]
    first, second, after = steps[1], steps[2], steps[3]
    records = forgery.records
    swapped = [*records[:first], *records[second:after], *records[first:second], *records[after:]]
    with pytest.raises(TraceError, match=r"the law would have dispatched task 4 from the ready lane") as caught:
        forgery.verify(rechained(forgery, swapped))
    assert caught.value.record == first + 1
    assert str(caught.value).startswith(f"record {first + 1}: scheduler_step_decision(task_id=5, lane=ready")


async def cancels_one_of_two():
    async with bursar.nursery() as n:
        n.spawn(bursar_checkpoints)
        doomed = n.spawn(bursar_checkpoints)
        doomed.cancel()


def test_a_ready_task_before_a_cancelled_one_is_named(path):
    recorded(path, cancels_one_of_two)
    forgery = Forgery(path)
    at = next(i for i, r in enumerate(forgery.records) if r.name == "scheduler_step_decision" and r.of("lane") == 1)
    ready = forgery.records[at].with_number(0, 4).with_number(1, Lane.READY).with_number(3, 0)
    records = [*forgery.records[:at], ready, *forgery.records[at + 1 :]]
    with pytest.raises(TraceError, match="the law would have dispatched task 5 from the cancel lane") as caught:
        forgery.verify(rechained(forgery, records))
    assert caught.value.record == at


def changed(forgery: Forgery, name: str, place: int, value: int, which: int = 0) -> list[TraceRecord]:
    """The records with one number of the `which`-th one of a kind changed."""
    at = [i for i, record in enumerate(forgery.records) if record.name == name][which]
    return [*forgery.records[:at], forgery.records[at].with_number(place, value), *forgery.records[at + 1 :]]


@pytest.mark.parametrize(
    ("name", "place", "value", "told"),
    [
        ("timer_fired", 1, 2, "the law would have recorded timer_fired(task_id=4, timer_id=1"),
        ("task_enqueued", 1, 0, "the law would have recorded task_enqueued(task_id=2, queue=pinned"),
        ("charged", 1, 0, "a cost of zero is never charged"),
        ("charged", 1, -1, "a cost is never negative"),
        ("charged", 0, 5, "only the running task can do this, and task 2 runs"),
        ("task_spawned", 0, 1, "ids only grow: the next id is at least 2"),
        ("task_spawned", 4, 99, "the law would have recorded task_spawned"),
        ("nursery_closed", 2, 4, "the law would have recorded nursery_closed(task_id=2, region_id=3, state=closed)"),
        ("task_done", 2, 77, "the law would have recorded task_done(task_id=4, outcome=ok, ops=1"),
        ("task_done", 1, 1, "cannot end DROPPED while RUNNING"),
        ("host_turn", 1, 7, "batch 1 of turn 1 comes next"),
        ("host_turn", 2, 7, "virtual time is 0 ns"),
        ("timer_armed", 3, 0, "a task does not wait for a time that has passed"),
        ("scheduler_step_end", 1, 6, "the law would have recorded scheduler_step_end(task_id=2, state=blocked)"),
    ],
)
def test_the_first_wrong_record_is_named_with_what_the_law_would_have_done(name, place, value, told, path):
    recorded(path, naps, 2, budget=bursar.Budget(ops=50))
    forgery = Forgery(path)
    with pytest.raises(TraceError) as caught:
        forgery.verify(changed(forgery, name, place, value))
    at = next(i for i, record in enumerate(forgery.records) if record.name == name)
    assert str(caught.value).startswith(f"record {at}: {name}(")
    assert told in str(caught.value)


def test_a_charge_that_nobody_could_have_paid_is_refused_by_the_law_itself(path):
    recorded(path, naps, 2, budget=bursar.Budget(ops=50))
    forgery = Forgery(path)
    with pytest.raises(TraceError, match=r"the law refuses: BudgetExceeded: task 'naps' \(2\) is out of ops"):
        forgery.verify(changed(forgery, "charged", 1, 51))


async def one_runs_out_and_one_is_interrupted():
    async with bursar.nursery(cancel_on_failure=False) as n:
        n.spawn(spends, 20, budget=bursar.Budget(ops=10))
        n.spawn(spends, 20)


async def spends(ops):
    for _ in range(ops):
        await bursar.charge(1)


@pytest.mark.parametrize("which", [0, 1])
def test_a_task_that_could_have_paid_and_had_its_turn_is_not_stopped(which, path):
    """The recorded cost shows whether an exhausted task was short of budget or at the end of its turn."""
    with pytest.raises(BaseExceptionGroup):
        recorded(path, one_runs_out_and_one_is_interrupted, yield_interval=12)
    forgery = Forgery(path)
    at = [i for i, record in enumerate(forgery.records) if record.name == "task_exhausted"][which]
    stopped, paid = forgery.records[at], forgery.records[at - 1]
    assert (stopped.of("component"), paid.name) == ([0, -1][which], "charged")
    early = [*forgery.records[: at - 1], *forgery.records[at:]]  # one op before its time
    with pytest.raises(TraceError, match=r"the law would have recorded charged\(task_id=\d, ops=1,") as caught:
        forgery.verify(early)
    assert caught.value.record == at - 1


def forged(path: Path, fn, forge, **keywords) -> str:
    """The error for a trace of `fn` after `forge` has changed the list of its records."""
    with suppress(BaseExceptionGroup):
        recorded(path, fn, **keywords)
    forgery = Forgery(path)
    forgery.verify(forgery.records)
    records = list(forgery.records)
    forge(records)
    with pytest.raises(TraceError) as caught:
        forgery.verify(records)
    return str(caught.value)


def place(records: list[TraceRecord], name: str, after: int = 0, **numbers: int) -> int:
    """The index of the first record of this kind with these numbers."""
    wanted = numbers.items()
    return next(
        i
        for i, record in enumerate(records)
        if i >= after and record.name == name and all(record.of(field) == value for field, value in wanted)
    )


async def seals_after_a_spawn():
    async with bursar.nursery() as n:
        n.spawn(bursar_checkpoints)
        n.close()


def test_a_spawn_into_a_sealed_nursery_is_refused_by_the_law_itself(path):
    def seal_earlier(records):
        sealed = records.pop(place(records, "nursery_sealed"))
        records.insert(place(records, "task_spawned", region_id=sealed.of("region_id")), sealed)

    told = forged(path, seals_after_a_spawn, seal_earlier)
    assert "task_spawned(" in told
    assert "takes no more tasks" in told


def test_a_nursery_is_sealed_once(path):
    def seal_twice(records):
        at = place(records, "nursery_sealed")
        records.insert(at, records[at])

    assert "there is no open nursery" in forged(path, seals_after_a_spawn, seal_twice)


def pay(records: list[TraceRecord], at: int, task: int, sign: int = 1) -> None:
    """One op more, or less, in the record of the task's end."""
    end = place(records, "task_done", at, task_id=task)
    records[end] = records[end].with_number(2, records[end].of("ops") + sign)


def one_op(task: int) -> TraceRecord:
    return TraceRecord(KINDS["charged"], (task, 1, 0, 0, 0, 0), b"")


async def cancels_before_it_begins():
    async with bursar.nursery() as n:
        n.spawn(nap, 1).cancel()


def test_a_task_that_was_stopped_before_it_began_does_nothing(path):
    def begin(records):
        at = place(records, "cleanup_begun", task_id=4)
        pay(records, at, 4)
        records.insert(at + 1, one_op(4))

    assert "the code of the task has ended, and can do nothing more" in forged(path, cancels_before_it_begins, begin)


async def cuts_one_off():
    async with bursar.nursery() as n:
        doomed = n.spawn(never_stops)
        await bursar.sleep(1)
        doomed.cancel()


async def never_stops():
    while True:
        with suppress(bursar.Cancelled):
            await bursar.sleep(0.5)


def test_a_task_that_was_cut_off_awaits_nothing(path):
    def go_on(records):
        at = place(records, "scheduler_step_decision", place(records, "cleanup_cut"), task_id=4)
        pay(records, at, 4)
        records.insert(at + 1, one_op(4))

    told = forged(path, cuts_one_off, go_on, cleanup=bursar.Cleanup(seconds=1.0))
    assert "task 4 was cut: the law would have closed it" in told


async def waits_for_another():
    event = bursar.Event()

    async def wait():
        await event.wait()

    async with bursar.nursery() as n:
        n.spawn(wait)
        await bursar.sleep(1)
        event.set()


def test_nobody_waits_for_nothing(path):
    def for_free(records):
        at = place(records, "task_blocked", task_id=4)
        pay(records, at, 4, -1)
        del records[at - 1]

    assert "the law would have charged the task for this first" in forged(path, waits_for_another, for_free)


def test_who_waits_can_be_interrupted(path):
    def deafen(records):
        at = place(records, "task_blocked", task_id=4)
        records[at] = records[at].with_number(1, 0)

    assert "only a wait for children at the end" in forged(path, waits_for_another, deafen)


async def two_run_out():
    async with bursar.nursery(cancel_on_failure=False) as n:
        for _ in range(2):
            n.spawn(spends, 2, budget=bursar.Budget(ops=1))


def test_a_nursery_does_not_hold_one_and_end_another(path):
    def hold_the_second(records):
        at = place(records, "budget_exceeded", task_id=5)
        records[at] = TraceRecord(KINDS["budget_held"], (5,), b"ops")

    assert "the law would have recorded budget_exceeded(task_id=5" in forged(path, two_run_out, hold_the_second)


def test_a_trace_that_stops_while_tasks_live_is_not_whole(path):
    recorded(path, naps, 2)
    forgery = Forgery(path)
    with pytest.raises(TraceError, match="record 2: the end of the trace — the law would have gone on: 1 task lives"):
        forgery.verify(forgery.records[:2])


def test_a_torn_down_run_names_its_error(path):
    INCIDENTS["interrupted_twice"](path)
    forgery = Forgery(path)
    forgery.ending = {"error": ""}
    with pytest.raises(TraceError, match="the run was torn down, but the end names no error"):
        forgery.verify(forgery.records)


def test_a_run_that_was_not_torn_down_names_none(path):
    recorded(path, naps, 2)
    forgery = Forgery(path)
    forgery.ending = {"error": "ValueError"}
    with pytest.raises(TraceError, match="the run was not torn down"):
        forgery.verify(forgery.records)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 1),
        ("workers", 2),
        ("steal", "politely"),
        ("budget", [1, 1, 1, 1, 1]),
        ("budget", ["much"]),
        ("yield_interval", 1),
        ("cleanup_ops", -5),
        ("burst_limit", 1),
        ("cancel_streak_max", 17),
        ("timed_streak_max", 9),
        ("root_region", 2),
    ],
)
def test_another_header_is_another_law(name, value, path):
    INCIDENTS["siblings"](path)
    forgery = Forgery(path)
    forgery.header = {**forgery.header, name: value}
    with pytest.raises(TraceError):
        forgery.verify(forgery.records)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("host_turn", 2, 999_999_999),  # the turn in which the first timer fires, before its deadline
        ("timer_armed", 3, 1_000_000_001),  # its deadline, after that turn
        ("host_turn", 2, 2_000_000_000),  # the turn, when the second timer is due as well
        ("timer_armed", 3, 2_500_000_000),  # a deadline after the second one: that must be first
    ],
)
def test_on_any_clock_timers_fire_in_order_and_never_early_and_none_that_is_due_is_left(name, place, value, path):
    runtime = Runtime(record=path, host=VirtualHost())  # whose clock is taken for a real one: it may show anything
    runtime.run(naps, 2)
    forgery = Forgery(path)
    forgery.verify(forgery.records)
    with pytest.raises(TraceError):
        forgery.verify(changed(forgery, name, place, value, which=1 if name == "host_turn" else 0))


def test_on_a_real_clock_a_turn_may_come_later_as_long_as_nothing_else_is_due(path):
    runtime = Runtime(record=path, host=VirtualHost())
    runtime.run(naps, 2)
    forgery = Forgery(path)
    forgery.verify(changed(forgery, "host_turn", 2, 1_999_999_999, which=1))


def test_virtual_time_shows_nothing_but_deadlines(path):
    recorded(path, naps, 2)
    forgery = Forgery(path)
    with pytest.raises(TraceError, match="virtual time is 0 ns, or jumps to the next deadline"):
        forgery.verify(changed(forgery, "host_turn", 2, 1_999_999_999, which=1))


# ---- admission


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_with_gates_follow_the_law(first, path):
    for number in range(first, first + 20):
        runtime = admission_programs.runtime_for(number, record=path)
        admission_programs.run(runtime, number)
        assert verify(Trace(path)).fingerprint == runtime.fingerprint


def refused_if(path: Path, change) -> TraceError:
    forgery = Forgery(path)
    records = list(forgery.records)
    change(records)
    with pytest.raises(TraceError) as refused:
        forgery.verify(records)
    return refused.value


def places(records, name) -> list[int]:
    return [at for at, record in enumerate(records) if record.name == name]


async def crowd():
    async with bursar.nursery(admission=bursar.Authority(max_concurrent=1, max_queue=3), on_drop="record") as n:
        for priority in (50, 10, 100, 50, 20):
            n.spawn(naps, 0, priority=priority)


def test_an_admission_out_of_order_is_refused(path):
    recorded(path, crowd)

    def change(records):
        first, second = places(records, "task_admitted")[1:3]
        mine, other = records[first], records[second]
        records[first] = mine.with_number(0, other.of("task_id")).with_number(1, other.of("priority"))

    assert "the law would have recorded task_admitted" in str(refused_if(path, change))


def test_a_drop_that_should_not_be_is_refused(path):
    recorded(path, crowd)

    def change(records):
        (dropped,) = places(records, "task_dropped")
        submitted = [records[at] for at in places(records, "task_submitted")]
        best = max(submitted[1:], key=lambda record: record.of("priority"))
        records[dropped] = records[dropped].with_number(0, best.of("task_id"))

    assert "the law would have recorded task_dropped" in str(refused_if(path, change))


def test_a_drop_that_was_left_out_is_missed(path):
    recorded(path, crowd)

    def change(records):
        (dropped,) = places(records, "task_dropped")
        del records[dropped]

    assert "the law would have recorded task_dropped" in str(refused_if(path, change))


def test_another_priority_than_was_asked_for_is_refused(path):
    recorded(path, crowd)

    def change(records):
        at = places(records, "task_submitted")[2]
        records[at] = records[at].with_number(2, 1)

    assert "the law would have" in str(refused_if(path, change))


def test_who_was_let_in_too_early_is_refused(path):
    """More tasks than the limit of the gate allows."""
    recorded(path, crowd)

    def change(records):
        opened = places(records, "gate_opened")[0]
        records[opened] = records[opened]._replace(
            text=records[opened].text.replace(b'"max_concurrent": 1', b'"max_concurrent": 2')
        )

    assert "the law would have recorded task_admitted" in str(refused_if(path, change))
