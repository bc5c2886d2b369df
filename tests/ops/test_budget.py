"""What a task pays, how it is told that it cannot, how it gets more, and what it holds in its own right."""

from contextlib import suppress

import pytest
from support.evidence import Memory, unpack_answer

import bursar
from bursar import Budget, CapBudget, OutcomeKind, nursery, sleep
from bursar.law.budget import UNITS_MAX


async def spend(**amounts):
    await bursar.charge(**amounts)
    return (await bursar.current_task()).spent


async def give_nothing():
    pass


# ---- charging


def test_a_charge_costs_what_it_says_and_other_requests_cost_one(run):
    async def main():
        me = await bursar.current_task()
        start = me.spent.ops
        await bursar.charge(ops=10)
        charged = me.spent.ops
        await bursar.checkpoint()
        await sleep(0)
        await bursar.now()
        return charged - start, me.spent.ops - charged

    assert run(main) == (10, 3)


def test_every_component_can_be_charged(run):
    async def main():
        await bursar.charge(ops=1, memory=2, spawns=3, channel_ops=4, syscalls=5)
        return (await bursar.current_task()).spent

    assert run(main) == Budget(2, 2, 3, 4, 5)


def test_the_cost_table(run):
    async def main():
        send, receive = bursar.channel(5)
        me = await bursar.current_task()

        async def cost(request):
            before = me.spent.as_tuple()
            await request
            return tuple(b - a for a, b in zip(before, me.spent.as_tuple(), strict=True))

        sent = await cost(send.send(1))
        received = await cost(receive.receive())
        before = me.spent
        async with nursery() as n:
            n.spawn(spend)
        after = me.spent
        return sent, received, (after.ops - before.ops, after.spawns - before.spawns)

    assert run(main) == ((1, 0, 0, 1, 0), (1, 0, 0, 1, 0), (2, 1))


@pytest.mark.parametrize("amount", [-1, 1.5, "1", True, None, 2**62])
def test_a_charge_is_a_whole_number(amount):
    with pytest.raises(ValueError, match=r"charge\(ops="):
        bursar.charge(ops=amount)


def test_a_charge_is_paid_whole_or_not_at_all(run):
    async def child():
        try:
            await bursar.charge(ops=50, syscalls=10)
        except bursar.BudgetExceeded as short:
            return short.component, (await bursar.current_task()).spent.syscalls

    async def main():
        async with nursery() as n:
            task = n.spawn(child, budget=Budget(ops=100, syscalls=9))
        return task.result

    assert run(main) == ("syscalls", 0)


# ---- running dry


def test_a_dry_purse_ends_the_task_with_budget_exceeded(run):
    async def child():
        while True:
            await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            main.task = n.spawn(child, budget=Budget(ops=7), name="poor")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, bursar.BudgetExceeded)
    assert error.code == -3
    assert (error.task, error.component) == ("poor", "ops")
    assert "task 'poor'" in str(error)
    assert "is out of ops: it needs 1, has 0 left and has spent 7; give it a larger budget or recharge it" in str(error)
    assert main.task.spent.ops == 7
    assert main.task.outcome.kind is OutcomeKind.FAILED


def test_a_task_may_catch_it_tidy_up_on_the_allowance_and_return_what_it_has(run):
    async def child():
        done = 0
        try:
            while True:
                await bursar.checkpoint()
                done += 1
        except bursar.BudgetExceeded:
            await sleep(1)
            return done

    async def main():
        async with nursery() as n:
            task = n.spawn(child, budget=Budget(ops=7))
        return task.result

    assert run(main) == 7
    assert run.reports == []


def test_budget_exceeded_is_thrown_once(run):
    async def child():
        thrown = 0
        for _ in range(50):
            try:
                await bursar.checkpoint()
            except bursar.BudgetExceeded:
                thrown += 1
        return thrown

    async def main():
        async with nursery() as n:
            task = n.spawn(child, budget=Budget(ops=7))
        return task.result

    assert run(main) == 1


def test_a_task_that_goes_on_for_ever_after_it_is_cut_off_and_stays_failed(run):
    async def child():
        while True:
            with suppress(bursar.BudgetExceeded):
                await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            main.task = n.spawn(child, budget=Budget(ops=7))

    with pytest.raises(ExceptionGroup):
        run(main, cleanup=bursar.Cleanup(ops=100))
    assert main.task.outcome.kind is OutcomeKind.FAILED
    assert "overran its cleanup" in str(main.task.outcome.error)
    assert run.reports == ["cleanup_cut"]


