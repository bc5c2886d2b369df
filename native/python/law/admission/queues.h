/* Who waits for permission, by classes (queues.c). After law/admission/queues.py. Only the gate changes a queue. */

#pragma once

#include "python/law/admission/ticket.h"

#include "law/lanes.h"

/* Those of one class who wait, first come first served (`Row`). */
struct Row {
    PyObject_HEAD
    LawQueue queue;      /* of permits, each of which it owns */
    PyObject *key;       /* (priority, demand), as `Rows.classes` has it */
    PyObject *overtaken; /* list of pairs: up to which place, and when */
    int64_t priority;
};

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

extern PyType_Spec row_spec, rows_spec;

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
