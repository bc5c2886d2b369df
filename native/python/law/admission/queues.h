/* The tickets that wait for permission, by class (queues.c). After law/admission/queues.py. Only the gate changes
 * them. */

#pragma once

#include "python/law/admission/ticket.h"

#include "law/lanes.h"

/* The waiting tickets of one class, first come, first served. */
struct WaitClass {
    PyObject_HEAD
    LawQueue queue;      /* of tickets, which it owns */
    PyObject *key;       /* (priority, demand): its key in `QueuesCore.classes` */
    PyObject *overtaken; /* list of (the last place that was overtaken, when) */
    int64_t priority;
};

/* All tickets that wait for permission only, by class. */
typedef struct QueuesCore {
    PyObject_HEAD
    PyObject *classes; /* dict: (priority, demand) → WaitClass */
    WaitClass *recent; /* borrowed: the class that a ticket entered last, if it is still in `classes`; or NULL */
    int64_t interval_ns;
    int64_t boost;   /* per interval of waiting; 0: strict */
    int64_t entered; /* how many tickets ever entered */
    int64_t length;
} QueuesCore;

extern PyType_Spec wait_class_spec, queues_spec;

/* Add a ticket. 1: it is the first of its class; 0: it is not; -1: error. */
int queues_enter(ModuleState *st, QueuesCore *queues, Ticket *ticket);
/* Take a ticket out. 0, or -1 with an exception set. */
int queues_leave(QueuesCore *queues, Ticket *ticket);
/* A ticket is admitted: note that the waiting tickets of lower priority were overtaken. 0, or -1 with an exception
 * set. */
int queues_let_in(QueuesCore *queues, const Ticket *ticket, int64_t now_ns);
/* How long the ticket has waited since it was first overtaken. */
int64_t queues_starved_ns(const Ticket *ticket, int64_t now_ns);

/* The first ticket of a class, which is never empty. Borrowed. */
static inline Ticket *
wait_class_first(const WaitClass *wait_class)
{
    return LAW_RECORD(law_queue_oldest(&wait_class->queue), Ticket, link);
}
