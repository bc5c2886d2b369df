"""A batch that is cut goes on in a new turn of the host, on the scripted host and on the browser host alike."""

import pytest
from parity import fixture, script
from support.evidence import Event, Trace, verify

SLOW = {  # three tasks, each with a poll of 9 ms: the host waits for 8
    "seed": 1,
    "workers": 1,
    "burst_limit": 64,
    "script": [
        ["spawn", "worker", {"count": 3, "body": [["park"], ["work", 9], ["checkpoint"]]}],
        ["settle"],
        ["wake", "worker"],
        ["settle"],
        ["end"],
        ["settle"],
    ],
    "shows": ["scheduler_host_handoff"],
}


def after_the_wake(events: list[Event]) -> list[tuple[str, int, int]]:
    """Each decision after the wake: whose, in which turn and in which batch, counted from the first."""
    names = {event.task_id: event.text for event in events if event.name == "task_spawned"}
    woken = next(event for event in events if event.name == "outside" and event.text == "wake worker")
    turn, batch = woken.host_turn_id, woken.microtask_batch_id
    decisions = [e for e in events if e.name == "scheduler_step_decision" and e.number > woken.number]
    return [(names[e.task_id], e.host_turn_id - turn, e.microtask_batch_id - batch) for e in decisions][:6]


def test_each_part_of_a_cut_batch_has_its_own_turn():
    found = fixture.play(SLOW)
    assert not found.error
    assert after_the_wake(found.events) == [
        *(("worker-1", 0, 0), ("worker-2", 1, 0), ("worker-3", 2, 0)),
        *(("worker-1", 3, 0), ("worker-2", 3, 0), ("worker-3", 3, 0)),
    ]
    turns = [event.host_turn_id for event in found.events]
    assert turns == sorted(turns)


def test_under_node_it_is_the_same(inside_node):
    assert fixture.play_away(SLOW, inside_node) == fixture.play(SLOW)


@pytest.mark.browser
def test_in_chromium_it_is_the_same(inside_chromium):
    assert fixture.play_away(SLOW, inside_chromium) == fixture.play(SLOW)


def test_a_handoff_that_a_limit_causes_counts_once():
    found = fixture.play(SLOW | {"burst_limit": 1})
    turns = [event.host_turn_id for event in found.events if event.name == "scheduler_step_decision"]
    assert not found.error
    assert turns == list(range(1, len(turns) + 1)), "one decision a turn"


def test_a_trace_of_it_is_verified(tmp_path):
    stage = script.Stage(SLOW["seed"], SLOW["workers"], SLOW["burst_limit"], record=tmp_path / "run.trace")
    stage.begin()
    stage.play(SLOW["script"])
    trace = Trace(tmp_path / "run.trace")
    assert verify(trace).fingerprint == stage.runtime.fingerprint
    assert after_the_wake(list(trace.events())) == after_the_wake(fixture.play(SLOW).events)
