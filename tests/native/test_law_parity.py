"""The law in C against the law in Python: equal inputs, equal answers, bit for bit.

Small domains are compared whole, large ones on seeded random inputs, and what has a memory (pools, timers) by the same
random history on both sides with everything compared after every step. `law/parity.c` is the face of the headers.
"""

import ctypes
import random
import shutil
import subprocess
from collections import deque
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32
from ctypes import c_uint64 as u64
from ctypes import c_void_p as pointer
from itertools import islice, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.admission import TicketState, effective_priority
from support.admission import ticket as ticket
from support.law import (
    CANCEL_STREAK_MAX,
    COMPONENTS,
    ENDINGS,
    INJECTOR_INTERVAL,
    MASK64,
    TIMED_STREAK_MAX,
    TRANSITIONS,
    UNITS_MAX,
    UNSTATED,
    CancelPhase,
    CancelScope,
    Lane,
    Notice,
    Nursery,
    RandomStream,
    StealPolicy,
    Task,
    TimedLane,
    TimerKind,
    Timers,
    WakeState,
    Worker,
    cancel,
    cancel_limit,
    decide,
    lanes,
    link,
    mix64,
    nursery,
    root_pools,
    seed_chain,
    state,
    steal,
    streaks_after,
    wait_max,
    wake,
)
from support.law import budget as budget_module
from support.law import pool as purse

from bursar import Budget, CancelKind, NurseryState, Outcome, OutcomeKind, State

ROOT = Path(__file__).parents[2]
STRICT = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC", "-shared")
COMPILERS = [name for name in ("cc", "clang") if shutil.which(name)]
INT64_MAX = (1 << 63) - 1
OPEN = -1

Five = c_int64 * len(COMPONENTS)  # a LawBudget
Numbers = c_uint32 * len(COMPONENTS)  # five pools, by number

SIGNATURES = {
    "mix64": (u64, [u64]),
    "seed_chain": (u64, [u64, u64]),
    "link": (u64, [u64] * 8),
    "stream_init": (u64, [u64, c_int64]),
    "stream_next": (u64, [POINTER(u64)]),
    "stream_below": (u64, [POINTER(u64), u64]),
    "high_product_portable": (u64, [u64, u64]),
    "may_move": (c_bool, [c_uint, c_uint]),
    "may_end": (c_bool, [c_uint, c_uint]),
    "severer": (c_int, [c_int, c_int]),
    "notify": (c_int, [POINTER(c_uint8), u64, u64, c_bool]),
    "begin_poll": (None, [POINTER(c_uint8), POINTER(u64)]),
    "end_poll": (c_bool, [POINTER(c_uint8)]),
    "cancel_limit": (c_uint32, [c_bool]),
    "wait_max": (c_uint32, [c_uint32]),
    "decide": (c_int, [c_bool] * 4 + [c_uint32] * 3),
    "streaks_after": (None, [c_int, POINTER(c_uint32), POINTER(c_uint32)]),
    "nursery_may_move": (c_bool, [c_uint, c_uint]),
    "effective_priority": (c_bool, [c_int64, c_int64, c_int64, c_int64, POINTER(c_int64)]),
    "ticket_may_move": (c_bool, [c_uint, c_uint]),
    "nursery_terminal": (c_bool, [c_uint]),
    "nursery_notes": (c_bool, [c_int, c_bool]),
    "nursery_result": (c_int, [c_int, c_bool]),
    "phase_move": (None, [POINTER(c_uint8), c_int, POINTER(c_int32), POINTER(c_int32)]),
    "cancel_name": (c_char_p, [c_uint]),
    "kind_for_children": (c_int, [c_int, c_bool]),
    "take_ready": (c_int, [u64, c_bool, c_bool, c_bool, u64, u64]),
    "victims": (
        c_uint32,
        [c_int, c_uint32, c_uint32, POINTER(u64), POINTER(c_uint32), POINTER(u64), c_uint32, POINTER(c_uint32)],
    ),
    "bank_new": (pointer, [c_size_t]),
    "bank_free": (None, [pointer]),
    "pool": (None, [pointer, c_uint32, POINTER(c_int64), u64 * 4]),
    "root": (None, [pointer, c_uint32, Five]),
    "derive": (c_int, [pointer, Numbers, Five, c_uint32, Numbers]),
    "affordable": (None, [pointer, Numbers, Five, Five]),
    "close": (None, [pointer, Numbers, Numbers]),
    "pay": (c_int, [pointer, Numbers, c_uint, POINTER(c_uint), POINTER(c_int64)]),
    "top_up": (c_int, [pointer, Numbers, Numbers, Five]),
    "mint": (None, [pointer, c_uint32, c_int64]),
    "clamp": (None, [Five, Five, Five]),
    "within": (c_bool, [Five, Five]),
    "clock_new": (pointer, [c_size_t]),
    "clock_free": (None, [pointer]),
    "arm": (c_bool, [pointer, c_size_t, c_int64, u64]),
    "disarm": (None, [pointer, c_size_t]),
    "armed": (c_size_t, [pointer]),
    "pop_due": (c_int64, [pointer, c_int64]),
    "next": (c_int64, [pointer]),
}


