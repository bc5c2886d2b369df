"""The same program, seed and worker count give the same schedule: in every process, under every hash seed.

Two hundred generated programs run with one worker and with four in three processes that share nothing but the source;
all fingerprints must agree. Twenty of them are written down in golden.json, so that a change of the law is noticed even
when it is consistent with itself. After a change on purpose, in tests/: python -m support.programs --golden
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from support import programs

import bursar
from bursar import Runtime

TESTS = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden.json"
HASH_SEEDS = ("0", "1", "4242")


def elsewhere(hash_seed: str, last: int) -> subprocess.Popen:
    """Start another process that runs programs 0..last with 1 and 4 workers."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", programs.__name__, "0", str(last), "1,4"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=TESTS, env=environment, stdout=pipe, stderr=pipe, text=True)


def agree(last: int) -> dict[str, list]:
    runs = [elsewhere(seed, last) for seed in HASH_SEEDS]
    found = []
    for run in runs:
        out, err = run.communicate(timeout=3000)
        assert run.returncode == 0, err
        found.append(json.loads(out))
    assert len(found[0]) == 2 * last
    for other in found[1:]:
        different = [key for key, value in found[0].items() if other[key] != value]
        assert not different, f"not the same in every process: {different[:5]}"
    return found[0]


def test_two_hundred_programs_agree_in_three_processes():
    found = agree(200)
    assert len({value[0] for value in found.values()}) > 380, "fingerprints of different programs coincide"
    decisions = [value[1] for value in found.values()]
    assert sum(decisions) > 10_000, "the programs are too small to show anything"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_programs_agree_in_three_processes():
    agree(10_000)


def test_the_golden_fingerprints_still_hold():
    golden = json.loads(GOLDEN.read_text())
    assert programs.fingerprints(0, programs.GOLDEN_COUNT, [1, 4]) == golden


def test_a_second_run_in_the_same_process_agrees():
    """No counter of the process, no identity of an object and no state of a collector gets into the schedule."""
    first = programs.fingerprints(0, 40, [1, 2, 4])
    keep_the_addresses_different = [object() for _ in range(10_000)]
    assert programs.fingerprints(0, 40, [1, 2, 4]) == first
    assert keep_the_addresses_different


def schedule(number: int, workers: int, seed: int) -> tuple:
    """Who ran, in order: the chain itself differs by seed even where the order does not."""
    order = []
    runtime = programs.runtime_for(number, workers, seed)
    runtime.kernel.observer = lambda kind, task, detail: (
        order.append(task.id) if kind == "scheduler_step_decision" else None
    )
    programs.run(runtime, programs.make(Random(number)))
    return tuple(order)


def test_another_seed_gives_another_schedule_when_there_are_several_workers():
    differ = sum(schedule(n, 4, seed=1) != schedule(n, 4, seed=2) for n in range(100))
    assert differ > 80, f"only {differ} of 100 programs notice the seed"


def test_with_one_worker_the_seed_changes_only_what_asks_for_chance():
    """One worker has no victims to draw: only `select` and `entropy` can tell two seeds apart."""

    async def main():
        async with bursar.nursery() as n:
            for i in range(20):
                n.spawn(worker, i)

    async def worker(i):
        for _ in range(i):
            await bursar.checkpoint()

    orders = []
    for seed in range(3):
        runtime, order = Runtime(clock="virtual", seed=seed), []
        runtime.kernel.observer = lambda kind, task, _, o=order: (
            o.append(task.id) if kind == "scheduler_step_decision" else None
        )
        runtime.run(main)
        orders.append(order)
    assert orders[0] == orders[1] == orders[2]


def test_the_worker_count_is_part_of_the_fingerprint():
    found = programs.fingerprints(0, 30, [1, 2, 3, 4])
    for number in range(30):
        assert len({found[f"{number}/{w}"][0] for w in (1, 2, 3, 4)}) == 4


@pytest.mark.parametrize("policy", programs.POLICIES)
def test_watching_a_run_does_not_change_it(policy):
    for number in range(30):
        program = programs.make(Random(number))
        alone, watched = (programs.runtime_for(number, 4, steal=policy) for _ in range(2))
        watched.kernel.observer = lambda *_, rt=watched: rt.snapshot() if rt.kernel.decisions % 7 == 0 else None
        programs.run(alone, program)
        programs.run(watched, program)
        assert alone.fingerprint == watched.fingerprint


def test_two_runs_at_once_do_not_disturb_each_other():
    """A runtime inside a task of another one: neither schedule knows of the other."""
    program = programs.make(Random(5))
    alone = programs.runtime_for(5, 2)
    programs.run(alone, program)
    inner = programs.runtime_for(5, 2)

    async def main():
        await bursar.checkpoint()
        programs.run(inner, program)
        await bursar.checkpoint()

    outer = Runtime(clock="virtual")
    outer.run(main)
    again = Runtime(clock="virtual")

    async def without():
        await bursar.checkpoint()
        await bursar.checkpoint()

    again.run(without)
    assert inner.fingerprint == alone.fingerprint
    assert outer.fingerprint == again.fingerprint
