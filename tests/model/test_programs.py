"""Whole programs, drawn at random, run to their end with every invariant checked after every step.

Each program runs in the runtime's own pump, with one, two and four workers and all three ways of choosing a victim.
Whatever a program does (fail, panic, deadlock, run dry, leak, swallow a cancellation), the law holds at each step, the
run ends, and at the end nobody lives, nothing is lent, no timer is armed and every outcome has been counted.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import named_programs, programs
from support.drive import Watch, checked, over, paid
from support.law import named_of

import bursar
from bursar import Budget, Runtime

RUNTIMES = [(w, policy) for w in (1, 2, 4) for policy in programs.POLICIES]


def run_checked(runtime: Runtime, program: list, interpreter=programs.Interpreter) -> str:
    """Run with checks; what is left at the end is nothing."""
    watch = Watch(checked(runtime))
    ending = programs.run(runtime, program, interpreter)
    over(runtime)
    paid(runtime.kernel, watch.records, watch.by_runtime)
    done = Counter(task.outcome.kind for task in watch.records)
    assert done == runtime.kernel.done
    return ending


@pytest.mark.parametrize(("workers", "policy"), RUNTIMES)
def test_the_law_holds_at_every_step_of_numbered_programs(workers, policy):
    endings = Counter()
    for number in range(120):
        runtime = programs.runtime_for(number, workers, seed=number, steal=policy)
        endings[run_checked(runtime, programs.make(Random(number)))] += 1
    assert len(endings) >= 3, f"the programs are all alike: {endings}"


def run_named(number: int, workers: int, policy: str) -> Runtime:
    """A program with named counters: what was granted of each is left or spent."""
    runtime = named_programs.runtime_for(number, workers, seed=number, steal=policy)
    pools = named_of(runtime.kernel.root.pools)
    limits = {name: pool.granted for name, pool in pools.items()}
    run_checked(runtime, programs.make(Random(number)), named_programs.NamedInterpreter)
    for name, pool in pools.items():
        assert pool.left + pool.spent == pool.granted == limits[name] + pool.minted, name
    return runtime


@pytest.mark.parametrize(("workers", "policy"), RUNTIMES)
def test_the_law_holds_at_every_step_with_named_counters(workers, policy):
    counters = Counter()
    for number in range(60):
        counters.update(run_named(number, workers, policy).statistics().counters)
    assert counters["exhausted"] > counters["recharged"] > 0, counters


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("workers", "policy"), RUNTIMES)
def test_the_law_holds_for_many_programs_with_named_counters(workers, policy):
    for number in range(60, 1000):
        run_named(number, workers, policy)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    random=st.randoms(use_true_random=False),
    number=st.integers(0, 11),
    seed=st.integers(0, 2**64 - 1),
    where=st.sampled_from(RUNTIMES),
)
def test_the_law_holds_at_every_step_of_shrinkable_programs(random, number, seed, where):
    workers, policy = where
    run_checked(programs.runtime_for(number, workers, seed, policy), programs.make(random))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("workers", "policy"), RUNTIMES)
def test_the_law_holds_for_many_programs(workers, policy):
    for number in range(120, 2520):
        runtime = programs.runtime_for(number, workers, seed=number, steal=policy)
        run_checked(runtime, programs.make(Random(number)))


@pytest.mark.parametrize(("workers", "policy"), RUNTIMES)
def test_a_step_answers_none_only_when_nothing_is_runnable(workers, policy):
    """Who drives a kernel lets time pass when `step` answers None: it must not pass while somebody could run."""
    for number in range(40):
        runtime = programs.runtime_for(number, workers, seed=number, steal=policy)
        step = runtime.kernel.step

        def strict(step=step, kernel=runtime.kernel):
            task = step()
            assert task is not None or not kernel.runnable, "None, while a task is runnable"
            return task

        runtime.kernel.step = strict
        programs.run(runtime, programs.make(Random(number)))


def test_the_generator_reaches_every_part_of_the_law():
    """What no program does is not tested: every lane but the fallback, every ending, every report must occur."""
    lanes, done, counters = Counter(), Counter(), Counter()
    for number in range(300):
        runtime = programs.runtime_for(number, (1, 2, 4)[number % 3], seed=number)
        programs.run(runtime, programs.make(Random(number)))
        statistics = runtime.statistics()
        lanes.update(statistics.by_lane)
        done.update(statistics.done)
        counters.update(statistics.counters)
    assert all(lanes[lane] for lane in ("ready", "timed", "cancel", "steal")), lanes
    assert all(done[kind] for kind in ("ok", "failed", "cancelled", "panicked")), done
    expected = {"turns_over", "exhausted", "recharged", "obligation_leaked", "cleanup_cut", "cancel_swallowed"}
    assert expected <= set(counters), expected - set(counters)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cancelled_program_ends_wherever_it_stands(workers):
    """Cancelled from outside after any number of decisions, a program still ends, and leaves nothing behind."""
    for number in range(25):
        program = programs.make(Random(number))
        whole = programs.runtime_for(number, workers)
        programs.run(whole, program)
        for after in range(0, whole.kernel.decisions, max(1, whole.kernel.decisions // 12)):
            runtime = checked(programs.runtime_for(number, workers))
            _cancel_after(runtime, after)
            programs.run(runtime, program)
            over(runtime)


def _cancel_after(runtime: Runtime, decisions: int) -> None:
    step = runtime.kernel.step

    def counting():
        if runtime.kernel.decisions == decisions:
            runtime.cancel("enough")
        return step()

    runtime.kernel.step = counting


def test_what_ran_in_a_closed_purse_never_spends_more_than_it_holds():
    budget = Budget(ops=500, memory=300, spawns=30, channel_ops=40, syscalls=40)
    for number in range(60):
        runtime = checked(Runtime(clock="virtual", budget=budget, seed=number, cleanup=bursar.Cleanup(50, 1.0)))
        programs.run(runtime, programs.make(Random(number)))
        over(runtime)
        for pool, granted in zip(runtime.kernel.root.pools, budget.as_tuple(), strict=True):
            assert pool.granted == granted
            assert pool.left + pool.spent == granted
