/* Permits and gates: the records of admission that are C, and what C does with them. */

#pragma once

#include "python/law/records.h"
#include "law/admission/ticket.h"
#include "law/lanes.h"

/* What the gates of a runtime have let through (`Flow`). */
typedef struct Flow {
    PyObject_HEAD
    int64_t entered;
    int64_t admitted;
    int64_t passed_over; /* times that one which came first did not fit */
    int64_t wait_ns, wait_max_ns;
    int64_t starved; /* tasks that were overtaken before they were admitted */
    int64_t starved_ns, starved_max_ns;
} Flow;

/* Those of one class who wait, first come first served (`Row`). */
typedef struct Row {
    PyObject_HEAD
    LawQueue queue;      /* of permits, each of which it owns */
    PyObject *key;       /* (priority, demand), as `Rows.classes` has it */
    PyObject *overtaken; /* list of pairs: up to which place, and when */
    int64_t priority;
} Row;

/* All who have everything but permission, by their classes (`Rows`). */
typedef struct Rows {
    PyObject_HEAD
    PyObject *classes; /* dict: (priority, demand) → Row */
    Row *recent;       /* borrowed: the one that was entered last, if it is there still; or NULL */
    int64_t interval_ns;
    int64_t boost;   /* per interval of waiting; 0: strict */
    int64_t entered; /* how many ever did */
    int64_t length;
} Rows;

/* What every task changes that asks, is let in and ends (`Turnstile`): the part of a gate that is C. */
typedef struct Turnstile {
    PyObject_HEAD
    Flow *totals;
    PyObject *held;      /* dict: who takes something, oldest first */
    PyObject *returning; /* dict: who was admitted, gave back, and asks again */
    Rows *queues;        /* Queues */
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
    int64_t settled_ns; /* when it was settled last */
    char drops;         /* whoever cannot be let in may be dropped for it */
    char settling;      /* by the method; C is not interrupted */
    char again;         /* something has changed meanwhile */
} Turnstile;

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

/* ticket.c */
int permit_show(PyObject *permit, visitproc visit,
                void *arg);            /* TICKET-1: on behalf of the task that has it; or NULL */
void permit_leave(PyObject *permit);   /* TICKET-1: its task lets go of it; or NULL */
bool permit_settled(PyObject *permit); /* TICKET-2 */
/* Its first note: so much was taken. `kept_for` may be NULL. 0, or -1 with an exception set. */
int permit_lacks(Permit *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for);
int followers_add(Followers *followers, Permit *permit); /* 0, or -1 with MemoryError set */
void followers_drop(Followers *followers);

extern PyType_Spec permit_spec, flow_spec, turnstile_spec, row_spec, rows_spec;

/* The C gate of a nursery or of the kernel; NULL: it has none, or one that is not C. Borrowed. */
static inline Turnstile *
as_turnstile(State *st, PyObject *gate)
{
    Turnstile *self = (Turnstile *)gate;
    bool whole =
        gate != NULL && PyObject_TypeCheck(gate, st->Turnstile) && self->held != NULL && self->queues->classes != NULL;
    return whole ? self : NULL;
}

/* Whether anybody waits for permission, for the first time or again. */
static inline bool
somebody_waits(const Turnstile *gate)
{
    return gate->queues->length > 0 || PyDict_GET_SIZE(gate->returning) > 0;
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

/* queues.c: who waits. */
int rows_enter(State *st, Rows *rows, Permit *permit); /* 1: it is the first of its class; 0: not; -1: error */
int rows_leave(Rows *rows, Permit *permit);            /* 0, or -1 with an exception set */
int rows_let_in(Rows *rows, const Permit *permit, int64_t now_ns);
int64_t rows_starved_ns(const Permit *permit, int64_t now_ns);

/* The first of a row, which is never empty. Borrowed. */
static inline Permit *
row_first(const Row *row)
{
    return LAW_RECORD(law_queue_oldest(&row->queue), Permit, link);
}

/* resources.c: what fits, what is taken. 1, 0, or -1 with an exception set. */
int books_fit(const Turnstile *gate, PyObject *taken, PyObject *demand); /* if so much were taken: Resources.fits */
int books_spoil(const Turnstile *gate, PyObject *demand, PyObject *reserved);
int books_take(Turnstile *gate, PyObject *demand, int64_t sign); /* take it (1), or give it back (-1) */

/* gate_decide.c: deciding. 0, or -1 with an exception set. */
int gate_settle(Kernel *k, Turnstile *gate);
int gate_take(Turnstile *gate, Permit *permit);                                /* it takes what it asked for, */
int gate_admit(Kernel *k, Turnstile *gate, Permit *permit, int64_t effective); /* and is let in */

/* gate.c. 0, or -1 with an exception set. */
int gate_in_python(Turnstile *gate, const char *method, Kernel *k, PyObject *with); /* 1: it returned something true */
int gate_enter(Kernel *k, Permit *permit, Permit *const *after, Py_ssize_t n);      /* Gate.enter of a plain permit */
int gate_ended(Kernel *k, Task *task); /* the task, which has a permit, is DONE: its gate hears of it */
int k_admit(Kernel *k, Task *task, int64_t priority, int64_t effective); /* Permission.admit */

/* gate_spawn.c: a spawn by the gate, if it is of the usual kind. NULL without an exception: it is not, and nothing was done.
 * `coroutine`: the function is an `async def`; else it is for a thread. */
PyObject *ask_plainly(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
                      bool coroutine);
