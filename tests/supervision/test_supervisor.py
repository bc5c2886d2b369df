"""Supervisors: which children are restarted, in which order, how often, and what happens to a child without budget."""

import contextlib
import contextvars

import pytest

import bursar
from bursar import Budget, OutcomeKind, RestartLimitExceeded, sleep, supervisor


@pytest.fixture
def supervise(run):
    """Run a program in the cluster profile."""

    def call(fn, *args, **keywords):
        return run(fn, *args, profile="cluster", **keywords)

    call.run = run
    return call


class Log:
    """Children that note when they start and end."""

    def __init__(self):
        self.lines = []

    def starts(self, name=None):
        return [line[1] for line in self.lines if line[0] == "start" and name in (None, line[1])]

    async def steady(self, name):
        self.lines.append(("start", name))
        try:
            await sleep(1000)
        finally:
            self.lines.append(("end", name))

    async def failing(self, name, times, after=1.0):
        self.lines.append(("start", name))
        await sleep(after)
        if len(self.starts(name)) <= times:
            raise ValueError(f"{name} failed")

    async def failing_then_steady(self, name, times):
        await self.failing(name, times)
        await self.steady_on(name)

    async def steady_on(self, name):
        try:
            await sleep(1000)
        finally:
            self.lines.append(("end", name))


@pytest.fixture
def log():
    return Log()


# ---- strategies


def run_three(supervise, log, strategy):
    """Run three children. The second one fails once, after a second."""

    async def main():
        async with supervisor(strategy) as s:
            for name in "ac":
                if name == "c":
                    s.start(log.failing_then_steady, "b", 1, name="b")
                s.start(log.steady, name, name=name)
            await sleep(10)
            log.lines.append("stop")
            counts = {child.name: child.restarts for child in s.children}
            s.stop()
        return counts

    counts = supervise(main)
    lines = log.lines[: log.lines.index("stop")]
    return counts, lines


def test_one_for_one_restarts_the_failed_child_alone(supervise, log):
    counts, lines = run_three(supervise, log, "one_for_one")
    assert counts == {"a": 0, "b": 1, "c": 0}
    assert lines == [("start", "a"), ("start", "b"), ("start", "c"), ("start", "b")]


def test_one_for_all_stops_all_in_reverse_and_starts_them_in_order(supervise, log):
    counts, lines = run_three(supervise, log, "one_for_all")
    assert counts == {"a": 1, "b": 1, "c": 1}
    assert lines[:3] == [("start", "a"), ("start", "b"), ("start", "c")]
    assert lines[3:5] == [("end", "c"), ("end", "a")]
    assert lines[5:] == [("start", "a"), ("start", "b"), ("start", "c")]


def test_rest_for_one_restarts_the_failed_child_and_those_started_after_it(supervise, log):
    counts, lines = run_three(supervise, log, "rest_for_one")
    assert counts == {"a": 0, "b": 1, "c": 1}
    assert lines[3:] == [("end", "c"), ("start", "b"), ("start", "c")]


def test_a_restart_waits_until_the_stopped_ones_have_cleaned_up(supervise, log):
    async def slow():
        log.lines.append(("start", "slow"))
        try:
            await sleep(1000)
        finally:
            await sleep(3)
            log.lines.append(("cleaned", await bursar.now()))

    async def main():
        async with supervisor("one_for_all") as s:
            s.start(slow)
            s.start(log.failing, "bad", 1, name="bad")
            await sleep(10)
            s.stop()

    supervise(main)
    assert log.lines[:3] == [("start", "slow"), ("start", "bad"), ("cleaned", 4.0)]
    assert log.lines[3:5] == [("start", "slow"), ("start", "bad")]


def test_two_failures_at_once_are_one_restart_of_all(supervise, log):
    async def main():
        async with supervisor("one_for_all") as s:
            a = s.start(log.failing, "a", 1, name="a")
            b = s.start(log.failing, "b", 1, name="b")
        return a.restarts, b.restarts

    assert supervise(main) == (1, 1)


# ---- kinds of restart


@pytest.mark.parametrize(("kind", "starts"), [("transient", 3), ("temporary", 1)])
def test_a_child_that_fails_twice(supervise, log, kind, starts):
    async def main():
        async with supervisor() as s:
            s.start(log.failing, "x", 2, restart=kind)

    supervise(main)
    assert len(log.starts()) == starts


def test_a_transient_child_that_ends_well_stays_ended(supervise, log):
    async def main():
        async with supervisor() as s:
            child = s.start(log.failing, "x", 0)
        return child.restarts, child.task.outcome.kind, s.children

    assert supervise(main) == (0, OutcomeKind.OK, [])


