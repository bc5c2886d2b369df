/* Cancellation of the scopes of one task (cancel.c). After law/cancel.py.
 *
 * The driver delivers, the owner of a block leaves it. How a request travels through nurseries is cancel_request.h. All
 * functions that return int return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

int cancel_move(ModuleState *st, PyObject *scope, LawCancelPhase to); /* change a phase, forward only */
void cancel_look(ModuleState *st, Task *task);               /* note whether a request is visible to the task */
PyObject *cancel_deliverable(ModuleState *st, Task *task);   /* borrowed, or NULL: nothing can be delivered */
int cancel_deliver(Kernel *k, Task *task, PyObject **error); /* *error: new reference to what to throw, or NULL */
/* The error has passed through the task that it was thrown into, and is given away: it may serve the next one. */
void cancel_spent(Kernel *k, PyObject *error);
int cancel_require_innermost(Kernel *k, CancelScope *block); /* -1 with ScopeMisuse set: it may not be left now */
int cancel_leave(Kernel *k, CancelScope *block);
int cancel_leave_all(Kernel *k, Task *task);

/* The reason in a Cancelled, as its property says it; borrowed, and NULL if there is none. */
static inline PyObject *
cancelled_reason(PyObject *error)
{
    PyObject *args = ((PyBaseExceptionObject *)error)->args;
    bool has = args != NULL && PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None;
    return has ? PyTuple_GET_ITEM(args, 0) : NULL;
}