@pytest.fixture(scope="module", params=COMPILERS or [None])
def c(request, tmp_path_factory):
    """The law in C, compiled by each compiler that is here: `c.decide(...)`."""
    if request.param is None:
        pytest.skip("needs a C compiler: neither cc nor clang is installed")
    made = tmp_path_factory.mktemp("parity") / "parity.so"
    sources = [ROOT / "tests/native/law/parity.c", *sorted((ROOT / "native/law").glob("*.c"))]
    subprocess.run([request.param, *STRICT, f"-I{ROOT / 'native'}", *sources, "-o", made], check=True)
    library = ctypes.CDLL(str(made))
    faces = SimpleNamespace()
    for name, (restype, argtypes) in SIGNATURES.items():
        face = getattr(library, f"parity_{name}")
        face.restype, face.argtypes = restype, argtypes
        setattr(faces, name, face)
    return faces


def a_task(id: int = 1) -> Task:
    pools = root_pools(UNSTATED)
    return Task(id, f"t{id}", Nursery(1, "n", None, pools, pools, {}), pools, {})


def words(rng: random.Random, n: int) -> list[int]:
    """Numbers of 64 bits, of every length."""
    return [0, 1, MASK64, 1 << 63, *(rng.getrandbits(rng.randrange(65)) for _ in range(n))]


# ---- chain


def test_the_chain(c):
    rng = random.Random(1)
    for x in words(rng, 2000):
        assert c.mix64(x) == mix64(x)
    for seed in words(rng, 1000):
        workers = rng.randrange(1, 4097)
        assert c.seed_chain(seed, workers) == seed_chain(seed, workers)


def test_links(c):
    rng = random.Random(2)
    ours = theirs = seed_chain(3, 4)
    for _ in range(3000):
        decision = [
            rng.getrandbits(rng.randrange(1, 41)),  # a task id of more than 32 bits counts modulo 2**32
            rng.getrandbits(rng.randrange(1, 41)),
            rng.randrange(len(Lane)),
            rng.randrange(4096),
            rng.randrange(33),
            rng.choice([16, 32]),
            rng.getrandbits(rng.randrange(1, 45)),
        ]
        ours, theirs = link(ours, *decision), c.link(theirs, *decision)
        assert ours == theirs


def test_streams(c):
    rng = random.Random(3)
    for seed in words(rng, 100):
        purpose = rng.choice([-2, -1, 0, 1, rng.randrange(-(1 << 63), 1 << 63)])
        stream, theirs = RandomStream(seed, purpose), u64(c.stream_init(seed, purpose))
        for n in words(rng, 20):
            assert c.stream_next(byref(theirs)) == stream.next()
            assert c.stream_below(byref(theirs), n) == stream.below(n)
            assert theirs.value == stream._state


