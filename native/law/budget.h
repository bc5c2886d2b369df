/* Budgets: what a task may spend, and the pools that the money really sits in. Mirrors src/bursar/law/budget.py.
 *
 * A LawBudget is a statement (five numbers, LAW_OPEN = no limit stated). A LawPool is an account for one component.
 * Every task and every nursery refers to five pools. Where its budget states a number it has a pool of its own, paid
 * for by the pool of whoever made it; where it states none it shares that pool.
 *
 * BUDGET-1  granted = left + spent + lent                       (for every pool that is not open)
 * BUDGET-2  lent = Σ (granted − minted) over its open sub-pools
 * BUDGET-3  left ≥ 0, and a charge is paid whole or not at all
 * BUDGET-4  a closed pool has given everything back
 *
 * `left` is exact and decides everything. The other four numbers are only ever added, subtracted and compared, so they
 * count modulo 2**64, and BUDGET-1 and BUDGET-2 hold in that arithmetic however much passes through a pool. Python has
 * no such limit; no count that fits a word comes out differently.
 *
 * For one thread at a time. The engine's pools are atomic and share only `law_can_pay`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/costs.h"
#include "law/generated/limits.h"
#include "law/rule.h"

#define LAW_OPEN INT64_C(-1) /* no limit: a pool that never runs dry, a component not stated */

/* The name of a component, as in `COMPONENTS`; NULL for a number that is none. */
static inline const char *
law_component_name(unsigned component)
{
    static const char *const names[LAW_COMPONENTS] = LAW_COMPONENT_NAMES;
    return component < LAW_COMPONENTS ? names[component] : NULL;
}

/* ---- costs */

/* A sparse row of the cost table: `n` pairs (component, amount), each component at most once. The order of the pairs
 * is that in which they are looked at, so it decides which shortage is reported. */
typedef struct {
    int64_t amount[LAW_COMPONENTS];
    uint8_t component[LAW_COMPONENTS];
    uint8_t n;
} LawCost;

static const LawCost LAW_FREE = LAW_ROW_FREE;
static const LawCost LAW_OP = LAW_ROW_OP;
static const LawCost LAW_SPAWN = LAW_ROW_SPAWN;
static const LawCost LAW_CHANNEL = LAW_ROW_CHANNEL;
static const LawCost LAW_SYSCALL = LAW_ROW_SYSCALL;

/* Add a pair to a cost. False, and nothing added, if there is no such component, the cost has it already, or the
 * amount is not between 0 and UNITS_MAX. */
static inline bool
law_cost_add(LawCost *cost, unsigned component, int64_t amount)
{
    if (component >= LAW_COMPONENTS || amount < 0 || amount > LAW_UNITS_MAX) {
        return false;
    }
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == component) {
            return false;
        }
    }
    cost->component[cost->n] = (uint8_t)component;
    cost->amount[cost->n] = amount;
    cost->n += 1;
    return true;
}

/* The amount of one component in a cost. */
static inline int64_t
law_cost_of(const LawCost *cost, LawComponent component)
{
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == component) {
            return cost->amount[i];
        }
    }
    return 0;
}

/* ---- budgets */

/* Five limits. LAW_OPEN means that none is stated; 0 means that nothing is granted. */
typedef struct {
    int64_t limit[LAW_COMPONENTS];
} LawBudget;

/* The smaller of two limits. None is larger than any number. */
static inline int64_t
law_least(int64_t a, int64_t b)
{
    if (a == LAW_OPEN || b == LAW_OPEN) {
        return a == LAW_OPEN ? b : a;
    }
    return a < b ? a : b;
}

/* The smaller of the two, component by component. */
static inline LawBudget
law_budget_clamp(const LawBudget *budget, const LawBudget *limit)
{
    LawBudget least;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        least.limit[c] = law_least(budget->limit[c], limit->limit[c]);
    }
    return least;
}

/* Whether no component exceeds that of `limit`. */
static inline bool
law_budget_within(const LawBudget *budget, const LawBudget *limit)
{
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (law_least(budget->limit[c], limit->limit[c]) != budget->limit[c]) {
            return false;
        }
    }
    return true;
}

/* How many components a budget states: so many pools of its own has whoever is made with it. */
static inline int
law_budget_stated(const LawBudget *budget)
{
    int stated = 0;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        stated += budget->limit[c] != LAW_OPEN;
    }
    return stated;
}

/* ---- pools */

/* One account for one component. */
typedef struct LawPool {
    int64_t left; /* LAW_OPEN in an open pool */
    uint64_t granted;
    uint64_t minted; /* the part of `granted` that came from a CapBudget, not from the parent */
    uint64_t spent;
    uint64_t lent;
    struct LawPool *parent;
} LawPool;

/* The five accounts that a task or a nursery pays from; any of them may be shared. */
typedef struct {
    LawPool *of[LAW_COMPONENTS];
} LawPools;

/* The rule of paying, for one component: what is left is enough, or there is no limit. */
static inline bool
law_can_pay(int64_t left, int64_t amount)
{
    return left == LAW_OPEN || left >= amount;
}

/* A pool with `left` in it, from nowhere: that of a root nursery. */
static inline void
law_pool_init(LawPool *pool, int64_t left)
{
    *pool = (LawPool){.left = left, .granted = left == LAW_OPEN ? 0 : (uint64_t)left};
}

/* Move `amount` from a pool, which must have it, down into a sub-pool of its. */
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

/* Put in money that comes from no parent: a self-recharge under a CapBudget. The caller has seen that the sum can be
 * counted (at most UNITS_MAX). */
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

/* Give everything back to the parent. Sub-pools must have been closed before. What would make the parent hold more
 * than UNITS_MAX counts as spent there, and what an open one has spent stays at the largest number. */
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

/* What `pools` can really set aside of a wish: the componentwise minimum; what is not wished stays so. */
static inline LawBudget
law_affordable(const LawPools *pools, const LawBudget *wish)
{
    LawBudget can;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        can.limit[c] = wish->limit[c] == LAW_OPEN ? LAW_OPEN : law_least(wish->limit[c], pools->of[c]->left);
    }
    return can;
}

/* The purse of a root nursery, in five pools of the caller's. */
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

/* The pools of a new task or nursery: its own where `budget` states a number, shared elsewhere. Its own are made in
 * `storage`, which has room for law_budget_stated(budget) pools, and is not looked at if that is 0. */
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

/* Close those pools that are not shared with the maker. */
static inline void
law_close_pools(const LawPools *pools, const LawPools *parents)
{
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (pools->of[c] != parents->of[c]) {
            law_pool_close(pools->of[c]);
        }
    }
}

/* Charge a cost, whole or not at all (BUDGET-3). Returns LAW_PAID, or the component that falls short. */
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
        } else { /* an open pool is counted only as far as can be counted */
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

/* Bring `amount` down to `pool`; each level takes from above only what it lacks itself. `law_reaches` said yes.
 * One walk up: what passes through a level counts as granted to it and lent by it, and never rests there. */
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
 * LAW_PAID, or the first component that the sources cannot give. A component that is shared all the way up has nowhere
 * to be moved from: it counts as short. A component that is not stated, or 0, is left alone. */
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

/* What is left in the pools, as a statement. */
static inline LawBudget
law_left(const LawPools *pools)
{
    LawBudget left;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        left.limit[c] = pools->of[c]->left;
    }
    return left;
}
