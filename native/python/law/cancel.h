/* Cancellation of the scopes of one task (cancel.c). After law/cancel.py.
 *
 * cancel_request.h has the requests, and how they reach nurseries and their children. All functions that return int
 * return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/records.h"

extern PyMethodDef cancel_methods[]; /* methods of the kernel (cancel_py.c); ends with an empty row */

/* Change the phase of a scope, forward only, and keep the counts of requested and draining scopes in its task. */
int cancel_move(ModuleState *st, PyObject *scope, LawCancelPhase to);
/* Note whether the innermost scope of the task can see a request. */
void cancel_look(ModuleState *st, Task *task);
/* The outermost requested scope that the task's innermost scope can see (CANCEL-2). Borrowed, or NULL. */
PyObject *cancel_deliverable(ModuleState *st, Task *task);
/* *error: a new reference to the `Cancelled` to throw into the task now, or NULL. Starts the cleanup of the task. */
int cancel_deliver(Kernel *k, Task *task, PyObject **error);
/* A `Cancelled` came back out of its task. Steals the reference; keeps the error for the next task if it can. */
void cancel_reuse(Kernel *k, PyObject *error);
/* -1 with ScopeMisuse set unless the running task may leave the scope now. */
int cancel_require_innermost(Kernel *k, CancelScope *scope);
/* Close the innermost cancel scope. What it hid (a shield) becomes visible at the next await. */
int cancel_leave(Kernel *k, CancelScope *scope);
/* The task has ended: close the cancel scopes that it did not leave. */
int cancel_leave_all(Kernel *k, Task *task);

/* The reason of a Cancelled, as its property `reason` gives it; borrowed; NULL if there is none. */
static inline PyObject *
cancelled_reason(PyObject *error)
{
    PyObject *args = ((PyBaseExceptionObject *)error)->args;
    bool has = args != NULL && PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None;
    return has ? PyTuple_GET_ITEM(args, 0) : NULL;
}
