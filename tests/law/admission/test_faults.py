"""Faults that schedulers of this kind have had, each as a check that sees it.

A check plays a scheduler by moves that any has (`support.toy_scheduler`). It must fail on a naive one that has the
fault (`support.naive`), or it would show nothing; pass on one that differs in nothing but that; and pass on ours.
docs/internals/admission-checklist.md says which fault is which.
"""

import sys
import weakref
from collections.abc import Callable

import pytest
from support import naive
from support.bursar_adapter import BursarAdapter, Simple, WorkflowAdapter
from support.naive import Orchestra
from support.toy_scheduler import INTERVAL, Refused, Toy

import bursar
from bursar import Authority

CAUGHT = (AssertionError, Refused, SystemError, pytest.fail.Exception)


def fault(wrong: type[Toy], right: type[Toy] = Toy, ours: type = BursarAdapter):
    """Turn a check into a test on all three."""

    def decorate(check):
        @pytest.mark.parametrize("who", ["naive", "toy", "ours"])
        def test(who):
            made = []

            def make(**limits):
                made.append({"naive": wrong, "toy": right, "ours": ours}[who](**limits))
                return made[-1]

            try:
                if who == "naive":
                    with pytest.raises(CAUGHT):
                        check(make)
                else:
                    check(make)
            finally:
                for one in made:
                    if isinstance(one, BursarAdapter):
                        one.hands.abandon()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


# ---- what was read in the first of the two


@fault(naive.CallsTheCancelled)
def test_who_is_cancelled_in_the_queue_is_never_called(make):
    s = make(cpu=1)
    s.submit("holder")
    s.submit("waits")
    s.cancel("waits")
    s.tell("holder", "end")
    assert s.state("waits") == "cancelled"
    assert s.calls("waits") == 0


@fault(naive.RunsInTheQueue)
def test_who_waits_in_the_queue_does_not_say_that_it_runs(make):
    s = make(cpu=1)
    s.submit("holder")
    s.submit("waits")
    assert s.state("holder") == "runs"
    assert s.state("waits") == "queued"
    s.tell("holder", "end")
    assert s.state("waits") == "runs"


@fault(naive.ClosesWhatWasUsed)
def test_what_was_never_used_can_be_closed(make):
    s = make()
    s.close()
    with pytest.raises(Refused):
        s.submit("late")


@fault(naive.PausesInName)
def test_who_is_paused_does_nothing(make):
    s = make(cpu=1)
    s.submit("holder")
    s.submit("waits")
    s.pause("waits")
    s.pause("holder")
    s.tell("holder", "checkpoint")
    assert (s.state("holder"), s.passed("holder")) == ("stands", 0)
    assert (s.state("waits"), s.calls("waits")) == ("stands", 0)
    s.resume("waits")
    assert s.calls("waits") == 1


@fault(naive.SwallowsFailures)
def test_a_failure_is_told(make):
    s = make()
    s.submit("a")
    s.submit("b", after=["a"])
    s.tell("a", "fail")
    assert s.state("a") == "failed"
    assert s.state("b") == "cancelled"
    assert s.leave() is True


@fault(naive.NeverForgets)
def test_who_is_over_is_forgotten_and_its_name_is_free(make):
    s = make()
    for _ in range(3):
        s.submit("a")
        assert s.known() == ["a"]
        s.tell("a", "end")
        assert s.known() == []


@fault(naive.DrawsItsNumbers)
def test_identities_are_the_same_in_every_run(make):
    def ids():
        s = make()
        for name in "abc":
            s.submit(name)
        return [s.id(name) for name in "abc"]

    assert ids() == ids()


# ---- what was run in the second


@fault(naive.LosesAWake)
def test_paused_while_its_dependency_ends_it_runs_when_it_is_resumed(make):
    s = make()
    s.submit("a")
    s.submit("b", after=["a"])
    s.pause("b")
    s.tell("a", "end")
    assert s.calls("b") == 0
    s.resume("b")
    assert s.state("b") == "runs"


@fault(naive.LinksBeforeItChecks)
def test_a_refused_submission_leaves_no_edges(make):
    s = make()
    s.submit("a")
    s.submit("b")
    with pytest.raises(Refused):
        s.submit("x", after=["a", "missing"])
    s.submit("x", after=["a", "b"])
    s.tell("a", "end")
    assert s.calls("x") == 0
    s.tell("b", "end")
    assert s.calls("x") == 1


