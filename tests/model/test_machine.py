"""A state machine that plays a running runtime, one decision at a time, and checks the whole law after each.

Tasks are interpreters: each waits for commands that the machine puts into its hand, carries them out and waits again,
inside whatever blocks (nurseries, timeouts, shields, locks) it was told to enter. So the machine can bring any task
into any state at any moment, and Hypothesis shrinks a failing history to its shortest form. Between the rules no time
passes and nothing runs but what a rule lets run. Besides `invariants.check` the machine keeps books of its own:
spawned = live + done by outcome, money granted = left + spent, bills = payments, no more than `wait_max` decisions
between two ready ones, every wake ends in a run or a stale record, cancelled tasks end, and in the end nothing is left.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.drive import LIMIT_MAX, Watch, conserved, over, paid
from support.law import Lane, Notice, check, cut, outward, wait_max
from support.machines import cases
from support.requests import start

import bursar
from bursar import Budget, BursarError, Cancelled, OutcomeKind, State

LIVE_MAX = 30  # tasks at once: enough for every queue to form, few enough to check quickly
COMMANDS_MAX = 4  # a task that is blocked is not given more than this to do
END_MAX = 20_000  # decisions after which a cancelled program must be over
CHANNELS, LOCKS, EVENTS = 3, 2, 2
CLEANUP = bursar.Cleanup(ops=40, seconds=2.0)
FINITE = Budget(ops=2500, memory=500, spawns=60, channel_ops=120, syscalls=50, tokens=400)

pick = st.integers(0, 999)
steps = st.integers(0, 5)
seconds = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0, 3.0])
amounts = st.one_of(
    st.none(),
    st.builds(Budget, ops=st.integers(0, 60)),
    st.builds(Budget, ops=st.one_of(st.none(), st.integers(10, 300)), spawns=st.one_of(st.none(), st.integers(0, 4))),
    st.builds(Budget, channel_ops=st.integers(0, 6), memory=st.integers(0, 60)),
    st.builds(Budget, tokens=st.integers(0, 40), pages=st.one_of(st.none(), st.integers(0, 9))),
)


class Boom(Exception):
    """An ordinary failure."""


class Crash(BaseException):
    """A panic."""


class Player:
    """One task: an interpreter of commands."""

    def __init__(self, world: Machine, on_cancel: str) -> None:
        self.world = world
        self.on_cancel = on_cancel
        self.commands: deque = deque()
        self.bell = bursar.Event()
        self.reservations: list = []

    def tell(self, *command) -> None:
        """From outside: the next thing to do."""
        if len(self.commands) < COMMANDS_MAX:
            self.commands.append(command)
            self.bell.set()

    async def live(self) -> str:
        await self.obey()
        return "lived"

    async def preside(self) -> None:
        """The main task: keeps a nursery open for the others, whatever becomes of them, until the machine stops."""
        while not self.world.stopping:
            with suppress(BaseExceptionGroup):
                async with bursar.nursery(name="first", cancel_on_failure=False) as n:
                    self.world.nurseries.append(n)
                    await self.obey()

    async def obey(self) -> None:
        """Carry out commands until one of them ends the block."""
        while True:
            try:
                while not self.commands:
                    self.bell = bursar.Event()
                    await self.bell.wait()
                name, *args = self.commands.popleft()
                if name == "leave":
                    return
                await getattr(self, "do_" + name)(*args)
            except Cancelled:
                if self.on_cancel == "pass":
                    raise
                await bursar.checkpoint()
                if self.on_cancel == "tidy":
                    await bursar.sleep(0.25)
                    raise
            except BursarError:
                pass  # refused, or short of something: the next command may fare better

    async def do_yield(self) -> None:
        await bursar.checkpoint()

    async def do_sleep(self, s) -> None:
        await bursar.sleep(s)

    async def do_charge(self, ops, memory, syscalls) -> None:
        await bursar.charge(ops=ops, memory=memory, syscalls=syscalls)

    async def do_charge_named(self, tokens, pages) -> None:
        await bursar.charge(tokens=tokens, pages=pages)

    async def do_recharge(self, budget) -> None:
        await bursar.recharge(budget)

    async def do_recharge_child(self, n, i, budget) -> None:
        if n.tasks:
            n.recharge(n.tasks[i % len(n.tasks)], budget)

    async def do_wait_exhausted(self, n, budget) -> None:
        async with bursar.timeout(1.0):
            n.recharge(await n.wait_exhausted(), budget)

    async def do_spawn(self, n, budget, on_cancel) -> None:
        self.world.spawn(n, budget, on_cancel)

    async def do_nursery(self, budget, hold, cancel_on_failure) -> None:
        on_exhausted = "hold" if hold else "end"
        with suppress(ExceptionGroup):
            async with bursar.nursery(
                budget=budget, on_exhausted=on_exhausted, cancel_on_failure=cancel_on_failure
            ) as n:
                self.world.nurseries.append(n)
                await self.obey()

    async def do_shield(self) -> None:
        async with bursar.shield():
            await self.obey()

    async def do_timeout(self, s) -> None:
        with suppress(TimeoutError):
            async with bursar.timeout(s):
                await self.obey()

    async def do_lock(self, lock) -> None:
        async with lock:
            await self.obey()

    async def do_semaphore(self) -> None:
        async with self.world.semaphore:
            await self.obey()

    async def do_send(self, end, value) -> None:
        await end.send(value)
        self.world.sent[end] += 1

    async def do_receive(self, end) -> None:
        await end.receive()

    async def do_nowait(self, ends, value) -> None:
        ends[0].send_nowait(value)
        self.world.sent[ends[0]] += 1

    async def do_receive_nowait(self, end) -> None:
        end.receive_nowait()

    async def do_reserve(self, end) -> None:
        self.reservations.append(await end.reserve())

    async def do_commit(self, value) -> None:
        if self.reservations:
            self.reservations.pop(0).send(value)

    async def do_abort(self) -> None:
        if self.reservations:
            self.reservations.pop(0).abort()

    async def do_close(self, end) -> None:
        end.close()

    async def do_select(self, cases) -> None:
        await bursar.select(*(case() for case in cases))

    async def do_wait(self, event) -> None:
        await event.wait()

    async def do_set(self, event) -> None:
        event.set()

    async def do_join(self, task) -> None:
        if task != await bursar.current_task():
            await task.wait()

    async def do_cancel(self, target) -> None:
        target.cancel("told to")

    async def do_fail(self) -> None:
        raise Boom

    async def do_crash(self) -> None:
        raise Crash


class Machine(RuleBasedStateMachine):
    """The world that the players live in, and the books that are kept about it."""

    @initialize(
        seed=st.integers(0, 3),
        workers=st.sampled_from([1, 1, 2, 4]),
        policy=st.sampled_from(["random", "round_robin", "least_loaded"]),
        finite=st.booleans(),
        interval=st.sampled_from([1, 3, 1024]),
        cluster=st.booleans(),
        first=st.integers(2, 8),
    )
    def begin(self, seed, workers, policy, finite, interval, cluster, first) -> None:
        self.rt = bursar.Runtime(
            clock="virtual",
            seed=seed,
            workers=workers,
            steal=policy,
            budget=FINITE if finite else None,
            yield_interval=interval,
            cleanup=CLEANUP,
            profile="cluster" if cluster else "service",
        )
        self.kernel = self.rt.kernel
        self.watch = Watch(self.rt)
        self.channels = [bursar.channel(n) for n in range(CHANNELS)]
        self.sent: Counter = Counter()
        self.locks = [bursar.Lock() for _ in range(LOCKS)]
        self.semaphore = bursar.Semaphore(2)
        self.events = [bursar.Event() for _ in range(EVENTS)]
        self.nurseries: list[bursar.Nursery] = []
        self.players: dict[int, Player] = {}
        self.handles: list[bursar.Task] = []
        self.without_ready: Counter[int] = Counter()  # decisions of a worker since ready work last moved
        self.waking: set = set()  # wakes that have not ended in a run yet
        self.stale = 0
        self._listen()
        main = self.kernel.spawn(self.kernel.root, name="main", pinned=True)
        self.stopping = False
        self.main = Player(self, "pass")
        start(main, self.main.preside, ())
        self.handles.append(bursar.Task(self.kernel, main))
        self.go(3)
        self.spawns_many(first, budget=None, hold=False)

    # ---- driving

    def _listen(self) -> None:
        """Follow every wake to its end."""
        wake = self.kernel.wake

        def heard(task, generation, **news):
            notice = wake(task, generation, **news)
            if notice in (Notice.ENQUEUE, Notice.NOTED):
                self.waking.add((task.id, generation))
            elif notice is Notice.STALE:
                self.stale += 1
            return notice

        self.kernel.wake = heard

    def spawn(self, n, budget, on_cancel) -> None:
        """Called by a player: a new player in a nursery."""
        if len(self.kernel.tasks) >= LIVE_MAX:
            return
        player = Player(self, on_cancel)
        task = n.spawn(player.live, name=f"player{len(self.handles)}", budget=budget)
        self.players[task.id] = player
        self.handles.append(task)

    def step(self) -> bool:
        """One decision and its poll. False: nothing is runnable."""
        kernel = self.kernel
        had_ready = {w.id for w in kernel.workers if w.pinned or w.stealable}
        task = kernel.step()
        for _ in range(8):  # with several workers one look may miss the one that has work; see test_programs
            if task is not None or not kernel.runnable:
                break
            task = kernel.step()
        if task is None:
            assert not kernel.runnable
            return False
        self._decided(task, had_ready)
        self.rt.driver.poll(task)
        kernel.step_over(task)
        self.verify()
        return True

    def _decided(self, task, had_ready) -> None:
        worker = self.kernel.at
        dispatched = worker.stats.dispatched
        moved = dispatched[Lane.READY] + dispatched[Lane.STEAL]
        if worker.id not in had_ready or moved != getattr(self, "_moved", {}).get(worker.id, 0):
            self.without_ready[worker.id] = 0
        else:
            self.without_ready[worker.id] += 1
        self._moved = {**getattr(self, "_moved", {}), worker.id: moved}
        assert self.without_ready[worker.id] <= wait_max(LIMIT_MAX), "ready work waits longer than the law allows"
        self.waking.discard((task.id, task.generation - 1))

    def go(self, n: int) -> None:
        for _ in range(n):
            if not self.step():
                return

    def _idle(self) -> None:
        """Nothing is runnable: time passes to the next timer; if there is none, shielded tasks are cut off."""
        deadline_ns = self.kernel.timers.next_deadline_ns()
        if deadline_ns is not None:
            self.kernel.advance(deadline_ns)
            return
        for task in list(self.kernel.tasks.values()):
            cut(self.kernel, task, "hides behind a shield")

    def verify(self) -> None:
        kernel, watch = self.kernel, self.watch
        check(kernel)
        conserved(kernel)
        paid(kernel, watch.records)
        done = Counter(task.outcome.kind for task in watch.records if task.outcome is not None)
        assert done == kernel.done, "the outcomes are not those that were counted"
        assert len(watch.records) == kernel.spawned
        assert {t.id for t in watch.records if t.outcome is None} == set(kernel.tasks), "an orphan"
        assert self.stale == kernel.counters["stale_wake"]
        for id, generation in self.waking:
            task = kernel.tasks.get(id)
            assert task is not None, "a woken task ended without having run"
            assert task.state is State.READY or (task.state is State.RUNNING and task.generation == generation)
        for send, receive in self.channels:
            assert len(receive) <= self.sent[send] + sum(len(p.reservations) for p in self.players.values()) + 99

    def player(self, i) -> Player:
        """A living player; busy ones are asked too, for their commands wait."""
        living = [self.players[id] for id in self.kernel.tasks if id in self.players]
        return living[i % len(living)] if living else self.main

    def tell(self, i, n, *command) -> None:
        self.player(i).tell(*command)
        self.go(n)

    def handle(self, i) -> bursar.Task:
        """Some task, dead or alive, but the main one: that ends with the machine."""
        some = self.handles[1:] if i % 4 == 0 else [h for h in self.handles[1:] if h.outcome is None]
        return some[i % len(some)] if some else self.handles[0]

    def nursery(self, i):
        """Mostly one that is open: the others only refuse."""
        some = [n for n in self.nurseries if not n.state.terminal] or self.nurseries
        return some[i % len(some)] if some else None

    # ---- rules: families

    @rule(who=pick, where=pick, budget=amounts, on_cancel=st.sampled_from(["pass", "pass", "tidy", "swallow"]), n=steps)
    def spawns(self, who, where, budget, on_cancel, n) -> None:
        if (target := self.nursery(where)) is not None:
            self.tell(who, n, "spawn", target, budget, on_cancel)

    @rule(count=st.integers(1, 6), budget=amounts, hold=st.booleans())
    def spawns_many(self, count, budget, hold) -> None:
        """The main task starts some, and they begin with a nursery of their own."""
        for i in range(count):
            before = len(self.handles)
            self.main.tell("spawn", self.nurseries[-1], budget if i == 0 else None, "tidy" if i == 1 else "pass")
            self.go(4)
            if len(self.handles) > before and i % 2:
                self.players[self.handles[-1].id].tell("nursery", None, hold, bool(i % 3))
        self.go(count)

    @rule(who=pick, budget=amounts, hold=st.booleans(), cancel_on_failure=st.booleans(), n=steps)
    def opens_a_nursery(self, who, budget, hold, cancel_on_failure, n) -> None:
        self.tell(who, n, "nursery", budget, hold, cancel_on_failure)

    @rule(who=pick, n=steps)
    def leaves_a_block(self, who, n) -> None:
        self.tell(who, n, "leave")

    @rule(who=pick, n=steps)
    def fails(self, who, n) -> None:
        self.tell(who, n, "fail")

    @rule(who=st.integers(1, 999), n=steps)
    def panics(self, who, n) -> None:
        if who % 5 == 0:
            self.tell(who, n, "crash")

    @rule(who=pick, whom=pick, n=steps)
    def awaits_a_task(self, who, whom, n) -> None:
        self.tell(who, n, "join", self.handle(whom))

    # ---- rules: cancellation

    @rule(who=pick, whom=pick, n=steps)
    def cancels_a_task(self, who, whom, n) -> None:
        if (target := self.handle(whom)) != self.handles[0]:
            self.tell(who, n, "cancel", target)

    @rule(who=pick, which=pick, n=steps)
    def cancels_a_nursery(self, who, which, n) -> None:
        if (target := self.nursery(which)) is not None:
            self.tell(who, n, "cancel", target)

    @rule(whom=pick, n=steps)
    def is_cancelled_from_outside(self, whom, n) -> None:
        if (target := self.handle(whom)) != self.handles[0]:
            target.cancel("from outside")
        self.verify()
        self.go(n)

    @rule(who=pick, n=steps)
    def enters_a_shield(self, who, n) -> None:
        self.tell(who, n, "shield")

    @rule(who=pick, s=seconds, n=steps)
    def enters_a_timeout(self, who, s, n) -> None:
        self.tell(who, n, "timeout", s)

    @rule(whom=pick)
    def must_end_when_cancelled(self, whom) -> None:
        """A task that is asked to stop ends, within its cleanup allowance, unless a shield hides it or its family."""
        handle = self.handle(whom)
        if handle == self.handles[0]:
            return
        record = handle._inside(self.kernel)
        if record.outcome is not None or any(scope.shielded for t in family(record) for scope in outward(t)):
            return
        handle.cancel("must end")
        generations = 2 + sum(1 for _ in family(record))  # each cleans up after the one below it, in its own time
        deadline_ns = self.kernel.now_ns + generations * self.kernel.cleanup_ns
        for _ in range(END_MAX):
            if record.outcome is not None:
                return
            if not self.step():
                next_ns = self.kernel.timers.next_deadline_ns()
                if next_ns is None or next_ns > deadline_ns:
                    break
                self.kernel.advance(next_ns)
                self.verify()
        # commands that were waiting may have built a shield meanwhile
        hidden = any(scope.shielded for t in family(record) for scope in outward(t))
        assert record.outcome is not None or hidden, f"{record} was cancelled and does not end"

    # ---- rules: channels, locks, events

    @rule(who=pick, which=pick, value=pick, n=steps)
    def sends(self, who, which, value, n) -> None:
        self.tell(who, n, "send", self.channels[which % CHANNELS][0], value)

    @rule(who=pick, which=pick, n=steps)
    def receives(self, who, which, n) -> None:
        self.tell(who, n, "receive", self.channels[which % CHANNELS][1])

    @rule(who=pick, which=pick, value=pick, sends=st.booleans(), n=steps)
    def does_not_wait(self, who, which, value, sends, n) -> None:
        ends = self.channels[which % CHANNELS]
        self.tell(who, n, *(("nowait", ends, value) if sends else ("receive_nowait", ends[1])))

    @rule(who=pick, which=pick, n=steps)
    def reserves(self, who, which, n) -> None:
        self.tell(who, n, "reserve", self.channels[which % CHANNELS][0])

    @rule(who=pick, commit=st.booleans(), n=steps)
    def settles(self, who, commit, n) -> None:
        self.tell(who, n, *(("commit", 7) if commit else ("abort",)))

    @rule(who=pick, which=pick, n=steps)
    def closes_an_end(self, who, which, n) -> None:
        if which % 3 == 0:
            self.tell(who, n, "close", self.channels[which % CHANNELS][which // 3 % 2])
            self.channels[which % CHANNELS] = bursar.channel(which % 3) if which % 2 else self.channels[0]

    @rule(who=pick, which=st.lists(st.integers(0, 4), min_size=1, max_size=4), n=steps)
    def selects(self, who, which, n) -> None:
        cases = [
            lambda: self.channels[0][1].receive(),
            lambda: self.channels[1][0].send(1),
            lambda: self.events[0].wait(),
            lambda: bursar.sleep(0.5),
            lambda: self.channels[2][1].receive(),
        ]
        self.tell(who, n, "select", [cases[i] for i in which])

    @rule(who=pick, which=pick, n=steps)
    def locks_up(self, who, which, n) -> None:
        self.tell(who, n, *(("semaphore",) if which % 3 == 0 else ("lock", self.locks[which % LOCKS])))

    @rule(who=pick, which=pick, waits=st.booleans(), n=steps)
    def uses_an_event(self, who, which, waits, n) -> None:
        self.tell(who, n, "wait" if waits else "set", self.events[which % EVENTS])
        if which % 7 == 0:
            self.events[which % EVENTS] = bursar.Event()

    # ---- rules: money

    @rule(who=pick, ops=st.integers(0, 80), memory=st.integers(0, 40), syscalls=st.integers(0, 3), n=steps)
    def pays(self, who, ops, memory, syscalls, n) -> None:
        self.tell(who, n, "charge", ops, memory, syscalls)

    @rule(who=pick, budget=amounts.filter(bool), n=steps)
    def recharges_itself(self, who, budget, n) -> None:
        self.tell(who, n, "recharge", budget)

    @rule(who=pick, where=pick, whom=pick, budget=amounts.filter(bool), n=steps)
    def recharges_a_child(self, who, where, whom, budget, n) -> None:
        if (target := self.nursery(where)) is not None:
            self.tell(who, n, "recharge_child", target, whom, budget)

    @rule(who=pick, where=pick, budget=amounts.filter(bool), n=steps)
    def waits_for_the_exhausted(self, who, where, budget, n) -> None:
        if (target := self.nursery(where)) is not None:
            self.tell(who, n, "wait_exhausted", target, budget)

    @rule(who=pick, ops=st.integers(5, 40), n=steps)
    def brings_a_child_to_a_hold(self, who, ops, n) -> None:
        """A player opens a holding nursery and spawns a child there that is asked to pay more than it has."""
        player, nurseries, handles = self.player(who), len(self.nurseries), len(self.handles)
        player.tell("nursery", None, True, False)
        self.go(12)
        if len(self.nurseries) > nurseries:
            player.tell("spawn", self.nurseries[-1], Budget(ops=ops), "pass")
            self.go(12)
        if len(self.handles) > handles:
            self.players[self.handles[-1].id].tell("charge", 80, 0, 0)
        self.go(n)

    @rule(where=pick, ops=st.integers(1, 120), n=steps)
    def owner_recharges(self, where, ops, n) -> None:
        """The owner of a nursery that has a child on hold gives it more, if it is free to."""
        holding = [h for n in self.nurseries if (h := n._inside()[1]).exhausted and h.owner.id in self.players]
        if holding:
            chosen = holding[where % len(holding)]
            handle = next(n for n in self.nurseries if n._inside()[1] is chosen)
            self.players[chosen.owner.id].tell("recharge_child", handle, 0, Budget(ops=ops))
            self.go(n)

    @rule(who=pick, tokens=st.integers(0, 30), pages=st.integers(0, 4), n=steps)
    def pays_in_its_own_units(self, who, tokens, pages, n) -> None:
        self.tell(who, n, "charge_named", tokens, pages)

    # ---- rules: time and the host

    @rule(count=st.integers(2, 20), s=st.sampled_from([0.25, 0.5]), n=st.integers(0, 12))
    def many_sleep_to_one_instant(self, count, s, n) -> None:
        for i in range(count):
            self.player(i).tell("sleep", s)
        self.go(2 * count)
        self.kernel.advance(self.kernel.now_ns + int(s * 1e9))
        self.verify()
        self.go(n)

    @rule(who=pick, s=seconds, n=steps)
    def sleeps(self, who, s, n) -> None:
        self.tell(who, n, "sleep", s)

    @rule(who=pick, n=steps)
    def yields(self, who, n) -> None:
        self.tell(who, n, "yield")

    @rule(s=seconds, n=steps)
    def time_passes(self, s, n) -> None:
        self.kernel.advance(self.kernel.now_ns + int(s * 1e9))
        self.verify()
        self.go(n)

    @rule(back=st.integers(1, 10**10))
    def the_clock_jumps_back(self, back) -> None:
        before = self.kernel.now_ns
        self.kernel.advance(before - back)  # may fire what was armed for this very moment
        assert self.kernel.now_ns == before
        self.verify()

    @rule(whom=pick)
    def a_wake_comes_late_or_twice(self, whom) -> None:
        """For an old generation it is stale, for a task in a queue it is merged; neither changes anything."""
        record = self.handle(whom)._inside(self.kernel)
        runnable = self.kernel.runnable
        assert self.kernel.wake(record, record.generation - 1) is Notice.STALE
        if record.state is State.READY:
            assert self.kernel.wake(record, record.generation) is Notice.MERGED
        elif record.state is State.DONE:
            assert self.kernel.wake(record, record.generation) is Notice.STALE
        assert self.kernel.runnable == runnable
        self.verify()

    @rule(id=st.integers(0, 50), generation=st.integers(-5, -1))
    def a_timer_comes_late(self, id, generation) -> None:
        before = self.kernel.counters["stale_timer"]
        assert not self.kernel.timer_fired(id, generation)
        assert self.kernel.counters["stale_timer"] == before + 1

    @rule(n=st.integers(1, 30))
    def runs(self, n) -> None:
        self.go(n)

    @precondition(lambda self: len(self.kernel.tasks) > 3)
    @rule()
    def is_explained(self) -> None:
        assert str(self.rt.snapshot())
        assert self.rt.statistics().live == len(self.kernel.tasks)

    # ---- the end

    def teardown(self) -> None:
        if not hasattr(self, "kernel"):
            return
        self.stopping = True
        self.rt.cancel("the machine stops")
        self.verify()
        for _ in range(END_MAX):
            if not self.kernel.tasks:
                break
            if not self.step():
                self._idle()
                self.verify()
        assert not self.kernel.tasks, "the program was cancelled and does not end"
        self.kernel.close_nursery(self.kernel.root)
        self.kernel.end_nursery(self.kernel.root)
        over(self.rt)
        assert not self.waking, "a wake was lost"
        assert self.kernel.done[OutcomeKind.DROPPED] == 0


def family(record):
    """A task and everything below it."""
    found = [record]
    for task in found:
        for nursery in (task.owned or {}).values():
            found.extend(nursery.children.values())
    return found


TestMachine, TestMachineForLong = cases(Machine, examples=100, steps=80, examples_slow=2000)
