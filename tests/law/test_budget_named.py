"""Named counters: the program's own units, in budgets, pools, charges, recharges, capabilities and traces."""

from __future__ import annotations

import contextlib
import copy
import pickle
import random

import pytest
from tests.support.evidence import Trace, verify
from tests.support.law import check
from tests.support.trace_forgery import Forgery

import bursar
from bursar import Budget, BudgetExceeded, CapabilityDenied, CapBudget
from bursar.law.budget import NAMED_MAX, similar_name


async def spend(*amounts: int) -> None:
    for amount in amounts:
        await bursar.charge(tokens=amount)


def test_a_budget_with_names_is_a_value():
    budget = Budget(ops=5, tokens=10, calls=2)
    assert budget.tokens == 10
    assert budget.named == (("calls", 2), ("tokens", 10))
    assert budget.as_tuple() == (5, None, None, None, None)
    assert str(budget) == "ops=5, calls=2, tokens=10"
    assert budget == Budget(5, calls=2, tokens=10)
    assert hash(budget) == hash(Budget(5, calls=2, tokens=10))
    assert budget != Budget(ops=5)
    assert eval(repr(budget)) == pickle.loads(pickle.dumps(budget)) == copy.deepcopy(budget) == budget
    assert Budget(tokens=None) == Budget()
    with pytest.raises(AttributeError, match="pages"):
        _ = budget.pages


def test_clamp_and_within_look_at_every_name():
    assert Budget(tokens=9, a=1).clamp(Budget(tokens=5, b=2)) == Budget(tokens=5, a=1, b=2)
    assert Budget(tokens=5, a=1).within(Budget(tokens=5))
    assert not Budget(a=1).within(Budget(tokens=5))


@pytest.mark.parametrize("name", ["a b", "", "_x", "named", "clamp", "as_tuple", "limits"])
def test_a_name_that_cannot_be_a_counter_is_refused(name):
    with pytest.raises(ValueError, match="cannot name a counter"):
        Budget(**{name: 1})
    with pytest.raises(ValueError, match="cannot name a counter"):
        bursar.charge(**{name: 1})


def test_limits_of_names_are_checked_as_the_five_are():
    with pytest.raises(TypeError, match=r"tokens=1\.5"):
        Budget(tokens=1.5)
    with pytest.raises(ValueError, match="tokens=-1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="at most"):
        Budget(**{f"counter{i}": 1 for i in range(NAMED_MAX + 1)})
    with pytest.raises(ValueError, match="charge"):
        bursar.charge(tokens=-1)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("token", "tokens"), ("tokns", "tokens"), ("Tokens", "tokens"), ("tokens_a", ""), ("pages", ""), ("to", "")],
)
def test_similar_names(name, meant):
    assert similar_name(name, ["tokens", "tokens_b"]) == meant


def test_what_a_task_does_not_spend_returns_to_the_purse():
    async def main():
        async with bursar.nursery(budget=Budget(tokens=10)) as n:
            task = n.spawn(spend, 4, 4, budget=Budget(tokens=9))
            assert n.budget.tokens == 1
            await task
            assert n.budget.tokens == 2
        assert task.spent.tokens == 8
        assert task.spent.ops == 2

    bursar.run(main)


def test_a_task_that_cannot_pay_ends_and_nothing_is_paid():
    async def main():
        with pytest.raises(BaseExceptionGroup) as caught:
            async with bursar.nursery(budget=Budget(tokens=5)) as n:
                task = n.spawn(spend, 3, 3, name="agent")
        (error,) = caught.value.exceptions
        assert isinstance(error, BudgetExceeded)
        assert error.component == "tokens"
        assert "'agent'" in str(error)
        assert "needs 3, has 2 left and has spent 3" in str(error)
        assert (task.spent.tokens, task.spent.ops) == (3, 1)

    bursar.run(main)


def test_a_task_on_hold_says_what_it_lacks_and_is_recharged():
    async def main():
        async with bursar.nursery(budget=Budget(tokens=10), on_exhausted="hold") as n:
            task = n.spawn(spend, 4, 4, budget=Budget(tokens=5))
            await bursar.sleep(1)
            assert "ran out of tokens" in task.explain().reason
            with pytest.raises(BudgetExceeded, match="short of tokens"):
                n.recharge(task, Budget(tokens=6))
            n.recharge(task, Budget(tokens=3))
        assert task.spent.tokens == 8

    bursar.run(main, clock="virtual", budget=Budget(tokens=10))


