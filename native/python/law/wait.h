/* Waits (wait.c): what a BLOCKED task waits by. After law/wake.py.
 *
 * A task waits *bare* if it stands in the queue of an operation by itself, otherwise by a Wait or an Entry. `waiter` is
 * one of the two everywhere: the task, or the wait.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec wait_spec, entry_spec;

/* New reference, or NULL with MemoryError set. */
Entry *entry_new(ModuleState *st, Task *task, PyObject *operation);

/* The task or wait that a link of a wait list belongs to: both have their link first. */
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
PyObject *waiter_operation(ModuleState *st, PyObject *waiter); /* borrowed, or NULL: not the entry of an operation */
/* A wait that stands for what the task does now, or None. New reference, or NULL with MemoryError set. */
PyObject *task_wait(ModuleState *st, Task *task);
