/* The records of the law as C structures, and the rules of their ownership. The header of each C file declares its
 * functions.
 *
 * A record has the attributes of its namesake in src/bursar/law. So C does not repeat the rare parts of the law (holds,
 * recharges, obligations, the leftovers of a cut task): the Python methods work on these records. C does what happens
 * to every task at every poll, and takes the same decisions as the Python file that the first lines of each C file
 * name. A C file that names no Python file has no twin.
 *
 * Ownership of references:
 *   RECORD-1  a nursery owns a reference to each of its live children; a lane or a wait list borrows its tasks, because
 *       a task in one of them is alive
 *   RECORD-2  a wait list owns the entries in it, and borrows the tasks that wait in it without an entry ("bare")
 *   RECORD-3  a call into Python (an observer, a request written in Python) may change every record. The caller holds
 *       references to what it still needs, and reads fields again
 *   RECORD-4  the collector does not track a live task; the task's nursery visits what the task refers to, as if the
 *       nursery referred to it. So young collections do not visit live tasks. Any other object that holds a live task,
 *       its ticket or its gate also holds the kernel. A DONE task is tracked, unless its result is plain: then it has
 *       dropped its nursery and holds nothing that could lead back to it. gc_aside.c keeps the other parts of a live
 *       task away from the collector
 *   RECORD-5  a type may do without tp_clear, as a tuple does, if its objects refer to at most one thing, set when the
 *       object is made and never changed. A reference cycle through such an object goes on through that thing, to a
 *       channel, an event, a kernel, a nursery or an account set, and the collector breaks it there. A class derived in
 *       Python clears what it adds. tests/native/kernel/test_uncleared.py has the list
 * Only the thread that runs the runtime may touch a record, and it holds the GIL. Other threads call `Pump.post`.
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
#include "law/cancel.h"
#include "law/chain.h"
#include "law/decide.h"
#include "law/heap.h"
#include "law/lanes.h"
#include "law/nursery.h"
#include "law/pool.h"
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

/* ---- pools (pool.py) */

typedef struct Pool {
    PyObject_HEAD
    LawPool account;     /* `account.parent` is the account of `parent` below (ACCOUNT-1) */
    struct Pool *parent; /* owned; NULL in a root pool */
} Pool;

/* What tasks of equal spawns share, because it never changes: pools, capabilities, the CapSpawn of their spawner. */
typedef struct SpawnTerms {
    PyObject_HEAD
    PyObject *pools;        /* tuple of five Pool; with named counters a NamedPools */
    PyObject *capabilities; /* mapping: kind -> capability */
    PyObject *spawn_cap;    /* the CapSpawn that counts the task; NULL: no CapSpawn counts it */
} SpawnTerms;

/* ---- tasks (task.py) */

/* The fields that most tasks never need; made at their first use. */
typedef struct TaskExtra {
    PyObject *reason;        /* why the task itself is cancelled */
    CancelScope *inner;      /* the innermost open cancel scope; owned */
    int32_t requested;       /* how many scopes of the task were asked to stop and have not delivered that yet */
    int32_t draining;        /* how many have delivered it and are not left yet */
    LawQueue owned;          /* the nurseries that the task has open, outermost first; owned */
    PyObject *obligations;   /* dict or NULL */
    PyObject *waiters;       /* WaitList of the tasks that wait for its end; or NULL */
    int64_t cleanup_left;    /* ops left for cleanup; -1: the task does not clean up */
    int64_t cleanup_left_ns; /* time left for cleanup, while `cleanup_timer` is not armed */
    Timer *cleanup_timer;    /* owned */
    int64_t credit_used;
    Task *credit_of;               /* owned */
    PyObject *ending;              /* the Outcome of a task whose code has ended while its children live */
    PyObject *ticket;              /* NULL: the task never needed admission and was never paused */
    PyObject *memory;              /* its MemoryAccount; NULL: there is no memory meter, or the task has not run yet */
    PyObject *named_spent;         /* dict: name -> what it has spent of a named counter; or NULL */
    int64_t spent[LAW_COMPONENTS]; /* by component; ops are in `ops_spent` of the task instead */
    int64_t cpu_due;               /* nanoseconds of processor time that it has used and could not pay */
    int8_t short_of;
} TaskExtra;

