/* The state of one loaded copy of the extension module: its types, its free lists, and what the Python side gave it.
 *
 * Each interpreter that imports bursar._native has its own state; there is no static state besides the memory meter.
 * Any C file may read the state. Only module.c (types, free lists, strings) and seam.c (what the Python side exposes)
 * fill it; a free list is changed by the file of its record.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/cpython/freelist.h"
#include "python/module/seam_names.h"

#include "law/generated/enums.h"

#include <stdbool.h>

typedef struct Request Request;

typedef struct ModuleState {
    PyTypeObject *Kernel, *Task, *Nursery, *CancelScope, *Timer, *Timers, *Pool, *SpawnTerms, *Wait, *Entry, *WaitList,
        *Worker, *QueueView, *Children, *Request, *Operation, *Resume, *Driver, *Checkpoint, *Sleep, *Join, *Ended,
        *TaskHandle, *NurseryHandle, *NurseryBlock, *Event, *EventWait, *Channel, *Send, *Receive, *Next, *ChannelEnd,
        *SendEnd, *ReceiveEnd, *Arguments, *TraceWriter, *TraceRing, *Ticket, *GateTotalsCore, *GateCore, *WaitClass,
        *QueuesCore, *ThreadJob, *OnThread;
    /* the members of the law's enumerations, by their numbers */
#define X(kind, members, n) PyObject *members[n];
    SEAM_ENUMS(X)
#undef X
    /* what Python exposed, by name and by number: see seam_names.h */
    union {
        PyObject *py[PY_OBJECTS];
        struct {
#define X(name) PyObject *name;
            SEAM_OBJECTS(X)
#undef X
        };
    };
    PyObject *str_throw, *str_hand_over, *str_post, *str_start;
    PyObject *coroutine_throw; /* the method of the type, unbound */
    Request *checkpoint;       /* the one request of its kind */
    FreeList free_tasks, free_handles, free_nurseries, free_nursery_handles, free_blocks, free_scopes, free_timers,
        free_sends, free_receives, free_nexts, free_tickets;
    Py_ssize_t reason_slots[3], outcome_slots[4]; /* where the fields of CancelReason and Outcome are, in order */
    int polls; /* that are under way, or batches of them, one in the other or in several threads */
    bool adopted;
    bool gc_aside_works;      /* see gc_aside.c */
    bool contexts_comparable; /* see context.c */
} ModuleState;

/* The state of the module that made this type, or a type that it is derived from. NULL with an exception set: the type
 * is not one of ours. */
ModuleState *state_of(PyTypeObject *type);
/* The state of the module that made this very type. For destructors: it sets no exception. NULL: the module is gone. */
ModuleState *state_left(PyTypeObject *type);
