"""The catalogue has every event of the law, every event has its mandatory fields, and hostile texts are made safe."""

import ast
import contextlib
import struct
from pathlib import Path
from random import Random

import pytest
from support import programs
from support.evidence import Memory
from support.law import TEXT_MAX, Lane, seed_chain
from support.requests import Operation

import bursar
from bursar import OutcomeKind, Runtime, State
from bursar.trace.events import BY_CODE, KINDS, LANES, MANDATORY, REPORTS, Event, TraceContext, fingerprint

SRC = Path(bursar.__file__).parent
TELLERS = {"note", "report", "observer"}  # what a thing is called that tells the observer something


def recorded(main, *args, **options) -> list[Event]:
    memory = Memory()
    runtime = Runtime(clock="virtual", record=memory, **options)
    with contextlib.suppress(Exception, BaseExceptionGroup):
        runtime.run(main, *args)
    assert not memory.dropped
    return list(memory.events())


def told_by_the_source() -> set[str]:
    """The names of all events in the sources."""
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in TELLERS:
                first = node.args[0] if node.args else None
                found |= (
                    {n.value for n in ast.walk(first) if isinstance(n, ast.Constant)} if first is not None else set()
                )
    return {name for name in found if isinstance(name, str)}


# ---- the catalogue


def test_everything_that_is_told_is_in_the_catalogue_and_the_reverse():
    assert told_by_the_source() == set(KINDS)


def test_a_kind_is_found_by_its_name_and_by_its_number():
    assert [kind.code for kind in KINDS.values()] == list(range(1, len(KINDS) + 1))
    assert all(BY_CODE[kind.code] is kind and kind.name == name for name, kind in KINDS.items())


def test_the_layout_of_a_kind_is_its_code_its_numbers_and_the_length_of_its_text():
    for kind in KINDS.values():
        numbers = sum(struct.calcsize("<" + field.code) for field in kind.fields)
        assert kind.layout.size == 1 + numbers + (4 if kind.text else 0), kind.name


def row(kind) -> str:
    """The row of a kind in docs/internals/trace.md."""
    fields = ", ".join(f"`{f.name}` {f.code}{' ʰ' if f.host and not kind.host else ''}" for f in kind.fields)
    text = f"`{kind.text}`" if kind.text else "–"
    return f"| {kind.code} | `{kind.name}`{' ʰ' if kind.host else ''} | {fields or '–'} | {text} |"


def test_the_page_about_the_format_has_every_kind_as_it_is():
    page = Path(__file__).parents[2] / "docs" / "internals" / "trace.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:3].strip("| ").isdigit()]
    assert rows == [row(kind) for kind in KINDS.values()]


def test_a_value_is_shown_by_its_name():
    (queue,) = (field for field in KINDS["task_enqueued"].fields if field.name == "queue")
    assert [queue.shown(n) for n in range(6)] == ["cancel", "timed", "pinned", "stealable", "injector", 5]
    (component,) = (field for field in KINDS["task_exhausted"].fields if field.name == "component")
    assert component.shown(-1) == -1
    assert component.shown(0) == "ops"


# ---- the mandatory fields


def sample(kind, context) -> Event:
    """An event of a kind. Each of its numbers is 1, because every enumeration has a name for 1."""
    return context.event(kind, (1,) * len(kind.fields), b"Some: text" if kind.text else b"")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_carries_the_mandatory_fields(name):
    context = TraceContext(hash=7)
    sample(KINDS["task_spawned"], context)
    event = sample(KINDS[name], context)
    told = event.as_dict()
    assert list(told)[: 1 + len(MANDATORY)] == ["event", *MANDATORY]
    kinds = {"lane": str, "error_class": str, "decision_hash": str}
    for field in MANDATORY:
        assert type(told[field]) is kinds.get(field, int), field
    assert told["lane"] in LANES
    assert len(told["decision_hash"]) == 16


FAILURES = {
    "scheduler_reentrancy_deferred",
    "stale_wake",
    "stale_timer",
    "budget_exceeded",
    "capability_denied",
    "task_dropped",
    *REPORTS,
}


