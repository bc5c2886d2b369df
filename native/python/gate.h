/* Permits and gates: the records of admission that are C, and what C does with them. */

#ifndef BURSAR_PYTHON_GATE_H
#define BURSAR_PYTHON_GATE_H

#include "core.h"
#include "law/permit.h"

/* What the gates of a runtime have let through (`Flow`). */
typedef struct Flow {
    PyObject_HEAD
    int64_t entered;
    int64_t admitted;
} Flow;

/* What every task changes that asks, is let in and ends (`Turnstile`): the part of a gate that is C. */
typedef struct Turnstile {
    PyObject_HEAD
    Flow *totals;
    PyObject *held;      /* dict: who takes something, oldest first */
    PyObject *returning; /* dict: who was admitted, gave back, and asks again */
    PyObject *queues;    /* Queues */
    PyObject *resources; /* Resources, */
    PyObject *limits;    /* of which these are the tuple of limits, */
    PyObject *taken;     /* the lists of what is taken */
    PyObject *peak;      /* and the most that ever was, */
    PyObject *least;     /* the demand of a task that needs nothing, */
    PyObject *thread;    /* and that of a plain function which does not say: (demand, needs) */
    PyObject *reserved;  /* a Permit, or None or NULL: nobody holds a reservation */
    int64_t waiting;     /* in state WAITS or STOPS */
} Turnstile;

/* What admission knows of one task (admission/permit.py). It is *plain* while it has no `rare`. */
typedef struct Permit {
    PyObject_HEAD
    Turnstile *gate;      /* owned, and so is all below */
    PyObject *task;       /* of either kernel: the verifier's are Python; NULL: it is over */
    PyObject *demand;     /* tuple of pairs (resource, amount) */
    PyObject *needs;      /* mapping; NULL: none */
    PyObject *successors; /* list of Permit; NULL: nobody follows */
    PyObject *reasons;    /* deque of what it has waited for besides; NULL or None: nothing */
    PyObject *rare;       /* dict of the fields that few permits need, whose defaults the class has; or NULL */
    int64_t priority;
    int64_t entered_ns, ready_ns, waited_ns, starved_ns;
    int64_t place;        /* among all that ever were in a queue */
    int32_t followed;     /* how many it was to follow */
    int32_t unmet;        /* and has to wait for still */
    uint8_t state;        /* LawPermit */
} Permit;

extern PyType_Spec permit_spec, flow_spec, turnstile_spec;

/* The C gate of a nursery or of the kernel; NULL: it has none, or one that is not C. Borrowed. */
static inline Turnstile *
as_turnstile(State *st, PyObject *gate)
{
    return gate != NULL && PyObject_TypeCheck(gate, st->Turnstile) && ((Turnstile *)gate)->held != NULL
               ? (Turnstile *)gate
               : NULL;
}

/* The permit of a task, if it is plain; NULL: it has none, or there is more to it. Borrowed. */
static inline Permit *
plain_permit(State *st, const Task *task)
{
    PyObject *permit = task->more != NULL ? task->more->permit : NULL;
    bool plain = permit != NULL && Py_TYPE(permit) == st->Permit && ((Permit *)permit)->rare == NULL;
    return plain ? (Permit *)permit : NULL;
}

/* A permit of this demand; `needs` may be NULL. New reference. */
Permit *permit_new(State *st, Turnstile *gate, int64_t priority, PyObject *demand, PyObject *needs);

/* gate.c. 0, or -1 with an exception set. */
int gate_enter(Kernel *k, Permit *permit, Permit *const *after, Py_ssize_t n); /* Gate.enter of a plain permit */
int gate_ended(Kernel *k, Task *task);    /* the task, which has a permit, is DONE: its gate hears of it */
int k_admit(Kernel *k, Task *task, int64_t priority, int64_t effective); /* Permission.admit */

/* ask.c: a spawn by the gate, if it is of the usual kind. NULL without an exception: it is not, and nothing was done.
 * `coroutine`: the function is an `async def`; else it is for a thread. */
PyObject *ask_plainly(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords, bool coroutine);

#endif
