"""Export for other tools: JSON lines, and pictures that follow the trace-event format exactly."""

import io
import json
from itertools import pairwise
from random import Random

import pytest
from support import programs
from support.evidence import MANDATORY, Trace

import bursar
from bursar import Runtime, TraceError
from bursar.evidence.export import HOST, NURSERIES, SCHEDULER, TICK_NS, write_jsonl, write_perfetto

REQUIRED = {"ph", "ts", "pid", "tid", "name"}
PHASES = {  # of the trace-event format, those that we draw: what else each must have
    "B": {"args", "cat"},
    "E": set(),
    "b": {"args", "cat", "id2"},
    "e": {"args", "cat", "id2"},
    "i": {"args", "s"},
    "s": {"cat", "id"},
    "f": {"cat", "id", "bp"},
    "C": {"args"},
    "M": {"args"},
}


def check_format(picture: dict) -> list[dict]:
    """Check a picture against the trace-event format. Returns its events without the metadata."""
    assert set(picture) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert picture["displayTimeUnit"] in ("ms", "ns")
    stacks: dict[tuple, list] = {}
    spans: dict[tuple, int] = {}
    flows: set = set()
    last = -1.0
    for event in picture["traceEvents"]:
        phase = event["ph"]
        assert set(event) == REQUIRED | PHASES[phase], event
        assert type(event["pid"]) is type(event["tid"]) is int
        assert type(event["name"]) is str
        assert isinstance(event["ts"], int | float)
        assert type(event.get("args", {})) is dict
        thread = (event["pid"], event["tid"])
        if "id2" in event:
            assert set(event["id2"]) == {"local"}, "a span belongs to its process"
            span = (event["pid"], event["cat"], int(event["id2"]["local"], 16))
        if phase == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert type(event["args"]["name"]) is str
            continue
        assert event["ts"] > last, "each is later than the one before"
        last = event["ts"]
        match phase:
            case "B":
                stacks.setdefault(thread, []).append(event)
            case "E":
                stacks[thread].pop()
            case "b":
                assert span not in spans
                spans[span] = event["name"]
            case "e":
                assert spans.pop(span) == event["name"]
            case "i":
                assert event["s"] in ("g", "p", "t")
            case "s":
                assert stacks[thread], "an arrow begins in a slice"
                assert event["id"] not in flows
                flows.add(event["id"])
            case "f":
                assert stacks[thread], "an arrow ends in a slice"
                assert event["bp"] == "e"
                flows.remove(event["id"])
            case "C":
                assert all(type(value) is int and value >= 0 for value in event["args"].values())
    assert not any(stacks.values()), "every slice that begins ends"
    assert not spans, "and every span"
    return [event for event in picture["traceEvents"] if event["ph"] != "M"]


def picture_of(trace: Trace) -> dict:
    out = io.StringIO()
    write_perfetto(trace, out)
    return json.loads(out.getvalue())


async def child(n):
    await bursar.sleep(n)


async def family():
    async with bursar.nursery(name="yard") as nursery:
        nursery.spawn(child, 1, name="one")
        nursery.spawn(child, 2, name="two").cancel("enough")
        await bursar.checkpoint()


@pytest.fixture
def recorded(tmp_path):
    def run(main, *args, **options) -> Trace:
        Runtime(**{"clock": "virtual", **options}, record=tmp_path / "run.trace").run(main, *args)
        return Trace(tmp_path / "run.trace")

    return run


# ---- the picture


def test_a_picture_of_any_program_follows_the_format(tmp_path):
    for number in range(12):
        runtime = programs.runtime_for(number, 1 + number % 4)
        runtime._record = tmp_path / "run.trace"
        programs.run(runtime, programs.make(Random(number)))
        trace = Trace(tmp_path / "run.trace")
        events = check_format(picture_of(trace))
        assert len([event for event in events if event["ph"] == "B"]) == runtime.kernel.decisions


