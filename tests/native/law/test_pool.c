/* Pools: money is conserved, charges are whole, and the largest numbers cause no overflow. */
#include "check.h"

#include "law/pool.h"

static const LawBudget UNSTATED = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}};

/* BUDGET-1, checked from outside. */
static void
check_conserved(const LawPool *pool)
{
    CHECK(pool->left == LAW_OPEN || pool->granted == (uint64_t)pool->left + pool->spent + pool->lent);
}

static void
test_whole_or_not_at_all(void)
{
    LawPool storage[LAW_COMPONENTS];
    LawBudget purse = {{10, 0, 0, 1, LAW_OPEN}};
    LawPools pools = law_root_pools(&purse, storage);
    CHECK_EQUAL(law_pay(&pools, &LAW_CHANNEL), LAW_PAID);
    CHECK_EQUAL(law_pay(&pools, &LAW_CHANNEL), LAW_CHANNEL_OPS);
    CHECK_EQUAL(storage[LAW_OPS].left, 9); /* the op was not taken either */
    CHECK_EQUAL(law_pay(&pools, &LAW_SPAWN), LAW_SPAWNS);
    CHECK_EQUAL(law_pay(&pools, &LAW_SYSCALL), LAW_PAID);
    CHECK_EQUAL(storage[LAW_SYSCALLS].spent, 1);
    CHECK_EQUAL(law_pay(&pools, &LAW_FREE), LAW_PAID);
    for (int i = 0; i < 8; i++) {
        CHECK_EQUAL(law_pay(&pools, &LAW_OP), LAW_PAID);
    }
    CHECK_EQUAL(law_pay(&pools, &LAW_OP), LAW_OPS);
    check_conserved(&storage[LAW_OPS]);
}

static void
test_the_order_of_a_cost_names_the_shortage(void)
{
    LawPool storage[LAW_COMPONENTS];
    LawBudget nothing = {{0}};
    LawPools pools = law_root_pools(&nothing, storage);
    LawCost cost = {0};
    CHECK(law_cost_add(&cost, LAW_SYSCALLS, 2) && law_cost_add(&cost, LAW_OPS, 1));
    CHECK_EQUAL(law_pay(&pools, &cost), LAW_SYSCALLS);
    CHECK_EQUAL(law_cost_of(&cost, LAW_SYSCALLS), 2);
    CHECK_EQUAL(law_cost_of(&cost, LAW_MEMORY), 0);
    CHECK(!law_cost_add(&cost, LAW_OPS, 1)); /* two pairs of one component could overdraw */
    CHECK(!law_cost_add(&cost, LAW_COMPONENTS, 1));
    CHECK(!law_cost_add(&cost, LAW_MEMORY, -1));
    CHECK_EQUAL(cost.n, 2);
}

static void
test_lent_and_refunded(void)
{
    LawPool storage[LAW_COMPONENTS], own[2];
    LawBudget purse = {{100, 50, 5, 5, 5}}, wish = {{200, LAW_OPEN, LAW_OPEN, 2, LAW_OPEN}};
    LawPools root = law_root_pools(&purse, storage);
    LawBudget can = law_affordable(&root, &wish);
    CHECK(can.limit[LAW_OPS] == 100 && can.limit[LAW_MEMORY] == LAW_OPEN && can.limit[LAW_CHANNEL_OPS] == 2);
    can.limit[LAW_OPS] = 60;
    CHECK_EQUAL(law_budget_stated(&can), 2);
    LawPools child = law_derive(&root, &can, own);
    CHECK(child.of[LAW_OPS] == &own[0] && child.of[LAW_CHANNEL_OPS] == &own[1]);
    CHECK(child.of[LAW_MEMORY] == root.of[LAW_MEMORY]);
    CHECK(storage[LAW_OPS].left == 40 && storage[LAW_OPS].lent == 60);
    CHECK_EQUAL(law_pay(&child, &LAW_CHANNEL), LAW_PAID);
    check_conserved(&own[0]);
    law_close_pools(&child, &root);
    CHECK(storage[LAW_OPS].left == 99 && storage[LAW_OPS].spent == 1 && storage[LAW_OPS].lent == 0);
    CHECK(storage[LAW_CHANNEL_OPS].left == 4 && storage[LAW_CHANNEL_OPS].spent == 1);
    check_conserved(&storage[LAW_OPS]);
    LawPools sharer = law_derive(&root, &UNSTATED, NULL);
    law_close_pools(&sharer, &root); /* it has no pools of its own: nothing happens */
    CHECK_EQUAL(storage[LAW_OPS].left, 99);
}

