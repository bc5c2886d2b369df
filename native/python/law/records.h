/* The records of the law as C structures, and the rules of their ownership. Functions are in the header of each C file.
 *
 * Every type has the attributes of its namesake in src/bursar/law. So the rare parts of the law (holds, recharges,
 * obligations, the remains of a task that was cut off) are not written a second time: the Python methods work on these
 * records. What happens to every task at every poll is C, and follows the Python file of the same name, decision for
 * decision.
 *
 * Ownership of references:
 *   RECORD-1  a nursery owns a reference to each of its live children; a lane, a wait list or a timer borrows its task,
 *       because a task in one of them lives
 *   RECORD-2  a wait list owns the entries in it, and only borrows tasks that stand in it by themselves ("bare" waits)
 *   RECORD-3  a call into Python (an observer, a request written in Python) may change every record. The caller holds
 *       references to what it still needs, and reads fields again
 *   RECORD-4  while a task lives the collector does not track it: its nursery shows the collector what the task refers
 *       to, as if it were its own. So a crowd of tasks costs young collections nothing. Whoever else holds a live task,
 *       its ticket or its gate also holds its kernel. A DONE task is an object like any other, or, if its result is
 *       plain, holds nothing that could lead back to it, its nursery included. What else a living task is made of may be
 *       kept aside: see gc_aside.c.
 *   RECORD-5  a type whose objects refer to one thing at most, set when they are made and never changed, may do without
 *       tp_clear, as a tuple does: a ring through such an object goes on through that one thing, which leads to a
 *       channel, an event, a kernel, a nursery or a book of memory, and there the collector opens it. What a class
 *       derived in Python adds, that class clears. tests/native/kernel/test_uncleared.py has the list.
 * Only the thread that runs the runtime, holding the GIL, may touch any of this; `post` of the pump is for others.
 */

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdbool.h>
#include <stdint.h>

#include "python/cpython/compat.h"
#include "python/cpython/freelist.h"
#include "python/cpython/gc_aside.h"
#include "python/law/kernel_caches.h"
#include "python/module/module_state.h"
#include "law/budget.h"
#include "law/cancel.h"
#include "law/chain.h"
#include "law/decide.h"
#include "law/heap.h"
#include "law/lanes.h"
#include "law/nursery.h"
#include "law/state.h"
#include "law/steal.h"
#include "law/wake.h"

typedef struct Kernel Kernel;
typedef struct Task Task;
typedef struct Nursery Nursery;
typedef struct CancelScope CancelScope;
typedef struct Timer Timer;
typedef struct Entry Entry;
typedef struct Request Request;

/* ---- pools (budget.py) */

typedef struct Pool {
    PyObject_HEAD
    LawPool account;     /* its `parent` is that of the object below */
    struct Pool *parent; /* owned; NULL in a root pool */
} Pool;

/* Where tasks that were spawned alike share what does not change: their pools, capabilities and ticket. */
typedef struct SpawnTerms {
    PyObject_HEAD
    PyObject *pools;        /* tuple of five Pool */
    PyObject *capabilities; /* mapping: kind -> capability */
    PyObject *spawn_cap;    /* the CapSpawn that counts the task; NULL: none does */
} SpawnTerms;

/* ---- tasks (task.py) */

/* What most tasks never need; made at its first use. */
typedef struct TaskExtra {
    PyObject *reason;        /* why the task itself is cancelled */
    CancelScope *inner;      /* the innermost open block; owned */
    int32_t requested;       /* scopes of it that were asked to stop and not told yet */
    int32_t draining;        /* and those that were told and are being unwound */
    LawQueue owned;          /* ring of the nurseries that it has open, outermost first; owned */
    PyObject *obligations;   /* dict or NULL */
    PyObject *waiters;       /* WaitList or NULL: who waits for its end */
    int64_t cleanup_left;    /* ops left for cleanup; -1 = not finalizing */
    int64_t cleanup_left_ns; /* and time, while the timer does not run */
    Timer *cleanup_timer;    /* owned */
    int64_t credit_used;
    Task *credit_of;               /* owned */
    PyObject *ending;              /* an Outcome that was decided while children lived */
    PyObject *ticket;              /* what admission knows of it; NULL: it never had to ask */
    PyObject *memory;              /* its MemoryAccount; NULL: nobody meters it, or it has not run yet */
    int64_t spent[LAW_COMPONENTS]; /* all but ops, which the task counts itself */
    int8_t short_of;
} TaskExtra;

