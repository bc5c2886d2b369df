"""The ledger: what a bill comes to, when a task has to wait for money, how it gets more, and what cleanup may cost."""

import pytest
from support.kernel import Kernel, Nursery, Task, Wait
from support.law import (
    CHANNEL,
    CHANNEL_OPS,
    COMPONENTS,
    FREE,
    MEMORY,
    OP,
    OPS,
    PAID,
    SPAWNS,
    SYSCALL,
    SYSCALLS,
    UNITS_MAX,
    UNSTATED,
    CancelPhase,
    Lane,
    WakeState,
    allocation,
    cancel,
    check,
    left,
)

from bursar import (
    Budget,
    BudgetExceeded,
    CancelKind,
    CancelReason,
    CapabilityDenied,
    CapBudget,
    CapSpawn,
    MemoryBudgetExceeded,
    Outcome,
    OutcomeKind,
    SpawnBudgetExceeded,
    State,
)
from bursar.law.ledger import Bill

STOP = CancelReason(CancelKind.USER, "stop")
TWO_OPS = ((OPS, 2),)


class Nap(Wait):
    reason = "naps"


def new_kernel(*capabilities, **keywords) -> Kernel:
    kernel = Kernel(**keywords)
    minted = [kernel.registry.mint(c) for c in (CapSpawn(), *capabilities)]
    kernel.root.capabilities = {type(c): c for c in minted}
    return kernel


def run(kernel: Kernel, task: Task) -> Task:
    assert kernel.step() is task
    return task


def running(kernel: Kernel, budget: Budget | None = None) -> Task:
    """A task that is being polled, with a budget of its own."""
    return run(kernel, kernel.spawn(kernel.root, name="payer", budget=budget or Budget()))


def on_hold(kernel: Kernel, budget: Budget, cost=OP) -> Task:
    """A task that could not pay and waits for a recharge."""
    kernel.root.hold = True
    task = running(kernel, budget)
    assert kernel.bill(task, cost) is Bill.SUSPENDED
    assert task.state is State.EXHAUSTED
    return task


# ---- a bill that is paid


@pytest.mark.parametrize(
    ("cost", "spent"),
    [
        (FREE, [0, 0, 0, 0, 0]),
        (OP, [1, 0, 0, 0, 0]),
        (CHANNEL, [1, 0, 0, 1, 0]),
        (SYSCALL, [1, 0, 0, 0, 1]),
        (allocation(64), [1, 64, 0, 0, 0]),
    ],
    ids=["free", "op", "channel", "syscall", "allocation"],
)
def test_a_paid_bill_is_written_down(cost, spent):
    kernel = new_kernel(yield_interval=100)
    task = running(kernel, Budget(100, 100, 100, 100, 100))
    assert kernel.bill(task, cost) is Bill.PAID
    assert list(task.spent) == spent
    assert left(task.pools) == Budget(*(100 - n for n in spent))
    assert task.turn_left == 100 - spent[OPS]
    assert (task.state, kernel.current) == (State.RUNNING, task)


def test_a_task_that_needs_exactly_what_it_has_gets_to_its_end():
    kernel = new_kernel()
    task = running(kernel, Budget(ops=5))
    assert [kernel.bill(task, OP) for _ in range(5)] == [Bill.PAID] * 5
    kernel.finish(task, Outcome(OutcomeKind.OK))
    assert task.outcome.kind is OutcomeKind.OK


def test_the_record_of_what_was_spent_stops_at_the_largest_number():
    kernel = new_kernel()
    task = running(kernel)
    for _ in range(3):
        assert kernel.bill(task, ((MEMORY, UNITS_MAX),)) is Bill.PAID
    assert task.spent[MEMORY] == UNITS_MAX


# ---- the turn