def test_the_product_without_a_128_bit_word(c):
    rng = random.Random(4)
    for a, b in pairwise(words(rng, 5000)):
        assert c.high_product_portable(a, b) == a * b >> 64


# ---- state, wake, decide


def test_transitions(c):
    for a, b in product(range(9), repeat=2):
        assert c.may_move(a, b) == (a < len(State) and b in TRANSITIONS[State(a)])


def test_endings(c):
    for a, b in product(range(9), range(7)):
        assert c.may_end(a, b) == (a < len(State) and b in ENDINGS[State(a)])
    for a, b in product(OutcomeKind, repeat=2):
        assert c.severer(a, b) == state.severer(a, b)


def test_notify(c):
    for before, generation, waits in product(WakeState, (4, 5, 6), (False, True)):
        task = a_task()
        task.wake, task.generation = before, 5
        task.wait = wake.Wait(task) if waits else None
        theirs = c_uint8(before)
        assert c.notify(byref(theirs), 5, generation, waits) == wake.notify(task, generation)
        assert theirs.value == task.wake


def test_a_long_life_of_wakes_and_polls(c):
    rng = random.Random(5)
    task, theirs, generation = a_task(), c_uint8(), u64()
    seen = set()
    for _ in range(5000):
        match rng.randrange(4):
            case 0:
                wake.begin_poll(task)
                c.begin_poll(byref(theirs), byref(generation))
            case 1:
                assert c.end_poll(byref(theirs)) == wake.end_poll(task)
            case _:
                task.wait = rng.choice([None, wake.Wait(task)])
                meant = max(0, task.generation - rng.randrange(3))
                notice = wake.notify(task, meant)
                assert c.notify(byref(theirs), generation, meant, task.wait is not None) == notice
                seen.add(notice)
        assert (theirs.value, generation.value) == (task.wake, task.generation)
    assert seen == set(Notice)


def test_decide(c):
    flags = list(product((False, True), repeat=4))
    for draining in (False, True):
        limit = cancel_limit(draining)
        assert c.cancel_limit(draining) == limit
        assert c.wait_max(limit) == wait_max(limit)
        for have, streak, timed in product(flags, range(2 * CANCEL_STREAK_MAX + 2), range(TIMED_STREAK_MAX + 2)):
            assert c.decide(*have, streak, limit, timed) == decide(*have, streak, limit, timed)


def test_streaks(c):
    for lane, streak, timed in product(Lane, range(2 * CANCEL_STREAK_MAX + 1), range(TIMED_STREAK_MAX + 1)):
        ours, theirs = c_uint32(streak), c_uint32(timed)
        c.streaks_after(lane, byref(ours), byref(theirs))
        assert (ours.value, theirs.value) == streaks_after(lane, streak, timed)


# ---- nursery, cancel


def test_tickets(c):
    for a, b in product(range(9), repeat=2):
        assert c.ticket_may_move(a, b) == (a < len(TicketState) and b in ticket.TRANSITIONS[TicketState(a)])


def test_aging(c):
    found = c_int64()
    for priority, wait, interval, boost in product((-5, 0, 50), range(0, 40, 3), (1, 7, 10), range(4)):
        assert c.effective_priority(priority, wait, interval, boost, byref(found))
        assert found.value == effective_priority(priority, wait, interval, boost)


def test_nurseries(c):
    for a, b in product(range(7), repeat=2):
        assert c.nursery_may_move(a, b) == (a < len(NurseryState) and b in nursery.TRANSITIONS[NurseryState(a)])
    for each in NurseryState:
        assert c.nursery_terminal(each) == each.terminal