def test_every_poll_is_a_slice_on_the_track_of_its_worker(recorded):
    trace = recorded(family, workers=3)
    picture = picture_of(trace)
    polls = [event for event in check_format(picture) if event["ph"] == "B"]
    decisions = [event for event in trace.events() if event.name == "scheduler_step_decision"]
    names = {event.task_id: event.text for event in trace.events() if event.name == "task_spawned"}
    assert [(poll["name"], poll["cat"], poll["pid"], poll["tid"]) for poll in polls] == [
        (names[decision.task_id], decision.lane, SCHEDULER, HOST + 1 + decision.numbers["worker"])
        for decision in decisions
    ]
    for poll in polls:
        assert set(MANDATORY) <= set(poll["args"])
    tracks = {event["tid"]: event["args"]["name"] for event in picture["traceEvents"] if event["name"] == "thread_name"}
    assert tracks == {HOST: "host", HOST + 1: "worker 0", HOST + 2: "worker 1", HOST + 3: "worker 2"}


def test_a_task_is_a_span_in_the_group_of_its_nursery(recorded):
    picture = picture_of(recorded(family))
    groups = {e["pid"]: e["args"]["name"] for e in picture["traceEvents"] if e["name"] == "process_name"}
    assert groups == {SCHEDULER: "bursar", NURSERIES + 1: "the root nursery", NURSERIES + 3: "nursery 'yard'"}
    spans = [(e["name"], e["cat"], e["pid"]) for e in check_format(picture) if e["ph"] == "b"]
    assert spans == [
        ("the root nursery", "nursery", NURSERIES + 1),
        ("family", "task", NURSERIES + 1),
        ("nursery 'yard'", "nursery", NURSERIES + 3),
        ("one", "task", NURSERIES + 3),
        ("two", "task", NURSERIES + 3),
    ]
    ended = [e["name"] for e in check_format(picture) if e["ph"] == "e"]
    assert ended == ["two", "one", "nursery 'yard'", "family", "the root nursery"]


def test_an_arrow_leads_from_the_spawn_to_the_first_poll(recorded):
    events = check_format(picture_of(recorded(family)))
    assert [(e["ph"], e["id"]) for e in events if e["ph"] in "sf"] == [("s", 4), ("s", 5), ("f", 5), ("f", 4)]


def test_marks_lie_on_the_worker_that_was_at_it_and_else_on_the_host(recorded):
    events = check_format(picture_of(recorded(family)))
    marks = {(e["name"], e["tid"] - HOST) for e in events if e["ph"] == "i"}
    assert {("cancel_requested", 1), ("cancel_delivered", 1), ("timer_armed", 1), ("host_turn", 0)} <= marks
    assert ("timer_fired", 0) in marks
    assert not {name for name, _ in marks} & {"charged", "scheduler_step_begin", "task_enqueued"}


def test_the_counters_follow_the_tasks(recorded):
    events = check_format(picture_of(recorded(family)))
    live = [e["args"]["tasks"] for e in events if e["ph"] == "C" and e["name"] == "live"]
    runnable = [e["args"]["tasks"] for e in events if e["ph"] == "C" and e["name"] == "runnable"]
    assert live == [1, 2, 3, 2, 1, 0]
    assert runnable[0] == 1
    assert runnable[-1] == 0
    assert max(runnable) == 3


def test_time_in_the_picture_never_stands_still_and_never_falls_behind(recorded):
    events = check_format(picture_of(recorded(family)))
    for event in events:
        if "now_ns" in event.get("args", {}):
            assert event["ts"] * 1000 >= event["args"]["now_ns"]
    assert min(b["ts"] - a["ts"] for a, b in pairwise(events)) * 1000 >= TICK_NS - 0.5
    woken = next(event for event in events if event["name"] == "timer_fired")
    assert 1e6 <= woken["ts"] < 1e6 + 1000, "after a second of virtual time the picture is at a second"


def test_a_trace_that_is_cut_off_still_gives_a_picture(recorded):
    data = recorded(family).path.read_bytes()
    for size in (len(data) - 40, len(data) - 400, 1100):
        out = io.StringIO()
        half = Trace.of(io.BytesIO(data[:size]), "half.trace")
        with pytest.raises(TraceError, match="the file ends in the middle"):
            write_perfetto(half, out)
        check_format(json.loads(out.getvalue()))


# ---- JSON lines


def test_json_lines_hold_every_event_with_every_field(recorded):
    trace = recorded(family)
    out = io.StringIO()
    write_jsonl(trace, out)
    first, *events, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"header": trace.header}
    assert last == {"ending": {"error": ""}}
    assert events == [{"number": event.number, **event.as_dict()} for event in trace.events()]
    for event in events:
        assert set(MANDATORY) <= set(event)
