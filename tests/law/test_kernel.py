"""The kernel: spawning whole or not at all, refunds, ends that leave no orphan, joins that wake, timers that queue."""

import ast
from pathlib import Path

import pytest
from support.kernel import CancelScope, Kernel, Nursery, Task, Wait, WaitList
from support.law import (
    MEMORY,
    OP,
    OPS,
    SPAWNS,
    UNSTATED,
    Bill,
    CancelPhase,
    Lane,
    TimerKind,
    WakeState,
    cancel,
    check,
    left,
)

import bursar
from bursar import (
    Budget,
    CancelKind,
    CancelReason,
    CapabilityDenied,
    CapabilityForged,
    CapabilityRevoked,
    CapBudget,
    CapClock,
    CapSpawn,
    NurseryClosed,
    NurseryState,
    Outcome,
    OutcomeKind,
    SpawnBudgetExceeded,
    State,
)
from bursar.law.kernel import CLEANUP_NS, CLEANUP_OPS, YIELD_INTERVAL, Drain

OK = Outcome(OutcomeKind.OK, 42)
STOP = CancelReason(CancelKind.USER, "stop")
CANCELLED = Outcome(OutcomeKind.CANCELLED, reason=STOP)


def failed(error: Exception) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error=error)


class Nap(Wait):
    reason = "naps"


def new_kernel(*capabilities, **keywords) -> Kernel:
    kernel = Kernel(**keywords)
    minted = [kernel.registry.mint(c) for c in capabilities or (CapSpawn(),)]
    kernel.root.capabilities = {type(c): c for c in minted}
    return kernel


def run(kernel: Kernel, task: Task) -> Task:
    assert kernel.step() is task
    return task


def running(kernel: Kernel, **keywords) -> Task:
    return run(kernel, kernel.spawn(kernel.root, **keywords))


def nap(kernel: Kernel, task: Task) -> Nap:
    wait = Nap(task)
    kernel.blocked(task, wait)
    return wait


def family(kernel: Kernel, children: int = 2, **keywords) -> tuple[Task, Nursery, list[Task]]:
    """A running task, the nursery that it opened, and the children in it."""
    owner = running(kernel, name="owner", **keywords)
    nursery = kernel.open_nursery(owner)
    return owner, nursery, [kernel.spawn(nursery) for _ in range(children)]


# ---- a kernel of its own


def test_a_new_kernel_has_an_open_root_and_nothing_else():
    kernel = Kernel()
    assert (kernel.root.id, kernel.root.owner, kernel.root.state) == (1, None, NurseryState.OPEN)
    assert (kernel.tasks, kernel.spawned, kernel.done, kernel.runnable, kernel.now_ns) == ({}, 0, {}, 0, 0)
    assert left(kernel.root.pools) == UNSTATED
    check(kernel)


def test_the_limits_have_names():
    assert (YIELD_INTERVAL, CLEANUP_OPS, CLEANUP_NS) == (1024, 10_000, 10 * 10**9)
    kernel = Kernel()
    assert (kernel.yield_interval, kernel.cleanup_ops, kernel.cleanup_ns) == (1024, 10_000, 10 * 10**9)


def test_tasks_nurseries_and_whatever_asks_are_numbered_from_one_counter():
    kernel = new_kernel()
    owner, nursery, children = family(kernel)
    assert [kernel.root.id, owner.id, nursery.id, *(c.id for c in children), kernel.new_id()] == [1, 2, 3, 4, 5, 6]


