"""A state machine that makes the same calls on the law in Python and on the law in C, and finds no difference.

It works on bare kernels, without coroutines: it polls whoever is chosen and does to it what an executor, a host and a
program could, in any order, sound or not. After every call it compares what the two answered, what they told their
observers, and everything that can be seen of their state (see `kernels`); and the invariants are checked on both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.kernel import NativeKernel

if NativeKernel is None:
    pytest.skip("the native kernel was not built", allow_module_level=True)

from model.kernels import Pair, Side, Ticket
from support.law import (
    CHANNEL,
    FREE,
    OP,
    OPS,
    SPAWNS,
    SYSCALL,
    UNITS_MAX,
    UNSTATED,
    Bill,
    Lane,
    Settled,
    StealPolicy,
    TimerKind,
    allocation,
    cancel,
)
from support.machines import cases

from bursar import (
    Budget,
    CancelKind,
    CancelReason,
    CapBudget,
    CapClock,
    CapSpawn,
    CapTimer,
    Outcome,
    OutcomeKind,
    State,
)

LIVE_MAX = 14  # tasks at once: every queue forms, and the pictures stay small
STOP = CancelReason(CancelKind.USER, "stop", 1)
ENDS = [
    Outcome(OutcomeKind.OK, value="done"),
    Outcome(OutcomeKind.OK),
    Outcome(OutcomeKind.FAILED, error=ValueError("no")),
    Outcome(OutcomeKind.PANICKED, error=SystemExit(3)),
    Outcome(OutcomeKind.CANCELLED, reason=STOP),
]

COSTS = [
    FREE,
    OP,
    OP,
    CHANNEL,
    SYSCALL,
    ((OPS, 3),),
    ((OPS, 3),),
    ((OPS, 25),),
    ((OPS, 0), (SPAWNS, 1)),
    ((OPS, UNITS_MAX),),
    ((OPS, 2**40), (3, 2)),
    allocation(7),
    allocation(40),
    ((OPS, 1), (1, 2), (2, 1), (3, 1), (4, 1)),
    ((OPS, 1), ("tokens", 9)),
    ((OPS, 1), ("pages", 1), ("tokens", 25)),
]


def n(random: Random) -> int:
    return random.randrange(100)


def coin(random: Random) -> bool:
    return random.random() < 0.5


def budget(random: Random) -> Budget:
    amounts = [random.choice([None, None, random.randrange(60)]) for _ in range(5)]
    named = {name: random.randrange(40) for name in random.sample(["tokens", "pages"], random.randrange(3))}
    return random.choice([UNSTATED, Budget(ops=amounts[0]), Budget(*amounts), Budget(amounts[0], **named)])


def cancel_kind(random: Random) -> CancelKind:
    return random.choice(list(CancelKind))


# what may happen → how often, and what it draws
ACTS: dict[str, tuple[int, Callable[[Random], tuple]]] = {
    "spawn": (6, lambda r: (n(r), r.choice(["", "a", "ä\ud800"]), budget(r), coin(r), n(r) < 10)),
    "spawn_with_capabilities": (1, lambda r: (n(r), [n(r) for _ in range(r.randrange(3))], n(r))),
    "spawn_tidying": (1, lambda r: (n(r),)),
    "open_nursery": (4, lambda r: (r.choice(["", "inner"]), budget(r), coin(r), coin(r), n(r) < 20)),
    "open_block": (3, lambda r: (coin(r), r.randrange(30))),
    "leave": (6, lambda r: (n(r) < 90,)),
    "end_nursery_too_early": (1, lambda r: (n(r),)),
    "body_failed": (1, lambda r: (n(r),)),
    "everybody_yields": (1, lambda r: (r.randrange(1, 25),)),
    "yields": (3, lambda r: ()),
    "blocks": (2, lambda r: (r.choice(["Nap", "Nap", "Stubborn"]),)),
    "sleeps": (3, lambda r: (r.randrange(40),)),
    "attends": (2, lambda r: (n(r),)),
    "watches": (2, lambda r: (n(r), r.choice(["exhausted_waiter", "ends_waiter"]))),
    "finishes": (3, lambda r: (n(r),)),
    "is_told": (2, lambda r: ()),
    "pays": (6, lambda r: (r.choice(COSTS), n(r))),
    "pays_at_once": (2, lambda r: (r.choice(COSTS),)),
    "memory_grows_and_shrinks": (1, lambda r: (r.randrange(50),)),
    "recharge": (2, lambda r: (n(r), budget(r))),
    "recharge_by_capability": (1, lambda r: (n(r), budget(r))),
    "attenuate": (1, lambda r: (r.choice([{}, {"max_tasks": 2}, {"max_tasks": 99}, {"task_budget": Budget(ops=5)}]),)),
    "revoke": (1, lambda r: (n(r),)),
    "grant": (1, lambda r: (n(r), r.choice([CapClock, CapBudget]))),
    "promise": (2, lambda r: ()),
    "settle": (2, lambda r: (n(r), r.choice([Settled.COMMITTED, Settled.ABORTED]))),
    "wake": (5, lambda r: (n(r), r.choice([0, 0, 0, 1, -1]), r.choice([None, "mail"]), coin(r))),
    "refuse": (1, lambda r: (n(r),)),
    "cancel": (2, lambda r: (n(r), coin(r), cancel_kind(r))),
    "cancel_nursery": (1, lambda r: (n(r), cancel_kind(r))),
    "cut": (1, lambda r: (n(r),)),
    "advance": (3, lambda r: (r.randrange(-5, 40), r.choice([None, None, 0, 1, 2]))),
    "arm": (1, lambda r: (n(r), r.randrange(-10, 30))),
    "timer": (2, lambda r: (n(r), coin(r), coin(r))),
    "asks": (3, lambda r: (n(r), budget(r), coin(r))),
    "admit": (4, lambda r: (n(r),)),
    "drop": (1, lambda r: (n(r),)),
    "pause": (3, lambda r: (n(r),)),
    "resume": (3, lambda r: (n(r),)),
    "arm_ticket_timer": (1, lambda r: (n(r), r.randrange(30))),
}
REACHED = {"task_exhausted", "budget_held", "budget_exceeded", "recharged", "minted", "charged", "task_tidies"}
REACHED |= {"cancel_delivered", "cleanup_begun", "cleanup_ended", "cleanup_cut", "scope_left", "nursery_closed"}
REACHED |= {"named_amounts"}
REACHED |= {"task_admitted", "task_dropped", "task_paused", "task_resumed"}
REACHED |= {"obligation_settled", "obligation_leaked", "failure_unraised", "timer_fired", "stale_timer", "stale_wake"}
NAMES = [name for name, (weight, _) in ACTS.items() for _ in range(weight)]


class Machine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 2**64 - 1),
        workers=st.sampled_from([1, 1, 2, 3, 5]),
        policy=st.sampled_from(list(StealPolicy)),
        budget=st.sampled_from(
            [UNSTATED, Budget(ops=900, memory=300, spawns=60), Budget(80, 80, 80, 8, 8), Budget(900, tokens=60)]
        ),
        yield_interval=st.sampled_from([1, 5, 1024]),
        cleanup=st.sampled_from([(0, 0), (3, 5), (40, 50)]),
        inherit=st.booleans(),
        default_spawns=st.sampled_from([None, None, 0, 3]),
        tasks_max=st.sampled_from([None, 4]),
        task_budget=st.sampled_from([None, Budget(ops=30)]),
    )
    def make(self, **drawn) -> None:
        self.begin(**drawn)

    def begin(self, tasks_max, task_budget, cleanup, policy, **named) -> None:
        self.pair = Pair(steal_policy=policy, cleanup_ops=cleanup[0], cleanup_ns=cleanup[1], **named)
        described = [
            CapSpawn(max_tasks=tasks_max, task_budget=task_budget),
            CapTimer(),
            CapBudget(Budget(ops=90, tokens=50)),
        ]

        def grant(side: Side) -> None:
            side.capabilities += [side.kernel.registry.mint(one) for one in described]
            side.kernel.root.capabilities = {type(c): c for c in side.capabilities}
            side.kernel.root.cancel_on_failure = False
            side.kernel.root.hold = named["seed"] % 2 == 1

        self.pair.both(grant)
        self.spawns(0, "first", UNSTATED, None, False, False, 0)
        self.spawns(0, "second", Budget(ops=20, memory=20), None, True, False, 0)

    # ---- who is there: numbers, for both sides

    @property
    def current(self) -> int | None:
        task = self.pair.python.kernel.current
        return task.id if task is not None else None

    def running(self) -> bool:
        """Whether somebody runs, after a step if nobody did."""
        if self.current is None:
            self.step()
        return self.current is not None

    def task(self, n: int) -> int:
        tasks = sorted(self.pair.python.tasks)
        return tasks[n % len(tasks)]

    def nursery(self, n: int) -> int:
        nurseries = sorted(self.pair.python.nurseries)
        return nurseries[n % len(nurseries)]

    def end_poll(self, call) -> None:
        """A call that ends the poll of the task that runs, and the end of the step."""
        polled = {side.law.name: side.kernel.current for side in self.pair.sides}  # it may be over, and forgotten
        self.pair.both(call)
        if self.current is None:
            self.pair.both(lambda side: side.kernel.step_over(polled[side.law.name]))

    # ---- tasks and nurseries

    def spawn(self, where, name, budget, pinned, acting) -> None:
        self.spawns(where, name, budget, None, pinned, acting, 0)

    def spawn_with_capabilities(self, where, passed, by) -> None:
        self.spawns(where, "", UNSTATED, passed, False, False, by)

    def spawns(self, where, name, budget, passed, pinned, acting, by) -> None:
        python = self.pair.python
        if python.kernel.live >= LIVE_MAX:
            return
        id = self.nursery(where)
        spawner = self.task(by) if by % 3 == 1 else None

        def call(side: Side):
            return side.kernel.spawn(
                side.nurseries[id],
                name=name,
                budget=budget,
                capabilities=None
                if passed is None
                else [side.capabilities[n % len(side.capabilities)] for n in passed],
                pinned=pinned,
                acting=acting,
                spawner=side.tasks[spawner] if spawner is not None else None,
            )

        self.pair.both(call)

    def open_nursery(self, name, budget, hold, fatal, passed) -> None:
        if not self.running():
            return

        def call(side: Side):
            capabilities = [side.capabilities[0]] if passed else None
            found = side.kernel.open_nursery(side.kernel.current, name=name, budget=budget, capabilities=capabilities)
            found.hold, found.cancel_on_failure = hold, fatal
            return found

        self.pair.both(call)

    def open_block(self, shielded, after_ns) -> None:
        if not self.running():
            return

        def call(side: Side) -> None:
            kernel = side.kernel
            block = side.law.CancelScope(kernel.current)
            block.shielded = shielded
            if not shielded:
                deadline_ns = kernel.now_ns + after_ns
                block.timer = kernel.timers.arm(deadline_ns, TimerKind.DEADLINE, kernel.current, block)

        self.pair.both(call)

    def leave(self, rightly) -> None:
        """Leave the innermost block, or try the one around it. A nursery is joined first."""
        if not self.running():
            return
        inner = self.pair.python.kernel.current.inner
        if inner is None or (not rightly and inner.parent.parent is None):
            return
        nursery = inner.body_of if rightly else inner.parent.body_of
        if nursery is None:
            innermost = lambda side: side.kernel.current.inner  # noqa: E731
            block = innermost if rightly else lambda side: innermost(side).parent
            self.pair.both(lambda side: side.kernel.leave_scope(block(side)))
            return
        id = nursery.id
        if rightly:
            self.pair.both(lambda side: side.kernel.close_nursery(side.nurseries[id]))
        if not nursery.children:
            self.pair.both(lambda side: side.kernel.end_nursery(side.nurseries[id]))
        elif rightly:
            self.end_poll(
                lambda side: side.kernel.blocked(
                    side.kernel.current, side.waits.Join(side.kernel.current, side.nurseries[id])
                )
            )

    def end_nursery_too_early(self, where) -> None:
        id = self.nursery(where)
        nursery = self.pair.python.nurseries[id]
        if nursery.state.name in ("OPEN", "CLOSED", "CANCELLED") and id != 1:
            self.pair.both(lambda side: side.kernel.end_nursery(side.nurseries[id]))

    def body_failed(self, where) -> None:
        id = self.nursery(where)
        if id != 1 and not self.pair.python.nurseries[id].state.terminal and where % 3 == 0:
            error = KeyError("body")
            self.pair.both(lambda side: side.kernel.body_failed(side.nurseries[id], error))

    def spawn_tidying(self, n) -> None:
        if n % 4 == 0 and self.pair.python.kernel.live < LIVE_MAX:
            id = self.task(0)
            self.pair.both(lambda side: side.kernel.spawn_tidying(side.tasks[id], "tidy"))

    # ---- polls

    def step(self) -> None:
        self.pair.both(lambda side: side.kernel.step())

    def everybody_yields(self, n) -> None:
        for _ in range(n):
            if self.running():
                self.end_poll(lambda side: side.kernel.yielded(side.kernel.current))

    def yields(self) -> None:
        if not self.running():
            return
        self.end_poll(lambda side: side.kernel.yielded(side.kernel.current))

    def blocks(self, kind) -> None:
        if not self.running():
            return
        self.end_poll(
            lambda side: side.kernel.blocked(side.kernel.current, getattr(side.waits, kind)(side.kernel.current))
        )

    def sleeps(self, after_ns) -> None:
        if not self.running():
            return

        def call(side: Side) -> None:
            kernel = side.kernel
            kernel.blocked(kernel.current, side.waits.Sleep(kernel, kernel.current, kernel.now_ns + after_ns))

        self.end_poll(call)

    def attends(self, whom) -> None:
        if not self.running():
            return
        id = self.task(whom)
        if id == self.current or self.pair.python.tasks[id].state is State.DONE:
            return

        def call(side: Side) -> None:
            task = side.kernel.current
            side.kernel.blocked(task, side.waits.Attend(task, side.tasks[id], side.law.WaitList))

        self.end_poll(call)

    def watches(self, where, field) -> None:
        if not self.running():
            return
        id = self.nursery(where)
        if getattr(self.pair.python.nurseries[id], field) is not None:
            return

        def call(side: Side) -> None:
            task = side.kernel.current
            side.kernel.blocked(task, side.waits.Watch(task, side.nurseries[id], field))

        self.end_poll(call)

    def finishes(self, n) -> None:
        if not self.running():
            return
        self.ends(n)

    def ends(self, n: int) -> None:
        self.end_poll(
            lambda side: side.kernel.finish(side.kernel.current, side.kernel.current.ending or ENDS[n % len(ENDS)])
        )

    def is_told(self) -> None:
        if not self.running():
            return
        self.pair.both(lambda side: side.kernel.deliver_cancel(side.kernel.current))

    # ---- money

    def pays(self, cost, n) -> None:
        if not self.running():
            return
        id, answers = self.current, []
        self.end_poll(lambda side: answers.append(side.kernel.bill(side.kernel.current, cost)) or answers[-1])
        if answers[0] is Bill.CUT and self.current == id:
            self.ends(n)

    def pays_at_once(self, cost) -> None:
        if not self.running():
            return
        self.pair.both(lambda side: side.kernel.charge_now(side.kernel.current, cost))

    def memory_grows_and_shrinks(self, growth) -> None:
        if not self.running():
            return
        paid = []
        self.pair.both(
            lambda side: paid.append(side.kernel.charge_memory_growth(side.kernel.current, growth)) or paid[-1]
        )
        if growth % 2:
            self.pair.both(lambda side: side.kernel.charge_memory_growth(side.kernel.current, -paid[0]))

    def recharge(self, whom, amount) -> None:
        id = self.task(whom)

        def call(side: Side) -> None:
            task = side.tasks[id]
            owner = task.nursery.owner
            side.kernel.recharge(task, owner.pools if owner is not None else side.kernel.root.pools, amount)

        self.pair.both(call)

    def recharge_by_capability(self, whom, amount) -> None:
        if not self.running():
            return
        id = self.task(whom)
        self.pair.both(lambda side: side.kernel.recharge_by_capability(side.kernel.current, side.tasks[id], amount))

    def attenuate(self, narrower) -> None:
        if not self.running():
            return

        def call(side: Side):
            side.capabilities.append(side.capabilities[0].attenuate(delegable=True, **narrower))
            return side.capabilities[-1]

        self.pair.both(call)

    def revoke(self, which) -> None:
        if which % 12 == 0:
            self.pair.both(lambda side: side.kernel.registry.revoke(side.capabilities[which % len(side.capabilities)]))

    def grant(self, whom, kind) -> None:
        id = self.task(whom)

        def call(side: Side) -> None:
            minted = side.kernel.registry.mint(kind())
            side.capabilities.append(minted)
            side.tasks[id].capabilities = {**side.tasks[id].capabilities, kind: minted}

        self.pair.both(call)

    # ---- obligations

    def promise(self) -> None:
        if not self.running():
            return

        def call(side: Side):
            made = side.kernel.promise(side.kernel.current, "a promise", "here", lambda: side.undone.append(made.id))
            return made

        self.pair.both(call)

    def settle(self, which, how) -> None:
        pending = [id for id, o in self.pair.python.obligations.items() if o.settled is Settled.OPEN]
        if pending:
            id = pending[which % len(pending)]
            self.pair.both(lambda side: side.obligations[id].settle(how))

    # ---- wakes, cancellation, time

    def wake(self, whom, late, value, effect) -> None:
        id = self.task(whom)
        generation = max(0, self.pair.python.tasks[id].generation - late)
        self.pair.both(lambda side: side.kernel.wake(side.tasks[id], generation, value=value, effect=effect))

    def refuse(self, whom) -> None:
        id, error = self.task(whom), OSError("refused")
        self.pair.both(lambda side: side.kernel.wake(side.tasks[id], side.tasks[id].generation, error=error))

    def cancel(self, whom, block, kind) -> None:
        id, reason = self.task(whom), CancelReason(kind, "because")

        def call(side: Side) -> None:
            task = side.tasks[id]
            side.kernel.cancel_request(task.inner if block and task.inner is not None else task, reason)

        self.pair.both(call)

    def cancel_nursery(self, where, kind) -> None:
        id, reason = self.nursery(where), CancelReason(kind, "because", 7)
        if id != 1 or where % 50 == 0:
            self.pair.both(lambda side: side.kernel.cancel_nursery(side.nurseries[id], reason))

    def cut(self, whom) -> None:
        id = self.task(whom)
        if whom % 3 == 0 and self.pair.python.tasks[id].state is not State.DONE:
            self.pair.both(lambda side: cancel.cut(side.kernel, side.tasks[id], "cut"))

    def advance(self, after_ns, most) -> None:
        self.pair.both(lambda side: side.kernel.advance(side.kernel.now_ns + after_ns, most))

    def arm(self, whom, after_ns) -> None:
        """A stray alarm: it wakes whoever waits in that poll, or comes late."""
        id = self.task(whom)
        deadline_ns = max(0, self.pair.python.kernel.now_ns + after_ns)
        self.pair.both(lambda side: side.kernel.timers.arm(deadline_ns, TimerKind.WAKE, side.tasks[id]))

    def timer(self, which, disarm, late) -> None:
        """A host reports a timer, or somebody disarms it: armed or not, of this generation or of another."""
        timers = self.pair.python.timers
        if not timers:
            return
        id = sorted(timers)[which % len(timers)]
        generation = timers[id].generation + late
        if disarm and timers[id].kind is TimerKind.WAKE:
            self.pair.both(lambda side: side.kernel.timers.disarm(side.timers[id]))
        elif not disarm:
            self.pair.both(lambda side: side.kernel.timer_fired(id, generation))

    # ---- permission

    def asks(self, where, budget, excused) -> None:
        if self.pair.python.kernel.live < LIVE_MAX:
            id = self.nursery(where)
            self.pair.both(
                lambda side: side.kernel.spawn(side.nurseries[id], budget=budget, ticket=Ticket(side.tickets, excused))
            )

    def asked(self, which, *states) -> int | None:
        """One of those who had to ask and stand so."""
        tasks = self.pair.python.kernel.tasks.values()
        found = [task.id for task in tasks if task.ticket is not None and task.state in states]
        return found[which % len(found)] if found else None

    def admit(self, which) -> None:
        if (id := self.asked(which, State.PENDING)) is not None:
            self.pair.both(lambda side: side.kernel.admit(side.tasks[id], 50, 50))

    def drop(self, which) -> None:
        if (id := self.asked(which, State.PENDING)) is not None:
            self.pair.both(lambda side: side.kernel.drop(side.tasks[id], STOP))

    def pause(self, which) -> None:
        """As admission does it: not who runs, nor who stops or stands already."""
        kernel = self.pair.python.kernel
        id = self.asked(which, State.PENDING, State.READY, State.BLOCKED, State.EXHAUSTED)
        if id is None:
            return
        task = kernel.tasks[id]
        if not (kernel.is_paused(task) or task.requested or task.cleanup_left >= 0 or task.cut or task.ending):
            self.pair.both(lambda side: side.kernel.pause(side.tasks[id]))

    def resume(self, which) -> None:
        kernel = self.pair.python.kernel
        found = [task.id for task in kernel.tasks.values() if kernel.is_paused(task)]
        if found:
            id = found[which % len(found)]
            admitted = kernel.tasks[id].generation > 0 or which % 2 == 0
            self.pair.both(lambda side: side.kernel.resume(side.tasks[id], admitted))

    def arm_ticket_timer(self, which, after_ns) -> None:
        if (id := self.asked(which, *State)) is not None:
            self.pair.both(
                lambda side: side.kernel.timers.arm(side.kernel.now_ns + after_ns, TimerKind.PERMIT, side.tasks[id])
            )

    # ---- all of it

    @rule(what=st.sampled_from(NAMES), random=st.randoms(use_true_random=False))
    def act(self, what, random) -> None:
        getattr(self, what)(*ACTS[what][1](random))

    # ---- the end

    def teardown(self) -> None:
        """Cancel everything, and let it end on both."""
        if not hasattr(self, "pair"):
            return
        self.pair.both(lambda side: side.kernel.cancel_nursery(side.kernel.root, STOP))
        for _ in range(2000):
            kernel = self.pair.python.kernel
            if self.current:
                self.ends(4)
            elif not kernel.live:
                break
            else:
                self.step()
                if self.current is None:
                    for id in list(kernel.tasks):
                        self.pair.both(lambda side, id=id: cancel.cut(side.kernel, side.tasks[id], "stuck"))
                        self.pair.both(lambda side, id=id: side.kernel.wake(side.tasks[id], side.tasks[id].generation))
        assert not self.pair.python.kernel.live, "it was cancelled and does not end"
        self.pair.both(lambda side: side.kernel.close_nursery(side.kernel.root))
        self.pair.both(lambda side: side.kernel.end_nursery(side.kernel.root))


def test_long_histories_are_the_same_and_go_everywhere():
    """Histories too long for Hypothesis to shrink; what none of them brings about is not compared at all."""
    events, lanes = set(), Counter()
    for seed, (workers, policy) in enumerate(product((1, 2, 5), StealPolicy)):
        random, machine = Random(seed), Machine()
        machine.begin(
            seed=seed,
            workers=workers,
            policy=policy,
            budget=random.choice([UNSTATED, Budget(ops=2000, memory=300, spawns=200), Budget(2000, tokens=300)]),
            yield_interval=random.choice([5, 1024]),
            cleanup=(40, 50),
            inherit=True,
            default_spawns=None,
            tasks_max=None,
            task_budget=None,
        )
        for _ in range(400):
            machine.act(random.choice(NAMES), random)
        for worker in machine.pair.python.kernel.workers:
            lanes.update(dict(zip(Lane, worker.stats.dispatched, strict=True)))
        machine.teardown()
        events |= machine.pair.events
    assert all(lanes[lane] for lane in Lane if lane is not Lane.IDLE), lanes
    assert events >= REACHED, REACHED - events


TestMachine, TestMachineForLong = cases(Machine, examples=40, steps=60, examples_slow=3000)