struct Task {
    PyObject_HEAD
    union {
        LawLink
            link; /* in a lane (READY) or a wait list (BLOCKED, bare). At the place of `Wait.link`: see `waiter_of` */
        Timer *timer; /* of a sleep (BLOCKED, bare), if `timed` is set; owned */
    };
    LawLink sibling;  /* in the children of its nursery, while it lives */
    Nursery *nursery; /* owned */
    uint64_t id;
    uint64_t generation;
    int64_t since_ns;
    PyObject *name;
    PyObject *work; /* the coroutine; before the task begins perhaps the function, with its Arguments in `answer`;
                       once DONE the result: value, error or reason, or with `whole` the Outcome */
    PyObject *context;
    PyObject *answer;  /* the value that the next poll sends or, with `raises`, the error that it throws; NULL: None */
    PyObject *pending; /* BLOCKED: what it waits for; otherwise its `unpaid_request`; or NULL */
    SpawnTerms *terms; /* owned */
    TaskExtra *extra;  /* or NULL */
    int64_t ops_spent;
    union {
        int32_t turn_left; /* RUNNING: ops until its turn is over */
        int32_t home;      /* READY: the number of the worker whose lane it is in */
    };
    uint32_t stamp;              /* the order in which it joined its queue; in the timed lane: its entry in the heap */
    int16_t worker;              /* the worker where it ran last, or to which it is pinned; -1: none yet */
    uint8_t state;               /* LawState */
    uint8_t wake;                /* LawWake */
    uint8_t lane;                /* LawLane; LAW_LANE_IDLE: in no lane */
    uint8_t phase;               /* LawCancelPhase of the task as a scope */
    uint16_t kind           : 3; /* LawOutcome, once DONE */
    uint16_t whole          : 1; /* `work` is an Outcome, not only its value, error or reason */
    uint16_t pinned         : 1;
    uint16_t started        : 1;
    uint16_t effect         : 1; /* `answer` is the result of an operation that took place */
    uint16_t raises         : 1; /* `answer` is an error */
    uint16_t cancel_pending : 1;
    uint16_t cut            : 1;
    uint16_t bare           : 1; /* it waits without an entry: `pending` is the operation */
    uint16_t timed          : 1; /* bare, with a timer */
    uint16_t by_generator   : 1; /* a generator yielded what it waits for, and gets the plain result */
    uint16_t borrows        : 1; /* it shares its context with other tasks: see context.c */
    uint16_t queue          : 2; /* LawTake: its queue in the ready lane */
};

/* The arguments with which the function of a task is called when the task begins. */
typedef struct Arguments {
    PyObject_VAR_HEAD
    PyObject *item[];
} Arguments;

/* ---- nurseries (nursery.py) */

struct Nursery {
    PyObject_HEAD
    Kernel *kernel; /* owned */
    uint64_t id;
    PyObject *name;     /* NULL: made when it is first read */
    Task *owner;        /* owned; NULL only in the root */
    CancelScope *scope; /* owned; NULL only in the root */
    LawQueue children;  /* the live children, in the order of spawning; owned (RECORD-1) */
    LawLink owned_link; /* in `owned` of its owner */
    int64_t spawned;
    PyObject *failures; /* list or NULL */
    PyObject *failed;   /* set or NULL */
    PyObject *reason;
    PyObject *why;     /* the reason that its children got when it was cancelled (CANCEL-5 in cancel.c); or NULL */
    PyObject *joining; /* what waits for its children: a Task that waits bare, or an Entry; owned; or NULL */
    PyObject *pools;
    PyObject *purse_of;
    PyObject *capabilities;
    PyObject *exhausted; /* dict or NULL */
    PyObject *exhausted_waiter;
    PyObject *ends; /* deque or NULL */
    PyObject *ends_waiter;
    PyObject *drops;   /* the unread drops of its children (admission/drops.py); or NULL */
    PyObject *gate;    /* admits its children; NULL: `kernel->gate` does, for children that need admission */
    SpawnTerms *terms; /* the terms of the last child, for the next one; or NULL */
    uint8_t state;
    bool explicit_caps;
    bool cancel_on_failure;
    bool hold;
    bool sealed; /* the end of its block seals it; in the root: the default of the other nurseries */
};

