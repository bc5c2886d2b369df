"""Compares records of the C kernel with their namesakes in the law: pools, timers, workers and their queues.

Both do the same random steps, and must give the same numbers and the same refusals. Other tests compare whole kernels.
"""

import gc
import sys
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law import (
    OPS,
    PAID,
    TIME_END_NS,
    TimerKind,
    Wait,
    affordable,
    close,
    derive,
    left,
    request,
    root_pools,
    top_up,
)
from support.law import Kernel as LawKernel
from support.law import Pool as LawPool
from support.law import Timers as LawTimers

from bursar import Budget, CancelKind, CancelReason

native = pytest.importorskip("bursar._native", reason="this build has no extension")
if not native.KERNEL:
    pytest.skip("this build has no native kernel", allow_module_level=True)

from support.kernel import Kernel  # noqa: E402

repeatable = settings(derandomize=True, deadline=None, max_examples=200)
WORD_MAX = 2**63 - 1


def make_task():
    """A task of the C kernel. The task holds its nursery, and the nursery its kernel."""
    kernel = Kernel()
    assert isinstance(kernel, native.Kernel)
    return kernel.spawn(kernel.root, name="t")


def both(*calls):
    """The result of each call, or the text of the rule that refused it."""
    answers = []
    for call in calls:
        try:
            answers.append(call())
        except AssertionError as error:
            answers.append(str(error))
    return answers


# ---- pools


def figures(pool):
    return (pool.left, pool.granted, pool.minted, pool.spent, pool.lent)


STEPS = ["lend", "fill", "mint", "close", "spend", "open"]
STEP = st.tuples(st.sampled_from(STEPS), st.integers(0, 50), st.integers(0, 50), st.integers(0, 40))


def do(tree, verb, which, other, amount):
    """One step on a tree of pools, of either kind. New pools are added to the tree."""
    pool, second = tree[which % len(tree)], tree[other % len(tree)]
    match verb:
        case "lend":
            tree.append(pool.lend(amount))
        case "fill":
            pool.fill(second, amount)
        case "mint":
            pool.mint(amount)
        case "close":
            pool.close()
        case "spend":
            paid = amount if pool.left is None else min(amount, pool.left)
            pool.spent += paid
            pool.left = None if pool.left is None else pool.left - paid
        case "open":
            tree.append(type(pool)(None if amount % 2 else 0, pool))


@repeatable
@given(st.one_of(st.none(), st.integers(0, 200)), st.lists(STEP, max_size=60))
def test_a_pool_does_what_the_law_says(start, steps):
    trees = [[LawPool(start)], [native.Pool(start)]]
    for step in steps:
        law, c = both(*(partial(do, tree, *step) for tree in trees))
        assert law == c
        assert [figures(pool) for pool in trees[0]] == [figures(pool) for pool in trees[1]]
        lines = [[pool.parent and tree.index(pool.parent) for pool in tree] for tree in trees]
        assert lines[0] == lines[1]


AMOUNTS = st.tuples(*[st.one_of(st.none(), st.integers(0, 30))] * 5)


@repeatable
@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_the_functions_of_the_law_work_on_pools_in_c(purse, wish, more):
    told = []
    for kind in (LawPool, native.Pool):
        roots = tuple(kind(amount) for amount in purse)
        can = affordable(roots, Budget(*wish))
        mine = derive(roots, can)
        short = top_up(mine, roots, Budget(*more))
        told.append((can, short, left(mine), left(roots), [figures(p) for p in (*mine, *roots)]))
        close(mine, roots)
        told[-1] += ([figures(p) for p in (*mine, *roots)],)
    assert told[0] == told[1]


def test_pools_are_compared_by_identity():
    a, b = native.Pool(5), native.Pool(5)
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2


def test_every_number_of_a_pool_can_be_set_and_none_deleted():
    pool = native.Pool(0)
    for name in ("left", "granted", "minted", "spent", "lent"):
        setattr(pool, name, 7)
        assert getattr(pool, name) == 7
        with pytest.raises(AttributeError):
            delattr(pool, name)
        with pytest.raises(TypeError):
            setattr(pool, name, "7")
        assert getattr(pool, name) == 7
    other = native.Pool(1)
    pool.parent = other
    assert pool.parent is other
    other.fill(pool, 1)
    pool.parent = None
    assert pool.parent is None
    with pytest.raises(AttributeError):
        del pool.parent


