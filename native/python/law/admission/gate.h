/* The gate (gate.c): asking for permission, being let in, ending. After law/admission/gate.py.
 *
 * ops/gate_spawn.c asks, and task_end.c reports the end. All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/admission/gate_record.h"

int gate_in_python(GateCore *gate, const char *method, Kernel *k, PyObject *with); /* 1: it returned something true */
int gate_enter(Kernel *k, Ticket *ticket, Ticket *const *after, Py_ssize_t n);     /* Gate.enter of a plain ticket */
int gate_ended(Kernel *k, Task *task); /* the task, which has a ticket, is DONE: its gate hears of it */
int k_admit(Kernel *k, Task *task, int64_t priority, int64_t effective); /* Permission.admit */
