/* Scopes (scope.c): the blocks of a task that can be cancelled, and the task itself. After law/cancel.py.
 *
 * A scope is a Block or a Task. cancel.c and cancel_request.c walk them; nursery_ops.c opens one for each nursery.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec cancel_scope_spec;

/* A block that becomes the innermost one of the task; the collector does not track it yet. New reference, or NULL with
 * MemoryError set. */
CancelScope *cancel_scope_new(ModuleState *st, Task *task);
Task *scope_task(PyObject *scope);       /* borrowed */
PyObject *scope_parent(PyObject *scope); /* borrowed; NULL for a task */
uint8_t scope_phase(PyObject *scope);
PyObject *scope_reason(PyObject *scope); /* borrowed or NULL */
