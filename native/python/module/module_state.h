/* The state of one loaded copy of the extension module: its types, its free lists, and the objects that Python exposed.
 *
 * Each interpreter that imports bursar._native has its own state; only the memory meter has static state. Any C file may read
 * the state. Only module.c (types, free lists, strings) and seam.c (what Python exposes) fill it. A free list is changed by
 * the file of its record.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/cpython/freelist.h"
#include "python/module/names_from_python.h"

#include "law/generated/enums.h"

#include <stdbool.h>

typedef struct Request Request;

typedef struct ModuleState {
    PyTypeObject *Kernel, *Task, *Nursery, *CancelScope, *Timer, *Timers, *Pool, *SpawnTerms, *Wait, *Entry, *WaitList,
        *Worker, *QueueView, *Children, *Request, *Operation, *Resume, *Driver, *Checkpoint, *Sleep, *Join, *Ended,
        *TaskHandle, *NurseryHandle, *NurseryBlock, *Event, *EventWait, *Channel, *Send, *Receive, *Next, *ChannelEnd,
        *SendEnd, *ReceiveEnd, *Arguments, *TraceWriter, *TraceRing, *Ticket, *GateTotalsCore, *GateCore, *WaitClass,
        *QueuesCore, *ThreadJob, *OnThread;
    /* the members of the law's enumerations, by number */
#define X(kind, members, n) PyObject *members[n];
    SEAM_ENUMS(X)
#undef X
    /* what Python exposed, by name and by number: see names_from_python.h */
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
    struct LawLink *dealloc_later;                /* tasks that are to be freed once the others have been: see task.c */
    int dealloc_depth;                            /* how many tasks are being freed, one because of the other */
    int polls; /* how many polls or batches have begun and not ended: nested, or in several threads */
    bool adopted;
    bool gc_aside_works;      /* see gc_aside.c */
    bool contexts_comparable; /* see context.c */
} ModuleState;

/* The state of the module that made this type, or a type that it is derived from. NULL with an exception set: the type
 * is not one of ours. */
ModuleState *state_of(PyTypeObject *type);
/* The state of the module that made this type, not a base of it. For destructors: it sets no exception. NULL: the module was
 * cleared. */
ModuleState *state_left(PyTypeObject *type);