def test_a_turn_is_so_many_operations_and_then_the_task_goes_to_the_back():
    kernel = new_kernel(yield_interval=3)
    a, b = (kernel.spawn(kernel.root, pinned=True) for _ in range(2))
    run(kernel, a)
    assert [kernel.bill(a, OP) for _ in range(4)] == [Bill.PAID] * 3 + [Bill.SUSPENDED]
    assert (a.state, a.wake, a.short_of) == (State.READY, WakeState.QUEUED, PAID)
    assert list(kernel.workers[0].pinned) == [b, a]
    assert a.spent[OPS] == 3  # what asked in vain was not charged
    assert kernel.counters["turns_over"] == 1
    assert kernel.current is None
    check(kernel)


def test_two_busy_tasks_take_turns_of_equal_length():
    kernel = new_kernel(yield_interval=10)
    tasks = [kernel.spawn(kernel.root, pinned=True) for _ in range(2)]
    turns = []
    for _ in range(6):
        task, paid = kernel.step(), 0
        while kernel.bill(task, OP) is Bill.PAID:
            paid += 1
        kernel.step_over(task)
        turns.append((task, paid))
    assert turns == [(tasks[0], 10), (tasks[1], 10)] * 3


def test_a_large_bill_is_paid_whole_and_then_the_turn_is_over():
    kernel = new_kernel(yield_interval=10)
    task = running(kernel)
    assert kernel.bill(task, ((OPS, 1000),)) is Bill.PAID
    assert kernel.bill(task, FREE) is Bill.SUSPENDED
    run(kernel, task)
    assert task.turn_left == 10


def test_a_new_poll_is_a_new_turn():
    kernel = new_kernel(yield_interval=3)
    task = running(kernel)
    kernel.bill(task, TWO_OPS)
    kernel.yielded(task)
    run(kernel, task)
    assert task.turn_left == 3


def test_a_turn_that_is_over_costs_nothing_and_is_no_shortage():
    kernel = new_kernel(yield_interval=1, budget=Budget(ops=10))
    task = running(kernel)
    for _ in range(4):
        assert kernel.bill(task, OP) is Bill.PAID
        assert kernel.bill(task, OP) is Bill.SUSPENDED
        run(kernel, task)
    assert kernel.root.pools[OPS].left == 10 - 1 - 4  # the spawn, and four operations
    assert kernel.counters["exhausted"] == 0


def test_a_shortage_and_the_end_of_a_turn_at_once_is_the_end_of_the_turn_first():
    kernel = new_kernel(yield_interval=2)
    task = running(kernel, Budget(ops=2))
    assert kernel.bill(task, TWO_OPS) is Bill.PAID
    assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert kernel.counters == {"turns_over": 1}
    run(kernel, task)
    assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert kernel.counters["exhausted"] == 1


# ---- shortages that are told at once


@pytest.mark.parametrize(
    ("cost", "component", "error"),
    [(allocation(8), MEMORY, MemoryBudgetExceeded), (((SPAWNS, 1),), SPAWNS, SpawnBudgetExceeded)],
    ids=["memory", "spawns"],
)
def test_memory_and_spawns_that_are_short_are_told_to_the_task_at_once(cost, component, error):
    kernel = new_kernel()
    task = running(kernel, Budget(10, 0, 0, 10, 10))
    told = kernel.bill(task, cost)
    assert type(told) is error
    assert (told.task, told.component, told.code) == ("payer", COMPONENTS[component], -3)
    assert (task.state, kernel.current, task.cleanup_left) == (State.RUNNING, task, -1)
    assert left(task.pools) == Budget(10, 0, 0, 10, 10)
    assert list(task.spent) == [0] * 5


def test_a_shortage_of_memory_is_a_memory_error():
    assert issubclass(MemoryBudgetExceeded, MemoryError)
    assert issubclass(MemoryBudgetExceeded, BudgetExceeded)


def test_the_error_says_who_ran_out_of_what_and_what_to_do():
    kernel = new_kernel()
    task = running(kernel, Budget(ops=2000, memory=1500))
    kernel.bill(task, allocation(1000))
    assert str(kernel.bill(task, allocation(2000))) == (
        f"task 'payer' ({task.id}) is out of memory: it needs 2,000, has 500 left and has spent 1,000; "
        "give it a larger budget or recharge it"
    )