ALLOWED_IMPORTS = {"__future__", "array", "bisect", "collections", "dataclasses", "enum", "heapq", "itertools", "json"}
ALLOWED_IMPORTS |= {"math", "re", "types", "typing"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


LAW = Path(bursar.__file__).parent / "law"


@pytest.mark.parametrize("path", sorted(LAW.rglob("*.py")), ids=lambda path: path.stem)
def test_the_law_knows_no_clock_no_thread_no_host(path):
    for module in imports_of(path):
        ours = module in ("bursar.arguments", "bursar.errors", "bursar.text") or module.startswith("bursar.law")
        assert ours or module.split(".")[0] in ALLOWED_IMPORTS, module


# ---- spawning


def test_a_spawned_task_is_ready_queued_counted_and_known_to_its_nursery():
    kernel = new_kernel()
    kernel.advance(5)
    task = kernel.spawn(kernel.root, name="first")
    assert (task.name, task.state, task.wake, task.since_ns) == ("first", State.READY, WakeState.QUEUED, 5)
    assert dict(kernel.tasks) == dict(kernel.root.children) == {task.id: task}
    assert (kernel.spawned, kernel.root.spawned, kernel.runnable) == (1, 1, 1)
    check(kernel)


def test_a_task_without_a_name_is_called_by_its_number():
    kernel = new_kernel()
    assert kernel.spawn(kernel.root).name == "task-2"


def test_a_spawn_costs_an_op_and_a_spawn_of_the_purse():
    kernel = new_kernel(budget=Budget(ops=10, spawns=5))
    kernel.spawn(kernel.root)
    assert left(kernel.root.pools) == Budget(ops=9, spawns=4)


def test_the_spawner_is_written_down_for_it_and_uses_up_its_turn():
    kernel = new_kernel(yield_interval=10)
    spawner = running(kernel)
    kernel.spawn(kernel.root)
    assert (list(spawner.spent), spawner.turn_left) == ([1, 0, 1, 0, 0], 9)


def test_what_a_budget_states_is_taken_from_the_purse_and_the_rest_is_shared():
    kernel = new_kernel(budget=Budget(ops=100, memory=100, spawns=10))
    task = kernel.spawn(kernel.root, budget=Budget(ops=30, memory=0))
    assert left(kernel.root.pools) == Budget(ops=69, memory=100, spawns=9)
    assert left(task.pools) == Budget(ops=30, memory=0, spawns=9)
    assert task.pools[SPAWNS] is kernel.root.pools[SPAWNS]
    check(kernel)


def test_a_budget_is_cut_to_what_the_purse_has_after_paying_for_the_spawn():
    kernel = new_kernel(budget=Budget(ops=100, memory=5))
    task = kernel.spawn(kernel.root, budget=Budget(ops=1000, memory=1000))
    assert left(task.pools) == Budget(ops=99, memory=5)
    assert left(kernel.root.pools) == Budget(ops=0, memory=0)


def test_a_capability_limits_the_budget_of_each_task():
    kernel = new_kernel(CapSpawn(task_budget=Budget(ops=7, memory=3)))
    running(kernel)
    assert left(kernel.spawn(kernel.root).pools) == Budget(ops=7, memory=3)
    assert left(kernel.spawn(kernel.root, budget=Budget(ops=100, memory=1)).pools) == Budget(ops=7, memory=1)


def test_the_runtime_itself_spawns_without_a_capability():
    kernel = Kernel()
    assert kernel.spawn(kernel.root).spawn_cap is None


def test_what_spawns_mean_when_they_are_not_stated_may_be_set_for_children():
    kernel = new_kernel(default_spawns=0)
    running(kernel)
    child = kernel.spawn(kernel.root)
    assert left(child.pools) == Budget(spawns=0)
    granted = kernel.spawn(kernel.root, budget=Budget(spawns=3))
    assert left(granted.pools) == Budget(spawns=3)


def test_but_the_first_task_has_what_the_run_was_given():
    """Otherwise nothing could ever be spawned under such a rule."""
    kernel = new_kernel(default_spawns=0, budget=Budget(ops=100, spawns=10))
    main = running(kernel)
    child = kernel.spawn(kernel.open_nursery(main))
    assert child.state is State.READY


def test_only_a_real_budget_is_a_budget():
    class Liar(Budget):
        def clamp(self, limit):
            return self

    kernel = new_kernel()
    task = running(kernel)
    with pytest.raises(TypeError):
        kernel.spawn(kernel.root, budget=Liar(ops=10**9))
    with pytest.raises(TypeError):
        kernel.open_nursery(task, budget=Liar(ops=10**9))


# ---- tidying up for another


def test_a_task_that_tidies_up_has_the_authority_of_another_and_lives_on_its_credit():
    kernel = new_kernel(CapSpawn(), CapClock(), cleanup_ops=5)
    owner = running(kernel, budget=Budget(ops=0))
    tidying = kernel.spawn_tidying(owner, "tidy")
    assert (tidying.nursery, tidying.capabilities) == (kernel.root, owner.capabilities)
    assert (tidying.spawn_cap, left(tidying.pools)) == (None, Budget.none())
    assert (tidying.state, tidying.lane, kernel.current) == (State.READY, Lane.CANCEL, owner)
    check(kernel)
    nap(kernel, owner)
    run(kernel, tidying)
    assert [kernel.bill(tidying, OP) for _ in range(6)] == [Bill.PAID] * 5 + [Bill.CUT]
    assert (owner.credit_used, tidying.credit_used) == (5, 0)


def test_many_who_tidy_up_for_one_share_one_credit():
    kernel = new_kernel(cleanup_ops=5)
    owner = running(kernel)
    first = kernel.spawn_tidying(owner, "first")
    nap(kernel, owner)
    run(kernel, first)
    second = kernel.spawn_tidying(first, "second")
    assert (first.credit_of, second.credit_of) == (owner, owner)
    assert kernel.bill(first, ((OPS, 4),)) is Bill.PAID
    nap(kernel, first)
    run(kernel, second)
    assert [kernel.bill(second, OP) for _ in range(2)] == [Bill.PAID, Bill.CUT]


def test_who_tidies_up_does_so_to_the_end_whatever_blocks_it_leaves():
    """A timeout that expired inside it ends with its block; the tidying goes on."""
    kernel = new_kernel(cleanup_ops=5)
    owner = running(kernel)
    tidying = kernel.spawn_tidying(owner, "tidy")
    nap(kernel, owner)
    run(kernel, tidying)
    block = CancelScope(tidying)
    cancel.request(kernel, block, STOP)
    cancel.deliver(kernel, tidying)
    cancel.leave(kernel, block)
    assert kernel.bill(tidying, OP) is Bill.PAID


# ---- capabilities of a new task


def test_children_inherit_what_their_nursery_passes_on():
    kernel = new_kernel(CapSpawn(), CapClock(), CapBudget(Budget(ops=5)))
    owner, nursery, (child, _) = family(kernel)
    assert set(owner.capabilities) == {CapSpawn, CapClock, CapBudget}
    assert set(nursery.capabilities) == set(child.capabilities) == {CapSpawn, CapClock}
    assert all(child.capabilities[kind] is owner.capabilities[kind] for kind in child.capabilities)


def test_without_inheritance_they_get_only_what_they_are_handed():
    kernel = new_kernel(CapSpawn(), CapClock(), inherit=False)
    owner, nursery, (child, _) = family(kernel)
    assert child.capabilities == {}
    clock = owner.capabilities[CapClock]
    assert kernel.spawn(nursery, capabilities=[clock]).capabilities == {CapClock: clock}


def test_what_is_handed_over_replaces_what_would_be_inherited():
    kernel = new_kernel(CapSpawn(), CapClock())
    owner, nursery, _ = family(kernel)
    narrow = owner.capabilities[CapSpawn].attenuate(max_tasks=1)
    assert kernel.spawn(nursery, capabilities=[narrow]).capabilities == {CapSpawn: narrow}
    assert kernel.spawn(nursery, capabilities=[]).capabilities == {}


def test_a_nursery_may_pass_on_less_than_its_owner_holds():
    kernel = new_kernel(CapSpawn(), CapClock())
    owner = running(kernel)
    nursery = kernel.open_nursery(owner, capabilities=[owner.capabilities[CapSpawn]])
    assert set(kernel.spawn(nursery).capabilities) == {CapSpawn}


def test_a_spawner_cannot_give_what_it_does_not_hold_by_using_a_wider_nursery():
    """A task with little authority and the handle of another's nursery: its child gets no more than it has."""
    kernel = new_kernel(CapSpawn(), CapClock())
    owner, nursery, _ = family(kernel, children=0)
    poor = kernel.spawn(nursery, capabilities=[owner.capabilities[CapSpawn]])
    nap(kernel, owner)
    run(kernel, poor)
    assert set(kernel.spawn(nursery).capabilities) == {CapSpawn}


def test_every_live_task_counts_against_the_capability_it_was_spawned_with():
    kernel = new_kernel(CapSpawn(max_tasks=2))
    owner, nursery, children = family(kernel)
    cap = owner.capabilities[CapSpawn]
    assert kernel.registry.in_use(cap) == 2
    with pytest.raises(CapabilityDenied, match="used up"):
        kernel.spawn(nursery)
    nap(kernel, owner)
    run(kernel, children[0])
    kernel.finish(children[0], OK)
    assert kernel.registry.in_use(cap) == 1
    check(kernel)


# ---- a refused spawn leaves nothing behind


def picture(kernel: Kernel, nursery: Nursery) -> dict:
    """Everything that a spawn could have changed."""
    pools = [*kernel.root.pools, *nursery.pools]
    current = kernel.current
    return {
        "tasks": dict(kernel.tasks),
        "spawned": (kernel.spawned, nursery.spawned, dict(nursery.children)),
        "id": kernel._next_id,
        "queues": (kernel.runnable, list(kernel.injector), [list(w.stealable) for w in kernel.workers]),
        "money": [(p.left, p.granted, p.spent, p.lent, p.minted) for p in pools],
        "uses": dict(kernel.registry._in_use),
        "spawner": (list(current.spent), current.turn_left),
        "chain": kernel.chain,
        "counters": dict(kernel.counters),
    }


def refusal(cause: str) -> tuple[Kernel, Nursery, dict, type[Exception]]:
    """(kernel, nursery, keywords of the spawn, error)"""
    limits = {"no more tasks": CapSpawn(max_tasks=1)}
    kernel = new_kernel(limits.get(cause, CapSpawn()), CapClock())
    spawner = running(kernel)
    purses = {
        "no spawns": Budget(spawns=0),
        "no ops": Budget(ops=0),
        "nothing left of the ops": Budget(ops=1),
    }
    nursery = kernel.open_nursery(spawner, budget=purses.get(cause, UNSTATED))
    cap = spawner.capabilities[CapSpawn]
    match cause:
        case "closing":
            kernel.close_nursery(nursery)
            return kernel, nursery, {}, NurseryClosed
        case "cancelling":
            cancel.request_nursery(kernel, nursery, STOP)
            return kernel, nursery, {}, NurseryClosed
        case "no capability":
            spawner.capabilities = {}
            return kernel, nursery, {}, CapabilityDenied
        case "revoked":
            kernel.registry.revoke(cap)
            return kernel, nursery, {}, CapabilityRevoked
        case "no more tasks":
            kernel.spawn(nursery)
            return kernel, nursery, {}, CapabilityDenied
        case "forged":
            return kernel, nursery, {"capabilities": [cap, CapClock()]}, CapabilityForged
        case "not held":
            return kernel, nursery, {"capabilities": [kernel.registry.mint(CapSpawn())]}, CapabilityDenied
        case "no spawns" | "no ops":
            return kernel, nursery, {}, SpawnBudgetExceeded
        case "nothing left of the ops":
            return kernel, nursery, {"budget": Budget(ops=10)}, SpawnBudgetExceeded
    raise AssertionError(cause)


CAUSES = [
    "closing",
    "cancelling",
    "no capability",
    "revoked",
    "no more tasks",
    "forged",
    "not held",
    "no spawns",
    "no ops",
    "nothing left of the ops",
]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_refused_spawn_leaves_nothing_behind(cause):
    kernel, nursery, keywords, error = refusal(cause)
    before = picture(kernel, nursery)
    with pytest.raises(error):
        kernel.spawn(nursery, **keywords)
    assert picture(kernel, nursery) == before
    check(kernel)


def test_a_thousand_refusals_do_not_wear_a_kernel_out():
    kernel, nursery, _, _ = refusal("no spawns")
    before = picture(kernel, nursery)
    for _ in range(1000):
        with pytest.raises(SpawnBudgetExceeded, match="no spawns left"):
            kernel.spawn(nursery)
    assert picture(kernel, nursery) == before


def test_a_task_that_asks_for_no_operations_may_be_spawned_with_the_last_one():
    kernel = new_kernel(budget=Budget(ops=1))
    task = kernel.spawn(kernel.root)
    assert (task.state, kernel.root.pools[OPS].left) == (State.READY, 0)


# ---- nurseries


def test_a_nursery_needs_the_capability_to_spawn():
    kernel = new_kernel(CapClock())
    task = running(kernel)
    with pytest.raises(CapabilityDenied, match="may not open a nursery"):
        kernel.open_nursery(task)
    assert (task.owned, task.inner) == (None, None)


def test_a_purse_is_taken_out_of_the_owners_budget_and_cannot_exceed_it():
    kernel = new_kernel()
    owner = running(kernel, budget=Budget(ops=50, spawns=2))
    nursery = kernel.open_nursery(owner, budget=Budget(ops=10**9, spawns=10**9))
    assert left(nursery.pools) == Budget(ops=50, spawns=2)
    assert left(owner.pools) == Budget(ops=0, spawns=0)
    check(kernel)


def test_opening_nurseries_one_in_the_other_makes_no_money():
    kernel = new_kernel(budget=Budget(ops=1000, spawns=3))
    task = running(kernel)
    for _ in range(2):
        nursery = kernel.open_nursery(task, budget=Budget(spawns=100))
        child = kernel.spawn(nursery)
        nap(kernel, task)
        task = run(kernel, child)
    with pytest.raises(SpawnBudgetExceeded):
        kernel.spawn(kernel.open_nursery(task, budget=Budget(spawns=100)))


# ---- the end of a task


@pytest.mark.parametrize(
    "outcome", [OK, failed(ValueError()), CANCELLED, Outcome(OutcomeKind.PANICKED, error=SystemExit())], ids=str
)
def test_an_ended_task_is_gone_from_everywhere_and_counted(outcome):
    kernel = new_kernel()
    kernel.root.cancel_on_failure = False
    task = running(kernel)
    task.work = task.context = task.unpaid_request = task.inbox = "something"
    assert kernel.finish(task, outcome) is True
    assert (task.state, task.wake, task.outcome) == (State.DONE, WakeState.DONE, outcome)
    assert (dict(kernel.tasks), dict(kernel.root.children), kernel.done) == ({}, {}, {outcome.kind: 1})
    assert (kernel.current, kernel.registry.current) == (None, None)
    assert (task.work, task.context, task.unpaid_request, task.inbox, task.error) == (None,) * 5
    check(kernel)


def test_what_a_task_did_not_spend_is_refunded():
    kernel = new_kernel(budget=Budget(ops=100, memory=50))
    task = running(kernel, budget=Budget(ops=30, memory=50))
    kernel.bill(task, ((OPS, 10), (MEMORY, 20)))
    kernel.finish(task, OK)
    root = kernel.root.pools
    assert left(root) == Budget(ops=100 - 1 - 10, memory=30)
    assert (root[OPS].spent, root[MEMORY].spent, root[OPS].lent) == (11, 20, 0)


def test_a_task_that_shares_the_purse_has_nothing_to_refund():
    kernel = new_kernel(budget=Budget(ops=100))
    task = running(kernel)
    kernel.bill(task, OP)
    kernel.finish(task, OK)
    assert left(kernel.root.pools) == Budget(ops=98)


def test_ten_children_in_a_row_live_on_a_purse_that_would_not_feed_two_at_once():
    kernel = new_kernel(budget=Budget(ops=100))
    for _ in range(10):
        task = running(kernel, budget=Budget(ops=60))
        assert kernel.bill(task, ((OPS, 5),)) is Bill.PAID
        kernel.finish(task, OK)
    assert left(kernel.root.pools) == Budget(ops=100 - 10 * 6)


def waits_for_end(kernel: Kernel, waiter: Task, target: Task) -> None:
    run(kernel, waiter)
    wait = Nap(waiter)
    if target.waiters is None:
        target.waiters = WaitList()
    target.waiters.join(wait)
    kernel.blocked(waiter, wait)


def test_whoever_waits_for_its_end_gets_the_outcome_in_the_order_of_waiting():
    kernel = new_kernel()
    first, second, target = (kernel.spawn(kernel.root) for _ in range(3))
    waits_for_end(kernel, first, target)
    waits_for_end(kernel, second, target)
    run(kernel, target)
    kernel.finish(target, OK)
    assert [(t.state, t.inbox, t.effect) for t in (first, second)] == [(State.READY, OK, True)] * 2
    assert [kernel.step()] == [first]


# ---- quiescence


def join(kernel: Kernel, owner: Task, nursery: Nursery) -> None:
    """The owner waits for its nursery."""
    kernel.close_nursery(nursery)
    wait = Nap(owner)
    nursery.joining = wait
    kernel.blocked(owner, wait)


def test_who_awaits_its_nursery_is_blocked_while_children_live_and_woken_by_the_last():
    kernel = new_kernel()
    owner, nursery, (a, b) = family(kernel)
    join(kernel, owner, nursery)
    run(kernel, a)
    kernel.finish(a, OK)
    assert owner.state is State.BLOCKED
    run(kernel, b)
    kernel.finish(b, OK)
    assert (owner.state, owner.wake, nursery.joining) == (State.READY, WakeState.QUEUED, None)
    run(kernel, owner)
    kernel.end_nursery(nursery)
    assert nursery.state is NurseryState.CLOSED
    check(kernel)


def test_while_it_waits_the_others_run():
    kernel = new_kernel()
    owner, nursery, (a, _) = family(kernel)
    other = kernel.spawn(kernel.root)
    join(kernel, owner, nursery)
    ran = []
    for _ in range(6):
        ran.append(kernel.step())
        kernel.yielded(ran[-1])
        kernel.step_over(ran[-1])
    assert owner not in ran
    assert {a, other} <= set(ran)


def test_a_failing_child_cancels_its_siblings_and_the_body_and_the_owner_still_waits_for_all():
    kernel = new_kernel()
    owner, nursery, (a, b) = family(kernel)
    join(kernel, owner, nursery)
    error = ValueError("no")
    run(kernel, a)
    kernel.finish(a, failed(error))
    assert (b.lane, b.reason.kind) == (Lane.CANCEL, CancelKind.SIBLING)
    assert b.reason.detail == f"task '{a.name}' failed: ValueError: no"
    assert owner.state is State.BLOCKED
    run(kernel, b)
    kernel.finish(b, CANCELLED)
    assert (owner.state, nursery.failures) == (State.READY, [error])
    check(kernel)


def test_whoever_supervises_hears_of_each_end():
    kernel = new_kernel()
    owner, nursery, (a, _) = family(kernel)
    wait = nap(kernel, owner)
    nursery.ends_waiter = wait
    run(kernel, a)
    kernel.finish(a, OK)
    assert (owner.state, nursery.ends_waiter) == (State.READY, None)


# ---- a task that ends before its children


def test_a_task_that_ends_with_live_children_waits_for_them_and_keeps_its_outcome():
    kernel = new_kernel()
    owner, nursery, children = family(kernel)
    assert kernel.finish(owner, OK) is False
    assert (owner.state, owner.ending, owner.outcome) == (State.BLOCKED, OK, None)
    assert isinstance(owner.wait, Drain)
    assert (nursery.state, nursery.reason.kind) == (NurseryState.CANCELLING, CancelKind.PARENT)
    assert [child.lane for child in children] == [Lane.CANCEL] * 2
    check(kernel)
    for child in children:
        run(kernel, child)
        kernel.finish(child, CANCELLED)
    run(kernel, owner)
    assert kernel.finish(owner, owner.ending) is True
    assert (owner.outcome, nursery.state, kernel.tasks) == (OK, NurseryState.CANCELLED, {})
    assert kernel.draining_nurseries == 0
    check(kernel)


def test_it_waits_for_the_children_of_all_its_nurseries():
    kernel = new_kernel()
    owner, _, outer = family(kernel, children=1)
    inner = [kernel.spawn(kernel.open_nursery(owner))]
    kernel.finish(owner, OK)
    for child in (*inner, *outer):
        assert owner.state is State.BLOCKED
        while (task := kernel.step()) is not child:
            kernel.yielded(task)
            kernel.step_over(task)
        kernel.finish(child, CANCELLED)
        kernel.step_over(child)
    run(kernel, owner)
    assert kernel.finish(owner, owner.ending) is True
    check(kernel)


def test_nothing_interrupts_that_wait():
    kernel = new_kernel()
    owner, _, _ = family(kernel)
    kernel.finish(owner, OK)
    cancel.request(kernel, owner, STOP)
    assert (owner.state, isinstance(owner.wait, Drain)) == (State.BLOCKED, True)


def test_empty_nurseries_and_blocks_that_were_not_left_end_with_the_task():
    kernel = new_kernel(budget=Budget(ops=100))
    owner = running(kernel)
    first = kernel.open_nursery(owner, budget=Budget(ops=10))
    block = CancelScope(owner)
    second = kernel.open_nursery(owner, budget=Budget(ops=10))
    assert kernel.finish(owner, OK) is True
    assert [n.state for n in (first, second)] == [NurseryState.CLOSED] * 2
    assert (block.phase, owner.inner, bool(owner.owned)) == (CancelPhase.FINALIZED, None, False)
    assert left(kernel.root.pools) == Budget(ops=99)
    check(kernel)


def test_failures_that_nobody_will_raise_are_reported():
    kernel = new_kernel()
    owner, nursery, (a, b) = family(kernel)
    nap(kernel, owner)
    run(kernel, a)
    kernel.finish(a, failed(ValueError("unseen")))
    run(kernel, owner)
    kernel.finish(owner, OK)
    run(kernel, b)
    kernel.finish(b, CANCELLED)
    run(kernel, owner)
    kernel.finish(owner, owner.ending)
    assert [(r.kind, r.task) for r in kernel.reports] == [("failure_unraised", "owner")]
    assert nursery.name in kernel.reports[0].detail
    assert "ValueError('unseen')" in kernel.reports[0].detail


def test_a_task_that_was_cancelled_in_the_queue_never_starts_and_its_nursery_is_told():
    kernel = new_kernel()
    owner, nursery, (a, b) = family(kernel)
    join(kernel, owner, nursery)
    for child in (a, b):
        cancel.request(kernel, child, STOP)
    for child in (a, b):
        run(kernel, child)
        assert (child.started, child.generation, child.phase) == (False, 1, CancelPhase.REQUESTED)
        kernel.finish(child, CANCELLED)
    assert kernel.done == {OutcomeKind.CANCELLED: 2}
    assert owner.state is State.READY


# ---- budget is the tick


def test_order_is_a_matter_of_spending_and_not_of_time():
    def order(pace_ns: int) -> list[int]:
        kernel = new_kernel(yield_interval=5)
        tasks = [kernel.spawn(kernel.root, pinned=True) for _ in range(3)]
        seen = []
        for _ in range(30):
            task = kernel.step()
            seen.append(tasks.index(task))
            while kernel.bill(task, OP) is Bill.PAID:
                kernel.advance(kernel.now_ns + pace_ns)
            kernel.step_over(task)
        return seen

    assert order(0) == order(1) == order(10**9) == [0, 1, 2] * 10


def test_a_runaway_ends_at_its_cap():
    kernel = new_kernel()
    task = running(kernel, budget=Budget(ops=100))
    paid = 0
    while task.cleanup_left < 0:
        if kernel.bill(task, OP) is Bill.PAID:
            paid += 1
    assert (paid, task.reason.kind) == (100, CancelKind.BUDGET)


# ---- time


def sleeper(kernel: Kernel, deadline_ns: int) -> Task:
    task = running(kernel)
    kernel.timers.arm(deadline_ns, TimerKind.WAKE, task)
    nap(kernel, task)
    return task


def test_time_never_goes_back():
    kernel = Kernel()
    kernel.advance(10)
    kernel.advance(5)
    assert kernel.now_ns == 10


def test_timers_fire_when_their_time_has_come_and_are_counted():
    kernel = new_kernel()
    tasks = [sleeper(kernel, deadline) for deadline in (30, 10, 20)]
    assert [kernel.advance(now) for now in (9, 10, 30)] == [0, 1, 2]
    assert [task.state for task in tasks] == [State.READY] * 3


def test_due_tasks_are_queued_in_the_timed_lane_and_run_by_deadline():
    kernel = new_kernel()
    late, early, middle = (sleeper(kernel, deadline) for deadline in (30, 10, 20))
    kernel.advance(100)
    assert kernel.current is None
    assert {task.lane for task in (late, early, middle)} == {Lane.TIMED}
    order = []
    for _ in range(3):
        order.append(kernel.step())
        kernel.finish(order[-1], OK)
        kernel.step_over(order[-1])
    assert order == [early, middle, late]


def test_a_timer_that_fires_for_a_task_that_is_queued_already_changes_nothing():
    kernel = new_kernel()
    task = sleeper(kernel, 10)
    kernel.wake(task, task.generation)
    kernel.advance(10)
    assert (task.lane, kernel.runnable) == (Lane.READY, 1)
    check(kernel)


def test_a_timer_of_an_earlier_poll_is_a_stale_timer_record():
    kernel = new_kernel()
    task = sleeper(kernel, 10)
    kernel.wake(task, task.generation)
    run(kernel, task)
    nap(kernel, task)
    seen = []
    kernel.observer = lambda kind, task, detail: seen.append(kind)
    kernel.advance(10)
    assert (task.state, kernel.counters["stale_timer"]) == (State.BLOCKED, 1)
    assert seen == ["timer_fired", "stale_timer"]


def test_a_timer_of_a_task_that_has_ended_is_a_stale_timer_record():
    kernel = new_kernel()
    task = sleeper(kernel, 10)
    kernel.wake(task, task.generation)
    run(kernel, task)
    kernel.finish(task, OK)
    kernel.advance(10)
    assert (task.state, kernel.counters["stale_timer"], kernel.runnable) == (State.DONE, 1, 0)


def test_a_host_may_report_a_timer_by_its_number():
    kernel = new_kernel()
    task = running(kernel)
    timer = kernel.timers.arm(10, TimerKind.WAKE, task)
    nap(kernel, task)
    kernel.advance(9)
    kernel.now_ns = 10
    assert kernel.timer_fired(timer.id, timer.generation) is True
    assert (task.state, len(kernel.timers)) == (State.READY, 0)
    assert kernel.timer_fired(timer.id, timer.generation) is False
    assert kernel.counters["stale_timer"] == 1
    check(kernel)


def test_a_timer_that_the_host_reports_too_early_does_not_strand_its_task():
    """Hosts round. Either the task runs now, or the timer is still armed for its deadline."""
    kernel = new_kernel()
    task = running(kernel)
    timer = kernel.timers.arm(10, TimerKind.WAKE, task)
    nap(kernel, task)
    kernel.timer_fired(timer.id, timer.generation)
    assert kernel.step() is task or kernel.timers.next_deadline_ns() == 10


def test_a_deadline_asks_the_scope_to_stop_and_polls_nobody():
    kernel = new_kernel()
    task = running(kernel)
    block = CancelScope(task)
    block.timer = kernel.timers.arm(10, TimerKind.DEADLINE, task, block)
    nap(kernel, task)
    decisions = kernel.decisions
    kernel.advance(10)
    assert (block.phase, block.reason.kind) == (CancelPhase.REQUESTED, CancelKind.TIMEOUT)
    assert (task.lane, kernel.decisions, kernel.current) == (Lane.CANCEL, decisions, None)


# ---- evidence


def test_the_observer_hears_of_the_life_of_a_task():
    kernel = new_kernel()
    seen = []
    kernel.observe(lambda kind, task, detail: seen.append((kind, task.name if task else None)))
    owner, nursery, (child,) = family(kernel, children=1)
    join(kernel, owner, nursery)
    kernel.step_over(owner)
    run(kernel, child)
    kernel.finish(child, OK)
    kernel.step_over(child)
    run(kernel, owner)
    kernel.end_nursery(nursery)
    kernel.finish(owner, OK)
    kernel.step_over(owner)
    assert seen == [
        ("task_spawned", "owner"),
        ("task_enqueued", "owner"),
        ("scheduler_step_decision", "owner"),
        ("nursery_opened", "owner"),
        ("task_spawned", child.name),
        ("task_enqueued", child.name),
        ("nursery_closing", "owner"),
        ("task_blocked", "owner"),
        ("scheduler_step_end", "owner"),
        ("scheduler_step_decision", child.name),
        ("task_done", child.name),
        ("task_woken", "owner"),
        ("task_enqueued", "owner"),
        ("scheduler_step_end", child.name),
        ("scheduler_step_decision", "owner"),
        ("nursery_closed", "owner"),
        ("task_done", "owner"),
        ("scheduler_step_end", "owner"),
    ]


def test_the_root_is_closed_like_any_nursery():
    kernel = new_kernel()
    task = running(kernel)
    kernel.finish(task, OK)
    kernel.close_nursery(kernel.root)
    kernel.end_nursery(kernel.root)
    assert kernel.root.state is NurseryState.CLOSED
    check(kernel)
