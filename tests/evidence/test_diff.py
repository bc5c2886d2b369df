"""The first difference between two traces."""

import io

import pytest
from support.evidence import Trace

import bursar
from bursar import Runtime
from bursar.evidence.diff import AFTER, BEFORE, EVERYTHING, LAW, diff


async def nap(seconds):
    await bursar.sleep(seconds)


async def naps(*seconds):
    async with bursar.nursery() as nursery:
        for length in seconds:
            nursery.spawn(nap, length)


@pytest.fixture
def recorded(tmp_path):
    """Run a program and read its trace."""
    numbers = iter(range(100))

    def run(main, *args, **options) -> Trace:
        path = tmp_path / f"{next(numbers)}.trace"
        Runtime(**{"clock": "virtual", **options}, record=path).run(main, *args)
        return Trace(path)

    return run


def test_two_runs_of_the_same_program_are_the_same(recorded):
    assert diff(recorded(naps, 1, 2), recorded(naps, 1, 2)) is None
    assert diff(recorded(naps, 1, 2), recorded(naps, 1, 2), EVERYTHING) is None


def test_what_belongs_to_the_host_is_left_out_unless_asked_for(recorded):
    virtual, real = recorded(naps, 0, 0), recorded(naps, 0, 0, clock="real")  # nothing here depends on time
    assert diff(virtual, real, LAW) is None
    found = diff(virtual, real, EVERYTHING)
    assert {"clock", "host"} <= found.header.keys()
    assert found.left[0].name == found.right[0].name == "host_turn"


def test_the_first_difference_is_shown_with_what_comes_before_and_after(recorded):
    left, right = recorded(naps, 1, 2), recorded(naps, 1, 3)
    found = diff(left, right)
    assert found.header == {}
    a, b = found.left[0], found.right[0]
    assert (a.name, a.text, b.text) == ("task_blocked", "sleeps for 2 s", "sleeps for 3 s")
    assert len(found.left) == len(found.right) == AFTER
    assert len(found.before) == BEFORE
    assert [event.number for event in found.before] == list(range(a.number - BEFORE, a.number))
    compared = [event for event in left.events() if event.essence() is not None]
    assert compared[found.same].number == a.number


def test_a_trace_that_goes_on_longer_differs_at_the_end_of_the_other(recorded):
    found = diff(recorded(naps), cut_short(recorded(naps)))
    assert found.right == []
    assert found.left[0].name == "nursery_closing"


def cut_short(trace: Trace) -> Trace:
    """The same trace, two records shorter. Only the records that are read are cut, not the file."""
    events = list(trace.events())[:-2]
    trace.events = lambda: iter(events)
    return trace


def test_other_settings_differ_in_the_header(recorded):
    found = diff(recorded(naps), recorded(naps, seed=1, workers=2))
    assert found.header == {"seed": (0, 1), "workers": (1, 2)}
    assert found.left[0].name == "scheduler_step_decision"


def test_traces_that_differ_in_the_header_alone_differ(recorded):
    found = diff(recorded(naps), recorded(naps, profile="cluster", yield_interval=1024))
    assert found.header == {"profile": ("service", "cluster")}
    assert (found.left, found.right) == ([], [])


def test_a_trace_that_cannot_be_read_is_no_difference(recorded):
    whole = recorded(naps)
    data = whole.path.read_bytes()
    half = Trace.of(io.BytesIO(data[:-40]), "half.trace")
    with pytest.raises(bursar.TraceError, match=r"half\.trace: the file ends in the middle"):
        diff(whole, half)