@pytest.mark.parametrize("name", KINDS)
def test_the_error_class_is_there_exactly_on_failures(name):
    event = sample(KINDS[name], TraceContext())
    if name == "task_done":
        assert event.error_class == "Some: text"  # its text is the class: see the next test
    elif name == "capability_denied":
        assert event.error_class == "Some"
    else:
        assert bool(event.error_class) == (name in FAILURES)


def test_the_error_class_of_real_events_follows_what_became_of_them():
    seen = set()
    for number in range(25):
        runtime = programs.runtime_for(number, 2)
        memory = Memory(1_000_000)
        memory.attach(runtime.kernel)
        programs.run(runtime, programs.make(Random(number)))
        for event in memory.events():
            if event.name == "task_done":
                failed = event.numbers["outcome"] in (OutcomeKind.FAILED, OutcomeKind.PANICKED)
                assert bool(event.error_class) == failed, event
            else:
                assert bool(event.error_class) == (event.name in FAILURES), event
            seen.add(event.error_class)
    assert {"BudgetExceeded", "ExceptionGroup", "obligation_leaked", ""} <= seen


def test_every_event_names_the_region_of_its_task():
    """Also the last events of a task, and events after its end."""
    for number in range(25):
        runtime = programs.runtime_for(number, 3)
        memory = Memory(1_000_000)
        memory.attach(runtime.kernel)
        programs.run(runtime, programs.make(Random(number)))
        homes = {}
        for event in memory.events():
            if event.name == "task_spawned":
                homes[event.task_id] = event.region_id
            if "region_id" not in event.numbers or event.name in ("stale_wake", "stale_timer"):
                assert event.region_id == homes.get(event.task_id, 0), event


def test_the_context_forgets_tasks_that_are_over():
    memory = Memory(1)

    async def main():
        for _ in range(100):
            async with bursar.nursery() as nursery:
                nursery.spawn(nothing)

    Runtime(clock="virtual", record=memory).run(main)
    assert len(memory._before.regions) <= 1


async def nothing():
    pass


# ---- a small program, worked out by hand


async def failing():
    raise ValueError("no")


async def catching():
    try:
        async with bursar.nursery() as nursery:
            nursery.spawn(failing)
            await bursar.sleep(1)
    except ExceptionGroup:
        pass


SEEDED, FIRST, SECOND, THIRD = 0xBFEF8030DDC2D772, 0x5C0FF61C77141ECD, 0x04FF342479658581, 0x566CEA2983394DAE
# The root nursery is 1, main 2, its nursery 3, the child 4. With one worker every decision is worker 0's.
BEFORE_ALL = ("idle", 0, SEEDED, 0, 0, 0, 0)
BATCH = ("idle", 0, SEEDED, 1, 1, 0, 0)
MAIN_STARTS = ("ready", 1, FIRST, 1, 1, 0, 16)
CHILD_FAILS = ("ready", 2, SECOND, 1, 1, 0, 16)
MAIN_CLEANS = ("cancel", 3, THIRD, 1, 1, 1, 32)  # its nursery is CANCELLING: the limit is doubled
BY_HAND = [
    ("task_spawned", 2, 1, *BEFORE_ALL, ""),
    ("task_enqueued", 2, 1, *BEFORE_ALL, ""),
    ("host_turn", 0, 0, *BATCH, ""),
    ("scheduler_step_begin", 0, 0, *BATCH, ""),
    ("scheduler_step_decision", 2, 1, *MAIN_STARTS, ""),
    ("charged", 2, 1, *MAIN_STARTS, ""),
    ("nursery_opened", 2, 3, *MAIN_STARTS, ""),
    ("task_spawned", 4, 3, *MAIN_STARTS, ""),
    ("task_enqueued", 4, 3, *MAIN_STARTS, ""),
    ("charged", 2, 1, *MAIN_STARTS, ""),
    ("timer_armed", 2, 1, *MAIN_STARTS, ""),
    ("task_blocked", 2, 1, *MAIN_STARTS, ""),
    ("scheduler_step_end", 2, 1, *MAIN_STARTS, ""),
    ("scheduler_step_begin", 0, 0, "idle", *MAIN_STARTS[1:], ""),
    ("scheduler_step_decision", 4, 3, *CHILD_FAILS, ""),
    ("task_done", 4, 3, *CHILD_FAILS, "ValueError"),
    ("cancel_requested", 2, 1, *CHILD_FAILS, ""),
    ("task_woken", 2, 1, *CHILD_FAILS, ""),
    ("timer_disarmed", 2, 1, *CHILD_FAILS, ""),
    ("task_enqueued", 2, 1, *CHILD_FAILS, ""),
    ("nursery_cancelling", 2, 3, *CHILD_FAILS, ""),
    ("scheduler_step_end", 4, 3, *CHILD_FAILS, ""),
    ("scheduler_step_begin", 0, 0, "idle", *CHILD_FAILS[1:], ""),
    ("scheduler_step_decision", 2, 1, *MAIN_CLEANS, ""),
    ("cancel_delivered", 2, 1, *MAIN_CLEANS, ""),
    ("timer_armed", 2, 1, *MAIN_CLEANS, ""),
    ("cleanup_begun", 2, 1, *MAIN_CLEANS, ""),
    ("nursery_closing", 2, 3, *MAIN_CLEANS, ""),
    ("timer_disarmed", 2, 1, *MAIN_CLEANS, ""),
    ("nursery_closed", 2, 3, *MAIN_CLEANS, ""),
    ("cleanup_ended", 2, 1, *MAIN_CLEANS, ""),
    ("task_done", 2, 1, *MAIN_CLEANS, ""),
    ("scheduler_step_end", 2, 1, *MAIN_CLEANS, ""),
    ("nursery_closing", 0, 1, "idle", *MAIN_CLEANS[1:], ""),
    ("nursery_closed", 0, 1, "idle", *MAIN_CLEANS[1:], ""),
]


