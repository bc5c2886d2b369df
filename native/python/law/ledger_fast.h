/* The ledger, the fast path: the plain bill of a request in C. The slow twin is `k_bill` in ledger.c. */

#pragma once

#include "python/fast_paths.h"
#include "python/law/ledger.h"
#include "python/law/pool.h"
#include "python/law/task.h"

/* Charge a cost to five pools, whole or not at all (BUDGET-3). LAW_PAID, or the component that falls short. */
static inline int
pools_pay(PyObject *pools, const LawCost *cost)
{
    LawPools accounts; /* only for the components of the cost; `law_pay` reads no other */
    for (unsigned i = 0; i < cost->n; i++) {
        accounts.of[cost->component[i]] = &pool_of(pools, cost->component[i])->account;
    }
    return law_pay(&accounts, cost);
}

/* Whether a pool can pay `amount`, and neither its count nor the task's count can saturate. The check of the counts
 * ignores `amount`, because no request in C has a large cost. */
static inline bool
affords(const LawPool *pool, int64_t spent, int64_t amount)
{
    return law_can_pay(pool->left, amount) && ((pool->spent | (uint64_t)spent) & ~((uint64_t)LAW_UNITS_MAX >> 1)) == 0;
}

static inline void
pay(LawPool *pool, int64_t *spent, int64_t amount)
{
    pool->spent += (uint64_t)amount;
    if (pool->left != LAW_OPEN) {
        pool->left -= amount;
    }
    *spent += amount;
}

/* Pay the plain bill of a request in C: ops, and perhaps one more component, during a turn, without an observer. The
 * first component of each cost is ops. False, and nothing paid: call `k_bill`. */
static inline bool
k_bill_fast(const Kernel *k, Task *task, const LawCost *cost)
{
    if (!FAST_PATHS || task->turn_left <= 0 || k->observer != NULL || task_cleans_up(task)) {
        return false;
    }
    LawPool *ops = &pool_of(task->terms->pools, LAW_OPS)->account;
    int64_t amount = cost->amount[0];
    if (!affords(ops, task->ops_spent, amount)) {
        return false;
    }
    if (cost->n > 1) { /* a message costs an op and a channel op */
        LawPool *pool = &pool_of(task->terms->pools, cost->component[1])->account;
        int64_t *spent = task->extra != NULL ? &task->extra->spent[cost->component[1]] : NULL;
        if (spent == NULL || !affords(pool, *spent, cost->amount[1])) {
            return false;
        }
        pay(pool, spent, cost->amount[1]);
    }
    pay(ops, &task->ops_spent, amount);
    task->turn_left -= (int32_t)amount;
    return true;
}