# ---- running dry


DRY = [(OP, OPS), (CHANNEL, CHANNEL_OPS), (SYSCALL, SYSCALLS)]


@pytest.mark.parametrize(("cost", "component"), DRY, ids=["ops", "channel_ops", "syscalls"])
def test_a_task_that_nobody_pays_for_is_told_once_and_may_clean_up(cost, component):
    kernel = new_kernel(cleanup_ops=50, cleanup_ns=1000)
    budget = [10] * 5
    budget[component] = 0
    task = running(kernel, Budget(*budget))
    task.unpaid_request = "what it asked for"
    assert kernel.bill(task, cost) is Bill.SUSPENDED
    assert left(task.pools) == Budget(*budget)  # nothing was charged
    assert (task.state, task.lane, task.short_of) == (State.READY, Lane.CANCEL, component)
    assert type(task.error) is BudgetExceeded
    assert (task.error.task, task.error.component) == ("payer", COMPONENTS[component])
    assert (task.phase, task.reason.kind) == (CancelPhase.DRAINING, CancelKind.BUDGET)
    assert (task.cleanup_left, task.cleanup_timer.deadline_ns) == (50, 1000)
    assert task.unpaid_request is None
    assert kernel.counters["exhausted"] == 1
    check(kernel)


def test_who_ran_dry_is_not_told_a_second_time():
    """While it cleans up a further shortage is an ordinary error at the await point."""
    kernel = new_kernel()
    task = running(kernel, Budget(ops=10, channel_ops=0))
    kernel.bill(task, CHANNEL)
    run(kernel, task)
    told = kernel.bill(task, CHANNEL)
    assert type(told) is BudgetExceeded
    assert (task.state, kernel.counters["exhausted"]) == (State.RUNNING, 1)


def test_a_request_that_cannot_be_paid_can_be_made_again_after_it_was_held():
    kernel = new_kernel()
    task = on_hold(kernel, Budget(ops=1), cost=TWO_OPS)
    assert task.pools[OPS].left == 1
    kernel.recharge(task, kernel.root.pools, Budget(ops=1))
    run(kernel, task)
    assert kernel.bill(task, TWO_OPS) is Bill.PAID
    assert task.pools[OPS].left == 0


# ---- on hold


@pytest.mark.parametrize(("cost", "component"), DRY, ids=["ops", "channel_ops", "syscalls"])
def test_a_task_on_hold_does_not_run_before_it_is_recharged(cost, component):
    kernel = new_kernel()
    budget = [10] * 5
    budget[component] = 0
    kernel.root.hold = True
    task = running(kernel, Budget(*budget))
    kernel.advance(7)
    assert kernel.bill(task, cost) is Bill.SUSPENDED
    assert (task.wake, task.short_of, task.since_ns) == (WakeState.IDLE, component, 7)
    assert (task.phase, task.cleanup_left) == (CancelPhase.IDLE, -1)
    assert kernel.root.exhausted == {task.id: task}
    assert [kernel.step() for _ in range(3)] == [None] * 3
    check(kernel)


def test_a_recharge_makes_it_ready_and_queued():
    kernel = new_kernel(budget=Budget(ops=100))
    task = on_hold(kernel, Budget(ops=0))
    seen = []
    kernel.observer = lambda *event: seen.append(event)
    kernel.recharge(task, kernel.root.pools, Budget(ops=5))
    assert [event for event in seen if event[0] == "recharged"] == [("recharged", task, Budget(ops=5))]
    assert (task.state, task.wake, task.lane, task.error) == (State.READY, WakeState.QUEUED, Lane.READY, None)
    assert kernel.root.exhausted == {}
    assert kernel.counters["recharged"] == 1
    check(kernel)
    run(kernel, task)
    assert [kernel.bill(task, OP) for _ in range(6)] == [Bill.PAID] * 5 + [Bill.SUSPENDED]