def test_a_small_program_gives_the_events_that_were_worked_out_by_hand():
    assert seed_chain(0, 1) == SEEDED
    events = recorded(catching)
    assert [(event.name, *(getattr(event, name) for name in MANDATORY)) for event in events] == BY_HAND
    assert [event.number for event in events] == list(range(len(BY_HAND)))


def test_the_six_events_of_the_scheduler_occur_in_a_run_that_provokes_them():
    async def main():
        runtime.pump.drain()  # what a careless host callback would do
        for _ in range(runtime.pump.burst_limit):
            await bursar.checkpoint()

    memory = Memory()
    runtime = Runtime(clock="virtual", record=memory)
    runtime.run(main)
    names = [event.name for event in memory.events() if event.name.startswith("scheduler_")]
    step = ["scheduler_step_begin", "scheduler_step_decision", "scheduler_step_end"]
    assert names == [
        *step[:2],
        "scheduler_reentrancy_deferred",
        step[2],
        *step * (runtime.pump.burst_limit - 1),
        "scheduler_burst_limit_reached",
        "scheduler_host_handoff",
        *step,
    ]
    deferred, limit, handoff = (e for e in memory.events() if e.name not in step and e.name.startswith("scheduler_"))
    assert (deferred.task_id, deferred.region_id, deferred.lane, deferred.error_class) == (
        2,
        1,
        "ready",
        "ReentrantPump",
    )
    for event in (limit, handoff):
        assert (event.task_id, event.lane, event.decision_seq, event.error_class) == (
            0,
            "idle",
            runtime.pump.burst_limit,
            "",
        )
    assert [e.numbers["microtask_batch_id"] for e in memory.events() if e.name == "host_turn"] == [1, 2]


def test_where_a_task_is_queued_is_told_exactly():
    async def napping():
        await bursar.sleep(1)

    async def main():
        async with bursar.nursery() as nursery:
            nursery.spawn(napping)
            nursery.spawn(failing)

    seen = [
        (event.task_id, event.as_dict()["queue"], event.numbers["worker"], event.numbers["deadline_ns"])
        for event in recorded(main, workers=64)
        if event.name == "task_enqueued"
    ]
    assert seen[0] == (2, "pinned", 0, -1)
    assert seen[1][:2] == (4, "stealable")
    assert {queue for _, queue, _, _ in seen} == {"pinned", "stealable", "cancel"}
    timed = [e for e in recorded(napping) if e.name == "task_enqueued"]
    assert [(e.as_dict()["queue"], e.numbers["deadline_ns"]) for e in timed] == [("pinned", -1), ("timed", 10**9)]