@pytest.mark.parametrize("supervised", [False, True])
def test_what_a_nursery_comes_to(c, supervised):
    endings = [
        Outcome(OutcomeKind.OK),
        Outcome(OutcomeKind.DROPPED),
        Outcome(OutcomeKind.FAILED, error=ValueError()),
        Outcome(OutcomeKind.CANCELLED),
        Outcome(OutcomeKind.PANICKED, error=KeyboardInterrupt()),
    ]
    for first, second, cancelled in product(endings, endings, (False, True)):
        pools = root_pools(UNSTATED)
        made = Nursery(1, "n", None, pools, pools, {})
        made.reason = cancel.CancelReason(CancelKind.USER) if cancelled else None
        made.ends = deque() if supervised else None
        failure = OutcomeKind.OK
        for task, outcome in ((a_task(1), first), (a_task(2), second)):
            made.children[task.id] = task
            noted = nursery.note_end(made, task, outcome)
            assert c.nursery_notes(outcome.kind, supervised) == noted
            failure = outcome.kind if noted and failure is OutcomeKind.OK else failure
        assert c.nursery_result(failure, cancelled) == nursery.result_kind(made)


def test_phases(c):
    for before, after in product(CancelPhase, repeat=2):
        if before > after:
            continue  # CANCEL-1: broken on both sides, here by an AssertionError and there by the end of the process
        task = a_task()
        block = CancelScope(task)
        block.phase = before
        task.requested, task.draining = 3, 4
        phase, requested, draining = c_uint8(before), c_int32(3), c_int32(4)
        cancel.move(block, after)
        c.phase_move(byref(phase), after, byref(requested), byref(draining))
        assert (phase.value, requested.value, draining.value) == (block.phase, task.requested, task.draining)


def test_kinds_of_cancellation(c):
    assert [c.cancel_name(i).decode() for i in range(len(CancelKind))] == [kind.value for kind in CancelKind]
    assert c.cancel_name(len(CancelKind)) is None
    kernel = SimpleNamespace(draining_nurseries=0, note=lambda *_: None)
    for (number, kind), is_target in product(enumerate(CancelKind), (False, True)):
        child = a_task()
        child.nursery.children[child.id] = child
        ((_, why),) = cancel._stop_nursery(kernel, child.nursery, cancel.CancelReason(kind), is_target)
        assert list(CancelKind)[c.kind_for_children(number, is_target)] is why.kind


# ---- lanes, steal


def test_which_ready_task_is_next(c):
    rng = random.Random(6)
    names = ("injector", "pinned", "stealable")
    for _ in range(3000):
        worker, injector = Worker(0, RandomStream(0, 1)), lanes.Queue()
        worker.ready_turns = rng.choice([rng.randrange(500), INJECTOR_INTERVAL * rng.randrange(1, 9) - 1])
        queues = dict(zip(names, (injector, worker.pinned, worker.stealable), strict=True))
        stamps = rng.sample(range(100), 2)
        have = rng.choice([held for held in product((False, True), repeat=3) if any(held)])
        for (name, queue), held, stamp in zip(queues.items(), have, (0, *stamps), strict=True):
            if held:
                lanes.put(queue, a_task(names.index(name)), Lane.READY, stamp)
        taken = lanes.take_ready(worker, injector)
        assert c.take_ready(worker.ready_turns, *have, *stamps) == taken.id


@pytest.mark.parametrize("policy", StealPolicy)
def test_victims(c, policy):
    rng = random.Random(7)
    for _ in range(1000):
        n, attempts = rng.randrange(1, 12), rng.randrange(6)
        seed = rng.getrandbits(64)
        crew = [Worker(i, RandomStream(seed, 1 + i)) for i in range(n)]
        for worker in crew:
            worker.stealable = dict.fromkeys(range(rng.randrange(4)))  # only its length is looked at
        thief = crew[rng.randrange(n)]
        thief.next_victim = rng.randrange(n)
        stream, next_victim = u64(thief.stream._state), c_uint32(thief.next_victim)
        loads = (u64 * n)(*(len(worker.stealable) for worker in crew))
        named = (c_uint32 * 6)()
        number = list(StealPolicy).index(policy)
        found = c.victims(number, thief.id, n, byref(stream), byref(next_victim), loads, attempts, named)
        expected = [victim.id for victim in islice(steal.victims(thief, crew, policy), attempts)]
        assert list(named[:found]) == expected
        assert (stream.value, next_victim.value) == (thief.stream._state, thief.next_victim)


