/* Purses: the five pools that tasks pay from, when several threads pay at once.
 *
 * As in law/pool.h, a purse refers to five pools, one per component. Where a budget states a number, the purse has
 * its own pool, lent by the pool of the task or nursery that made it. Where it states none, the purse shares that pool.
 * A task or nursery without any stated number has no purse of its own and points at its maker's. The rule of paying is
 * law_can_pay.
 *
 * The running task draws ops in advance, one turn at a time, and returns the rest when it stops running. So a tick is a
 * decrement in its own record. Spawns and channel ops are drawn in advance by the worker (Credit in worker.h). All
 * other components are paid one by one.
 *
 * Every pool of a purse keeps BUDGET-3 and BUDGET-4 of law/pool.h, and BUDGET-1 while no thread pays. Two more rules:
 *
 * PURSE-1  the money of a pool was lent by its parent, or minted under a CapBudget; nesting adds nothing
 * PURSE-2  money is taken on trial only under the purse set's lock. A thread that finds a pool short looks again under
 *     that lock, so no task is refused because of a payment that is then taken back
 *
 * Rejected: one lock per purse (a charge to shared pools would need several); counting what open pools spend (a shared
 * line written at every turn, for a number that decides nothing).
 */
#pragma once

#include "engine/lock.h"
#include "engine/slab.h"
#include "law/pool.h"

/* One account for one component. */
typedef struct Pool {
    atomic_i64 left; /* LAW_OPEN: no limit */
    atomic_i64 spent;
    int64_t granted; /* this and the next two: under the purse set's lock */
    int64_t lent;
    int64_t minted;
    struct Pool *parent;
    struct Lender *lender; /* is asked for more when the pool is short, or NULL: lender.h */
} Pool;

typedef struct Purse {
    SlabHead head;
    Pool *of[LAW_COMPONENTS];
    Pool own[LAW_COMPONENTS]; /* the pools that `of` points at, where it has its own */
    LawBudget mint_left;      /* CapBudget: how much its holder may still recharge itself with */
} Purse;

/* All purses of one scheduler. */
typedef struct {
    Lock lock;
    Slab purses;
    Purse root;
} PurseSet;

/* Make the purse set, with a root purse of `budget`. Cannot fail. */
void purse_set_init(PurseSet *purse_set, const LawBudget *budget, const EngineAllocator *memory);
void purse_set_destroy(PurseSet *purse_set);

/* Take `amount` from one pool, or nothing: then false (BUDGET-3, PURSE-2). */
bool pool_take(PurseSet *purse_set, Pool *pool, int64_t amount);

/* Put back what pool_take took. */
void pool_return(Pool *pool, int64_t amount);

/* Take as much as there is, between `least` and `most`. Returns how much; 0: there is less than `least`. An open pool
 * gives `most`. */
int64_t pool_draw(PurseSet *purse_set, Pool *pool, int64_t least, int64_t most);

/* Charge a cost to a purse. Returns LAW_PAID, or the component that is short; then nothing was charged. */
int purse_pay(PurseSet *purse_set, Purse *purse, const LawCost *cost);
void purse_refund(Purse *purse, const LawCost *cost);

/* Make a purse with its own pool for each number that `budget` states, lent by `from`, and at most what `from` has.
 * Returns NULL if there is no memory, or if ops were asked for and there is none: `*memory_short` says which. */
Purse *purse_lend(PurseSet *purse_set, Purse *from, const LawBudget *budget, bool *memory_short);

/* Give everything back and free the purse (BUDGET-4). All purses that it lent to must be closed. */
void purse_close(PurseSet *purse_set, Purse *purse);

/* Move `amount` into `purse` from the pools that lent it, whole or not at all. Returns LAW_PAID, or the first component
 * that they cannot give or for which `purse` has no pool of its own. */
int purse_fill(PurseSet *purse_set, Purse *purse, const LawBudget *amount);

/* Add `amount` from nowhere, within mint_left. Returns the same. */
int purse_mint(PurseSet *purse_set, Purse *purse, const LawBudget *amount);

/* What is left, as a budget. */
LawBudget purse_left(const Purse *purse);

static inline bool
pool_open(const Pool *pool)
{
    return load_i64(&pool->left, RELAXED) == LAW_OPEN;
}