struct Task {
    PyObject_HEAD
    union {
        LawLink
            link; /* READY: its lane; BLOCKED and bare: the wait list. First, like that of a wait: see `waiter_of` */
        Timer *timer; /* BLOCKED and bare in a sleep: `timed` says so; owned */
    };
    LawLink sibling;  /* while it lives: the children of its nursery */
    Nursery *nursery; /* owned */
    uint64_t id;
    uint64_t generation;
    int64_t since_ns;
    PyObject *name;
    PyObject *work; /* the coroutine, or before it begins perhaps the function, whose Arguments are `answer`;
                          once DONE what it came to: value, error or reason, or the whole Outcome */
    PyObject *context;
    PyObject *answer;  /* what the next poll resumes with or, `raises`, by; NULL = None */
    PyObject *pending; /* BLOCKED: what it waits for; else what it could not pay yet (`retry`); or NULL */
    SpawnTerms *terms; /* owned */
    TaskExtra *extra;  /* or NULL */
    int64_t ops_spent;
    union {
        int32_t turn_left; /* RUNNING: ops until its turn is over */
        int32_t home;      /* READY: the worker whose lane it is in */
    };
    uint32_t stamp;              /* when it joined its queue; in the timed lane: its entry in the heap */
    int16_t worker;              /* where it ran last, or is pinned to; -1 = nowhere yet */
    uint8_t state;               /* LawState */
    uint8_t wake;                /* LawWake */
    uint8_t lane;                /* LawLane; LAW_LANE_IDLE: in none */
    uint8_t phase;               /* LawCancelPhase of the task as a scope */
    uint16_t kind           : 3; /* LawOutcome, once DONE */
    uint16_t whole          : 1; /* `work` is an Outcome, not just its content */
    uint16_t pinned         : 1;
    uint16_t started        : 1;
    uint16_t effect         : 1; /* `answer` is the result of an operation that took place */
    uint16_t raises         : 1; /* `answer` is an error */
    uint16_t cancel_pending : 1;
    uint16_t cut            : 1;
    uint16_t bare           : 1; /* it waits by itself, without an entry: `pending` is the operation */
    uint16_t timed          : 1; /* bare, with a timer */
    uint16_t by_generator   : 1; /* what it waits for was yielded by a generator: that gets the plain result */
    uint16_t borrows        : 1; /* its context is shared with others: see context.c */
    uint16_t queue          : 2; /* LawTake: which of the ready queues it is in, if in the ready lane */
};

/* What the function of a task is called with when the task begins. */
typedef struct Arguments {
    PyObject_VAR_HEAD
    PyObject *item[];
} Arguments;

/* ---- nurseries (nursery.py) */

struct Nursery {
    PyObject_HEAD
    Kernel *kernel; /* owned */
    uint64_t id;
    PyObject *name;     /* NULL: made when somebody asks */
    Task *owner;        /* owned; NULL only in the root */
    CancelScope *scope; /* owned; NULL only in the root */
    LawQueue children;  /* ring of live children, in the order of spawning; owned (RECORD-1) */
    LawLink own;        /* its place among the nurseries of its owner */
    int64_t spawned;
    PyObject *failures; /* list or NULL */
    PyObject *failed;   /* set or NULL */
    PyObject *reason;
    PyObject *why;     /* what its children heard when it was stopped: see CANCEL-5 in cancel.c; or NULL */
    PyObject *joining; /* a Task that waits bare, or an entry; owned; NULL: nobody */
    PyObject *pools;
    PyObject *purse_of;
    PyObject *capabilities;
    PyObject *exhausted; /* dict or NULL */
    PyObject *exhausted_waiter;
    PyObject *ends; /* deque or NULL */
    PyObject *ends_waiter;
    PyObject *gate;    /* who admits its children; NULL: they start at once */
    SpawnTerms *terms; /* those of the last child, for the next one; or NULL */
    uint8_t state;
    bool explicit_caps;
    bool cancel_on_failure;
    bool hold;
};