@pytest.mark.parametrize("call", [lambda p: native.Pool(-1), lambda p: setattr(p, "left", -1)])
def test_a_pool_never_holds_less_than_zero(call):
    with pytest.raises(ValueError, match="BUDGET-3"):
        call(native.Pool(1))


@pytest.mark.parametrize("name", ["granted", "minted", "spent", "lent"])
def test_a_count_that_is_refused_stays_as_it_was(name):
    pool = native.Pool(3)
    before = figures(pool)
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            setattr(pool, name, wrong)
    assert figures(pool) == before


@pytest.mark.parametrize("amount", [2**63, -(2**63) - 1])
def test_an_amount_beyond_64_bits_is_refused(amount):
    pool = native.Pool(None)
    child = pool.lend(1)
    for call in (native.Pool, pool.lend, child.mint, lambda n: pool.fill(child, n)):
        with pytest.raises(OverflowError):
            call(amount)
    assert (figures(pool), figures(child)) == ((None, 0, 0, 0, 1), (1, 1, 0, 0, 0))


def test_a_pool_refuses_an_amount_with_which_it_would_exceed_64_bits():
    pool = native.Pool(None)
    child = pool.lend(WORD_MAX)
    for call in (lambda: pool.fill(child, 1), lambda: child.mint(1)):
        with pytest.raises(OverflowError, match="no room"):
            call()
    assert (figures(pool), figures(child)) == ((None, 0, 0, 0, WORD_MAX), (WORD_MAX, WORD_MAX, 0, 0, 0))


def test_negative_amounts_move_nothing():
    pool = native.Pool(10)
    child = pool.lend(5)
    for call in (lambda: pool.lend(-1), lambda: pool.fill(child, -1), lambda: child.mint(-1)):
        with pytest.raises(AssertionError, match="BUDGET-3"):
            call()
    assert (figures(pool), figures(child)) == ((5, 10, 0, 0, 5), (5, 5, 0, 0, 0))


@pytest.mark.parametrize("wrong", [1, "pool", LawPool(1)])
def test_only_a_pool_of_the_same_kind_is_a_parent_or_filled(wrong):
    pool = native.Pool(1)
    for call in (lambda: native.Pool(1, wrong), lambda: setattr(pool, "parent", wrong), lambda: pool.fill(wrong, 1)):
        with pytest.raises(TypeError):
            call()
    assert pool.parent is None


def test_a_chain_of_pools_is_freed_without_recursion():
    """A frame of the C stack for each pool would overflow the stack."""
    top = pool = native.Pool(None)
    fresh = native.Pool(None)
    for _ in range(200_000):
        pool = pool.lend(1)
    del pool
    assert (top.left, top.lent) == (None, 1)
    assert sys.getrefcount(top) == sys.getrefcount(fresh)  # the number depends on the interpreter


def test_pools_that_hold_each_other_are_collected():
    gc.collect()
    for _ in range(50):
        a = native.Pool(1)
        a.parent = native.Pool(1, a)
    del a
    assert gc.collect() >= 100


def test_the_purse_of_a_native_kernel_is_made_of_pools_in_c():
    task = make_task()
    purse = task.nursery.pools
    assert [type(pool) for pool in purse] == [native.Pool] * 5
    assert [pool.left for pool in purse] == [pool.left for pool in root_pools(Budget())]
    child = derive(purse, Budget(ops=3))
    assert (child[OPS].left, child[OPS].parent) == (3, purse[OPS])
    assert top_up(child, purse, Budget(ops=2)) == PAID
    close(child, purse)
    assert purse[OPS].lent == 0


# ---- timers

VERBS = ["arm", "arm", "arm", "disarm", "disarm", "pop", "next", "find", "poll"]
MOVE = st.tuples(st.sampled_from(VERBS), st.integers(0, 30), st.integers(0, 60))


