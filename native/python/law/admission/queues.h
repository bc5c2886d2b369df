/* Who waits for permission, by classes (queues.c). After law/admission/queues.py. Only the gate changes a queue. */

#pragma once

#include "python/law/admission/ticket.h"

#include "law/lanes.h"

/* Those of one class who wait, first come first served (`WaitClass`). */
struct WaitClass {
    PyObject_HEAD
    LawQueue queue;      /* of tickets, each of which it owns */
    PyObject *key;       /* (priority, demand), as `QueuesCore.classes` has it */
    PyObject *overtaken; /* list of pairs: up to which place, and when */
    int64_t priority;
};

/* All who have everything but permission, by their classes (`QueuesCore`). */
typedef struct QueuesCore {
    PyObject_HEAD
    PyObject *classes; /* dict: (priority, demand) → Row */
    WaitClass *recent; /* borrowed: the one that was entered last, if it is there still; or NULL */
    int64_t interval_ns;
    int64_t boost;   /* per interval of waiting; 0: strict */
    int64_t entered; /* how many ever did */
    int64_t length;
} QueuesCore;

extern PyType_Spec wait_class_spec, queues_spec;

int queues_enter(ModuleState *st, QueuesCore *rows,
                 Ticket *ticket);                   /* 1: it is the first of its class; 0: not; -1: error */
int queues_leave(QueuesCore *rows, Ticket *ticket); /* 0, or -1 with an exception set */
int queues_let_in(QueuesCore *rows, const Ticket *ticket, int64_t now_ns);
int64_t queues_starved_ns(const Ticket *ticket, int64_t now_ns);

/* The first of a row, which is never empty. Borrowed. */
static inline Ticket *
wait_class_first(const WaitClass *wait_class)
{
    return LAW_RECORD(law_queue_oldest(&wait_class->queue), Ticket, link);
}

/* The effective priority, by the aging formula (`Queues.effective`): the priority plus `boost` for each whole interval of
 * waiting. False: it does not fit into 64 bits. */
static inline bool
queues_effective(const QueuesCore *queues, const Ticket *ticket, int64_t now_ns, int64_t *effective)
{
    *effective = ticket->priority;
    if (queues->boost == 0) {
        return true;
    }
    int64_t intervals = (now_ns - ticket->ready_ns) / queues->interval_ns; /* `ready_ns` is never in the future */
    if (intervals > (INT64_MAX - LAW_PRIORITY_MAX) / queues->boost) {
        return false;
    }
    *effective += intervals * queues->boost;
    return true;
}
