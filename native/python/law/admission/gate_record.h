/* The record of a gate (gate_record.c): its totals, its queues, and what is taken of its resources. After
 * law/admission/gate.py. gate.c and gate_decide.c change the record; resources.c changes what is taken.
 */

#pragma once

#include "python/law/admission/queues.h"

/* How many tasks asked, how many were admitted, and how long they waited, at all gates of a runtime. */
typedef struct GateTotalsCore {
    PyObject_HEAD
    int64_t entered;
    int64_t admitted;
    int64_t passed_over; /* how often the first ticket of a class did not fit */
    int64_t wait_ns, wait_max_ns;
    int64_t starved; /* how many tasks were overtaken before they were admitted */
    int64_t starved_ns, starved_max_ns;
} GateTotalsCore;

/* The part of a gate that changes when any task asks, is admitted or ends. */
struct GateCore {
    PyObject_HEAD
    GateTotalsCore *totals;
    PyObject *held;      /* dict: the tickets that take resources, oldest first */
    PyObject *returning; /* dict: the RETURNING tickets, oldest first */
    QueuesCore *queues;  /* a Queues */
    PyObject *resources; /* a Resources; the next six are attributes of it */
    PyObject *limits;    /* tuple of the limits */
    PyObject *taken;     /* list: what is taken of each resource */
    PyObject *peak;      /* list: the most that was ever taken */
    PyObject *kept;      /* list: what LENT tickets keep */
    PyObject *least;     /* the demand of a task without needs */
    PyObject *thread;    /* (demand, needs) of a plain function that states no needs */
    PyObject *reserved;  /* the Ticket that held the reservation at the last pass; None or NULL: there was none */
    int64_t waiting;     /* how many tickets are WAITING or STOPPING */
    int64_t reserve_after_ns;
    int64_t last_pass_ns; /* the time of the last pass of `admit_waiting` */
    char drops;           /* whether a limit of the queue may drop tickets */
    char admitting;       /* the pass of the Python method runs; a pass in C is never interrupted */
    char again;           /* something changed during that pass: it makes another one */
};

extern PyType_Spec gate_totals_spec, gate_core_spec;

/* `gate` as a GateCore, borrowed; NULL if it is NULL, is no GateCore, or was cleared by the collector. */
static inline GateCore *
as_gate_core(ModuleState *st, PyObject *gate)
{
    GateCore *self = (GateCore *)gate;
    bool whole =
        gate != NULL && PyObject_TypeCheck(gate, st->GateCore) && self->held != NULL && self->queues->classes != NULL;
    return whole ? self : NULL;
}

/* Whether a ticket waits for permission, for the first time or again. */
static inline bool
has_waiting_tickets(const GateCore *gate)
{
    return gate->queues->length > 0 || PyDict_GET_SIZE(gate->returning) > 0;
}
