/* The record of a nursery (nursery.c). After law/nursery.py. What is done with nurseries is in nursery_ops.c. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec nursery_spec, children_spec;

/* An open nursery that nobody knows yet. `name` may be NULL. New reference, or NULL with MemoryError set. */
Nursery *nursery_new(Kernel *k, uint64_t id, PyObject *name, Task *owner, PyObject *pools, PyObject *purse_of,
                     PyObject *capabilities);
/* Change the state, by the table. 0, or -1 with an exception set. */
int nursery_move(Nursery *nursery, LawNurseryState to);
PyObject *nursery_name(Nursery *nursery);          /* new reference, or NULL with an exception set */
PyObject *nursery_children_list(Nursery *nursery); /* new list of the live children, or NULL with MemoryError set */

/* Whether every child has ended. */
static inline bool
nursery_quiet(const Nursery *nursery)
{
    return law_queue_empty(&nursery->children);
}
/* `waiter`, a Task that waits bare or an Entry, waits for that; and waits no longer. */
static inline void
nursery_join(Nursery *nursery, PyObject *waiter)
{
    Py_XSETREF(nursery->joining, Py_NewRef(waiter));
}
static inline void
nursery_unjoin(Nursery *nursery, PyObject *waiter) /* NULL: its request was taken apart already */
{
    if (nursery != NULL && nursery->joining == waiter) {
        Py_CLEAR(nursery->joining);
    }
}
