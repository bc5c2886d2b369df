/* Tickets (ticket.c): what admission knows of one task. After law/admission/ticket.py.
 *
 * The gate makes and changes tickets; a task holds its own, and shows it to the collector (TICKET-1).
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/records.h"

#include "law/admission/ticket.h"

typedef struct GateCore GateCore;
typedef struct WaitClass WaitClass;

/* What a task was short of when it came first (`ShortageRecord`). */
typedef struct Shortage {
    int64_t since_ns;
    PyObject *resources;
    PyObject *kept_for; /* the name of the task that held a reservation, if another one did; or NULL */
    Py_ssize_t n;
    int64_t taken[]; /* then, of each resource */
} Shortage;

/* Those who follow one task, in the order of their spawning. */
typedef struct Successors {
    struct Ticket **those; /* owned */
    int32_t n;
} Successors;

/* What admission knows of one task (admission/ticket.py). It is *plain* while it has no `rare`. */
typedef struct Ticket {
    PyObject_HEAD
    GateCore *gate;     /* owned, and so is all below; NULL: it is over */
    PyObject *task;     /* of either kernel: the verifier's are Python; NULL: it is over */
    PyObject *demand;   /* tuple of pairs (resource, amount) */
    PyObject *needs;    /* mapping; NULL: none */
    Shortage *shortage; /* its first note, as long as there is no other; or NULL */
    PyObject *reasons;  /* list of what it has waited for besides; NULL: nothing, or only what is above */
    PyObject *rare;     /* dict of the fields that few tickets need, whose defaults the class has; or NULL */
    Successors successors;
    LawLink link;          /* in the queue of its row */
    WaitClass *wait_class; /* borrowed: where it waits for permission; or NULL */
    int64_t priority;
    int64_t entered_ns, ready_ns, waited_ns, starved_ns;
    int64_t place;            /* among all that ever were in a queue */
    int32_t dependency_count; /* how many it was to follow */
    int32_t unmet;            /* and has to wait for still */
    uint8_t state;            /* LawTicket */
    bool named;               /* by the spawn that is under way, as one that is to be followed */
} Ticket;

extern PyType_Spec ticket_spec;

/* A ticket of this demand; `needs` may be NULL. New reference. */
Ticket *ticket_new(ModuleState *st, GateCore *gate, int64_t priority, PyObject *demand, PyObject *needs);

int ticket_show(PyObject *ticket, visitproc visit,
                void *arg);            /* TICKET-1: on behalf of the task that has it; or NULL */
void ticket_leave(PyObject *ticket);   /* TICKET-1: its task lets go of it; or NULL */
bool ticket_is_done(PyObject *ticket); /* TICKET-2 */
/* Its first note: so much was taken. `kept_for` may be NULL. 0, or -1 with an exception set. */
int ticket_note_shortage(Ticket *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for);
int successors_add(Successors *successors, Ticket *ticket); /* 0, or -1 with MemoryError set */
void successors_drop(Successors *successors);

/* The ticket of a task, if it is plain; NULL: it has none, or there is more to it. Borrowed. */
static inline Ticket *
plain_ticket(ModuleState *st, const Task *task)
{
    PyObject *ticket = task->extra != NULL ? task->extra->ticket : NULL;
    bool plain = FAST_PATHS && ticket != NULL && Py_TYPE(ticket) == st->Ticket && ((Ticket *)ticket)->rare == NULL;
    return plain ? (Ticket *)ticket : NULL;
}