def test_a_transient_child_that_is_cancelled_stays_cancelled(supervise, log):
    async def main():
        async with supervisor() as s:
            child = s.start(log.steady, "x")
            await sleep(1)
            child.task.cancel()
        return child.restarts

    assert supervise(main) == 0


def test_a_permanent_child_is_restarted_whenever_it_ends(supervise, log):
    async def main():
        async with supervisor(max_restarts=100) as s:
            child = s.start(log.failing, "x", 0, restart="permanent")
            await sleep(3.5)
            child.task.cancel()
            await sleep(0.2)
            s.stop()
        return child.restarts

    assert supervise(main) == 4


def test_a_panicking_child_is_restarted_like_a_failing_one(supervise, log):
    async def panics():
        log.lines.append(("start", "x"))
        if len(log.starts()) == 1:
            raise SystemExit

    async def main():
        async with supervisor() as s:
            s.start(panics)

    supervise(main)
    assert len(log.starts()) == 2


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_a_temporary_child_is_never_started_again_not_even_for_anothers_sake(supervise, log, strategy):
    async def main():
        async with supervisor(strategy) as s:
            s.start(log.failing, "bad", 1, name="bad")
            s.start(log.steady, "temporary", restart="temporary", name="temporary")
            await sleep(10)
            s.stop()

    supervise(main)
    assert log.starts("bad") == ["bad", "bad"]
    assert log.starts("temporary") == ["temporary"]


def test_each_restart_has_the_same_arguments_and_the_budget_anew(supervise, log):
    spent = []

    async def worker(amount):
        task = await bursar.current_task()
        spent.append((amount, task.budget.ops))
        await bursar.charge(ops=amount)
        if len(spent) < 3:
            raise ValueError

    async def main():
        async with supervisor() as s:
            s.start(worker, 50, budget=Budget(ops=100))

    supervise(main)
    assert spent == [(50, 99)] * 3


# ---- the limit


def test_too_many_restarts_end_the_supervisor_and_everything_in_it(supervise, log):
    async def main():
        async with supervisor(max_restarts=2, within=5) as s:
            main.steady = s.start(log.steady, "steady", name="steady")
            main.bad = s.start(log.failing, "bad", 100, 0.1, name="bad")

    with pytest.raises(ExceptionGroup) as caught:
        supervise(main)
    limit = caught.value.subgroup(RestartLimitExceeded)
    while isinstance(limit, ExceptionGroup):
        (limit,) = limit.exceptions
    assert "'bad'" in str(limit)
    assert "the limit is 2" in str(limit)
    assert isinstance(limit.__cause__, ValueError)
    assert main.bad.restarts == 2
    assert main.steady.task.outcome.kind is OutcomeKind.CANCELLED
    assert ("end", "steady") in log.lines


def test_restarts_further_apart_than_the_window_do_not_add_up(supervise, log):
    async def main():
        async with supervisor(max_restarts=1, within=2) as s:
            child = s.start(log.failing, "slow", 6, 3.0)
        return child.restarts

    assert supervise(main) == 6


def test_no_restarts_allowed(supervise, log):
    async def main():
        async with supervisor(max_restarts=0) as s:
            s.start(log.failing, "x", 1)

    with pytest.raises(ExceptionGroup) as caught:
        supervise(main)
    assert caught.value.subgroup(RestartLimitExceeded)


# ---- the block


def test_the_block_waits_for_children_that_end(supervise, log):
    async def main():
        async with supervisor() as s:
            s.start(log.failing, "x", 1)
        return await bursar.now()

    assert supervise(main) == 2.0


def test_a_body_that_fails_stops_the_children(supervise, log):
    async def main():
        async with supervisor() as s:
            s.start(log.steady, "x")
            await sleep(1)
            raise KeyError("body")

    with pytest.raises(ExceptionGroup) as caught:
        supervise(main)
    assert caught.value.subgroup(KeyError)
    assert log.lines == [("start", "x"), ("end", "x")]


def test_cancelling_the_opener_stops_the_children(supervise, log):
    async def opener():
        async with supervisor() as s:
            s.start(log.steady, "x", restart="permanent")
            await sleep(1000)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(opener)
            await sleep(1)
            task.cancel()
        return task.outcome.kind, await bursar.now()

    assert supervise(main) == (OutcomeKind.CANCELLED, 1.0)
    assert log.lines == [("start", "x"), ("end", "x")]