def flood(s, big: str, narrow: dict, rounds: int) -> None:
    """Narrow ones, always another before one ends, as long as `big` waits; each takes two intervals."""
    for n in range(rounds):
        s.submit(f"narrow {n + 2}", **narrow)
        s.advance(INTERVAL / 2)
        if s.state(f"narrow {n}") == "runs":
            s.tell(f"narrow {n}", "end")
        if s.calls(big):
            return
        s.advance(INTERVAL / 2)
    pytest.fail(f"{big} starves")


@fault(naive.FitsBeforeItScores)
def test_a_wide_task_does_not_starve(make):
    """It waits for three intervals and the longest that runs then, which takes two."""
    s = make(cpu=2)
    s.submit("narrow 0")
    s.submit("narrow 1")
    s.submit("wide", cpu=2, priority=1000)
    flood(s, "wide", {"cpu": 1}, 3 + 2)


@fault(naive.EscapesWhenNothingRuns)
def test_a_task_over_a_soft_limit_does_not_starve(make):
    s = make(cpu=4, ram=100)
    s.submit("narrow 0", ram=30)
    s.submit("narrow 1", ram=30)
    s.submit("big", ram=150, priority=1000)
    flood(s, "big", {"ram": 30}, 3 + 2)


@fault(naive.StandsOnItsSlot)
def test_pausing_all_that_runs_does_not_halt_the_pool(make):
    s = make(cpu=2)
    for name in ("a", "b"):
        s.submit(name)
        s.pause(name)
        s.tell(name, "checkpoint")
    s.submit("c")
    assert s.state("c") == "runs"
    s.resume("a")
    s.resume("b")
    assert sorted([s.state("a"), s.state("b")]) == ["runs", "stands"]  # there is room for one of them
    s.tell("c", "end")
    assert [s.state("a"), s.state("b")] == ["runs", "runs"]


@fault(naive.SaysThatItStood)
def test_pause_says_no_when_the_task_ended_first(make):
    s = make()
    s.submit("a")
    answer = s.pause("a")
    assert answer == []
    s.tell("a", "end")
    assert s.state("a") == "ok"
    assert answer == [False]


@fault(naive.LetsErrorsOut)
def test_an_exception_ends_its_task_and_nothing_else(make):
    s = make()
    s.submit("a")
    s.submit("b")
    s.tell("a", "fail")
    assert s.state("a") == "failed"
    s.tell("b", "end")
    assert s.state("b") == "ok"


@fault(naive.CallsUnderItsLock)
def test_what_is_called_back_by_a_cancellation_may_call(make):
    s = make()
    s.on_cancel["a"] = lambda: s.cancel("b")
    s.submit("a")
    s.submit("b")
    s.cancel("a")
    if s.state("a") == "stops":
        s.tell("a", "checkpoint")
    assert s.state("a") == "cancelled"
    assert s.state("b") in ("stops", "cancelled")


@fault(naive.TellsLater)
def test_events_come_in_order_and_before_it_is_idle(make):
    s = make(cpu=1)
    for name in "abc":
        s.submit(name)
    for name in "abc":
        s.tell(name, "end")
        of_it = [what for of, what in s.events if of == name]
        assert of_it == ["submitted", "started", "over"]
    assert s.idle()


@fault(naive.IdleWhileItRuns)
def test_what_was_cancelled_is_under_way_until_it_has_left(make):
    s = make()
    s.submit("a")
    s.cancel("a")
    assert s.state("a") == "stops"
    assert not s.idle()
    s.tell("a", "checkpoint")
    assert s.state("a") == "cancelled"
    assert s.idle()


@fault(naive.ResumesAtTheEnd)
def test_closing_lets_nobody_go_on_who_stands(make):
    s = make()
    s.submit("a")
    s.pause("a")
    s.tell("a", "checkpoint")
    s.close()
    assert s.state("a") == "cancelled"
    assert s.passed("a") == 0


# ---- workflows

FILM = {
    "script": ((), 0, "end"),
    "image-1": (("script",), 6, "end"),
    "image-2": (("script",), 6, "fail"),
    "image-3": (("script",), 6, "end"),
    "poster": (("image-2",), 0, "end"),
}
GOOD = {name: (after, ram, "end") for name, (after, ram, _) in FILM.items()}


@fault(naive.RegistersLast, Orchestra, WorkflowAdapter)
def test_a_workflow_that_is_fast_is_completed_all_the_same(make):
    w = make()
    w.perform(GOOD, fast=True)
    assert w.completed == [True]