def test_those_on_hold_are_listed_the_longest_first():
    kernel = new_kernel()
    tasks = [on_hold(kernel, Budget(ops=0)) for _ in range(3)]
    assert list(kernel.root.exhausted.values()) == tasks


def test_whoever_waits_for_one_is_told_of_it_once():
    kernel = new_kernel()
    watcher = running(kernel)
    nap = Nap(watcher)
    kernel.blocked(watcher, nap)
    kernel.root.exhausted_waiter = nap
    first = on_hold(kernel, Budget(ops=0))
    assert (watcher.state, watcher.inbox, watcher.effect) == (State.READY, first, True)
    assert kernel.root.exhausted_waiter is None
    run(kernel, watcher)
    kernel.blocked(watcher, Nap(watcher))
    on_hold(kernel, Budget(ops=0))
    assert watcher.state is State.BLOCKED


def test_a_recharge_that_does_not_help_puts_it_back_on_hold():
    kernel = new_kernel()
    task = on_hold(kernel, Budget(ops=10, channel_ops=0), CHANNEL)
    kernel.recharge(task, kernel.root.pools, Budget(ops=10))
    run(kernel, task)
    assert kernel.bill(task, CHANNEL) is Bill.SUSPENDED
    assert (task.state, kernel.root.exhausted) == (State.EXHAUSTED, {task.id: task})


def test_a_stray_wake_is_no_recharge():
    kernel = new_kernel()
    task = on_hold(kernel, Budget(ops=0))
    kernel.wake(task, task.generation)
    assert (task.state, kernel.runnable) == (State.EXHAUSTED, 0)
    check(kernel)


def test_a_task_woken_while_it_ran_dry_is_on_hold_like_any_other():
    kernel = new_kernel()
    kernel.root.hold = True
    task = running(kernel, Budget(ops=0))
    kernel.wake(task, task.generation, value="for a wait that never began", effect=True)
    kernel.bill(task, OP)
    assert (task.state, task.wake) == (State.EXHAUSTED, WakeState.IDLE)
    assert (task.inbox, task.effect) == (None, False)
    check(kernel)


def test_nobody_is_put_on_hold_in_a_nursery_that_is_being_cancelled():
    """Whoever would have recharged it only waits for its end."""
    kernel = new_kernel()
    kernel.root.hold = True
    task = running(kernel, Budget(ops=0))
    cancel.CancelScope(task).shielded = True
    cancel.request_nursery(kernel, kernel.root, STOP)
    assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert (task.state, task.lane, kernel.root.exhausted) == (State.READY, Lane.CANCEL, {})
    assert type(task.error) is BudgetExceeded
    check(kernel)


def test_nobody_is_put_on_hold_that_was_asked_to_stop():
    """The request waits behind a shield; a hold would make it wait for ever."""
    kernel = new_kernel()
    kernel.root.hold = True
    task = running(kernel, Budget(ops=0))
    cancel.CancelScope(task).shielded = True
    cancel.request(kernel, task, STOP)
    assert kernel.bill(task, OP) is Bill.SUSPENDED
    assert (task.state, task.lane, kernel.root.exhausted) == (State.READY, Lane.CANCEL, {})


def test_cancelling_ends_the_hold():
    kernel = new_kernel()
    task = on_hold(kernel, Budget(ops=0))
    cancel.request(kernel, task, STOP)
    assert (task.state, task.lane, kernel.root.exhausted) == (State.READY, Lane.CANCEL, {})
    check(kernel)


# ---- money coming in


def family(kernel: Kernel, purse: Budget, own: Budget) -> tuple[Task, Nursery, Task]:
    """An owner that runs, its nursery with a purse, and a child with a budget of its own."""
    owner = running(kernel, Budget(ops=100))
    nursery = kernel.open_nursery(owner, budget=purse)
    return owner, nursery, kernel.spawn(nursery, budget=own)