def shown(timer):
    """The visible fields of a timer."""
    if timer is None:
        return None
    return (timer.id, timer.deadline_ns, timer.kind, timer.scope, timer.generation, timer.armed)


class ObservedTimers:
    """Timers of either kind, the tasks for which they are armed, and all their events."""

    def __init__(self, timers, tasks):
        self.timers, self.tasks, self.armed, self.notes = timers, tasks, [], []
        timers.observer = lambda what, task, timer: self.notes.append((what, tasks.index(task), shown(timer)))

    def do(self, verb, number, which):
        timers, task = self.timers, self.tasks[which % len(self.tasks)]
        timer = self.armed[which % len(self.armed)] if self.armed else None
        match verb:
            case "arm":
                scope = "a scope" if number % 2 else None
                self.armed.append(timers.arm(number - 10, TimerKind(number % 3), task, scope))
                assert self.armed[-1].task is task
                return shown(self.armed[-1])
            case "disarm" if timer is not None:
                return (timers.disarm(timer), shown(timer))
            case "pop":
                return shown(timers.pop_due(number - 10))
            case "find":
                return shown(timers.find(which, number % 3))
            case "poll":
                task.generation += 1
        return (shown(timers.next()), timers.next_deadline_ns(), len(timers))


@repeatable
@given(st.lists(MOVE, max_size=120))
def test_timers_do_what_the_law_says(moves):
    tasks = [make_task() for _ in range(3)]
    for task in tasks:
        task.generation = 0
    law = ObservedTimers(LawTimers(), [Model() for _ in tasks])
    c = ObservedTimers(native.Timers(), tasks)
    for move in moves:
        assert law.do(*move) == c.do(*move)
        assert (len(law.timers), shown(law.timers.next())) == (len(c.timers), shown(c.timers.next()))
    while (timer := law.timers.pop_due(WORD_MAX)) is not None:
        assert shown(timer) == shown(c.timers.pop_due(WORD_MAX))
    assert c.timers.pop_due(WORD_MAX) is None
    assert law.notes == c.notes
    assert [shown(timer) for timer in law.armed] == [shown(timer) for timer in c.armed]


class Model:
    """The part of a task that timers read."""

    generation = 0


def test_many_timers_come_out_in_order_whichever_are_disarmed():
    timers, task = native.Timers(), make_task()
    armed = [timers.arm(i * 7919 % 1000, TimerKind.WAKE, task) for i in range(3000)]
    for timer in armed[::3]:
        timers.disarm(timer)
    rest = sorted((t for i, t in enumerate(armed) if i % 3), key=lambda t: (t.deadline_ns, t.id))
    assert list(iter(lambda: timers.pop_due(1000), None)) == rest


def test_a_timer_holds_its_task_and_its_scope_until_it_is_gone():
    timers, task, scope = native.Timers(), make_task(), ["a scope"]
    before = (sys.getrefcount(task), sys.getrefcount(scope))
    timer = timers.arm(1, TimerKind.DEADLINE, task, scope=scope)
    assert (timer.task, timer.scope, timer.kind) == (task, scope, TimerKind.DEADLINE)
    assert (sys.getrefcount(task), sys.getrefcount(scope)) == (before[0] + 1, before[1] + 1)
    timers.disarm(timer)
    del timer
    assert (sys.getrefcount(task), sys.getrefcount(scope)) == before


def test_a_reused_record_has_none_of_its_old_values():
    timers, task = native.Timers(), make_task()
    for i in range(1000):
        kind, scope = TimerKind(i % 3), None if i % 2 else ["a scope"]
        timer = timers.arm(i, kind, task, scope)
        assert shown(timer) == (i + 1, i, kind, scope, task.generation, True)
        timers.disarm(timer)


def test_timers_that_are_dropped_leave_their_timers_unarmed():
    timers, task = native.Timers(), make_task()
    held = [timers.arm(i, TimerKind.WAKE, task) for i in range(20)]
    del timers
    assert [timer.armed for timer in held] == [False] * 20


