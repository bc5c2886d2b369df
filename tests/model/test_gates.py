"""Admission under random programs and random hands.

Flows are whole programs (`support.flows`), run with the law and the gates checked after every poll and every admission
checked against a score for everybody who waits. The machine plays one gate, one move at a time: whoever is admitted
does nothing until the machine says so, so it can bring about any state, and Hypothesis shrinks what it finds.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import flows

import bursar
from bursar import Aging, Authority, Hard, Retry, Soft, Strict
from bursar.admission import invariants
from bursar.execution.coroutine import start
from bursar.law.invariants import check
from bursar.law.state import OutcomeKind, State

PROGRAMS = 150
CHUNK = 25


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_the_gates_of_numbered_programs_keep_their_rules(first):
    for number in range(first, first + CHUNK):
        flows.run_checked(number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_gates_of_many_programs_keep_their_rules():
    for number in range(PROGRAMS, 4000):
        flows.run_checked(number)


def test_the_programs_reach_every_part_of_admission():
    kinds, endings, over = Counter(), Counter(), Counter()
    for number in range(60):
        ending, runtime, judge = flows.run_checked(number)
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


# ---- the bound on starvation


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 8), min_size=10, max_size=40),
    gap=st.integers(1, 4),
    width=st.integers(2, 4),
    aging=st.booleans(),
    over_soft=st.booleans(),
)
def test_who_comes_first_waits_for_three_intervals_and_the_longest_that_runs_at_most(
    lengths, gap, width, aging, over_soft
):
    """However the others come, as long as they come after it in the order."""
    quarter = 0.25
    asked = began = 0.0

    async def narrow(length):
        await bursar.sleep(length * quarter)

    async def wide():
        nonlocal began
        began = await bursar.now()

    async def main():
        nonlocal asked
        order = Aging(INTERVAL, 1) if aging else Strict()
        resources = {"ram": Soft(4)} if over_soft else {"cpu": 4}
        one, many = ({"ram": 1}, {"ram": 3 + width}) if over_soft else ({"cpu": 1}, {"cpu": width})
        async with bursar.nursery(admission=Authority(order=order, resources=resources)) as n:
            for i, length in enumerate(lengths):
                n.spawn(narrow, length, needs=one, priority=0)
                if i == 5:
                    asked = await bursar.now()
                    n.spawn(wide, needs=many, priority=1000)
                await bursar.sleep(gap * quarter / 2)

    bursar.Runtime(clock="virtual").run(main)
    assert began - asked <= 3 * INTERVAL + max(lengths) * quarter + 1e-9


# ---- one gate, one move at a time

LIVE_MAX = 25
INTERVAL = 0.5
amount = st.integers(0, 12)
pick = st.integers(0, 999)


class Boom(Exception):
    """What a task fails with."""


class Machine(RuleBasedStateMachine):
    """One nursery with a gate. A task that was let in waits for a word: end, or fail."""

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
        resources = {"cpu": cpu, "ram": ram, "tokens": tokens}
        self.cpu = cpu
        authority = Authority(
            order=order, max_concurrent=slots, max_queue=max_queue, max_wait=max_wait, resources=resources
        )
        self.rt = bursar.Runtime(clock="virtual", admission=authority if everywhere else None)
        self.kernel = self.rt.kernel
        self.judge = flows.Judge(self.rt)
        self.orders: deque = deque()
        self.bell = bursar.Event()
        self.words: dict[int, bursar.Event] = {}
        self.fates: dict[int, str] = {}
        self.began: list[int] = []
        self.tasks: list[bursar.Task] = []
        self.stopping = False
        self.nursery = None
        main = self.kernel.spawn(self.kernel.root, name="main", pinned=True)
        start(main, self.main, (None if everywhere else authority,))
        self.drain()

    async def main(self, authority) -> None:
        with suppress(BaseExceptionGroup):
            async with bursar.nursery(admission=authority, cancel_on_failure=False) as self.nursery:
                while not self.stopping:
                    while self.orders:
                        self.orders.popleft()()
                    self.bell = bursar.Event()
                    await self.bell.wait()

    async def work(self) -> str:
        me = await bursar.current_task()
        self.began.append(me.id)
        assert me.id not in self.judge.doomed, "it was asked to stop, and began"
        self.words[me.id] = word = bursar.Event()
        await word.wait()
        if self.fates.get(me.id) == "fail":
            raise Boom
        return "done"

    # ---- the machine's hands

    def drain(self) -> None:
        """Run until everybody waits for a word."""
        while (task := self.kernel.step()) is not None:
            self.rt.driver.poll(task)
            self.kernel.step_over(task)
            check(self.kernel)
            self.judge.check()

    def do(self, call) -> None:
        """By the main task, as a program would."""
        self.orders.append(call)
        self.bell.set()
        self.drain()

    def known(self) -> list[bursar.Task]:
        """All tasks, with the attempts that were made since."""
        for task in self.tasks:
            if (again := task.retried_by) is not None and again not in self.tasks:
                self.tasks.append(again)
        return self.tasks

    def task(self, number: int) -> bursar.Task:
        tasks = self.known()
        return tasks[number % len(tasks)]

    def live(self) -> list[bursar.Task]:
        return [task for task in self.known() if task.outcome is None]

    # ---- rules

    @precondition(lambda self: len(self.kernel.tasks) < LIVE_MAX)
    @rule(
        priority=st.sampled_from([10, 50, 50, 51, 100]),
        cpu=amount,
        ram=amount,
        tokens=st.integers(0, 2),
        after=st.lists(pick, max_size=3),
        retry=st.sampled_from([None, None, Retry(2), Retry(1, backoff=1.0)]),
    )
    def somebody_asks(self, priority, cpu, ram, tokens, after, retry) -> None:
        needs = {"cpu": cpu % (self.cpu + 1), "ram": ram, "tokens": tokens}
        follows = list(dict.fromkeys(self.task(number) for number in after)) if self.tasks else []

        def ask() -> None:
            with suppress(bursar.InfeasibleDemand):
                self.tasks.append(
                    self.nursery.spawn(self.work, priority=priority, needs=needs, after=follows, retry=retry)
                )

        self.do(ask)

    @precondition(lambda self: self.words)
    @rule(which=pick, fails=st.booleans())
    def somebody_ends(self, which, fails) -> None:
        id = list(self.words)[which % len(self.words)]
        self.fates[id] = "fail" if fails else "end"
        self.words.pop(id).set()
        self.drain()

    @precondition(lambda self: self.words)
    @rule()
    def everybody_ends(self) -> None:
        for id in list(self.words):
            self.words.pop(id).set()
        self.drain()

    @precondition(lambda self: self.tasks)
    @rule(which=pick, what=st.sampled_from(["pause", "pause", "resume", "cancel"]))
    def somebody_is_told(self, which, what) -> None:
        task = self.task(which)
        self.do(lambda: getattr(task, what)())

    @precondition(lambda self: self.tasks)
    @rule()
    def everybody_that_runs_is_paused(self) -> None:
        """And those who wait come in as if they had ended, as far as slots and processors go."""
        self.do(lambda: [task.pause() for task in self.live()])

    @precondition(lambda self: self.tasks)
    @rule()
    def everybody_goes_on(self) -> None:
        self.do(lambda: [task.resume() for task in self.live()])

    @precondition(lambda self: self.tasks)
    @rule(which=pick)
    def somebody_is_dropped(self, which) -> None:
        task = self.task(which)

        def drop() -> None:
            with suppress(bursar.ScopeMisuse):
                task.drop()

        self.do(drop)

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 2.5]))
    def time_passes(self, seconds) -> None:
        self.kernel.advance(self.kernel.now_ns + int(seconds * 1e9))
        self.drain()

    # ---- what always holds

    @invariant()
    def the_rules_hold(self) -> None:
        if hasattr(self, "judge"):
            check(self.kernel)
            self.judge.check()

    @invariant()
    def nobody_runs_that_was_not_let_in(self) -> None:
        if hasattr(self, "judge"):
            admitted = {id for what, id in self.judge.log if what == "admitted"}
            assert set(self.began) <= admitted
            assert len(self.began) == len(set(self.began)), "a function was called twice for one task"

    def teardown(self) -> None:
        if not hasattr(self, "judge"):
            return
        for _ in range(200):
            if not self.live():
                break
            self.do(lambda: [task.resume() for task in self.live()])
            self.everybody_ends()
            self.time_passes(1.0)
        assert not self.live(), f"they wait, and for nothing: {[str(task.explain()) for task in self.live()]}"
        self.stopping = True
        self.bell.set()
        self.drain()
        assert not self.kernel.tasks
        self.judge.check()
        assert self.judge.over.total() == self.judge.asked
        for gate in invariants.gates_of(self.kernel):
            assert not any(gate.resources.taken)
        for task in self.tasks:
            assert task.state is State.DONE


QUICK = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

TestGate = Machine.TestCase
TestGate.settings = QUICK


class SlowMachine(Machine):
    """The same, many times as often and not the same every time."""


TestGateForLong = SlowMachine.TestCase
TestGateForLong.settings = settings(QUICK, max_examples=1500, derandomize=False)
TestGateForLong.pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