@pytest.mark.parametrize(
    ("component", "error"), [("memory", bursar.MemoryBudgetExceeded), ("spawns", bursar.SpawnBudgetExceeded)]
)
def test_memory_and_spawns_are_refused_at_once_and_the_task_goes_on(run, component, error):
    async def child():
        with pytest.raises(error, match=f"is out of {component}"):
            await bursar.charge(**{component: 101})
        await bursar.charge(**{component: 100})
        return "went on"

    async def main():
        async with nursery() as n:
            task = n.spawn(child, budget=Budget(**{component: 100}))
        return task.result

    assert run(main) == "went on"


def test_a_memory_shortage_is_a_memory_error():
    assert issubclass(bursar.MemoryBudgetExceeded, MemoryError)
    assert issubclass(bursar.MemoryBudgetExceeded, bursar.BudgetExceeded)


def test_the_whole_program_runs_on_the_budget_of_the_run(run):
    async def child():
        while True:
            await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            n.spawn(child)
            n.spawn(child)

    with pytest.raises(ExceptionGroup):
        run(main, budget=Budget(ops=500))
    ops = run.runtime.kernel.root.pools[0]
    assert ops.spent <= 500
    assert ops.left == 500 - ops.spent


# ---- recharging


def test_a_task_recharges_itself_within_its_capability(run):
    async def main():
        await bursar.recharge(Budget(ops=500))
        with pytest.raises(bursar.CapabilityDenied, match=r"may not recharge ops by 600.*allows 1,000.*500 are used"):
            await bursar.recharge(Budget(ops=600))
        await bursar.recharge(Budget(ops=500))
        await bursar.charge(ops=1050)
        return "paid"

    assert run(main, profile="cluster", budget=Budget(ops=100), capabilities=[CapBudget(Budget(ops=1000))]) == "paid"


def test_recharging_needs_the_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not recharge task .*CapBudget"):
            await bursar.recharge(Budget(ops=1))

    run(main)


def test_children_do_not_inherit_the_right_to_recharge(run):
    async def child():
        with pytest.raises(bursar.CapabilityDenied):
            await bursar.recharge(Budget(ops=1))
        return CapBudget in await bursar.capabilities()

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
        return CapBudget in await bursar.capabilities(), task.result

    assert run(main, profile="cluster") == (True, False)


def test_a_task_that_is_over_has_nothing_to_be_recharged(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(spend)
        with pytest.raises(ValueError, match="has ended"):
            await bursar.recharge(Budget(ops=1), task)

    run(main, profile="cluster")


# ---- capabilities


def test_a_task_sees_what_it_holds_as_a_copy(run):
    async def main():
        held = await bursar.capabilities()
        held.clear()
        return sorted(kind.__name__ for kind in await bursar.capabilities())

    assert run(main) == ["CapChannel", "CapClock", "CapEntropy", "CapExecutor", "CapIO", "CapSpawn", "CapTimer"]


def test_a_narrower_capability_can_be_passed_on_and_taken_back(run):
    async def child():
        await sleep(1)
        async with nursery() as n:
            n.spawn(spend)
            with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=1\) is used up"):
                n.spawn(spend)
        await sleep(5)
        with pytest.raises(bursar.CapabilityRevoked, match="CapSpawn has been revoked"):
            async with nursery():
                pass

    async def main():
        held = await bursar.capabilities()
        narrow = held[bursar.CapSpawn].attenuate(max_tasks=1)
        async with nursery() as n:
            n.spawn(child, capabilities=[narrow, held[bursar.CapTimer]])
            await sleep(3)
            await bursar.revoke(narrow)

    run(main)


def test_only_who_derived_a_capability_may_revoke_it(run):
    async def child(cap):
        with pytest.raises(bursar.CapabilityDenied, match="did not derive"):
            await bursar.revoke(cap)

    async def main():
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=5)
        async with nursery() as n:
            await n.spawn(child, narrow)
        with pytest.raises(bursar.CapabilityDenied, match="did not derive"):
            await bursar.revoke((await bursar.capabilities())[bursar.CapSpawn])

    run(main)


def test_a_capability_is_never_widened(run):
    async def main():
        held = (await bursar.capabilities())[bursar.CapSpawn]
        narrow = held.attenuate(max_tasks=5)
        with pytest.raises(bursar.CapabilityDenied, match="wider"):
            narrow.attenuate(max_tasks=6)
        with pytest.raises(bursar.CapabilityDenied, match="wider"):
            narrow.attenuate(max_tasks=None)
        with pytest.raises(TypeError, match="has no colour"):
            narrow.attenuate(colour="red")

    run(main)