def test_timers_in_a_cycle_are_collected():
    kernel = Kernel()  # must stay alive, because the collector does not track a live task (RECORD-4)
    timers, task = native.Timers(), kernel.spawn(kernel.root, name="t")
    before = sys.getrefcount(task)
    for _ in range(10):
        timers.arm(1, TimerKind.DEADLINE, task, timers)
    del timers
    gc.collect()
    assert sys.getrefcount(task) == before


def test_a_time_beyond_64_bits_is_refused():
    timers, task = native.Timers(), make_task()
    early, late = -(2**63) - 1, 2**63
    for call in (
        lambda: timers.arm(early, TimerKind.WAKE, task),
        lambda: timers.pop_due(early),
        lambda: timers.pop_due(late),
    ):
        with pytest.raises(OverflowError):
            call()
    assert len(timers) == 0
    assert timers.arm(WORD_MAX, TimerKind.WAKE, task).id == 1


@pytest.mark.parametrize("timers", [native.Timers, LawTimers])
def test_a_deadline_after_the_largest_time_becomes_the_largest_time(timers):
    made = timers()
    late = made.arm(2**200, TimerKind.WAKE, make_task())
    assert late.deadline_ns == made.next_deadline_ns() == TIME_END_NS == WORD_MAX
    assert made.pop_due(TIME_END_NS - 1) is None
    assert made.pop_due(TIME_END_NS) is late


@pytest.mark.parametrize(("id", "generation"), [(-1, 0), (1, -1), (2**64, 0), (1, 2**64), (2, 0), (1, 10**6)])
def test_a_timer_with_an_impossible_number_is_not_found(id, generation):
    timers = native.Timers()
    timers.arm(5, TimerKind.WAKE, make_task())
    assert timers.find(id, generation) is None


@pytest.mark.parametrize("task", [None, "task", Model()])
def test_timers_are_armed_for_tasks_of_the_c_kernel_only(task):
    timers = native.Timers()
    with pytest.raises(TypeError):
        timers.arm(1, TimerKind.WAKE, task)
    assert (len(timers), timers.next()) == (0, None)


@pytest.mark.parametrize("kind", [-1, 4])
def test_there_are_four_kinds_of_timers(kind):
    with pytest.raises(ValueError, match="TimerKind"):
        native.Timers().arm(1, kind, make_task())


def test_a_timer_is_disarmed_where_it_was_armed():
    task = make_task()
    mine, other = native.Timers(), native.Timers()
    timer = mine.arm(1, TimerKind.WAKE, task)
    other.arm(1, TimerKind.WAKE, task)
    with pytest.raises(ValueError, match="another runtime"):
        other.disarm(timer)
    with pytest.raises(TypeError):
        mine.disarm(None)
    assert (timer.armed, len(mine), len(other)) == (True, 1, 1)


@pytest.mark.parametrize("what", ["timer_armed", "timer_disarmed"])
def test_an_error_of_the_observer_is_raised_after_the_heap_has_changed(what):
    """As in the law: the event comes after the change."""
    for timers, task in ((LawTimers(), Model()), (native.Timers(), make_task())):
        seen = []

        def observer(kind, task, timer, seen=seen):
            seen.append(timer)
            if kind == what:
                raise RuntimeError(kind)

        timers.observer = observer
        with pytest.raises(RuntimeError, match=what):
            timers.disarm(timers.arm(1, TimerKind.WAKE, task))
        assert len(timers) == (what == "timer_armed")
        assert seen[0].armed is (what == "timer_armed")


def test_an_observer_may_disarm_the_timer_of_its_event():
    timers, task = native.Timers(), make_task()

    def observer(kind, task, timer):
        timers.observer = None
        timers.disarm(timer)

    timers.observer = observer
    timer = timers.arm(1, TimerKind.WAKE, task)
    assert (timer.armed, len(timers), timers.observer) == (False, 0, None)


# ---- workers and their queues


class Nap(Wait):
    reason = "naps"


def lanes(kernel):
    """The task ids in each lane. The law lists the timed lane in the order of arrival, C in the order of taking."""
    queues = [q for w in kernel.workers for q in (w.cancel, w.pinned, w.stealable)]
    timed = [worker.timed for worker in kernel.workers]
    for queue in (*queues, *timed, kernel.injector):
        assert len(queue) == len(list(queue))
        assert bool(queue) is bool(list(queue))
        assert all(task in queue for task in queue)
    return [[t.id for t in q] for q in (*queues, kernel.injector)], [sorted(t.id for t in q) for q in timed]


