/* Pools: the accounts that a nursery or a task pays from (pool.c). After law/pool.py.
 *
 * A purse is a tuple of five pools, one for each component.
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

/* The purse of a root nursery. New reference, or NULL with an exception set: `budget` is not a Budget, or no memory. */
PyObject *pools_root(ModuleState *st, PyObject *budget);
/* The pools of a new task or nursery: its own where `budget` states a number, shared with `parents` elsewhere.
 * `parents` must be able to pay that budget. New reference, or NULL with an exception set: nothing was lent. */
PyObject *pools_derive(ModuleState *st, PyObject *parents, PyObject *budget);
/* The pools of a new task or nursery: `parents` if `*budget` is UNSTATED, otherwise derived ones. *budget becomes the
 * part that `parents` can pay. New reference, or NULL with an exception set: nothing was lent. */
PyObject *pools_for(Kernel *k, PyObject *parents, PyObject **budget);
/* Whether a budget of the purse or above it states processor time (`measures` in law/pool.py). */
bool pools_measured(PyObject *pools);
/* Give what is left in `pools` back to `parents`. 0, or -1 with an exception set. */
int pools_close(ModuleState *st, PyObject *pools, PyObject *parents);
/* Give back what `pools_for` took from `parents`. `pools` may be NULL. */
void return_pools(Kernel *k, PyObject *pools, PyObject *parents);
/* Undo one payment of this cost by `pools_pay`. Cannot fail. */
void pools_refund(PyObject *pools, const LawCost *cost);
