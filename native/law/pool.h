/* Pools: the accounts that hold what is left of a budget. Mirrors src/bursar/law/pool.py.
 *
 * A LawPool is an account for one component. Every task and every nursery refers to five pools. For each component that
 * its budget states, it has its own pool, filled from the pool of the task or nursery that made it. For the other
 * components it shares that pool.
 *
 * BUDGET-1  granted = left + spent + lent                       (for every pool that is not open)
 * BUDGET-2  lent = Σ (granted − minted) over its open sub-pools
 * BUDGET-3  left ≥ 0, and a charge is paid whole or not at all
 * BUDGET-4  a closed pool has given everything back
 *
 * `left` is exact, and every decision depends on it alone. The other four numbers are only added, subtracted and
 * compared. So they count modulo 2**64, and BUDGET-1 and BUDGET-2 hold in that arithmetic, whatever passes through a
 * pool. Python has no such limit; every count that fits a word is the same in both.
 *
 * For one thread at a time. The engine's pools are atomic and share only `law_can_pay`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/budget.h"
#include "law/costs.h"
#include "law/generated/limits.h"
#include "law/rule.h"

/* One account for one component. */
typedef struct LawPool {
    int64_t left; /* LAW_OPEN in an open pool */
    uint64_t granted;
    uint64_t minted; /* the part of `granted` that came from a CapBudget, not from the parent */
    uint64_t spent;
    uint64_t lent;
    struct LawPool *parent;
} LawPool;

/* The five accounts that a task or a nursery pays from; each of them may be shared. */
typedef struct {
    LawPool *of[LAW_COMPONENTS];
} LawPools;

/* The rule of paying, for one component: there is enough left, or no limit. */
static inline bool
law_can_pay(int64_t left, int64_t amount)
{
    return left == LAW_OPEN || left >= amount;
}

/* Make a pool with `left` in it, without a parent: for a root nursery. */
static inline void
law_pool_init(LawPool *pool, int64_t left)
{
    *pool = (LawPool){.left = left, .granted = left == LAW_OPEN ? 0 : (uint64_t)left};
}

/* Move `amount` from a pool, which must have it, into one of its sub-pools. */
static inline void
law_pool_fill(LawPool *from, LawPool *pool, int64_t amount)
{
    LAW_RULE(pool->parent == from, "BUDGET-2");
    LAW_RULE(law_can_pay(from->left, amount), "BUDGET-3");
    int64_t held = pool->left == LAW_OPEN ? 0 : pool->left;
    LAW_RULE(amount >= 0 && amount <= INT64_MAX - held, "BUDGET-3");
    if (from->left != LAW_OPEN) {
        from->left -= amount;
    }
    from->lent += (uint64_t)amount;
    pool->granted += (uint64_t)amount;
    pool->left = held + amount;
}

/* Make `pool` a sub-pool with `amount` in it, which `from` must have. */
static inline void
law_pool_lend(LawPool *from, LawPool *pool, int64_t amount)
{
    *pool = (LawPool){.parent = from};
    law_pool_fill(from, pool, amount);
}

/* Add money that comes from no parent: a self-recharge under a CapBudget. The caller has checked that the sum can be
 * represented (at most UNITS_MAX). */
static inline void
law_pool_mint(LawPool *pool, int64_t amount)
{
    if (pool->left != LAW_OPEN) {
        LAW_RULE(amount >= 0 && amount <= INT64_MAX - pool->left, "BUDGET-3");
        pool->left += amount;
        pool->granted += (uint64_t)amount;
        pool->minted += (uint64_t)amount;
    }
}

/* Give everything back to the parent. Sub-pools must have been closed before. What exceeds UNITS_MAX in the parent
 * counts as spent there; the `spent` of an open parent stops at its largest number. */
static inline void
law_pool_close(LawPool *pool)
{
    LawPool *parent = pool->parent;
    LAW_RULE(parent != NULL, "BUDGET-4");
    LAW_RULE(pool->lent == 0, "BUDGET-4");
    int64_t left = pool->left == LAW_OPEN ? 0 : pool->left;
    LAW_RULE(pool->granted == (uint64_t)left + pool->spent, "BUDGET-1");
    parent->lent -= pool->granted - pool->minted;
    if (parent->left == LAW_OPEN) {
        parent->spent = pool->spent > UINT64_MAX - parent->spent ? UINT64_MAX : parent->spent + pool->spent;
    } else {
        int64_t room = parent->left < LAW_UNITS_MAX ? LAW_UNITS_MAX - parent->left : 0,
                kept = left < room ? left : room;
        parent->left += kept;
        parent->spent += pool->spent + (uint64_t)(left - kept);
        parent->granted += pool->minted;
        parent->minted += pool->minted;
    }
    pool->granted = pool->minted = pool->spent = 0;
    pool->left = 0;
}

