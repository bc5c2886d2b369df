/* The choice of who is let in next (gate_decide.c). After law/admission/gate.py. gate.c calls it.
 *
 * All functions return 0, or -1 with an exception set.
 */

#pragma once

#include "python/law/admission/gate_record.h"

int gate_admit_waiting(Kernel *k, GateCore *gate);
int gate_take(GateCore *gate, Ticket *ticket);                                /* it takes what it asked for, */
int gate_admit(Kernel *k, GateCore *gate, Ticket *ticket, int64_t effective); /* and is let in */