# ---- budget


def five(budget: Budget) -> Five:
    return Five(*(OPEN if limit is None else limit for limit in budget.as_tuple()))


def a_budget(rng: random.Random, largest: int = UNITS_MAX) -> Budget:
    """Mostly small numbers, some at the edge, some not stated."""
    kinds = (lambda: None, lambda: 0, lambda: rng.randrange(100), lambda: rng.randrange(largest + 1), lambda: largest)
    return Budget(*(rng.choices(kinds, (4, 1, 8, 1, 1))[0]() for _ in COMPONENTS))


def test_budgets(c):
    rng = random.Random(8)
    for _ in range(3000):
        a, b, least = a_budget(rng), a_budget(rng), Five()
        c.clamp(five(a), five(b), least)
        assert list(least) == list(five(a.clamp(b)))
        assert c.within(five(a), five(b)) == a.within(b)


def pairs(a: Budget, b: Budget) -> zip:
    return zip(a.as_tuple(), b.as_tuple(), strict=True)


class Bank:
    """A tree of purses, kept on both sides."""

    def __init__(self, c, rng: random.Random, budget: Budget, room: int) -> None:
        self.c, self.rng = c, rng
        self.bank = c.bank_new(room)
        self.pools: list[purse.Pool] = list(root_pools(budget))  # by number
        c.root(self.bank, 0, five(budget))
        root = SimpleNamespace(pools=tuple(self.pools), numbers=Numbers(*range(5)), parent=None, children=0)
        self.holders = [root]

    def compare(self) -> None:
        """Every number of every pool. Counts are modulo 2**64; an open pool's own spending stops at the largest."""
        for number, pool in enumerate(self.pools):
            left, counts = c_int64(), (u64 * 4)()
            self.c.pool(self.bank, number, byref(left), counts)
            assert left.value == (OPEN if pool.left is None else pool.left)
            spent = min(pool.spent, MASK64) if pool.left is None else pool.spent & MASK64
            assert list(counts) == [pool.granted & MASK64, pool.minted & MASK64, spent, pool.lent & MASK64]

    def countable(self) -> bool:
        """Whether every pool still fits a word: beyond that the two sides are meant to differ."""
        return all((pool.left or 0) <= INT64_MAX for pool in self.pools)

    def derive(self) -> None:
        maker, wish, can, numbers = self.rng.choice(self.holders), a_budget(self.rng), Five(), Numbers()
        budget = purse.affordable(maker.pools, wish)
        self.c.affordable(self.bank, maker.numbers, five(wish), can)
        assert list(can) == list(five(budget))
        pools = purse.derive(maker.pools, budget)
        stated = self.c.derive(self.bank, maker.numbers, can, len(self.pools), numbers)
        own = [pool for pool, shared in zip(pools, maker.pools, strict=True) if pool is not shared]
        assert stated == len(own)
        self.pools += own
        assert [self.pools[number] for number in numbers] == list(pools)
        maker.children += 1
        self.holders.append(SimpleNamespace(pools=pools, numbers=numbers, parent=maker, children=0))

    def pay(self) -> None:
        payer = self.rng.choice(self.holders)
        components = self.rng.sample(range(5), self.rng.randrange(6))
        amounts = [limit or 0 for limit in a_budget(self.rng).as_tuple()][: len(components)]
        theirs = self.c.pay(
            self.bank,
            payer.numbers,
            len(components),
            (c_uint * 5)(*components),
            (c_int64 * 5)(*amounts),
        )
        assert theirs == purse.pay(payer.pools, tuple(zip(components, amounts, strict=True)))

    def top_up(self) -> None:
        taker = source = self.rng.choice(self.holders)
        while source.parent is not None and self.rng.random() < 0.7:
            source = source.parent
        amount = self.countable_for(taker)
        theirs = self.c.top_up(self.bank, taker.numbers, source.numbers, five(amount))
        assert theirs == purse.top_up(taker.pools, source.pools, amount)

    def mint(self) -> None:
        taker = self.rng.choice(self.holders)
        for pool, number, units in zip(taker.pools, taker.numbers, self.countable_for(taker).as_tuple(), strict=True):
            pool.mint(units or 0)
            self.c.mint(self.bank, number, units or 0)

    def countable_for(self, taker: SimpleNamespace) -> Budget:
        """An amount that the ledger would let into these pools."""
        room = Budget(*(None if p.left is None else max(0, UNITS_MAX - p.left) for p in taker.pools))
        wish = a_budget(self.rng)
        return Budget(*(wanted and budget_module._least(wanted, most) for wanted, most in pairs(wish, room)))

    def close(self) -> None:
        leaves = [holder for holder in self.holders if not holder.children and holder.parent is not None]
        if leaves:
            holder = self.rng.choice(leaves)
            purse.close(holder.pools, holder.parent.pools)
            self.c.close(self.bank, holder.numbers, holder.parent.numbers)
            holder.parent.children -= 1
            self.holders.remove(holder)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_history_of_purses(c, seed):
    rng = random.Random(seed)
    steps = 150
    budget = UNSTATED if seed % 3 == 0 else a_budget(rng)
    bank = Bank(c, rng, budget, room=5 * (steps + 1))
    try:
        for _ in range(steps):
            operation = rng.choices((bank.derive, bank.pay, bank.top_up, bank.mint, bank.close), (3, 6, 3, 1, 2))[0]
            operation()
            if not bank.countable():
                break
            bank.compare()
    finally:
        c.bank_free(bank.bank)


