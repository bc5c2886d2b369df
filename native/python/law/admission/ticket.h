/* Tickets (ticket.c): what a gate knows of one task. After law/admission/ticket.py.
 *
 * The gate changes a ticket. The task holds its ticket, and visits what the ticket refers to (TICKET-1).
 */

#pragma once

#include "python/law/records.h"

#include "law/admission/ticket.h"

typedef struct GateCore GateCore;
typedef struct WaitClass WaitClass;

/* What a ticket was short of when it first came first, in numbers. Python reads it as a ShortageRecord. */
typedef struct Shortage {
    int64_t since_ns;
    PyObject *resources;
    PyObject *kept_for; /* the name of another task that held a reservation; or NULL */
    Py_ssize_t n;
    int64_t taken[]; /* what was taken of each resource at that moment */
} Shortage;

/* The tickets of the tasks that follow one task, in the order of their spawning. */
typedef struct Successors {
    struct Ticket **tickets; /* owned */
    int32_t n;
} Successors;

/* A ticket is *plain* while it has no `rare` fields: C may act on it. */
typedef struct Ticket {
    PyObject_HEAD
    GateCore *gate;     /* owned, like all pointers up to `successors`; NULL: the task has ended */
    PyObject *task;     /* of either kernel, because a verifier uses Python tasks; NULL: the task has ended */
    PyObject *demand;   /* tuple of pairs (resource, amount) */
    PyObject *needs;    /* mapping; NULL: no needs */
    Shortage *shortage; /* its only wait reason, if that is a shortage that Python has not read; otherwise NULL */
    PyObject *reasons;  /* list of its wait reasons; NULL: none, or only `shortage` */
    PyObject *rare;     /* dict of the fields that few tickets need; the class has their defaults; or NULL */
    Successors successors;
    LawLink link;          /* in the queue of `wait_class` */
    WaitClass *wait_class; /* borrowed: the class in which it waits for permission; or NULL */
    int64_t priority;
    int64_t entered_ns, ready_ns, waited_ns, starved_ns;
    int64_t place;            /* its number among all tickets that ever entered the queues */
    int32_t dependency_count; /* how many tasks it had to follow when it asked */
    int32_t unmet;            /* how many of them have not succeeded yet */
    uint8_t state;            /* LawTicket */
    bool named;               /* the spawn under way names this ticket's task as a dependency */
} Ticket;

extern PyType_Spec ticket_spec;

/* A ticket with this demand, without a task and untracked (TICKET-1); `needs` may be NULL. New reference, or NULL with
 * MemoryError set. */
Ticket *ticket_new(ModuleState *st, GateCore *gate, int64_t priority, PyObject *demand, PyObject *needs);

/* Visit the ticket, or what an untracked ticket refers to, for the task that holds it (TICKET-1). `ticket` may be
 * NULL. */
int ticket_visit(PyObject *ticket, visitproc visit, void *arg);
/* The task drops its ticket: track a ticket that outlives the task (TICKET-1). `ticket` may be NULL. */
void ticket_release(PyObject *ticket);
/* Whether the ticket is over, untracked, and holds nothing that leads back to it (TICKET-2). */
bool ticket_is_done(PyObject *ticket);
/* Note what the ticket is short of, as its first wait reason. `kept_for` may be NULL. 0, or -1 with an exception
 * set. */
int ticket_note_shortage(Ticket *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for);
int successors_add(Successors *successors, Ticket *ticket); /* 0, or -1 with MemoryError set */
void successors_drop(Successors *successors);