@fault(naive.CompletesOnSuccess, Orchestra, WorkflowAdapter)
def test_a_workflow_that_failed_is_completed_and_says_so(make):
    w = make()
    w.perform(FILM)
    assert w.completed == [False]


@fault(naive.SharesOneToken, Orchestra, WorkflowAdapter)
def test_a_failing_step_cancels_its_descendants_and_no_sibling(make):
    w = make(ram=100)
    w.perform(FILM)
    assert [w.state(f"image-{n}") for n in (1, 2, 3)] == ["ok", "failed", "ok"]
    assert w.state("poster") == "cancelled"


@fault(naive.StatesNoNeeds, Orchestra, WorkflowAdapter)
def test_what_a_step_needs_reaches_the_gate(make):
    w = make(ram=10)
    w.perform(GOOD)
    assert w.peak == 6


# ---- what to fall back on has the same meaning


@fault(naive.FailsAlone, Toy, Simple)
def test_simple_cancels_those_after_a_failure(make):
    s = make()
    s.submit("holder")
    s.submit("a", after=["holder"], fate="fail")
    s.submit("b", after=["a"], fate="end")
    s.submit("c", after=["b"], fate="end")
    s.tell("holder", "end")
    assert [s.state(name) for name in "abc"] == ["failed", "cancelled", "cancelled"]


@fault(naive.CancelsOnce, Toy, Simple)
def test_simple_cancels_as_often_as_one_likes(make):
    s = make(cpu=1)
    s.submit("holder")
    s.submit("a", fate="end")
    for _ in range(3):
        s.cancel("a")
    assert s.state("a") == "cancelled"
    assert s.calls("a") == 0


@fault(naive.KnowsNoLimits, Toy, Simple)
def test_simple_keeps_limits(make):
    s = make(ram=100)
    s.submit("holder", ram=80)
    s.submit("a", ram=80, fate="end")
    assert s.state("a") == "queued"
    s.tell("holder", "end")
    assert s.state("a") == "ok"


@fault(naive.KnowsNoAge, Toy, Simple)
def test_simple_lets_age_count(make):
    s = make(cpu=1)
    s.submit("holder")
    s.submit("old", fate="end")
    s.advance(3 * INTERVAL)
    s.submit("young", fate="end", priority=2)
    s.tell("holder", "end")
    assert [name for name, what in s.events if what == "started"] == ["holder", "old", "young"]


# ---- what it costs: looks at tasks, counted by the calls that are made, so that no clock decides


def calls_of(work: Callable[[], object]) -> int:
    made = 0

    def count(frame, event, arg) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


async def nothing() -> None:
    pass


def ours_drains(tasks: int) -> None:
    """So many wait for one place."""

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            for _ in range(tasks):
                n.spawn(nothing)

    bursar.run(main, clock="virtual")


def toy_drains(tasks: int, kind: type[Toy] = Toy) -> None:
    toy = kind(cpu=1)
    toy.submit("first")
    for n in range(tasks):
        toy.submit(str(n), fate="end")
    toy.tell("first", "end")


def ours_fans_out(tasks: int) -> None:
    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            root = n.spawn(nothing)
            for _ in range(tasks):
                n.spawn(nothing, after=[root])

    bursar.run(main, clock="virtual")


def toy_fans_out(tasks: int, kind: type[Toy]) -> None:
    toy = kind()
    toy.submit("root")
    for n in range(tasks):
        toy.submit(str(n), after=["root"])


def growth(work: Callable[[int], object]) -> float:
    """How much more a task costs where there are four times as many."""
    few, many = calls_of(lambda: work(100)) / 100, calls_of(lambda: work(400)) / 400
    return many / few


def test_a_decision_costs_the_same_however_many_wait():
    assert growth(toy_drains) > 2  # it sorts all that wait
    assert growth(ours_drains) < 1.2


def test_a_submission_costs_the_same_however_many_follow():
    assert growth(lambda n: toy_fans_out(n, naive.WalksDescendants)) > 2
    assert growth(ours_fans_out) < 1.2


class Luggage:
    """What a task was given."""


def test_what_a_finished_task_was_given_is_let_go():
    """Though somebody holds its handle, and the nursery is open."""

    def takes(luggage) -> None:
        pass

    async def main():
        async with bursar.nursery() as n:
            luggage = Luggage()
            held = weakref.ref(luggage)
            task = n.spawn(takes, luggage)
            await task
            del luggage
            assert held() is None
            return task

    assert bursar.run(main).result is None
