/* Purses: the five pools that tasks pay from, where several threads pay at once.
 *
 * As in law/budget.h: a purse refers to five pools, one per component. Where a budget states a number the purse has a pool
 * of its own, lent by the pool of whoever made it; where it states none it shares that pool. A task or nursery without any
 * stated number has no purse of its own at all, it points at its maker's. The rule of paying is law_can_pay.
 *
 * Ops are drawn by the running task in advance, one turn at a time, and what it did not use goes back whenever it stops:
 * so a tick is a decrement of its own memory. All other components are paid one by one.
 *
 * Every pool of a purse keeps BUDGET-3 and BUDGET-4 of law/budget.h, and BUDGET-1 while no thread pays. Two more rules:
 *
 * PURSE-1  what a pool has was lent by its parent, or minted under a CapBudget; nesting adds nothing
 * PURSE-2  money is taken on trial only under the books' lock. Whoever finds a pool short looks again under that lock, so
 *     nobody is turned away because of a payment that is then taken back
 *
 * Rejected: one lock per purse (a charge of shared pools would need several), and counting what open pools spend (a shared
 * line written at every turn, for a number that decides nothing).
 */
#pragma once

#include "engine/lock.h"
#include "engine/slab.h"
#include "law/budget.h"

/* One account for one component. */
typedef struct Pool {
    atomic_i64 left; /* LAW_OPEN: no limit */
    atomic_i64 spent;
    int64_t granted; /* this and the next two: under the books' lock */
    int64_t lent;
    int64_t minted;
    struct Pool *parent;
    struct Lender *lender; /* who is asked when it runs short, or NULL: lender.h */
} Pool;

typedef struct Purse {
    SlabHead head;
    Pool *of[LAW_COMPONENTS];
    Pool own[LAW_COMPONENTS]; /* those that `of` points at, if it does */
    LawBudget mint_left;      /* CapBudget: what its holder may still recharge itself with */
} Purse;

/* All purses of one scheduler. */
typedef struct {
    Lock lock;
    Slab purses;
    Purse root;
} PurseSet;

/* Open the books with a root purse of `budget`. Cannot fail. */
void purse_set_init(PurseSet *purse_set, const LawBudget *budget, const EngineMemory *memory);
void purse_set_destroy(PurseSet *purse_set);

/* Take `amount` from one pool, or nothing: false (BUDGET-3, PURSE-2). */
bool pool_take(PurseSet *purse_set, Pool *pool, int64_t amount);

/* Put back what pool_take took. */
void pool_return(Pool *pool, int64_t amount);

/* Take as much as is there, between `least` and `most`. Answers how much; 0: not even `least`. An open pool gives `most`. */
int64_t pool_draw(PurseSet *purse_set, Pool *pool, int64_t least, int64_t most);

/* Charge a cost to a purse. LAW_PAID, or the component that falls short; then nothing was charged. */
int purse_pay(PurseSet *purse_set, Purse *purse, const LawCost *cost);
void purse_refund(Purse *purse, const LawCost *cost);

/* A purse of its own where `budget` states a number, lent by `from`, clamped to what is there. NULL if there is no memory,
 * or if ops were asked for and there is not one: `*memory_short` tells which. */
Purse *purse_lend(PurseSet *purse_set, Purse *from, const LawBudget *budget, bool *memory_short);

/* Give everything back and free it (BUDGET-4). What was lent from it must have been closed. */
void purse_close(PurseSet *purse_set, Purse *purse);

/* Move `amount` down into `purse` from the pools that lent it, whole or not at all. LAW_PAID, or the first component that
 * they cannot give, or that `purse` has no pool of its own for. */
int purse_fill(PurseSet *purse_set, Purse *purse, const LawBudget *amount);

/* Add `amount` from nowhere, within mint_left. The same answers. */
int purse_mint(PurseSet *purse_set, Purse *purse, const LawBudget *amount);

/* What is left, as a statement. */
LawBudget purse_left(const Purse *purse);

/* BUDGET-1 for every pool of the purse's own. For tests, while nobody pays. */
bool purse_sound(PurseSet *purse_set, const Purse *purse);

static inline bool
pool_open(const Pool *pool)
{
    return load_i64(&pool->left, RELAXED) == LAW_OPEN;
}