/* ---- scopes (cancel.py): a task is a scope too, see scope.h */

struct CancelScope {
    PyObject_HEAD
    PyObject *parent; /* a CancelScope or the Task; owned */
    Task *task;       /* owned */
    PyObject *reason;
    Timer *timer;
    Nursery *body_of; /* owned; the nursery owns this scope too. Cleared when the nursery ends */
    uint8_t phase;
    bool shielded;
    bool exiting;
};

/* ---- waiting (wake.py, request.py) */

typedef struct Wait {
    PyObject_HEAD
    LawLink link; /* in a wait list, which then owns the wait; at the place of `Task.link` */
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
    PyObject *scope;    /* the CancelScope that a deadline cancels; or NULL */
    LawHeapEntry entry; /* in the heap of timers; 0: not armed */
    uint8_t kind;       /* a LawTimerKind */
};

typedef struct Timers {
    PyObject_HEAD
    Kernel *kernel; /* borrowed: the kernel owns its timers */
    LawHeap heap;   /* owns the timers in it */
    uint64_t next_id;
    PyObject *observer; /* the observer of the kernel */
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
    int32_t turn; /* `yield_interval`, at most INT32_MAX: what `turn_left` starts with */
    int64_t cleanup_ops;
    int64_t cleanup_ns;
    int64_t runnable;
    int64_t live;
    int64_t spawned;
    int64_t done[5];
    uint64_t decisions;
    uint64_t chain;
    uint64_t next_id;
    Task *current;     /* borrowed: the one RUNNING task (DISPATCH-2), which is alive */
    Worker *at;        /* borrowed from `workers`: the worker that decided this step; NULL between steps */
    PyObject *workers; /* tuple of Worker; only the end of the kernel drops it */
    Worker *only;      /* borrowed from `workers`: the worker, if there is only one; otherwise NULL */
    int n_workers;
    LawStealPolicy policy;
    LawRandomStream rounds; /* shuffles `order` at the beginning of a round */
    int *order;             /* the numbers of the workers, in the order of this round */
    int place;              /* the place in `order` of the worker that decides next */
    LawQueue injector;
    int64_t draining_nurseries;
    PyObject *draining_holders; /* dict of the tasks that clean up and hold obligations, oldest cleanup first */
    Timers *timers;
    PyObject *registry;               /* law.capability.Registry; its counts lag behind by `postponed.uses` */
    PyObject *observer;               /* NULL: there is none, and an event costs one comparison */
    struct TraceWriter *trace_writer; /* the trace writer of the observer, if it has one: see writer.h; owned */
    PyObject *counters;               /* Counter */
    Nursery *root;
    PyObject *runtime;
    PyObject *gate; /* the gate of the runtime: for tasks that need admission and whose nursery has no gate; or NULL */
    KernelCaches caches;      /* see kernel_caches.h */
    Postponed postponed;      /* what is decided and not carried out yet: see kernel_caches.h */
    PyObject *deferred_error; /* the error that ends the run at the next step: see `k_defer_error`; or NULL */
    GcAside gc_aside;         /* records that the collector does not visit; open while a driver runs the kernel */
    PyObject *revoked;        /* the registry's set of revoked serials */
    PyObject *default_spawns; /* int or None */
    bool inherit;
    bool answers;         /* a poll runs, and its awaits may be answered at once: see request.c */
    unsigned long thread; /* the thread that drives the run now, by threading.get_ident; 0: there is no run */
};
