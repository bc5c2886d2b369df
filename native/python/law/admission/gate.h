/* The gate (gate.c): a task asks for permission, is admitted, and ends. After law/admission/gate.py.
 *
 * All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/admission/gate_record.h"

/* Call a method of the gate with the kernel and, unless it is NULL, `with`. 1: it returned a true value. */
int gate_in_python(GateCore *gate, const char *method, Kernel *k, PyObject *with);
/* A PENDING task with a plain ticket asks for the first time. It follows the tickets in `after`. */
int gate_enter(Kernel *k, Ticket *ticket, Ticket *const *after, Py_ssize_t n);
/* The task, which has a ticket, is DONE: free what it took, and release its successors, or cancel them. */
int gate_ended(Kernel *k, Task *task);
/* A PENDING task may start (`Permission.admit`). */
int k_admit(Kernel *k, Task *task, int64_t priority, int64_t effective);