# ---- timers


@pytest.mark.parametrize("seed", range(10))
def test_the_same_timers_fire(c, seed):
    rng = random.Random(seed)
    timers, task, now_ns = Timers(), a_task(), -50
    armed, fired = {}, 0
    clock = c.clock_new(2000)
    try:
        for entry in range(2000):
            match rng.randrange(4):
                case 0 | 1:
                    deadline_ns = now_ns + rng.choice([rng.randrange(10), rng.randrange(200), 1 << 62])
                    timer = timers.arm(deadline_ns, TimerKind.WAKE, task)
                    assert c.arm(clock, entry, deadline_ns, timer.id)
                    armed[timer.id] = entry, timer
                case 2 if armed:
                    gone, timer = armed.pop(rng.choice(list(armed)))
                    timers.disarm(timer)
                    c.disarm(clock, gone)
                case _:
                    now_ns += rng.randrange(20)
                    while (timer := timers.pop_due(now_ns)) is not None:
                        assert c.pop_due(clock, now_ns) == armed.pop(timer.id)[0]
                        fired += 1
                    assert c.pop_due(clock, now_ns) == -1
            first = timers.next()
            assert c.next(clock) == (-1 if first is None else armed[first.id][0])
            assert c.armed(clock) == len(timers)
    finally:
        c.clock_free(clock)
    assert fired > 100


def test_the_same_timed_lane(c):
    rng = random.Random(9)
    lane, waiting, taken = TimedLane(), {}, 0
    tasks = [a_task(id) for id in range(1, 101)]
    clock = c.clock_new(101)
    try:
        for now_ns in range(3000):
            task = rng.choice(tasks)
            if task.id not in waiting:
                deadline_ns = now_ns + rng.randrange(-20, 20)
                task.generation += 1
                lane.push(deadline_ns, task)
                assert c.arm(clock, task.id, deadline_ns, task.id)
                waiting[task.id] = task
            elif rng.random() < 0.3:
                del lane[task]
                c.disarm(clock, task.id)
                del waiting[task.id]
            elif lane.due(now_ns):
                first = lane.pop()
                assert c.pop_due(clock, now_ns) == first.id
                del waiting[first.id]
                taken += 1
            else:
                assert c.pop_due(clock, now_ns) == -1
            assert c.armed(clock) == len(lane)
    finally:
        c.clock_free(clock)
    assert taken > 300
