/* Permits (ticket.c): what admission knows of one task. After law/admission/ticket.py.
 *
 * The gate makes and changes permits; a task holds its own, and shows it to the collector (TICKET-1).
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/records.h"

#include "law/admission/ticket.h"

typedef struct Turnstile Turnstile;
typedef struct Row Row;

/* What a task was short of when it came first (`Short`). */
typedef struct Lack {
    int64_t since_ns;
    PyObject *resources;
    PyObject *kept_for; /* the name of the task that held a reservation, if another one did; or NULL */
    Py_ssize_t n;
    int64_t taken[]; /* then, of each resource */
} Lack;

/* Those who follow one task, in the order of their spawning. */
typedef struct Followers {
    struct Permit **those; /* owned */
    int32_t n;
} Followers;

/* What admission knows of one task (admission/permit.py). It is *plain* while it has no `rare`. */
typedef struct Permit {
    PyObject_HEAD
    Turnstile *gate;   /* owned, and so is all below; NULL: it is over */
    PyObject *task;    /* of either kernel: the verifier's are Python; NULL: it is over */
    PyObject *demand;  /* tuple of pairs (resource, amount) */
    PyObject *needs;   /* mapping; NULL: none */
    Lack *lack;        /* its first note, as long as there is no other; or NULL */
    PyObject *reasons; /* list of what it has waited for besides; NULL: nothing, or only what is above */
    PyObject *rare;    /* dict of the fields that few permits need, whose defaults the class has; or NULL */
    Followers followers;
    LawLink link; /* in the queue of its row */
    Row *row;     /* borrowed: where it waits for permission; or NULL */
    int64_t priority;
    int64_t entered_ns, ready_ns, waited_ns, starved_ns;
    int64_t place;    /* among all that ever were in a queue */
    int32_t followed; /* how many it was to follow */
    int32_t unmet;    /* and has to wait for still */
    uint8_t state;    /* LawPermit */
    bool named;       /* by the spawn that is under way, as one that is to be followed */
} Permit;

extern PyType_Spec permit_spec;

/* A permit of this demand; `needs` may be NULL. New reference. */
Permit *permit_new(State *st, Turnstile *gate, int64_t priority, PyObject *demand, PyObject *needs);

int permit_show(PyObject *permit, visitproc visit,
                void *arg);            /* TICKET-1: on behalf of the task that has it; or NULL */
void permit_leave(PyObject *permit);   /* TICKET-1: its task lets go of it; or NULL */
bool permit_settled(PyObject *permit); /* TICKET-2 */
/* Its first note: so much was taken. `kept_for` may be NULL. 0, or -1 with an exception set. */
int permit_lacks(Permit *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for);
int followers_add(Followers *followers, Permit *permit); /* 0, or -1 with MemoryError set */
void followers_drop(Followers *followers);

/* The permit of a task, if it is plain; NULL: it has none, or there is more to it. Borrowed. */
static inline Permit *
plain_permit(State *st, const Task *task)
{
    PyObject *permit = task->more != NULL ? task->more->permit : NULL;
    bool plain = FAST_PATHS && permit != NULL && Py_TYPE(permit) == st->Permit && ((Permit *)permit)->rare == NULL;
    return plain ? (Permit *)permit : NULL;
}