/* ---- five pools at once */

/* How much of a wish `pools` can lend: the minimum of each component. A component that is not wished stays open. */
static inline LawBudget
law_affordable(const LawPools *pools, const LawBudget *wish)
{
    LawBudget can;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        can.limit[c] = wish->limit[c] == LAW_OPEN ? LAW_OPEN : law_least(wish->limit[c], pools->of[c]->left);
    }
    return can;
}

/* The pools of a root nursery, made in `storage`. */
static inline LawPools
law_root_pools(const LawBudget *budget, LawPool storage[LAW_COMPONENTS])
{
    LawPools pools;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        law_pool_init(&storage[c], budget->limit[c]);
        pools.of[c] = &storage[c];
    }
    return pools;
}

/* The pools of a new task or nursery: its own where `budget` states a number, shared elsewhere. Its own pools are made
 * in `storage`, which has room for law_budget_stated(budget) pools, and is not accessed if that is 0. */
static inline LawPools
law_derive(const LawPools *pools, const LawBudget *budget, LawPool *storage)
{
    LawPools derived = *pools;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (budget->limit[c] != LAW_OPEN) {
            law_pool_lend(pools->of[c], storage, budget->limit[c]);
            derived.of[c] = storage++;
        }
    }
    return derived;
}

/* Close the pools that are not shared with `parents`. */
static inline void
law_close_pools(const LawPools *pools, const LawPools *parents)
{
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (pools->of[c] != parents->of[c]) {
            law_pool_close(pools->of[c]);
        }
    }
}

/* Charge a cost, whole or not at all (BUDGET-3). Returns LAW_PAID, or the component that is short. */
static inline int
law_pay(const LawPools *pools, const LawCost *cost)
{
    for (unsigned i = 0; i < cost->n; i++) {
        if (!law_can_pay(pools->of[cost->component[i]]->left, cost->amount[i])) {
            return cost->component[i];
        }
    }
    for (unsigned i = 0; i < cost->n; i++) {
        LawPool *pool = pools->of[cost->component[i]];
        uint64_t amount = (uint64_t)cost->amount[i];
        if (pool->left != LAW_OPEN) {
            pool->spent += amount;
            pool->left -= cost->amount[i];
        } else { /* the `spent` of an open pool stops at UNITS_MAX */
            uint64_t most = (uint64_t)LAW_UNITS_MAX;
            pool->spent = pool->spent >= most || amount > most - pool->spent ? most : pool->spent + amount;
        }
    }
    return LAW_PAID;
}

/* Whether the pools above `pool`, up to `source`, hold `amount` together. */
static inline bool
law_reaches(const LawPool *pool, const LawPool *source, int64_t amount)
{
    if (pool->left == LAW_OPEN) {
        return true;
    }
    while (pool != source && amount > 0) {
        pool = pool->parent;
        LAW_RULE(pool != NULL, "BUDGET-2"); /* a source is above its pool */
        if (law_can_pay(pool->left, amount)) {
            return true;
        }
        amount -= pool->left;
    }
    return amount <= 0;
}

/* Move `amount` down to `pool`; each level takes from above only what it lacks itself. `law_reaches` returned true. One
 * walk up: an amount that passes through a level counts as granted to it and lent by it, and does not stay there. */
static inline void
law_pull(LawPool *pool, const LawPool *source, int64_t amount)
{
    if (pool->left == LAW_OPEN || pool == source || amount == 0) {
        return;
    }
    LAW_RULE(amount <= INT64_MAX - pool->left, "BUDGET-3");
    pool->left += amount;
    pool->granted += (uint64_t)amount;
    for (int64_t lacking = amount; lacking > 0;) {
        LAW_RULE(pool != source && pool->parent != NULL, "BUDGET-2");
        pool = pool->parent;
        pool->lent += (uint64_t)lacking;
        if (pool->left == LAW_OPEN) {
            return;
        }
        int64_t taken = lacking < pool->left ? lacking : pool->left;
        pool->left -= taken;
        lacking -= taken;
        pool->granted += (uint64_t)lacking;
    }
}

/* Move `amounts` into `pools` from the pools above them, up to and including `sources`, whole or not at all. Returns
 * LAW_PAID, or the first component that the sources cannot give. A component that is shared all the way up has no pool
 * to move from: it counts as short. A component that is not stated, or 0, does not change. */
static inline int
law_top_up(const LawPools *pools, const LawPools *sources, const LawBudget *amounts)
{
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (amounts->limit[c] > 0 && !law_reaches(pools->of[c], sources->of[c], amounts->limit[c])) {
            return c;
        }
    }
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (amounts->limit[c] > 0) {
            law_pull(pools->of[c], sources->of[c], amounts->limit[c]);
        }
    }
    return LAW_PAID;
}
