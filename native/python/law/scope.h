/* Scopes (scope.c): what can be cancelled as a whole. After law/cancel.py.
 *
 * A scope is a Task or a CancelScope. cancel.c and cancel_request.c walk the scopes of a task; nursery_ops.c opens a
 * cancel scope for each nursery.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec cancel_scope_spec;

/* A new cancel scope, which becomes the innermost one of the task. The caller tracks it or keeps it aside. New
 * reference; NULL with MemoryError set: nothing has changed. */
CancelScope *cancel_scope_new(ModuleState *st, Task *task);
Task *scope_task(PyObject *scope);       /* the task that the scope belongs to; borrowed */
PyObject *scope_parent(PyObject *scope); /* the next outer scope; borrowed; NULL for a task */
uint8_t scope_phase(PyObject *scope);    /* how far its cancellation has come: a LawCancelPhase */
PyObject *scope_reason(PyObject *scope); /* why it is cancelled; borrowed; NULL if it is not */
