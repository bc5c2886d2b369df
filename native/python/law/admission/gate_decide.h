/* The choice of the ticket that is admitted next (gate_decide.c). After law/admission/gate.py.
 *
 * All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/admission/gate_record.h"

/* Admit every ticket that may be admitted (GATE-2). */
int gate_admit_waiting(Kernel *k, GateCore *gate);
/* Give the ticket its demand. */
int gate_take(GateCore *gate, Ticket *ticket);
/* Admit a ticket that has its demand. */
int gate_admit(Kernel *k, GateCore *gate, Ticket *ticket, int64_t effective);