def test_being_cancelled_while_a_supervisor_opens_is_an_ordinary_cancellation(supervise):
    async def opener():
        async with bursar.timeout(100), supervisor():
            pass

    async def canceller(box):
        box[0].cancel("too early")

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(opener)
            n.spawn(canceller, [task])
        return task.outcome.kind

    assert supervise(main) is OutcomeKind.CANCELLED


def test_stopping_during_a_restart_restarts_nobody(supervise, log):
    async def slow():
        log.lines.append(("start", "slow"))
        try:
            await sleep(1000)
        finally:
            await sleep(3)

    async def main():
        async with supervisor("one_for_all") as s:
            s.start(slow)
            s.start(log.failing, "bad", 1)
            await sleep(2)  # `bad` has failed, `slow` cleans up
            s.stop()
        return await bursar.now()

    assert supervise(main) == 4.0
    assert log.starts("slow") == ["slow"]


def test_children_may_be_started_later_and_from_tasks_inside(supervise, log):
    async def parent(s):
        s.start(log.failing, "grown", 0)

    async def main():
        async with supervisor() as s:
            s.start(parent, s)

    supervise(main)
    assert log.starts() == ["grown"]


def test_supervisors_nest(supervise, log):
    async def inner():
        async with supervisor(max_restarts=0) as s:
            s.start(log.failing, "x", 2)

    async def main():
        async with supervisor(max_restarts=3) as s:
            child = s.start(inner)
        return child.restarts

    assert supervise(main) == 2
    assert len(log.starts()) == 3


# ---- budgets


async def spender(total):
    for _ in range(total):
        await bursar.checkpoint()
    return "paid"


def test_a_child_without_budget_ends_and_is_restarted_by_default(supervise):
    async def main():
        async with supervisor(max_restarts=1) as s:
            s.start(spender, 100, budget=Budget(ops=10))

    with pytest.raises(ExceptionGroup) as caught:
        supervise(main)
    assert caught.value.subgroup(RestartLimitExceeded)


def test_recharge_keeps_a_child_going(supervise):
    async def main():
        async with supervisor(on_exhausted="recharge", recharge=Budget(ops=10)) as s:
            child = s.start(spender, 100, budget=Budget(ops=10))
        return child.task.result, child.restarts, child.task.spent.ops

    assert supervise(main) == ("paid", 0, 100)


def test_recharge_comes_from_the_supervisors_budget_first_and_then_from_the_capability(supervise):
    async def main():
        async with supervisor(on_exhausted="recharge", recharge=Budget(ops=20), budget=Budget(ops=100)) as s:
            child = s.start(spender, 300, budget=Budget(ops=10))
        return child.task.result

    assert supervise(main) == "paid"
    assert run_minted(supervise.run.runtime) > 0


def run_minted(runtime):
    (spent,) = runtime.kernel.registry._spent.values()
    return spent["ops"]


def test_a_child_that_nobody_can_recharge_any_more_is_cancelled(supervise):
    async def main():
        async with supervisor(on_exhausted="recharge", recharge=Budget(ops=20), budget=Budget(ops=100)) as s:
            child = s.start(spender, 300, budget=Budget(ops=10))
        return child.task.outcome

    outcome = supervise(main, capabilities=[bursar.CapSpawn(), bursar.CapTimer()])
    assert outcome.kind is OutcomeKind.CANCELLED
    assert "could not recharge" in outcome.reason.detail


def test_a_recharge_that_cannot_help_is_refused_or_ends_but_does_not_go_on_for_ever(supervise):
    """A recharge without the component that is short would be repeated for ever."""
    rounds = 0

    def watch(kind, task, detail):
        nonlocal rounds
        rounds += kind == "recharged"
        if rounds >= 1000:
            raise RuntimeError("it goes on for ever")

    async def main():
        async with supervisor(on_exhausted="recharge", recharge=Budget()) as s:
            s.start(spender, 100, budget=Budget(ops=10))

    runtime = bursar.Runtime(clock="virtual", profile="cluster")
    runtime.kernel.observer = watch
    with contextlib.suppress(Exception):  # the test is that it ends
        runtime.run(main)
    assert rounds < 1000


def test_cancel_ends_a_child_without_budget_for_good(supervise):
    async def main():
        async with supervisor(on_exhausted="cancel") as s:
            child = s.start(spender, 100, budget=Budget(ops=10))
        return child.task.outcome, child.restarts

    outcome, restarts = supervise(main)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.reason.detail == "it ran out of budget"
    assert restarts == 0


