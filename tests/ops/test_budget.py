"""What a task pays for its requests, the errors that it gets when it cannot pay, and how it is recharged."""

from contextlib import suppress

import pytest

import bursar
from bursar import Budget, CapBudget, OutcomeKind, nursery, sleep


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