def test_a_recharge_comes_from_the_purse_first_and_then_from_above():
    kernel = new_kernel()
    owner, nursery, child = family(kernel, Budget(ops=20), Budget(ops=5))
    assert [p[OPS].left for p in (owner.pools, nursery.pools, child.pools)] == [80, 14, 5]
    kernel.recharge(child, owner.pools, Budget(ops=20))
    assert [p[OPS].left for p in (owner.pools, nursery.pools, child.pools)] == [74, 0, 25]
    check(kernel)


def test_a_recharge_that_is_too_much_moves_nothing_and_leaves_the_task_on_hold():
    kernel = new_kernel(budget=Budget(ops=20))
    task = on_hold(kernel, Budget(ops=0))
    with pytest.raises(
        BudgetExceeded, match="'payer' cannot be recharged: the nurseries above it are short of ops"
    ) as told:
        kernel.recharge(task, kernel.root.pools, Budget(ops=20))
    assert (told.value.task, told.value.component) == ("payer", "ops")
    assert (task.state, kernel.root.pools[OPS].left) == (State.EXHAUSTED, 19)
    assert kernel.counters["recharged"] == 0
    kernel.recharge(task, kernel.root.pools, Budget(ops=19))
    assert task.state is State.READY


@pytest.mark.parametrize("state", [State.READY, State.RUNNING, State.BLOCKED])
def test_a_recharge_of_a_task_that_is_not_on_hold_only_gives_it_money(state):
    kernel = new_kernel()
    task = kernel.spawn(kernel.root, budget=Budget(ops=5))
    if state is not State.READY:
        run(kernel, task)
    if state is State.BLOCKED:
        kernel.blocked(task, Nap(task))
    runnable = kernel.runnable
    kernel.recharge(task, kernel.root.pools, Budget(ops=5))
    assert (task.state, kernel.runnable, task.pools[OPS].left) == (state, runnable, 10)
    check(kernel)


def test_a_task_that_is_over_cannot_be_recharged():
    kernel = new_kernel(CapBudget(Budget(ops=10)))
    over = running(kernel, Budget(ops=5))
    kernel.finish(over, Outcome(OutcomeKind.OK))
    holder = running(kernel)
    for recharge in (
        lambda: kernel.recharge(over, kernel.root.pools, Budget(ops=1)),
        lambda: kernel.recharge_by_capability(holder, over, Budget(ops=1)),
    ):
        with pytest.raises(ValueError, match="'payer' has ended"):
            recharge()
    check(kernel)


def test_a_holder_recharges_itself_up_to_the_limit_of_its_capability():
    kernel = new_kernel(CapBudget(Budget(ops=10)), budget=Budget(ops=100))
    task = running(kernel, Budget(ops=1))
    kernel.recharge_by_capability(task, task, Budget(ops=7))
    assert (task.pools[OPS].left, task.pools[OPS].minted) == (8, 7)
    assert kernel.root.pools[OPS].left == 100 - 1 - 1  # the purse paid nothing
    with pytest.raises(CapabilityDenied, match=r"allows 10 in total and 7 are used"):
        kernel.recharge_by_capability(task, task, Budget(ops=4))
    kernel.recharge_by_capability(task, task, Budget(ops=3))
    assert task.pools[OPS].left == 11
    check(kernel)


def test_a_budget_grows_to_the_largest_number_and_no_further():
    kernel = new_kernel(CapBudget())
    task = running(kernel, Budget(ops=1))
    kernel.recharge_by_capability(task, task, Budget(ops=UNITS_MAX - 1))
    assert task.pools[OPS].left == UNITS_MAX
    for recharge in (
        lambda: kernel.recharge_by_capability(task, task, Budget(ops=1)),
        lambda: kernel.recharge(task, kernel.root.pools, Budget(ops=1)),
    ):
        with pytest.raises(ValueError, match=f"its budget would exceed {UNITS_MAX}; recharge by less"):
            recharge()
    assert task.pools[OPS].left == UNITS_MAX


