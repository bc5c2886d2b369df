/* Cancel requests, and how they reach nurseries and their children (cancel_request.c). After law/cancel.py.
 *
 * Both requests return 0, or -1 with an exception set. A second request for the same scope changes nothing.
 */

#pragma once

#include "python/law/records.h"

/* Ask a scope and everything that it owns to stop. */
int cancel_request(Kernel *k, PyObject *scope, PyObject *reason);
/* Cancel a nursery: its children, and the body of its block in the owner. */
int cancel_request_nursery(Kernel *k, Nursery *nursery, PyObject *reason);
/* A CancelReason. Borrows `detail` and `by`. New reference, or NULL with MemoryError set. */
PyObject *cancel_reason_new(ModuleState *st, LawCancelKind kind, PyObject *detail, PyObject *by);
