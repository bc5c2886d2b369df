"""Every way from one state of a task to the next, brought about by hand; and those that there must not be.

The names are those of the resource document: a task is *queued* while it waits for others (`waits` here), *ready* while
it waits for permission (`queued`), and a failed one that is queued again is another task, its next attempt.
"""

import pytest
from support.bursar_adapter import BursarAdapter, Simple

import bursar
from bursar import Retry


@pytest.fixture
def s():
    ours = BursarAdapter(cpu=1)
    yield ours
    ours.hands.abandon()


def queued(s: BursarAdapter) -> None:
    """`x` waits for `a`, which runs."""
    s.submit("a")
    s.submit("x", after=["a"])
    assert s.state("x") == "waiting"


def ready(s: BursarAdapter) -> None:
    """`x` waits for permission, which `a` has."""
    s.submit("a")
    s.submit("x")
    assert s.state("x") == "queued"


def running(s: BursarAdapter) -> None:
    s.submit("x")
    assert s.state("x") == "runs"


def paused(s: BursarAdapter) -> None:
    running(s)
    s.pause("x")
    s.tell("x", "checkpoint")
    assert s.state("x") == "stands"


LEGAL = {
    "queued to ready": (queued, lambda s: (s.submit("other"), s.tell("a", "end")), "queued"),
    "queued to paused": (queued, lambda s: s.pause("x"), "stands"),
    "queued to cancelled": (queued, lambda s: s.cancel("x"), "cancelled"),
    "ready to running": (ready, lambda s: s.tell("a", "end"), "runs"),
    "ready to paused": (ready, lambda s: s.pause("x"), "stands"),
    "ready to cancelled": (ready, lambda s: s.cancel("x"), "cancelled"),
    "running to paused": (running, lambda s: (s.pause("x"), s.tell("x", "checkpoint")), "stands"),
    "running to cancelled": (running, lambda s: (s.cancel("x"), s.tell("x", "checkpoint")), "cancelled"),
    "running to failed": (running, lambda s: s.tell("x", "fail"), "failed"),
    "running to succeeded": (running, lambda s: s.tell("x", "end"), "ok"),
    "paused to queued": (queued, lambda s: (s.pause("x"), s.resume("x")), "waiting"),
    "paused to ready": (ready, lambda s: (s.pause("x"), s.resume("x")), "queued"),
    "paused to running": (paused, lambda s: s.resume("x"), "runs"),
    "paused to cancelled": (paused, lambda s: s.cancel("x"), "cancelled"),
}


@pytest.mark.parametrize("move", LEGAL)
def test_a_move(s, move):
    begin, make, state = LEGAL[move]
    begin(s)
    make(s)
    assert s.state("x") == state


def test_what_failed_is_queued_again_as_its_next_attempt(s):
    first = s.hands.spawn("x", plain=True, retry=Retry(1, backoff=1.0))
    s.hands.tell(first, "fail")
    again = first.retried_by
    assert again is not None
    assert first.outcome is not None
    assert again.state is bursar.State.PENDING
    s.advance(1.0)
    s.hands.tell(again, "end")
    assert first.result == "done"


def nobody(s: BursarAdapter) -> None:
    """Nothing that can be done to `x` makes it run, or end as if it had."""
    calls = s.calls("x")
    for _ in range(2):
        s.resume("x")
        s.advance(10.0)
        s.submit(f"other {s.hands.host.time_ns}", cpu=0)
    assert s.calls("x") == calls


def test_what_waits_for_others_does_not_run(s):
    queued(s)
    nobody(s)
    assert s.state("x") == "waiting"


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_what_is_over_does_not_run(s, end):
    running(s)
    LEGAL[f"running to {end}"][1](s)
    state = s.state("x")
    nobody(s)
    s.pause("x")
    s.cancel("x")
    assert s.state("x") == state


# ---- the scheduler to fall back on, and the pool, by the same moves


@pytest.fixture(params=[BursarAdapter, Simple])
def either(request):
    ours = request.param(cpu=1)
    yield ours
    ours.hands.abandon()


def test_submit_and_run(either):
    either.submit("a", fate="end")
    assert either.state("a") == "ok"
    assert either.calls("a") == 1


def test_a_chain(either):
    either.on_cancel["holder"] = int
    either.submit("holder")
    for before, name in zip(["holder", "a", "b"], "abc", strict=True):
        either.submit(name, after=[before], fate="end")
    assert [either.state(name) for name in "abc"] == ["waiting"] * 3
    either.tell("holder", "end")
    assert [name for name, what in either.events if what == "started"] == ["holder", *"abc"]
    assert [either.state(name) for name in "abc"] == ["ok"] * 3


def test_higher_priorities_first(either):
    either.on_cancel["holder"] = int
    either.submit("holder")
    for name, priority in (("low", 10), ("high", 100), ("normal", 50)):
        either.submit(name, priority=priority, fate="end")
    either.tell("holder", "end")
    assert [name for name, what in either.events if what == "started"] == ["holder", "high", "normal", "low"]


def test_idle_when_all_are_over(either):
    assert either.idle()
    either.on_cancel["holder"] = int
    either.submit("holder")
    either.submit("a", fate="end")
    assert not either.idle()
    either.tell("holder", "end")
    assert either.idle()