def test_without_the_capability_nobody_makes_money():
    kernel = new_kernel()
    task = running(kernel, Budget(ops=1))
    with pytest.raises(CapabilityDenied, match=r"'payer' .* may not recharge task 'payer': it holds no CapBudget"):
        kernel.recharge_by_capability(task, task, Budget(ops=1))
    assert task.pools[OPS].left == 1


def test_a_holder_brings_another_task_off_hold():
    kernel = new_kernel(CapBudget(Budget(ops=10)))
    holder = running(kernel)
    kernel.blocked(holder, Nap(holder))
    poor = on_hold(kernel, Budget(ops=0))
    kernel.recharge_by_capability(holder, poor, Budget(ops=10))
    assert (poor.state, poor.pools[OPS].left) == (State.READY, 10)
    check(kernel)


def test_what_is_left_of_made_money_stays_in_the_books_when_the_task_ends():
    kernel = new_kernel(CapBudget(Budget(ops=50)), budget=Budget(ops=100))
    task = running(kernel, Budget(ops=1))
    kernel.recharge_by_capability(task, task, Budget(ops=50))
    kernel.bill(task, ((OPS, 30),))
    kernel.finish(task, Outcome(OutcomeKind.OK))
    root = kernel.root.pools[OPS]
    assert (root.granted, root.minted, root.spent, root.left) == (150, 50, 31, 119)
    check(kernel)


# ---- cleaning up


def cleaning(kernel: Kernel, budget: Budget) -> Task:
    """A task that was told to stop and is being polled."""
    task = running(kernel, budget)
    cancel.request(kernel, task, STOP)
    cancel.deliver(kernel, task)
    return task


def test_a_cleanup_pays_its_operations_and_gets_credit_for_those_that_it_cannot_pay():
    kernel = new_kernel(cleanup_ops=5)
    task = cleaning(kernel, Budget(ops=3))
    assert [kernel.bill(task, OP) for _ in range(5)] == [Bill.PAID] * 5
    assert (task.cleanup_left, task.pools[OPS].left, task.credit_used) == (0, 0, 2)
    assert task.spent[OPS] == 5
    check(kernel)


def test_being_cancelled_again_and_again_is_no_source_of_income():
    """Each cancelled block has its allowance, but the credit is one for the whole life of the task."""
    kernel = new_kernel(cleanup_ops=5)
    task = running(kernel, Budget(ops=0))
    paid = 0
    for _ in range(10):
        block = cancel.CancelScope(task)
        cancel.request(kernel, block, STOP)
        cancel.deliver(kernel, task)
        assert task.cleanup_left == 5
        paid += kernel.bill(task, OP) is Bill.PAID
        cancel.leave(kernel, block)
    assert (paid, task.credit_used) == (5, 5)


def test_everything_else_is_paid_as_always():
    kernel = new_kernel(cleanup_ops=5)
    task = cleaning(kernel, Budget(ops=0, channel_ops=1))
    assert kernel.bill(task, CHANNEL) is Bill.PAID
    assert (task.cleanup_left, task.pools[CHANNEL_OPS].left) == (4, 0)


@pytest.mark.parametrize(
    ("cost", "error"),
    [(CHANNEL, BudgetExceeded), (SYSCALL, BudgetExceeded), (allocation(1), MemoryBudgetExceeded)],
    ids=["channel", "syscall", "memory"],
)
def test_a_shortage_during_cleanup_is_told_at_once_and_costs_nothing(cost, error):
    kernel = new_kernel(cleanup_ops=5)
    task = cleaning(kernel, Budget.none())
    assert type(kernel.bill(task, cost)) is error
    assert (task.cleanup_left, task.credit_used, task.state) == (5, 0, State.RUNNING)


def test_a_cleanup_that_takes_too_many_operations_is_cut_off():
    kernel = new_kernel(cleanup_ops=5)
    task = cleaning(kernel, Budget(ops=100))
    assert kernel.bill(task, ((OPS, 5),)) is Bill.PAID
    assert kernel.bill(task, OP) is Bill.CUT
    assert (task.cut, task.state, kernel.current) == (True, State.RUNNING, task)
    assert [(r.kind, r.task, r.detail) for r in kernel.reports] == [
        ("cleanup_cut", "payer", "cleanup took more than 5 ops")
    ]
    assert task.pools[OPS].left == 95