def counts(worker):
    stats = worker.stats
    return (
        (worker.id, worker.stamp, worker.cancel_streak, worker.timed_streak, worker.ready_turns, worker.next_victim),
        (worker.steal_enabled, stats.dispatched, stats.injected, stats.steals, stats.steals_failed, stats.stolen_from),
    )


def go(kernel, verb, number):
    """Make one change to a kernel."""
    match verb:
        case "spawn":
            kernel.spawn(kernel.root, name=f"t{number}", pinned=bool(number % 2))
        case "advance":
            kernel.advance(kernel.now_ns + number)
        case "cancel" if kernel.tasks:
            tasks = list(kernel.tasks.values())
            request(kernel, tasks[number % len(tasks)], CancelReason(CancelKind.USER, "stop"))
        case _ if (task := kernel.step()) is not None:
            if verb == "nap":
                kernel.timers.arm(kernel.now_ns + number, TimerKind.WAKE, task)
                kernel.blocked(task, Nap(task))
            else:
                kernel.yielded(task)
            kernel.step_over(task)


ACTS = ["spawn", "spawn", "nap", "spin", "spin", "advance", "cancel"]


@repeatable
@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 12)), max_size=60))
def test_workers_show_the_queues_and_counts_of_the_law(workers, acts):
    law, c = LawKernel(workers=workers, seed=3), Kernel(workers=workers, seed=3)
    for act in acts:
        go(law, *act)
        go(c, *act)
        assert lanes(law) == lanes(c)
        assert [counts(worker) for worker in law.workers] == [counts(worker) for worker in c.workers]


def test_the_timed_lane_is_shown_in_the_order_of_taking():
    kernel = Kernel()
    tasks = [kernel.spawn(kernel.root, name=f"t{i}") for i in range(20)]
    for i in range(20):
        task = kernel.step()
        kernel.timers.arm(i * 7 % 20, TimerKind.WAKE, task)
        kernel.blocked(task, Nap(task))
        kernel.step_over(task)
    kernel.advance(20)
    shown = list(kernel.workers[0].timed)
    assert set(shown) == set(tasks)
    taken = []
    while (task := kernel.step()) is not None:
        taken.append(task)
        kernel.blocked(task, Nap(task))
        kernel.step_over(task)
    assert taken == shown


def test_two_views_of_one_queue_are_equal_and_of_two_are_not():
    one, two = Kernel(workers=2).workers
    views = [view for w in (one, two) for view in (w.cancel, w.timed, w.pinned, w.stealable)]
    assert len(set(views)) == 8
    assert one.pinned == one.pinned
    assert one.pinned != two.pinned
    assert one.pinned != one.stealable


def test_a_walk_over_a_view_is_not_disturbed_by_what_happens_meanwhile():
    kernel = Kernel()
    tasks = [kernel.spawn(kernel.root, name=f"t{i}") for i in range(5)]
    seen = []
    for task in kernel.injector:
        seen.append(task)
        kernel.step_over(step(kernel))
    assert seen == tasks
    assert len(kernel.injector) == 0
    assert tasks[0] not in kernel.injector
    assert "t0" not in kernel.injector


def step(kernel):
    """Make one step. The task then waits and is never woken."""
    task = kernel.step()
    kernel.blocked(task, Nap(task))
    return task


def test_workers_views_timers_and_terms_cannot_be_made_in_python():
    for kind in (native.Worker, native.QueueView, native.Timer, native.SpawnTerms):
        with pytest.raises(TypeError, match="cannot create"):
            kind()


def test_only_steal_enabled_of_a_worker_can_be_set():
    worker = Kernel().workers[0]
    worker.steal_enabled = False
    assert worker.steal_enabled is False
    for name in ("id", "stamp", "cancel", "timed", "stats", "ready_turns"):
        with pytest.raises(AttributeError):
            setattr(worker, name, 1)