def test_what_was_given_without_the_right_to_pass_it_on_stays(run):
    async def child():
        async with nursery() as n:
            with pytest.raises(bursar.CapabilityDenied, match="without delegable=True"):
                n.spawn(spend, capabilities=[(await bursar.capabilities())[bursar.CapSpawn]])

    async def main():
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate(max_tasks=5)
        async with nursery() as n:
            n.spawn(child, capabilities=[narrow])

    run(main)


def test_the_limit_on_a_tasks_budget_is_the_capabilitys(run):
    async def main():
        async with nursery() as n:
            return n.spawn(spend).budget.ops, n.spawn(spend, budget=Budget(ops=5)).budget.ops

    caps = [bursar.CapSpawn(task_budget=Budget(ops=10))]
    assert run(main, capabilities=caps) == (10, 5)


# ---- one spawn after the other: what held for the last one need not hold for the next


def test_a_spawn_is_refused_as_soon_as_the_capability_is_revoked(run):
    async def child(told):
        async with nursery() as n:
            for _ in range(3):
                n.spawn(spend)
            await told.wait()
            with pytest.raises(bursar.CapabilityRevoked, match="CapSpawn has been revoked"):
                n.spawn(spend)
            assert len(n.tasks) == 0

    async def main():
        mine = (await bursar.capabilities())[bursar.CapSpawn].attenuate(delegable=True)
        told = bursar.Event()
        async with nursery() as n:
            n.spawn(child, told, capabilities=[mine])
            await sleep(1)
            await bursar.revoke(mine)
            told.set()

    run(main)
    assert run.runtime.statistics().spawned == 5


def test_who_spawns_under_a_limit_is_counted_exactly_whoever_else_spawns_there(run):
    async def limited(n):
        n.spawn(spend)
        n.spawn(spend)
        with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=2\) is used up"):
            n.spawn(spend)
        await sleep(1)  # they end, and others take their place
        n.spawn(spend)
        n.spawn(spend)
        with pytest.raises(bursar.CapabilityDenied, match=r"CapSpawn\(max_tasks=2\) is used up"):
            n.spawn(spend)

    async def main():
        held = await bursar.capabilities()
        cap = held[bursar.CapSpawn]
        narrow = cap.attenuate(max_tasks=2)
        async with nursery() as n:
            n.spawn(spend)
            n.spawn(limited, n, capabilities=[narrow, held[bursar.CapTimer]])
            n.spawn(spend)
            await bursar.checkpoint()
            n.spawn(spend)
            assert run.runtime.kernel.registry.in_use(cap) == len(n.tasks) == 4
            assert run.runtime.kernel.registry.in_use(narrow) == 2
            await sleep(5)
            assert run.runtime.kernel.registry.in_use(cap) == 0

    run(main)
    assert run.runtime.statistics().spawned == 9


def test_a_child_holds_what_its_own_nursery_and_its_own_spawner_hand_on(run):
    async def holds():
        return len(await bursar.capabilities())

    async def passes_on(n):
        return [n.spawn(holds) for _ in range(2)]

    async def main():
        held = await bursar.capabilities()
        cap = held[bursar.CapSpawn].attenuate(delegable=True)
        tasks = []
        async with nursery() as wide, nursery(capabilities=[cap, held[bursar.CapTimer]]) as narrow:
            for _ in range(2):
                tasks += [wide.spawn(holds), narrow.spawn(holds), wide.spawn(holds)]
            tasks += await wide.spawn(passes_on, wide, capabilities=[cap])
            tasks += await wide.spawn(passes_on, wide)
        return [task.result for task in tasks]

    assert run(main) == [7, 2, 7, 7, 2, 7, 1, 1, 7, 7]


def test_every_spawn_is_paid_by_the_purse_and_booked_on_the_spawner(run):
    async def main():
        me = await bursar.current_task()
        async with nursery(budget=Budget(ops=10, spawns=3)) as n:
            left = []
            before = me.spent
            for _ in range(3):
                n.spawn(spend)
                left.append((n.budget.ops, n.budget.spawns))
            with pytest.raises(bursar.SpawnBudgetExceeded, match="has no spawns left"):
                n.spawn(spend)
            assert (n.budget.ops, n.budget.spawns, len(n.tasks)) == (7, 0, 3)
            assert (me.spent.ops - before.ops, me.spent.spawns - before.spawns) == (3, 3)
        async with nursery(budget=Budget(ops=3)) as n:
            for _ in range(3):
                n.spawn(give_nothing)
            with pytest.raises(bursar.SpawnBudgetExceeded, match="has 0 ops left"):
                n.spawn(give_nothing)
            assert (n.budget.ops, len(n.tasks)) == (0, 3)
        return left

    assert run(main) == [(9, 2), (8, 1), (7, 0)]