# ---- what must be the same everywhere


def test_the_fingerprint_of_the_events_leaves_out_what_belongs_to_the_host():
    def events(turn, now_ns):
        context = TraceContext()
        yield context.event(KINDS["host_turn"], (turn, turn, now_ns), "")
        yield context.event(KINDS["task_enqueued"], (2, 1, 0, now_ns), "")

    assert fingerprint(events(1, 5)) == fingerprint(events(2, 6))
    other = TraceContext().event(KINDS["task_enqueued"], (2, 2, 0, 5), "")
    assert fingerprint([other]) != fingerprint(events(1, 5))


def test_the_fingerprint_of_the_events_is_that_of_the_run():
    assert fingerprint(recorded(catching)) == fingerprint(recorded(catching))
    assert fingerprint(recorded(catching)) != fingerprint(recorded(failing))


def test_a_step_that_is_over_has_no_lane():
    for number in range(5):
        runtime = programs.runtime_for(number, 2)
        memory = Memory(1_000_000)
        memory.attach(runtime.kernel)
        programs.run(runtime, programs.make(Random(number)))
        inside = False
        for event in memory.events():
            inside |= event.name == "scheduler_step_decision"
            assert (event.lane != LANES[Lane.IDLE]) == inside
            inside &= event.name != "scheduler_step_end"


# ---- hostile programs


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

    __repr__ = __str__


class Stubborn(Operation):
    """Waits without end. Its reason raises."""

    def why(self):
        raise RuntimeError("no reason")

    def ready(self, kernel, task):
        return False

    def enlist(self, kernel, entry):
        entry.token = None

    def delist(self, kernel, entry):
        pass


HUGE = type("E" * 1_000_000, (Exception,), {})


@pytest.mark.parametrize(
    "error", [Unprintable(), HUGE(), HUGE("x" * 10**7), ValueError("\ud800"), OSError("\udcff" * 10**6)]
)
def test_an_error_of_any_kind_is_recorded(error):
    async def main():
        raise error

    (done,) = (event for event in recorded(main) if event.name == "task_done")
    assert 0 < len(done.error_class) <= TEXT_MAX + 1
    assert done.error_class.encode().decode() == done.error_class


@pytest.mark.parametrize("name", ["x" * 10**6, "\ud800\udcff", "\0\n\r\x1b[2J", "é" * 1000])
def test_a_name_of_any_kind_is_recorded(name):
    async def main():
        async with bursar.nursery(name=name) as nursery:
            task = nursery.spawn(nothing, name=name)
            task.cancel(name)

    for event in recorded(main):
        assert len(event.text) <= TEXT_MAX + 1
        assert event.text.encode().decode() == event.text


def test_a_wait_whose_reason_raises_is_recorded():
    async def main():
        async with bursar.timeout(1):
            await Stubborn()

    reasons = [event.text for event in recorded(main) if event.name == "task_blocked"]
    assert reasons == ["<Entry that cannot be printed>"]


def test_a_charge_beyond_all_counting_is_recorded():
    async def main():
        await bursar.charge(ops=(1 << 62) - 1)

    charges = [event.numbers["ops"] for event in recorded(main) if event.name == "charged"]
    assert max(charges) == (1 << 62) - 1


# ---- the text of an event


def test_an_event_reads_as_its_name_and_its_fields():
    event = TraceContext().event(KINDS["task_done"], (4, OutcomeKind.FAILED, 1, 2, 3, 4, 5), b"ValueError")
    assert str(event) == (
        "task_done(task_id=4, outcome=failed, ops=1, memory=2, spawns=3, channel_ops=4, syscalls=5, "
        "error_class='ValueError')"
    )
    assert event.as_dict()["outcome"] == "failed"
    end = TraceContext().event(KINDS["scheduler_step_end"], (4, State.BLOCKED), b"")
    assert str(end) == "scheduler_step_end(task_id=4, state=blocked)"
