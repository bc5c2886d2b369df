/* The record of a gate (gate_record.c): its totals, its queues, and what is taken of its resources. After
 * law/admission/gate.py. gate.c and gate_decide.c change it; resources.c changes what is taken.
 */

#pragma once

#include "python/law/admission/queues.h"

/* What the gates of a runtime have let through (`GateTotalsCore`). */
typedef struct GateTotalsCore {
    PyObject_HEAD
    int64_t entered;
    int64_t admitted;
    int64_t passed_over; /* times that one which came first did not fit */
    int64_t wait_ns, wait_max_ns;
    int64_t starved; /* tasks that were overtaken before they were admitted */
    int64_t starved_ns, starved_max_ns;
} GateTotalsCore;

/* What every task changes that asks, is let in and ends (`GateCore`): the part of a gate that is C. */
struct GateCore {
    PyObject_HEAD
    GateTotalsCore *totals;
    PyObject *held;      /* dict: who takes something, oldest first */
    PyObject *returning; /* dict: who was admitted, gave back, and asks again */
    QueuesCore *queues;  /* Queues */
    PyObject *resources; /* Resources, */
    PyObject *limits;    /* of which these are the tuple of limits, */
    PyObject *taken;     /* the lists of what is taken */
    PyObject *peak;      /* and the most that ever was, */
    PyObject *kept;      /* and of what those keep who stand still, */
    PyObject *least;     /* the demand of a task that needs nothing, */
    PyObject *thread;    /* and that of a plain function which does not say: (demand, needs) */
    PyObject *reserved;  /* a Permit, or None or NULL: nobody holds a reservation */
    int64_t waiting;     /* in state WAITS or STOPS */
    int64_t reserve_after_ns;
    int64_t last_pass_ns; /* when it was settled last */
    char drops;           /* whoever cannot be let in may be dropped for it */
    char admitting;       /* by the method; C is not interrupted */
    char again;           /* something has changed meanwhile */
};

extern PyType_Spec gate_totals_spec, gate_core_spec;

/* The C gate of a nursery or of the kernel; NULL: it has none, or one that is not C. Borrowed. */
static inline GateCore *
as_gate_core(ModuleState *st, PyObject *gate)
{
    GateCore *self = (GateCore *)gate;
    bool whole =
        gate != NULL && PyObject_TypeCheck(gate, st->GateCore) && self->held != NULL && self->queues->classes != NULL;
    return whole ? self : NULL;
}

/* Whether anybody waits for permission, for the first time or again. */
static inline bool
somebody_waits(const GateCore *gate)
{
    return gate->queues->length > 0 || PyDict_GET_SIZE(gate->returning) > 0;
}