def test_a_capability_bounds_what_is_minted():
    async def main():
        await bursar.charge(tokens=1)
        await bursar.recharge(Budget(tokens=4))
        await bursar.charge(tokens=5)
        with pytest.raises(CapabilityDenied, match="recharge tokens by 2"):
            await bursar.recharge(Budget(tokens=2))

    caps = [CapBudget(limits=Budget(tokens=5))]
    bursar.run(main, budget=Budget(tokens=2), capabilities=caps)


def test_a_counter_without_a_limit_is_counted():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(spend, 7)
        return task.spent.tokens

    assert bursar.run(main) == 7


def test_a_misspelt_counter_is_refused():
    async def main():
        with pytest.raises(ValueError, match="did you mean 'tokens'"):
            await bursar.charge(token=1)
        await bursar.charge(pages=1)

    bursar.run(main, budget=Budget(tokens=5))


def test_sovereign_grants_no_counter_by_itself():
    async def main():
        await bursar.charge(tokens=1)
        with pytest.raises(BudgetExceeded, match="was not granted 'pages'"):
            await bursar.charge(pages=1)

    bursar.run(main, profile="sovereign", budget=Budget(1000, 10**9, 10, 10, 10, tokens=5))


@pytest.mark.parametrize("seed", range(30))
def test_conservation_in_random_trees(seed, tmp_path):
    random_numbers = random.Random(seed)

    async def node(depth: int) -> None:
        check(runtime.kernel)
        await bursar.charge(tokens=random_numbers.randrange(4), calls=random_numbers.randrange(2))
        if depth == 0:
            return
        budget = random_numbers.choice([Budget(), Budget(tokens=9), Budget(tokens=30, calls=2), Budget(ops=40)])
        try:
            async with bursar.nursery(budget=budget, cancel_on_failure=False) as n:
                for _ in range(2):
                    n.spawn(
                        node, depth - 1, budget=random_numbers.choice([Budget(), Budget(tokens=5), Budget(calls=1)])
                    )
        except* BudgetExceeded:
            pass
        check(runtime.kernel)

    path = tmp_path / "run.trace"
    runtime = bursar.Runtime(seed=seed, clock="virtual", record=path, budget=Budget(tokens=60))
    with contextlib.suppress(BudgetExceeded):
        runtime.run(node, 4)
    check(runtime.kernel)
    root = runtime.kernel.root.pools.named["tokens"]
    assert root.lent == 0
    assert root.left + root.spent == 60
    verify(Trace(path))


def record_named(path) -> None:
    async def main():
        with contextlib.suppress(BaseExceptionGroup):
            async with bursar.nursery(budget=Budget(tokens=5)) as n:
                n.spawn(spend, 3, 3, budget=Budget(tokens=4, calls=1))

    bursar.run(main, clock="virtual", record=path, budget=Budget(tokens=10))


@pytest.mark.parametrize("old", [b"tokens=5", b"tokens=3", b"calls=1 tokens=4"])
@pytest.mark.parametrize("new", [b"", b"tokens=1", b"tokens=x", b"tokens=3 tokens=3", b"tokens=-1"])
def test_a_forged_amount_is_found(old, new, tmp_path):
    path = tmp_path / "run.trace"
    record_named(path)
    forger = Forgery(path)
    at = next(i for i, record in enumerate(forger.records) if record.name == "named_amounts" and record.text == old)
    forged = [*forger.records]
    forged[at] = forged[at]._replace(text=new)
    with pytest.raises(bursar.TraceError):
        forger.verify(forged)
    if old == b"tokens=3":  # without a stated counter, a budget is that of another lawful run
        with pytest.raises(bursar.TraceError):
            forger.verify([*forger.records[:at], *forger.records[at + 1 :]])
    with pytest.raises(bursar.TraceError):
        forger.verify([*forger.records[: at + 1], *forger.records[at:]])


def test_the_trace_says_what_was_charged(tmp_path):
    path = tmp_path / "run.trace"
    record_named(path)
    events = [event for event in Trace(path).events() if event.name == "named_amounts"]
    assert [event.text for event in events] == ["tokens=5", "calls=1 tokens=4", "tokens=3", "tokens=3"]
