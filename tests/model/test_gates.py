"""Admission under random programs and random hands.

Flows are whole programs (`support.admission_programs`), run with the law and the gates checked after every poll and
every admission checked against a score for everybody who waits. The machine plays one gate, one move at a time
(`support.manual_gate`), with coroutines and with functions on threads: whoever is admitted does nothing until the
machine says so, so it can bring about any state, and Hypothesis shrinks what it finds.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import admission_programs, lending_programs
from support.drive import checked
from support.evidence import Trace, verify
from support.gate_oracle import GateOracle
from support.gated import nap
from support.machines import cases
from support.manual_gate import ManualGate

import bursar
from bursar import Aging, Authority, Hard, OutcomeKind, Retry, Soft, State, Strict

PROGRAMS = 150
CHUNK = 25


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_the_gates_of_numbered_programs_keep_their_rules(first):
    for number in range(first, first + CHUNK):
        admission_programs.run_checked(number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_gates_of_many_programs_keep_their_rules():
    for number in range(PROGRAMS, 4000):
        admission_programs.run_checked(number)


def test_the_programs_reach_every_part_of_admission():
    kinds, endings, over = Counter(), Counter(), Counter()
    for number in range(60):
        ending, runtime, judge = admission_programs.run_checked(number)
        kinds.update(judge.kinds)
        over.update(judge.over)
        endings[ending] += 1
        totals = runtime.kernel.gate.totals
        over.update({f"dropped by {cause}": n for cause, n in totals.dropped.items()})
        over.update({"retried": totals.retried, "starved": totals.starved, "passed over": totals.passed_over})
    for kind in ("task_submitted", "task_admitted", "task_dropped", "task_paused", "task_resumed", "permit_granted"):
        assert kinds[kind], kind
    assert kinds["permit_lent"]
    assert all(over[kind.name] for kind in OutcomeKind), over
    assert all(over[f"dropped by {cause}"] for cause in ("queue", "wait", "explicit")), over
    assert over["retried"]
    assert over["starved"]
    assert over["passed over"]
    assert len(endings) >= 3


# ---- places that are lent


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_nobody_works_without_its_place_in_any_way_out_of_a_block(first, tmp_path):
    for number in range(first, first + CHUNK):
        lending_programs.run_checked(number, tmp_path / "run.trace")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nobody_works_without_its_place_in_any_way_out_of_many_blocks(tmp_path):
    for number in range(PROGRAMS, 6000):
        lending_programs.run_checked(number, tmp_path / "run.trace")


def test_the_programs_that_lend_take_back_in_every_way(tmp_path):
    kinds, taken_back = Counter(), 0
    for number in range(PROGRAMS):
        _, judge, flow = lending_programs.run_checked(number, tmp_path / "run.trace")
        kinds.update(judge.kinds)
        taken_back += flow.taken_back
    for kind in ("permit_lent", "permit_granted", "task_paused", "task_resumed", "cancel_delivered", "cleanup_cut"):
        assert kinds[kind], kind
    assert taken_back


# ---- the bound on starvation


async def stream(random: Random, lengths: list[float]) -> None:
    """More than there is room for, of every size and priority, for a while."""
    order = random.choice([Strict(), Aging(INTERVAL, 1), Aging(INTERVAL, 30)])
    resources = {"cpu": 4, "ram": random.choice([Soft(6), Soft(10)]), "tokens": Hard(2)}
    authority = Authority(order=order, max_concurrent=random.choice([None, 3, 6]), resources=resources)
    async with bursar.nursery(admission=authority) as n:
        for _ in range(random.randint(20, 40)):
            lengths.append(random.randint(1, 8) / 4)
            needs = {
                "cpu": random.choice([1, 1, 2, 4]),
                "ram": random.choice([0, 2, 5, 12]),
                "tokens": random.choice([0, 0, 1, 2]),
            }
            n.spawn(nap, lengths[-1], needs=needs, priority=random.choice([0, 0, 1, 50]))
            await bursar.sleep(random.randint(0, 4) / 8)


def test_who_comes_first_waits_for_three_intervals_and_the_longest_that_runs_at_most():
    """Every task, whatever it needs and however the others come."""
    long = 0
    for number in range(40):
        lengths: list[float] = []
        runtime = checked(bursar.Runtime(clock="virtual"))
        judge = GateOracle(runtime)
        judge.look_after_every_poll(runtime)
        runtime.run(stream, Random(number), lengths)
        bound_ns = (3 * INTERVAL + max(lengths)) * 1e9
        assert all(waited_ns <= bound_ns for waited_ns in judge.waited_first_ns)
        long += sum(waited_ns > max(lengths) * 1e9 for waited_ns in judge.waited_first_ns)
    assert long, "nobody had to wait for longer than what ran: then this shows nothing"


# ---- one gate, one move at a time

LIVE_MAX = 25
INTERVAL = 0.5
amount = st.integers(0, 12)
pick = st.integers(0, 999)
asking = st.tuples(
    st.booleans(),
    st.sampled_from([10, 50, 50, 51, 100]),
    amount,
    amount,
    st.integers(0, 2),
    st.one_of(st.just([]), st.lists(pick, max_size=3)),
    st.sampled_from([None, None, Retry(2), Retry(1, backoff=1.0)]),
)


class Machine(RuleBasedStateMachine):
    """One nursery with a gate. A task that was let in, a coroutine or a function on a thread, waits for a word."""

    hands: ManualGate

    @initialize(
        order=st.sampled_from([Strict(), Aging(INTERVAL, 1), Aging(INTERVAL, 30)]),
        slots=st.sampled_from([None, 1, 2, 4]),
        cpu=st.sampled_from([1, 2, 4]),
        ram=st.sampled_from([6, 10]),
        tokens=st.sampled_from([Hard(1), Soft(2)]),
        max_queue=st.sampled_from([None, None, 3]),
        max_wait=st.sampled_from([None, None, 2.0]),
        everywhere=st.booleans(),
    )
    def begin(self, order, slots, cpu, ram, tokens, max_queue, max_wait, everywhere) -> None:
        self.limits = {"cpu": Hard(cpu), "ram": Soft(ram), "tokens": tokens}
        self.needs: dict[int, dict[str, int]] = {}  # by task
        self.leave: set[bursar.Task] = set()  # were asked to stop while they stood still, or waited to go on
        self.alone = not everywhere  # whoever asks whether a task stands need not ask at the gate
        authority = Authority(
            order=order, max_concurrent=slots, max_queue=max_queue, max_wait=max_wait, resources=self.limits
        )
        if slots is not None:
            self.limits = {**self.limits, "slot": Hard(slots)}
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "run.trace"
        self.hands = ManualGate(authority, everywhere, record=self.path)

    def task(self, number: int) -> bursar.Task:
        tasks = self.hands.tasks()
        return tasks[number % len(tasks)]

    # ---- rules

    @precondition(lambda self: len(self.hands.kernel.tasks) < LIVE_MAX)
    @rule(many=st.lists(asking, min_size=1, max_size=6))
    def some_ask(self, many) -> None:
        for plain, priority, cpu, ram, tokens, after, retry in many:
            needs = {"cpu": cpu % (self.limits["cpu"].amount + 1), "ram": ram, "tokens": tokens}
            follows = list(dict.fromkeys(self.task(number) for number in after)) if self.hands.bodies else []
            with suppress(bursar.InfeasibleDemand):
                task = self.hands.spawn(plain=plain, priority=priority, needs=needs, after=follows, retry=retry)
                self.needs[task.id] = needs

    @precondition(lambda self: self.hands.waiting_for_words())
    @rule(which=pick, word=st.sampled_from(["end", "fail", "checkpoint", "ignore"]))
    def somebody_is_given_a_word(self, which, word) -> None:
        found = self.hands.waiting_for_words()
        task = found[which % len(found)]
        if self.hands.bodies[task].plain or word in ("end", "fail"):
            self.hands.tell(task, word)

    @precondition(lambda self: self.hands.waiting_for_words())
    @rule()
    def everybody_ends(self) -> None:
        for task in self.hands.waiting_for_words():
            self.hands.tell(task, "end")

    @precondition(lambda self: self.hands.bodies)
    @rule(which=pick, what=st.sampled_from(["pause", "pause", "resume", "cancel"]))
    def somebody_is_told(self, which, what) -> None:
        task = self.task(which)
        if what == "cancel" and task.outcome is None and at_gate(task).state in ("lent", "returning"):
            self.leave.add(task)
        self.hands.do(getattr(task, what))

    @precondition(lambda self: self.hands.waiting_for_words())
    @rule(
        which=pick,
        what=st.sampled_from(["pause", "cancel"]),
        then=st.sampled_from([[], ["checkpoint"], ["ignore"] * 2]),
    )
    def somebody_that_works_is_told(self, which, what, then) -> None:
        found = self.hands.waiting_for_words()
        task = found[which % len(found)]
        self.hands.do(getattr(task, what))
        for word in then:
            if self.hands.bodies[task].plain and task in self.hands.waiting_for_words():
                self.hands.tell(task, word)

    @precondition(lambda self: self.hands.bodies and self.alone)
    @rule(which=pick, timeout=st.sampled_from([None, 0.25]))
    def somebody_is_paused_and_waited_for(self, which, timeout) -> None:
        self.hands.pause_and_see(self.task(which), timeout)

    @precondition(lambda self: self.hands.bodies)
    @rule()
    def everybody_is_paused(self) -> None:
        """And those who wait come in as if they had ended, as far as slots and processors go."""
        self.hands.do(lambda: [task.pause() for task in self.hands.live()])

    @precondition(lambda self: self.hands.bodies)
    @rule()
    def everybody_comes_to_a_checkpoint(self) -> None:
        for task in self.hands.waiting_for_words():
            if self.hands.bodies[task].plain:
                self.hands.tell(task, "checkpoint")

    @precondition(lambda self: self.hands.bodies)
    @rule()
    def everybody_goes_on(self) -> None:
        self.hands.do(lambda: [task.resume() for task in self.hands.live()])

    @precondition(lambda self: self.hands.bodies)
    @rule(which=pick)
    def somebody_is_dropped(self, which) -> None:
        task = self.task(which)

        def drop() -> None:
            with suppress(bursar.ScopeMisuse):
                task.drop()

        self.hands.do(drop)

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 1.75]))
    def time_passes(self, seconds) -> None:
        self.hands.advance(seconds)

    # ---- what always holds, beside what the judge looks at after every poll

    @invariant()
    def nobody_works_that_was_not_let_in_or_is_over(self) -> None:
        if not hasattr(self, "hands"):
            return
        for task in self.hands.tasks():
            call = self.hands.call_of(task)
            assert call is None or task.id in self.hands.judge.let_in
            assert call is None or not call.inside or task.outcome is None, f"{task} is over, and its function runs on"

    @invariant()
    def the_limits_are_kept_and_used(self) -> None:
        """By a count of our own, of who was let in and is not over: nobody too many, and not the first one too few."""
        if not hasattr(self, "hands"):
            return
        taken, takers, by_right = Counter(), Counter(), Counter()
        for task in self.hands.live():
            if task.id in self.hands.judge.let_in:
                needs = self.wants(task)
                if task.state is State.PAUSED:
                    needs["cpu"] = needs["slot"] = 0
                taken.update(needs)
                takers.update(name for name, amount in needs.items() if amount)
                if task in self.leave:  # they need not wait for others, and others wait for them
                    needs["cpu"] = needs["slot"] = 0
                by_right.update(needs)
        for name, limit in self.limits.items():
            assert by_right[name] <= limit.amount or (isinstance(limit, Soft) and takers[name] == 1)
        first = [task for task in self.hands.live() if at_gate(task).place == 1]
        returning = [task for task in self.hands.live() if at_gate(task).state == "returning"]
        for task in first if not returning else ():
            assert not all(
                taken[name] + needed <= limit.amount or (isinstance(limit, Soft) and not taken[name])
                for name, limit in self.limits.items()
                if (needed := self.wants(task)[name])
            ), f"{task} comes first, and fits, and waits"

    def wants(self, task: bursar.Task) -> dict[str, int]:
        """What was asked for it, or for its first attempt."""
        while (before := task.retry_of) is not None:
            task = before
        return {**self.needs[task.id], "slot": 1}

    def teardown(self) -> None:
        if not hasattr(self, "hands"):
            return
        try:
            self.hands.finish()
            assert self.hands.judge.over.total() == self.hands.judge.asked
            for task in self.hands.tasks():
                assert task.state is State.DONE
            assert verify(Trace(self.path)).fingerprint == self.hands.runtime.fingerprint
        finally:
            self.hands.abandon()
            self.folder.cleanup()


def at_gate(task: bursar.Task):
    admission = task.explain().admission
    assert admission is not None
    return admission


TestGate, TestGateForLong = cases(Machine, examples=60, steps=50, examples_slow=1500)
