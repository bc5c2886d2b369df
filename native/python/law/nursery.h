/* The record of a nursery (nursery.c). After law/nursery.py. nursery_ops.c opens, closes and ends nurseries. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec nursery_spec, children_spec;

/* An OPEN nursery, which no other record refers to yet. With `name` NULL, the first read makes a name from the ids. New
 * reference, or NULL with MemoryError set. */
Nursery *nursery_new(Kernel *k, uint64_t id, PyObject *name, Task *owner, PyObject *pools, PyObject *purse_of,
                     PyObject *capabilities);
/* Change the state, if the table allows it. 0, or -1 with an exception set. */
int nursery_move(Nursery *nursery, LawNurseryState to);
PyObject *nursery_name(Nursery *nursery);          /* new reference, or NULL with an exception set */
PyObject *nursery_children_list(Nursery *nursery); /* new list of the live children, or NULL with MemoryError set */

/* Whether every child has ended (quiescence). */
static inline bool
nursery_quiet(const Nursery *nursery)
{
    return law_queue_empty(&nursery->children);
}
/* Make a nursery CLOSING whose block has ended and whose last child has ended (NURSERY-5). */
static inline void
nursery_close_if_over(Nursery *nursery)
{
    if (nursery_quiet(nursery) && nursery->state == LAW_NURSERY_OPEN && nursery->scope != NULL &&
        nursery->scope->exiting) {
        law_nursery_move(&nursery->state, LAW_NURSERY_CLOSING);
    }
}
/* `waiter` waits until every child has ended: a Task that waits bare, or an Entry. `nursery_unjoin` ends that wait. */
static inline void
nursery_join(Nursery *nursery, PyObject *waiter)
{
    Py_XSETREF(nursery->joining, Py_NewRef(waiter));
}
static inline void
nursery_unjoin(Nursery *nursery, PyObject *waiter) /* `nursery` is NULL if the collector has cleared the request */
{
    if (nursery != NULL && nursery->joining == waiter) {
        Py_CLEAR(nursery->joining);
    }
}