def test_an_open_purse_counts_spawns_as_far_as_can_be_counted():
    async def main():
        async with nursery() as n:
            for _ in range(5):
                n.spawn(give_nothing)

    runtime = bursar.Runtime(clock="virtual")
    pools = runtime.kernel.root.pools
    pools[2].spent = UNITS_MAX - 3
    runtime.run(main)
    assert pools[2].spent == UNITS_MAX


def test_a_capability_that_was_taken_back_opens_no_nursery(run):
    async def child(event):
        for _ in range(2):
            async with nursery() as n:
                n.spawn(give_nothing)
        await event.wait()
        with pytest.raises(bursar.CapabilityRevoked):
            async with nursery():
                pass

    async def main():
        event = bursar.Event()
        narrow = (await bursar.capabilities())[bursar.CapSpawn].attenuate()
        async with nursery() as n:
            n.spawn(child, event, capabilities=[narrow])
            await sleep(1)
            await bursar.revoke(narrow)
            event.set()
        return "goes on"

    assert run(main) == "goes on"


def test_what_is_not_handed_on_is_kept_from_every_nursery(run):
    async def held():
        return CapBudget in await bursar.capabilities()

    async def main():
        kinds = []
        for _ in range(3):
            async with nursery() as n:
                kinds.append(await n.spawn(held))
        return kinds

    assert run(main, capabilities=[bursar.CapSpawn(), CapBudget()]) == [False] * 3


# ---- entropy


def test_random_numbers_come_from_the_seed(run):
    async def main():
        return [await bursar.entropy() for _ in range(5)]

    assert run(main, seed=1) == run(main, seed=1)
    assert run(main, seed=1) != run(main, seed=2)
    assert all(0 <= n < 2**64 for n in run(main))


def test_random_numbers_need_their_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not draw random numbers.*CapEntropy"):
            await bursar.entropy()

    run(main, capabilities=[])


def test_the_hosts_entropy_is_not_that_of_the_seed(run):
    async def main():
        return await bursar.host_entropy(16), await bursar.host_entropy(16), await bursar.host_entropy(0)

    first, second, nothing = run(main, seed=1)
    assert len(first) == len(second) == 16
    assert nothing == b""
    assert first != second
    assert first != run(main, seed=1)[0]


def test_the_hosts_entropy_leaves_the_stream_of_the_seed_alone(run):
    async def main(draws):
        for _ in range(draws):
            await bursar.host_entropy(8)
        return await bursar.entropy()

    assert run(main, 0) == run(main, 5)


def test_the_hosts_entropy_needs_its_capability(run):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not draw entropy of the host.*CapEntropy"):
            await bursar.host_entropy(8)

    run(main, capabilities=[])


def test_the_hosts_entropy_costs_a_system_call(run):
    async def main():
        for _ in range(3):
            await bursar.host_entropy(8)

    run(main, budget=Budget(syscalls=3))
    with pytest.raises(bursar.BudgetExceeded, match="syscalls"):
        run(main, budget=Budget(syscalls=2))


@pytest.mark.parametrize("size", [-1, 2**16 + 1, 1.0, True, "8"])
def test_a_size_of_entropy_that_makes_no_sense_is_refused(size):
    with pytest.raises(ValueError, match="whole number of bytes"):
        bursar.host_entropy(size)


def test_the_hosts_entropy_is_on_record(run):
    async def main():
        return await bursar.host_entropy(8)

    memory = Memory()
    drawn = run(main, record=memory)
    (answer,) = [event for event in memory.events() if event.name == "host_answer"]
    assert unpack_answer(answer.blob) == ("entropy", drawn)


@pytest.mark.parametrize("component", ["memory", "spawns", "channel_ops", "syscalls"])
def test_a_charge_of_anything_costs_an_op_too(run, component):
    """Asking is never free: a loop that only charges memory must not run for ever on its ops."""

    async def greedy():
        for _ in range(100):
            await bursar.charge(**{component: 1})

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            n.spawn(greedy, budget=Budget(ops=50))

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert caught.value.subgroup(bursar.BudgetExceeded)