def test_a_cleanup_takes_turns_like_any_work():
    kernel = new_kernel(cleanup_ops=10, yield_interval=2)
    task = cleaning(kernel, Budget(ops=0))
    assert [kernel.bill(task, OP) for _ in range(3)] == [Bill.PAID, Bill.PAID, Bill.SUSPENDED]
    assert (task.state, task.lane) == (State.READY, Lane.CANCEL)
    check(kernel)


# ---- charges that cannot wait


def test_a_charge_that_cannot_wait_is_paid_at_once():
    kernel = new_kernel(yield_interval=10)
    task = running(kernel, Budget(ops=5, channel_ops=5))
    kernel.charge_now(task, CHANNEL)
    assert (list(task.spent), task.turn_left) == ([1, 0, 0, 1, 0], 9)
    assert left(task.pools) == Budget(ops=4, channel_ops=4)


def test_or_it_is_refused_and_nothing_is_paid():
    kernel = new_kernel()
    task = running(kernel, Budget(ops=5, channel_ops=0))
    with pytest.raises(BudgetExceeded, match="channel_ops"):
        kernel.charge_now(task, CHANNEL)
    assert (list(task.spent), task.state) == ([0] * 5, State.RUNNING)
    assert left(task.pools) == Budget(ops=5, channel_ops=0)


def test_it_uses_up_the_turn_but_does_not_wait_for_the_next():
    kernel = new_kernel(yield_interval=1)
    task = running(kernel)
    for _ in range(3):
        kernel.charge_now(task, OP)
    assert (task.state, task.spent[OPS]) == (State.RUNNING, 3)
    assert kernel.bill(task, OP) is Bill.SUSPENDED


@pytest.mark.parametrize("own", [Budget(ops=0), Budget(ops=100), UNSTATED], ids=["dry", "own money", "open purse"])
def test_during_cleanup_it_too_is_limited_by_the_allowance(own):
    kernel = new_kernel(cleanup_ops=2)
    task = cleaning(kernel, own)
    kernel.charge_now(task, TWO_OPS)
    assert task.cleanup_left == 0
    with pytest.raises(BudgetExceeded, match="ops"):
        kernel.charge_now(task, OP)
    assert task.spent[OPS] == 2


# ---- metered memory


def test_memory_that_grew_is_charged_as_far_as_the_pool_goes():
    kernel = new_kernel()
    task = running(kernel, Budget(memory=100))
    assert [kernel.charge_memory_growth(task, growth) for growth in (60, 60, 60)] == [60, 40, 0]
    assert (task.pools[MEMORY].left, task.spent[MEMORY]) == (0, 100)
    check(kernel)


def test_memory_that_was_given_up_is_refunded():
    kernel = new_kernel()
    task = running(kernel, Budget(memory=100))
    kernel.charge_memory_growth(task, 80)
    assert kernel.charge_memory_growth(task, -50) == -50
    assert (task.pools[MEMORY].left, task.spent[MEMORY]) == (70, 30)
    check(kernel)


def test_metered_memory_is_no_event():
    kernel = new_kernel()
    task = running(kernel, Budget(memory=100))
    heard = []
    kernel.observe(lambda kind, task, detail: heard.append(kind))
    kernel.charge_memory_growth(task, 80)
    kernel.charge_memory_growth(task, -50)
    assert heard == []


def test_an_open_pool_counts_metered_memory():
    kernel = new_kernel()
    task = running(kernel)
    assert kernel.charge_memory_growth(task, 1_000) == 1_000
    assert kernel.charge_memory_growth(task, -400) == -400
    assert (task.spent[MEMORY], kernel.root.pools[MEMORY].spent) == (600, 600)
    check(kernel)
