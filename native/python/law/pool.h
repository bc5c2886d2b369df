/* Pools: the accounts that a nursery or a task pays from (pool.c). After law/budget.py.
 *
 * A purse is a tuple of five pools, one for each component. spawn.c, nursery_ops.c, task_end.c and ledger.c call this.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec pool_spec;

/* The pool of one component. */
static inline Pool *
pool_of(PyObject *pools, int component)
{
    return (Pool *)PyTuple_GET_ITEM(pools, component);
}

/* The pools of a root nursery. New reference, or NULL with an exception set: `budget` is not a Budget. */
PyObject *pools_root(ModuleState *st, PyObject *budget);
/* Pools for a task or nursery with a budget of its own, lent by `parents`, who must be able to afford it. New reference,
 * or NULL with an exception set: nothing was lent. */
PyObject *pools_derive(ModuleState *st, PyObject *parents, PyObject *budget);
/* The pools of a new task or nursery: those of its parent if `*budget` is UNSTATED, otherwise derived ones. *budget
 * becomes what of it the parent can afford. New reference, or NULL with an exception set: nothing was lent. */
PyObject *pools_for(Kernel *k, PyObject *parents, PyObject **budget);
/* Give what is left in `pools` back to `parents`. 0, or -1 with an exception set. */
int pools_close(PyObject *pools, PyObject *parents);
/* Undo `pools_for` for something that was not made in the end. `pools` may be NULL. */
void return_pools(PyObject *pools, PyObject *parents);
/* Undo one payment of this cost. Cannot fail. */
void pools_refund(PyObject *pools, const LawCost *cost);
