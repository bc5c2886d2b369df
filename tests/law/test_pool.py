"""Pools: all-or-nothing charges, and money that is neither made nor lost in any tree."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law import (
    CHANNEL,
    CHANNEL_OPS,
    COMPONENTS,
    FREE,
    MEMORY,
    OP,
    OPS,
    SPAWN,
    SPAWNS,
    SYSCALL,
    SYSCALLS,
    UNITS_MAX,
    UNSTATED,
    allocation,
)

from bursar import Budget
from bursar.law.pool import PAID, Pool, Pools, affordable, close, derive, left, pay, refund, root_pools, top_up

repeatable = settings(derandomize=True, deadline=None, max_examples=300)


def check_b1(pool: Pool) -> None:
    """BUDGET-1 and BUDGET-3 of one pool."""
    if pool.left is not None:
        assert pool.left >= 0
        assert pool.granted == pool.left + pool.spent + pool.lent


def figures(pool: Pool) -> tuple:
    return pool.left, pool.granted, pool.minted, pool.spent, pool.lent


# ---- paying


@pytest.mark.parametrize("cost", [OP, SPAWN, CHANNEL, SYSCALL, allocation(8)], ids=["op", "spawn", "ch", "sys", "mem"])
def test_a_cost_that_cannot_be_paid_is_not_paid_in_part(cost):
    """For every component of the row: with everything else in plenty and one unit too little of it, nothing moves."""
    for component, amount in cost:
        amounts = [100] * 5
        amounts[component] = amount - 1
        pools = root_pools(Budget(*amounts))
        assert pay(pools, cost) == component
        assert left(pools) == Budget(*amounts)
        assert [pool.spent for pool in pools] == [0] * 5


@pytest.mark.parametrize("cost", [OP, SPAWN, CHANNEL, SYSCALL, allocation(8)], ids=["op", "spawn", "ch", "sys", "mem"])
def test_a_cost_is_paid_to_the_last_unit(cost):
    amounts = dict.fromkeys(range(5), 0) | dict(cost)
    pools = root_pools(Budget(*amounts.values()))
    assert pay(pools, cost) == PAID
    assert left(pools) == Budget.none()


def test_nothing_granted_pays_for_nothing_but_what_is_free():
    pools = root_pools(Budget.none())
    assert pay(pools, FREE) == PAID
    for cost in (OP, SPAWN, CHANNEL, SYSCALL, allocation(1)):
        assert pay(pools, cost) == OPS


def test_the_component_that_is_named_is_the_first_that_falls_short():
    assert pay(root_pools(Budget(ops=0, spawns=0)), SPAWN) == OPS
    assert pay(root_pools(Budget(ops=1, spawns=0)), SPAWN) == SPAWNS


def test_an_open_pool_pays_for_ever_and_counts():
    pools = root_pools(UNSTATED)
    for _ in range(1000):
        assert pay(pools, ((OPS, 10**6),)) == PAID
    assert pools[OPS].spent == 10**9
    assert left(pools) == UNSTATED


def test_an_open_pool_counts_only_as_far_as_can_be_counted():
    pools = root_pools(UNSTATED)
    for _ in range(3):
        assert pay(pools, ((OPS, UNITS_MAX),)) == PAID
    assert pools[OPS].spent == UNITS_MAX


def test_n_ops_pay_for_exactly_n_operations():
    pools = root_pools(Budget(ops=7))
    assert [pay(pools, OP) for _ in range(9)] == [PAID] * 7 + [OPS] * 2


# ---- pools: lending, minting, closing


def test_lending_moves_money_down():
    parent = Pool(10)
    child = parent.lend(4)
    assert figures(parent) == (6, 10, 0, 0, 4)
    assert figures(child) == (4, 4, 0, 0, 0)
    assert child.parent is parent


def test_an_open_pool_lends_what_is_asked_and_stays_open():
    parent = Pool(None)
    child = parent.lend(4)
    assert (parent.left, parent.lent) == (None, 4)
    assert child.left == 4


def test_lending_more_than_is_there_is_a_bug():
    parent = Pool(3)
    with pytest.raises(AssertionError, match="BUDGET-3"):
        parent.lend(4)


def test_only_the_maker_fills_a_pool():
    child = Pool(5).lend(1)
    with pytest.raises(AssertionError, match="BUDGET-2"):
        Pool(5).fill(child, 1)


def test_closing_gives_back_what_was_not_spent():
    parent = Pool(10)
    child = parent.lend(4)
    child.spent, child.left = 3, 1
    child.close()
    assert figures(parent) == (7, 10, 0, 3, 0)
    assert figures(child) == (0, 0, 0, 0, 0)


def test_closing_into_an_open_pool_only_counts():
    parent = Pool(None)
    child = parent.lend(4)
    child.spent, child.left = 3, 1
    child.close()
    assert (parent.left, parent.spent, parent.lent) == (None, 3, 0)


def test_minted_money_is_counted_apart_and_the_rest_of_it_is_handed_up():
    parent = Pool(10)
    child = parent.lend(4)
    child.mint(5)
    assert figures(child) == (9, 9, 5, 0, 0)
    assert figures(parent) == (6, 10, 0, 0, 4)
    child.spent, child.left = 7, 2
    child.close()
    assert figures(parent) == (8, 15, 5, 7, 0)
    check_b1(parent)


def test_minting_into_an_open_pool_changes_nothing():
    pool = Pool(None)
    pool.mint(5)
    assert figures(pool) == (None, 0, 0, 0, 0)


def test_a_pool_with_money_out_cannot_be_closed():
    child = Pool(10).lend(4)
    child.lend(1)
    with pytest.raises(AssertionError, match="BUDGET-4"):
        child.close()


def test_a_pool_whose_books_are_wrong_cannot_be_closed():
    child = Pool(10).lend(4)
    child.left = 5
    with pytest.raises(AssertionError, match="BUDGET-1"):
        child.close()


def test_a_root_pool_cannot_be_closed():
    with pytest.raises(AssertionError):
        Pool(1).close()


# ---- five pools at once


def test_a_budget_gets_its_own_pools_where_it_states_a_number_and_shares_elsewhere():
    purse = root_pools(Budget(100, 100, 100, 100, 100))
    mine = derive(purse, Budget(ops=10, syscalls=0))
    assert [a is b for a, b in zip(mine, purse, strict=True)] == [False, True, True, True, False]
    assert left(purse) == Budget(90, 100, 100, 100, 100)
    assert left(mine) == Budget(10, 100, 100, 100, 0)


def test_a_budget_that_states_nothing_shares_everything():
    purse = root_pools(Budget.service())
    assert derive(purse, UNSTATED) is purse


@pytest.mark.parametrize(
    ("purse", "wish", "got"),
    [(10, 4, 4), (10, 10, 10), (10, 11, 10), (0, 5, 0), (None, 5, 5), (10, None, None), (None, None, None)],
)
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_wish_is_cut_to_what_the_purse_has(component, purse, wish, got):
    pools = root_pools(Budget(**{component: purse}))
    assert affordable(pools, Budget(**{component: wish})) == Budget(**{component: got})


def test_a_child_pays_from_its_own_pool_and_from_the_shared_ones():
    purse = root_pools(Budget(ops=100, channel_ops=2))
    child = derive(purse, Budget(ops=10))
    assert [pay(child, CHANNEL) for _ in range(3)] == [PAID, PAID, CHANNEL_OPS]
    assert left(child) == Budget(ops=8, channel_ops=0)
    assert left(purse) == Budget(ops=90, channel_ops=0)


def test_what_was_not_spent_comes_back_once():
    purse = root_pools(Budget(ops=100))
    child = derive(purse, Budget(ops=10))
    pay(child, ((OPS, 3),))
    close(child, purse)
    assert left(purse) == Budget(ops=97)
    assert purse[OPS].spent == 3
    check_b1(purse[OPS])


def test_closing_shared_pools_gives_nothing_back():
    purse = root_pools(Budget(ops=100))
    pay(purse, OP)
    close(derive(purse, UNSTATED), purse)
    assert left(purse) == Budget(ops=99)


def test_nesting_does_not_amplify():
    """However deep, the leaves together spend no more than the root was granted."""
    root = root_pools(Budget(ops=100))
    line = [root]
    for _ in range(50):
        line.append(derive(line[-1], affordable(line[-1], Budget(ops=10**9))))
    spent = sum(pay(pools, OP) == PAID for pools in line for _ in range(200))
    assert spent == 100


# ---- topping up


def chain_of_pools(*lefts: int | None) -> list[Pools]:
    """Pools for ops, outermost first, each with so much left; the others are shared and open."""
    line = [root_pools(Budget(ops=None if lefts[0] is None else sum(n or 0 for n in lefts)))]
    for i in range(1, len(lefts)):
        line.append(derive(line[-1], Budget(ops=sum(n or 0 for n in lefts[i:]))))
    assert [pools[OPS].left for pools in line] == list(lefts)
    return line


def lefts(line: list[Pools]) -> list[int | None]:
    return [pools[OPS].left for pools in line]


def test_a_recharge_takes_from_the_nearest_pool_first():
    line = chain_of_pools(50, 10, 0)
    assert top_up(line[-1], line[0], Budget(ops=7)) == PAID
    assert lefts(line) == [50, 3, 7]


def test_what_a_level_lacks_comes_from_the_one_above():
    line = chain_of_pools(50, 10, 4, 0)
    assert top_up(line[-1], line[0], Budget(ops=20)) == PAID
    assert lefts(line) == [44, 0, 0, 20]
    for pools in line:
        check_b1(pools[OPS])


def test_a_recharge_stops_at_its_source():
    line = chain_of_pools(50, 10, 4, 0)
    assert top_up(line[-1], line[1], Budget(ops=15)) == OPS
    assert lefts(line) == [50, 10, 4, 0]
    assert top_up(line[-1], line[1], Budget(ops=14)) == PAID
    assert lefts(line) == [50, 0, 0, 14]


def test_an_open_source_gives_anything():
    line = chain_of_pools(None, 3, 0)
    assert top_up(line[-1], line[0], Budget(ops=1000)) == PAID
    assert lefts(line) == [None, 0, 1000]


def test_an_open_pool_needs_no_recharge():
    line = chain_of_pools(None)
    assert top_up(line[0], line[0], Budget(ops=1000)) == PAID
    assert figures(line[0][OPS]) == (None, 0, 0, 0, 0)


@pytest.mark.parametrize(("has", "wish", "answer"), [(5, 5, OPS), (5, 6, OPS), (0, 1, OPS), (5, 0, PAID)])
def test_a_component_shared_all_the_way_up_has_nowhere_to_come_from(has, wish, answer):
    line = chain_of_pools(has)
    before = figures(line[0][OPS])
    assert top_up(line[0], line[0], Budget(ops=wish)) == answer
    assert figures(line[0][OPS]) == before


def test_a_recharge_of_several_components_is_whole_or_not_at_all():
    purse = root_pools(Budget(ops=10, memory=10, syscalls=1))
    child = derive(purse, Budget(ops=0, memory=0, syscalls=0))
    assert top_up(child, purse, Budget(ops=5, memory=5, syscalls=2)) == SYSCALLS
    assert (left(purse), left(child)) == (Budget(ops=10, memory=10, syscalls=1), Budget(ops=0, memory=0, syscalls=0))
    assert top_up(child, purse, Budget(ops=5, memory=5, syscalls=1)) == PAID
    assert (left(purse), left(child)) == (Budget(ops=5, memory=5, syscalls=0), Budget(ops=5, memory=5, syscalls=1))


def test_what_is_not_asked_for_is_not_moved():
    line = chain_of_pools(50, 0)
    assert top_up(line[1], line[0], Budget(ops=0, memory=0)) == PAID
    assert top_up(line[1], line[0], UNSTATED) == PAID
    assert lefts(line) == [50, 0]


@repeatable
@given(st.lists(st.integers(0, 30), min_size=2, max_size=7), st.data())
def test_a_recharge_gives_the_sum_of_what_lies_above_and_loses_nothing(amounts, data):
    line = chain_of_pools(*amounts)
    source = data.draw(st.integers(0, len(line) - 2))
    wish = data.draw(st.integers(0, 120))
    before, above = lefts(line), sum(amounts[source:-1])
    answer = top_up(line[-1], line[source], Budget(ops=wish))
    assert answer == (PAID if wish <= above else OPS)
    if answer == PAID:
        assert lefts(line)[-1] == before[-1] + wish
        assert lefts(line)[:source] == before[:source]
        assert sum(lefts(line)) == sum(before)
    else:
        assert lefts(line) == before
    for pools in line:
        check_b1(pools[OPS])


# ---- any tree of pools


def check_tree(pools: list[Pool], minted: int, granted: int, paid: int) -> None:
    """BUDGET-1, BUDGET-2, BUDGET-3 of every pool, and that all the money there is came in by a grant or a mint."""
    for pool in pools:
        check_b1(pool)
        assert pool.lent == sum(p.granted - p.minted for p in pools if p.parent is pool), "BUDGET-2"
    if pools[0].left is not None:
        assert granted + minted == sum(p.left or 0 for p in pools) + paid
        assert paid == sum(p.spent for p in pools)


STEP = st.tuples(st.sampled_from(["lend", "fill", "pay", "mint", "close"]), st.integers(0, 50), st.integers(0, 40))


@repeatable
@given(st.one_of(st.none(), st.integers(0, 200)), st.lists(STEP, max_size=60))
def test_no_tree_of_pools_makes_or_loses_money(start, steps):
    root = Pool(start)
    tree, minted, paid = [root], 0, 0
    for verb, which, amount in steps:
        pool = tree[which % len(tree)]
        if verb == "lend":
            tree.append(pool.lend(amount if pool.left is None else min(amount, pool.left)))
        elif verb == "fill" and pool.parent is not None:
            pool.parent.fill(pool, amount if pool.parent.left is None else min(amount, pool.parent.left))
        elif verb == "pay":
            could = pool.left is None or pool.left >= amount
            assert (pay((pool, root, root, root, root), ((OPS, amount),)) == PAID) is could
            paid += amount if could else 0
        elif verb == "mint":
            pool.mint(amount)
            minted += amount if pool.left is not None else 0
        elif verb == "close" and pool is not root and not any(p.parent is pool for p in tree):
            pool.close()
            tree.remove(pool)
        check_tree(tree, minted, start or 0, paid)
    while len(tree) > 1:
        leaf = next(p for p in reversed(tree) if not any(q.parent is p for q in tree))
        leaf.close()
        tree.remove(leaf)
        check_tree(tree, minted, start or 0, paid)
    assert (root.lent, root.spent) == (0, paid)
    if start is not None:
        assert root.left == start + minted - paid


@pytest.mark.parametrize(("component", "amount"), list(product(range(5), (0, 1, 10))))
def test_pay_touches_only_the_components_of_the_row(component, amount):
    pools = root_pools(Budget(10, 10, 10, 10, 10))
    assert pay(pools, ((component, amount),)) == PAID
    assert [pool.spent for pool in pools] == [amount if i == component else 0 for i in range(5)]


# ---- refunds


def test_a_refund_takes_back_what_was_spent():
    pool = Pool(100)
    pay((Pool(None), pool, Pool(None), Pool(None), Pool(None)), ((MEMORY, 70),))
    refund(pool, 50)
    assert figures(pool) == (80, 100, 0, 20, 0)


def test_a_refund_after_the_end_goes_to_whoever_lent_the_money():
    root = Pool(100)
    nursery = root.lend(60)
    task = nursery.lend(40)
    task.mint(5)
    for pool, amount in ((task, 30), (nursery, 10)):
        pool.left -= amount
        pool.spent += amount
    task.close()
    refund(task, 12)
    assert (nursery.left, nursery.spent) == (60 - 40 - 10 + 15 + 12, 28)
    check_b1(nursery)
    nursery.close()
    refund(task, 18)
    refund(nursery, 10)
    assert (root.left, root.spent, root.minted) == (105, 0, 5)
    check_b1(root)


def test_no_more_is_refunded_than_was_spent():
    pool = Pool(100)
    with pytest.raises(AssertionError, match="BUDGET-5"):
        refund(pool, 1)
    assert figures(pool) == (100, 100, 0, 0, 0)


def test_an_open_pool_that_lost_count_is_refunded_as_far_as_it_knows():
    pool = Pool(None)
    pool.spent = 5
    refund(pool, 7)
    assert (pool.left, pool.spent) == (None, 0)


@repeatable
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=40))
def test_refunds_conserve_a_chain_of_pools(moves):
    """Pools are closed from below; whatever each has spent can be refunded through it, before and after."""
    root = Pool(1_000)
    line = [root, root.lend(600)]
    line += [line[1].lend(400)]
    held, live = dict.fromkeys(range(3), 0), 2
    for move, amount in moves:
        at = min(move, 2)
        if move == 3 and live:
            line[live].close()
            live -= 1
        elif at <= live and line[at].left >= amount:
            line[at].left -= amount
            line[at].spent += amount
            held[at] += amount
        elif held[at] >= amount:
            refund(line[at], amount)
            held[at] -= amount
        for pool in line[: live + 1]:
            check_b1(pool)
    for at, amount in held.items():
        refund(line[at], amount)
    while live:
        line[live].close()
        live -= 1
    assert (root.left, root.spent, root.lent) == (1_000, 0, 0)


def test_a_pool_never_holds_more_than_can_be_counted():
    (pool, *_) = root_pools(Budget(ops=UNITS_MAX))
    child = pool.lend(0)
    child.mint(10)
    child.close()
    assert (pool.left, pool.spent, pool.minted) == (UNITS_MAX, 10, 10), "what is too much counts as spent"
    assert pool.granted == pool.left + pool.spent + pool.lent, "BUDGET-1"
