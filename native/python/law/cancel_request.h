/* How a request to cancel travels through a family of tasks and nurseries (cancel_request.c). After law/cancel.py.
 *
 * Any file may ask. Both requests return 0, or -1 with an exception set; a second request for the same scope changes
 * nothing.
 */

#pragma once

#include "python/law/records.h"

int cancel_request(Kernel *k, PyObject *scope, PyObject *reason);
int cancel_request_nursery(Kernel *k, Nursery *nursery, PyObject *reason);
/* A CancelReason. Borrows `detail` and `by`. New reference, or NULL with MemoryError set. */
PyObject *cancel_reason_new(ModuleState *st, LawCancelKind kind, PyObject *detail, PyObject *by);