static void
test_a_top_up_takes_from_the_nearest(void)
{
    LawPool root, middle, lower;
    law_pool_init(&root, 100);
    law_pool_lend(&root, &middle, 10);
    law_pool_lend(&middle, &lower, 4);
    CHECK(law_reaches(&lower, &root, 96) && !law_reaches(&lower, &root, 97));
    CHECK(law_reaches(&lower, &middle, 6) && !law_reaches(&lower, &middle, 7));
    CHECK(!law_reaches(&lower, &lower, 1));
    law_pull(&lower, &root, 16);
    CHECK(lower.left == 20 && middle.left == 0 && root.left == 80);
    CHECK(middle.granted == 20 && middle.lent == 20 && root.lent == 20);
    check_conserved(&root);
    check_conserved(&middle);
    check_conserved(&lower);
}

static void
test_minted_money_stays_in(void)
{
    LawPool root, child;
    law_pool_init(&root, 10);
    law_pool_lend(&root, &child, 5);
    law_pool_mint(&child, 7);
    CHECK(child.left == 12 && child.granted == 12 && child.minted == 7);
    law_pool_close(&child);
    CHECK(root.left == 17 && root.granted == 17 && root.minted == 7 && root.lent == 0);
    law_pool_init(&root, LAW_OPEN);
    law_pool_mint(&root, 7);
    CHECK(root.left == LAW_OPEN && root.granted == 0);
}

static void
test_the_largest_numbers(void)
{
    LawPool storage[LAW_COMPONENTS], middle, children[4];
    LawPools pools = law_root_pools(&UNSTATED, storage);
    LawCost all = {{LAW_UNITS_MAX}, {LAW_OPS}, 1};
    LawPool *root = &storage[LAW_OPS];
    for (int i = 0; i < 5; i++) {
        CHECK_EQUAL(law_pay(&pools, &all), LAW_PAID);
        CHECK_EQUAL(root->spent, LAW_UNITS_MAX); /* the count stops there */
    }
    law_pool_lend(root, &middle, 0);
    for (int i = 0; i < 4; i++) { /* each is filled through the pool in the middle, which ends up with all of it */
        law_pool_lend(&middle, &children[i], 0);
        law_pull(&children[i], root, LAW_UNITS_MAX);
        CHECK_EQUAL(middle.left, 0);
    }
    for (int i = 0; i < 4; i++) {
        law_pool_close(&children[i]);
        CHECK(middle.left >= 0);
        check_conserved(&middle);
    }
    CHECK_EQUAL(middle.left, LAW_UNITS_MAX);
    CHECK_EQUAL(middle.spent, 3 * (uint64_t)LAW_UNITS_MAX);
    law_pool_close(&middle);
    CHECK_EQUAL(root->lent, 0);
}

static void
test_rules(void)
{
    LawPool root, child, grandchild;
    law_pool_init(&root, 10);
    CHECK_BREAKS("BUDGET-3", law_pool_lend(&root, &child, 11));
    law_pool_lend(&root, &child, 5);
    CHECK_BREAKS("BUDGET-2", law_pool_fill(&child, &root, 1));
    law_pool_lend(&child, &grandchild, 5);
    CHECK_BREAKS("BUDGET-4", law_pool_close(&child));
    CHECK_BREAKS("BUDGET-4", law_pool_close(&root));
    CHECK_BREAKS("BUDGET-2", law_pull(&grandchild, &root, 6));
    grandchild.left -= 1;
    CHECK_BREAKS("BUDGET-1", law_pool_close(&grandchild));
}

int
main(void)
{
    test_whole_or_not_at_all();
    test_the_order_of_a_cost_names_the_shortage();
    test_lent_and_refunded();
    test_a_top_up_takes_from_the_nearest();
    test_minted_money_stays_in();
    test_the_largest_numbers();
    test_rules();
    return finish();
}