def test_hold_keeps_a_child_until_somebody_recharges_it(supervise):
    async def main():
        async with supervisor(on_exhausted="hold") as s:
            child = s.start(spender, 15, budget=Budget(ops=10))
            await sleep(1)
            assert child.task.state is bursar.State.EXHAUSTED
            await bursar.recharge(Budget(ops=10), child.task)
        return child.task.result

    assert supervise(main) == "paid"


def test_a_supervisors_budget_is_the_purse_of_its_children(supervise):
    async def main():
        async with supervisor(budget=Budget(ops=50), max_restarts=0) as s:
            s.start(spender, 100)

    with pytest.raises(ExceptionGroup):
        supervise(main)


# ---- arguments


def test_supervisors_belong_to_the_profiles_that_have_them(run):
    async def main():
        async with supervisor():
            pass

    with pytest.raises(bursar.ProfileError, match=r"supervisor\(\) belongs to the cluster and sovereign profiles"):
        run(main)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"strategy": "all_for_nothing"}, "one_for_one, one_for_all, rest_for_one"),
        ({"on_exhausted": "weep"}, "end, hold, cancel, recharge"),
        ({"max_restarts": -1}, "whole number"),
        ({"max_restarts": 1.5}, "whole number"),
        ({"within": -1}, "between 0 and"),
        ({"on_exhausted": "recharge"}, "needs recharge=Budget"),
    ],
)
def test_arguments_are_checked_before_anything_is_opened(keywords, text):
    with pytest.raises(ValueError, match=text):
        supervisor(**keywords)


def test_a_child_is_checked_before_it_is_started(supervise):
    def plain():
        pass

    async def main():
        async with supervisor() as s:
            with pytest.raises(ValueError, match="transient, permanent, temporary"):
                s.start(spender, 1, restart="sometimes")
            with pytest.raises(bursar.NotBuilt, match="async def"):
                s.start(plain)
            assert s.children == []

    supervise(main)


def test_starting_outside_the_block_is_refused_in_words():
    with pytest.raises(bursar.BursarError, match="block"):
        supervisor().start(spender, 1)


def test_a_recharge_of_a_shared_purse_that_moves_nothing_is_not_repeated_for_ever(run):
    async def child():
        await bursar.charge(ops=100)
        return "paid"

    async def main():
        options = {"on_exhausted": "recharge", "recharge": bursar.Budget(ops=50)}
        async with bursar.supervisor(budget=bursar.Budget(ops=60), **options) as s:
            started = s.start(child)
        return started.task.result

    assert run(main, profile="cluster") == "paid"
    assert run.runtime.kernel.counters["recharged"] == 1


def test_a_child_that_was_cancelled_while_on_hold_is_not_recharged(run):
    async def child():
        await bursar.charge(ops=100)

    async def main():
        options = {"on_exhausted": "recharge", "recharge": bursar.Budget(ops=50)}
        async with bursar.supervisor(budget=bursar.Budget(ops=1000), **options) as s:
            started = s.start(child, budget=bursar.Budget(ops=5))
            while started.task.state is not bursar.State.EXHAUSTED:
                await bursar.checkpoint()
            started.task.cancel()
        return started.task.outcome.kind

    assert run(main, profile="cluster") is bursar.OutcomeKind.CANCELLED


def test_a_supervisor_that_cannot_start_leaves_no_block_open(run):
    async def main():
        async with bursar.timeout(5), bursar.supervisor():
            pass

    with pytest.raises(ExceptionGroup) as caught:
        run(main, profile="cluster", budget=bursar.Budget(spawns=1))
    assert caught.value.subgroup(bursar.SpawnBudgetExceeded)
    assert not caught.value.subgroup(bursar.ScopeMisuse)


def test_a_restarted_child_sees_the_context_of_its_first_start(run):

    seen, variable = [], contextvars.ContextVar("variable", default="default")

    async def child():
        seen.append(variable.get())
        if len(seen) == 1:
            raise ValueError("again")

    async def main():
        async with bursar.supervisor() as s:
            variable.set("mine")
            s.start(child)

    run(main, profile="cluster")
    assert seen == ["mine", "mine"]


def test_a_restart_gives_a_child_no_more_authority_than_its_first_start(run):
    seen = []

    async def child():
        seen.append(bursar.CapEntropy in await bursar.capabilities())
        if len(seen) == 1:
            raise ValueError("again")

    async def poor(s):
        s.start(child)

    async def main():
        held = await bursar.capabilities()
        async with bursar.supervisor() as s, bursar.nursery() as n:
            n.spawn(poor, s, capabilities=[held[bursar.CapSpawn]])

    run(main, profile="cluster")
    assert seen == [False, False]
