/* Waits (wait.c): the records of BLOCKED tasks in wait lists. After law/wake.py.
 *
 * A task that waits *bare* is in the wait list of an operation itself. For any other task, a Wait or an Entry is in the
 * list. `waiter` always means the object in the list: the bare task, or the wait.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec wait_spec, entry_spec;

/* A new entry of `task` for the queue of `operation`. New reference, or NULL with MemoryError set. */
Entry *entry_new(ModuleState *st, Task *task, PyObject *operation);

/* The task or the wait to which a link of a wait list belongs. Both types have the link as their first field. */
static inline PyObject *
waiter_of(LawLink *link)
{
    return (PyObject *)(void *)((char *)link - sizeof(PyObject));
}

static inline LawLink *
link_of(PyObject *waiter)
{
    return (LawLink *)(void *)((char *)waiter + sizeof(PyObject));
}

Task *waiter_task(PyObject *waiter);                           /* borrowed */
PyObject *waiter_operation(ModuleState *st, PyObject *waiter); /* borrowed, or NULL: a wait that is no entry */
/* The wait of a BLOCKED task: for a bare task a new entry, which is in no list; None if the task does not wait. New
 * reference, or NULL with MemoryError set. */
PyObject *task_wait(ModuleState *st, Task *task);