/* ---- scopes (cancel.py): a task is one itself, see `scope_*` below */

struct CancelScope {
    PyObject_HEAD
    PyObject *parent; /* a Block or the Task; owned */
    Task *task;       /* owned */
    PyObject *reason;
    Timer *timer;
    Nursery *body_of; /* owned, and so is its scope by the nursery: let go when the nursery ends */
    uint8_t phase;
    bool shielded;
    bool exiting;
};

/* ---- waiting (wake.py, request.py) */

typedef struct Wait {
    PyObject_HEAD
    LawLink link; /* in a wait list, which then owns it; first, like that of a task */
    Task *task;   /* owned */
    uint64_t generation;
} Wait;

struct Entry {
    Wait wait;
    PyObject *operation;
    PyObject *token;
};

typedef struct WaitList {
    PyObject_HEAD
    LawQueue queue; /* tasks that wait bare, borrowed, and waits, owned (RECORD-2) */
} WaitList;

/* ---- timers (timers.py) */

struct Timer {
    PyObject_HEAD
    uint64_t id;
    int64_t deadline_ns;
    uint64_t generation;
    Task *task;         /* owned */
    PyObject *scope;    /* a Block, or NULL */
    LawHeapEntry entry; /* in the heap of timers; 0: not armed */
    uint8_t kind;       /* a LawTimerKind */
};

typedef struct Timers {
    PyObject_HEAD
    Kernel *kernel; /* borrowed: the kernel owns its timers */
    LawHeap heap;   /* its timers are owned */
    uint64_t next_id;
    PyObject *observer; /* that of the kernel */
} Timers;

/* ---- dispatch (lanes.py, dispatch.py) */

typedef struct Worker {
    PyObject_HEAD
    int id;
    LawQueue cancel, pinned, stealable;
    LawHeap timed;
    uint32_t cancel_streak;
    uint32_t timed_streak;
    uint32_t stamp;
    uint32_t next_victim;
    bool steal_enabled;
    LawRandomStream stream;
    int64_t dispatched[LAW_LANES];
    int64_t injected, steals, steals_failed, stolen_from;
} Worker;

struct Kernel {
    PyObject_HEAD
    struct ModuleState *st;
    int64_t now_ns;
    int64_t yield_interval;
    int32_t turn; /* the same, as far as a turn is counted */
    int64_t cleanup_ops;
    int64_t cleanup_ns;
    int64_t runnable;
    int64_t live;
    int64_t spawned;
    int64_t done[5];
    uint64_t decisions;
    uint64_t chain;
    uint64_t next_id;
    Task *current;     /* borrowed: the one RUNNING task (DISPATCH-2), which lives */
    Worker *at;        /* borrowed from `workers` */
    PyObject *workers; /* tuple of Worker: nothing empties it before its time */
    Worker *only;      /* and again from there, if it is the only one; else NULL */
    int n_workers;
    LawStealPolicy policy;
    LawRandomStream rounds;
    int *order;
    int place;
    LawQueue injector;
    int64_t draining_regions;
    PyObject *draining_holders; /* dict: tasks that clean up and hold obligations, longest first */
    Timers *timers;
    PyObject *registry;               /* law.capability.Registry, whose counts may lag behind: see kernel.c */
    PyObject *observer;               /* NULL: evidence is off and costs one comparison */
    struct TraceWriter *trace_writer; /* that of the observer, if it has one: see writer.h; owned */
    PyObject *counters;               /* Counter */
    Nursery *root;
    PyObject *runtime;
    PyObject *gate;           /* who admits those whose nursery has no gate, and who have to ask; or NULL */
    KernelCaches caches;      /* what is remembered: see kernel_caches.h */
    Postponed postponed;      /* what is decided and not carried out yet: see kernel_caches.h */
    PyObject *deferred_error; /* what ends the run at the next step: see `k_defer_error`; NULL: nothing */
    GcAside gc_aside;         /* what of its records the collector does not look at; open while somebody drives it */
    PyObject *revoked;        /* the registry's set of revoked serials */
    PyObject *default_spawns; /* int or None */
    bool inherit;
    bool answers;         /* a poll is on, and what it awaits may be answered on the spot: see request.c */
    unsigned long thread; /* where it runs, as threading.get_ident says; 0: nobody said */
};
