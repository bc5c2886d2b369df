/* The C kernel: the records of src/bursar/law as C structures, and who may touch them.
 *
 * Every type here has a Python face with the attributes of its namesake in src/bursar/law, so that the rare parts of
 * the law (holds, recharges, obligations, what a cut-off task leaves behind) are not written a second time: they are
 * the Python methods themselves, working on these records. What happens to every task at every poll is C, and is
 * written after the Python file of the same name, decision for decision.
 *
 * Ownership of references:
 *   RECORD-1  a nursery owns a reference to each of its live children; a lane, a wait list or a timer borrows its task,
 *       because a task in one of them lives
 *   RECORD-2  a wait list owns the entries in it, and only borrows tasks that stand in it by themselves ("bare" waits)
 *   RECORD-3  whoever calls out to Python (an observer, a request written in Python) must expect every record to have
 *       changed afterwards, and holds references to what it still needs
 *   RECORD-4  while a task lives the collector does not track it: its nursery shows the collector what the task refers
 *       to, as if it were its own. So a crowd of tasks costs young collections nothing. Whoever else holds a live task,
 *       its permit or its gate also holds its kernel. A DONE task is an object like any other, or, if its result is
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
#include "python/module/module_state.h"
#include "law/budget.h"
#include "law/cancel.h"
#include "law/chain.h"
#include "law/decide.h"
#include "law/lanes.h"
#include "law/nursery.h"
#include "law/state.h"
#include "law/steal.h"
#include "law/wake.h"

typedef struct Kernel Kernel;
typedef struct Task Task;
typedef struct Nursery Nursery;
typedef struct Block Block;
typedef struct Timer Timer;
typedef struct Entry Entry;
typedef struct Request Request;

/* ---- pools (budget.py) */

typedef struct Pool {
    PyObject_HEAD
    LawPool account;     /* its `parent` is that of the object below */
    struct Pool *parent; /* owned; NULL in a root pool */
} Pool;

/* Where tasks that were spawned alike share what does not change: their pools, capabilities and permit. */
typedef struct Terms {
    PyObject_HEAD
    PyObject *pools;        /* tuple of five Pool */
    PyObject *capabilities; /* mapping: kind -> capability */
    PyObject *spawn_cap;    /* the CapSpawn that counts the task; NULL: none does */
} Terms;

/* ---- tasks (task.py) */

/* What most tasks never need; made at its first use. */
typedef struct TaskMore {
    PyObject *reason;        /* why the task itself is cancelled */
    Block *inner;            /* the innermost open block; owned */
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
    PyObject *permit;              /* what admission knows of it; NULL: it never had to ask */
    PyObject *memory;              /* its MemoryAccount; NULL: nobody meters it, or it has not run yet */
    int64_t spent[LAW_COMPONENTS]; /* all but ops, which the task counts itself */
    int8_t short_of;
} TaskMore;

struct Task {
    PyObject_HEAD
    union {
        LawLink link; /* READY: its lane; BLOCKED and bare: the wait list. First, like that of a wait: see `who_of` */
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
    Terms *terms;      /* owned */
    TaskMore *more;    /* or NULL */
    int64_t ops_spent;
    union {
        int32_t turn_left; /* RUNNING: ops until its turn is over */
        int32_t home;      /* READY: the worker whose lane it is in */
    };
    uint32_t stamp;              /* when it joined its queue; in the timed lane: its place in the heap */
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
    uint16_t by_hand        : 1; /* what it waits for was yielded by a generator: that gets the plain result */
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
    PyObject *name;    /* NULL: made when somebody asks */
    Task *owner;       /* owned; NULL only in the root */
    Block *scope;      /* owned; NULL only in the root */
    LawQueue children; /* ring of live children, in the order of spawning; owned (RECORD-1) */
    LawLink own;       /* its place among the nurseries of its owner */
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
    PyObject *gate; /* who admits its children; NULL: they start at once */
    Terms *terms;   /* those of the last child, for the next one; or NULL */
    uint8_t state;
    bool explicit_caps;
    bool cancel_on_failure;
    bool hold;
};

/* ---- scopes (cancel.py): a task is one itself, see `scope_*` below */

struct Block {
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

/* A request that is written in C says here what it is. All of these may fail: -1 or NULL with an exception set. */
typedef struct RequestVT {
    LawCost cost;
    bool timed;
    bool quiet; /* performing it runs nothing of the program's: the thread may stay in the task's context */
    /* The result (new reference), or SUSPENDED once the kernel knows how the poll ended. NULL: an operation. */
    PyObject *(*perform)(Kernel *, Task *, Request *);
    int (*ready)(Kernel *, Task *, Request *); /* 1 or 0 */
    PyObject *(*take)(Kernel *, Task *, Request *);
    int (*enlist)(Kernel *, Request *, PyObject *who); /* who: a Task that waits bare, or an Entry */
    int (*enlisted)(Kernel *, Request *);              /* or NULL */
    int (*delist)(Kernel *, Request *, PyObject *who);
    /* The kernel in which `take` would succeed here and now; borrowed. NULL: it might have to wait, or be refused, or
     * nobody knows. A NULL in the table: it is never asked. */
    Kernel *(*at_hand)(const Request *);
} RequestVT;

struct Request {
    PyObject_HEAD
    const RequestVT *vt; /* NULL: written in Python */
    bool awaited;        /* it was given out by `await`, and not by a generator that yields it */
};

/* ---- timers (timers.py) */

struct Timer {
    PyObject_HEAD
    uint64_t id;
    int64_t deadline_ns;
    uint64_t generation;
    Task *task;       /* owned */
    PyObject *scope;  /* a Block, or NULL */
    Py_ssize_t place; /* in the heap; -1 = not armed */
    uint8_t kind;
};

typedef struct Timers {
    PyObject_HEAD
    Kernel *kernel; /* borrowed: the kernel owns its timers */
    Timer **heap;   /* owned references */
    Py_ssize_t length;
    Py_ssize_t room;
    uint64_t next_id;
    PyObject *observer; /* that of the kernel */
} Timers;

/* ---- dispatch (lanes.py, dispatch.py) */

typedef struct TimedEntry {
    int64_t deadline_ns;
    uint64_t id;
    uint64_t generation;
    Task *task;
} TimedEntry;

typedef struct Worker {
    PyObject_HEAD
    int id;
    LawQueue cancel, pinned, stealable;
    TimedEntry *timed;
    Py_ssize_t n_timed, room_timed;
    uint32_t cancel_streak;
    uint32_t timed_streak;
    uint32_t stamp;
    uint32_t next_victim;
    bool steal_enabled;
    LawStream stream;
    int64_t dispatched[LAW_LANES];
    int64_t injected, steals, steals_failed, stolen_from;
} Worker;

struct Kernel {
    PyObject_HEAD
    struct State *st;
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
    LawStream rounds;
    int *order;
    int place;
    LawQueue injector;
    int64_t draining_regions;
    PyObject *draining_holders; /* dict: tasks that clean up and hold obligations, longest first */
    Timers *timers;
    PyObject *registry; /* law.capability.Registry, whose counts may lag behind: see kernel.c */
    PyObject *observer; /* NULL: evidence is off and costs one comparison */
    struct Pen *pen;    /* that of the observer, if it has one: see writer.h; owned */
    PyObject *counters; /* Counter */
    Nursery *root;
    PyObject *driver;
    PyObject *gate;         /* who admits those whose nursery has no gate, and who have to ask; or NULL */
    PyObject *spawn_permit; /* the CapSpawn that was found good last */
    Terms *spawn_terms;     /* the terms under which it was found; owned */
    Terms *last_terms;      /* those of the child that was spawned last; owned */
    PyObject *heritage;     /* the capabilities that a nursery without its own took over whole, last; or NULL */
    int64_t uses;           /* spawns less ends under it that the registry does not know of yet */
    PyObject *snapshot;     /* the context that the last spawned task began with; or NULL */
    PyObject *stage;        /* the context that tasks which share one run in; or NULL: see context.c */
    PyObject *cancel_args;  /* the tuple with the reason of the last Cancelled that was made; or NULL */
    PyObject *cancel_spare; /* a Cancelled with these arguments that nobody holds any more; or NULL */
    Task *promised;         /* whose cleanup timer is promised: see cleanup.c; owned; or NULL: nobody's */
    uint64_t promised_id;
    int64_t promised_ns; /* the number and the deadline of that timer */
    Task *on_stage;      /* borrowed: the one that does so now, which lives; NULL: nobody; else see `context_stays` */
    PyObject *timer_permit;               /* the CapTimer that was found good last */
    PyObject *threads;                    /* the pool that the last plain function was handed to; or NULL */
    Terms *thread_terms;                  /* the terms under which that was allowed; owned */
    PyObject *thread_code, *thread_notes; /* and of what code and with what annotations it was, if it was a function */
    PyObject *doom;                       /* what ends the run at the next step: see `k_doom`; NULL: nothing */
    Aside aside;              /* what of its records the collector does not look at; open while somebody drives it */
    PyObject *revoked;        /* the registry's set of revoked serials */
    PyObject *default_spawns; /* int or None */
    bool inherit;
    bool answers;         /* a poll is on, and what it awaits may be answered on the spot: see request.c */
    unsigned long thread; /* where it runs, as threading.get_ident says; 0: nobody said */
};

/* ---- helpers */

/* Whether an object is a task. Nobody derives from that type, so its destructor tells it from all others. */
void task_dealloc(Task *task);
static inline bool
is_task(const PyObject *thing)
{
    return Py_TYPE(thing)->tp_dealloc == (destructor)task_dealloc;
}

/* The task or wait that a link of a wait list belongs to: both have their link first. */
static inline PyObject *
who_of(LawLink *link)
{
    return (PyObject *)(void *)((char *)link - sizeof(PyObject));
}

static inline LawLink *
link_of(PyObject *who)
{
    return (LawLink *)(void *)((char *)who + sizeof(PyObject));
}

/* The pool of one component. */
static inline Pool *
pool_of(PyObject *pools, int component)
{
    return (Pool *)PyTuple_GET_ITEM(pools, component);
}

COLD int rule_broken(const char *name); /* always -1, with AssertionError set */

/* A rule that a program can break by tearing a run down in the middle: an error that stops the run, as in Python. */
static inline int
rule(bool holds, const char *name)
{
    return LIKELY(holds) ? 0 : rule_broken(name);
}

/* Tell the observer, if there is one. `detail` is a new reference that is given away, or NULL with an exception set
 * (making it failed); it is evaluated only if somebody listens. 0, or -1 with an exception set. */
#define NOTE(k, what, task, detail) ((k)->observer == NULL ? 0 : k_note((k), (what), (task), (detail)))
#define NOTHING Py_NewRef(Py_None)

/* ---- pool.c */
extern PyType_Spec pool_spec, terms_spec;
PyObject *pools_root(State *st, PyObject *budget); /* the tuple of a root nursery */
Terms *terms_new(State *st, PyObject *pools, PyObject *capabilities, PyObject *spawn_cap);

/* ---- task.c */
extern PyType_Spec task_spec;
int task_visit(Task *task, visitproc visit, void *arg); /* what it refers to, its type apart */
int task_clear(Task *task);                             /* let go of all that */
TaskMore *task_more(Task *task);                        /* made if need be; NULL with MemoryError set */
bool task_has_children(const Task *task);
PyObject *task_outcome(State *st, Task *task); /* new reference: the Outcome of a DONE task, None before */
int task_move(Task *task, LawState to);        /* -1 with IllegalTransition set */
/* Whether it was given a function and has not begun: there is no coroutine yet. */
static inline bool
task_unborn(const Task *task)
{
    return !task->started && task->state != LAW_STATE_DONE && task->work != NULL && PyFunction_Check(task->work);
}
static inline Block *
task_inner(const Task *task)
{
    return task->more ? task->more->inner : NULL;
}
static inline Kernel *
task_kernel(const Task *task)
{
    return task->nursery->kernel;
}
/* What a TaskMore says of a cancellation, or goes without saying where there is none (CANCEL-5 in cancel.c). */
static inline int32_t
task_requested(const Task *task)
{
    return task->more ? task->more->requested : task->phase == LAW_PHASE_REQUESTED;
}
static inline int32_t
task_draining(const Task *task)
{
    return task->more ? task->more->draining : task->phase == LAW_PHASE_DRAINING;
}
static inline PyObject * /* borrowed, or NULL */
task_reason(const Task *task)
{
    return task->more ? task->more->reason : task->phase != LAW_PHASE_IDLE && task->nursery ? task->nursery->why : NULL;
}
static inline int64_t
task_cleanup_left(const Task *task)
{
    int64_t whole = task->more == NULL && task->phase == LAW_PHASE_DRAINING ? task_kernel(task)->cleanup_ops : -1;
    return task->more ? task->more->cleanup_left : whole;
}

static inline bool
task_cleans_up(const Task *task)
{
    return task->more ? task->more->cleanup_left >= 0 : task->phase == LAW_PHASE_DRAINING;
}

/* ---- task_arguments.c */
extern PyType_Spec arguments_spec;
PyObject *arguments_new(State *st, PyObject *const *items,
                        Py_ssize_t n); /* new reference, or NULL with MemoryError set */
void arguments_dealloc(Arguments *arguments);
/* Those of a task that has not begun; NULL: what its `answer` is, if it has one, is none. */
static inline Arguments *
task_arguments(const Task *task)
{
    bool has = task->answer != NULL && Py_TYPE(task->answer)->tp_dealloc == (destructor)arguments_dealloc;
    return has ? (Arguments *)(void *)task->answer : NULL;
}

/* The call of a task's function failed, which is the failure of the task: a coroutine that raises the error, or NULL. */
COLD PyObject *task_raise_later(State *st);
/* Make the coroutine of a task that is `task_unborn`. */
static inline int
task_begin(State *st, Task *task)
{
    Arguments *args = task_arguments(task);
    task->answer = NULL;
    PyObject *work = function_call(task->work, args ? args->item : NULL, args ? (size_t)Py_SIZE(args) : 0);
    if (!LIKELY(work != NULL) && (work = task_raise_later(st)) == NULL) {
        task->answer = (PyObject *)args;
        return -1;
    }
    Py_XDECREF((PyObject *)args);
    Py_SETREF(task->work, work);
    return 0;
}

/* ---- nursery.c */
extern PyType_Spec nursery_spec, children_spec;
Nursery *nursery_new(Kernel *k, uint64_t id, PyObject *name, Task *owner, PyObject *pools, PyObject *purse_of,
                     PyObject *capabilities);
int nursery_move(Nursery *nursery, LawNurseryState to);
PyObject *nursery_name(Nursery *nursery); /* new reference */
PyObject *nursery_children_list(Nursery *nursery);
static inline bool
nursery_quiet(const Nursery *nursery)
{
    return law_queue_empty(&nursery->children);
}
/* Whoever waits for that, a Task that waits bare or an Entry, is known to the nursery, and no more if it waits no longer. */
static inline void
nursery_join(Nursery *nursery, PyObject *who)
{
    Py_XSETREF(nursery->joining, Py_NewRef(who));
}
static inline void
nursery_unjoin(Nursery *nursery, PyObject *who) /* NULL: its request was taken apart already */
{
    if (nursery != NULL && nursery->joining == who) {
        Py_CLEAR(nursery->joining);
    }
}

/* ---- scope.c */
extern PyType_Spec block_spec;
Block *block_new(State *st, Task *task); /* becomes the innermost one; the collector does not know it yet */
/* A scope is a Block or a Task. */
Task *scope_task(PyObject *scope);
PyObject *scope_parent(PyObject *scope); /* borrowed; NULL for a task */
uint8_t scope_phase(PyObject *scope);
PyObject *scope_reason(PyObject *scope); /* borrowed or NULL */

/* ---- wait.c, waitlist.c */
extern PyType_Spec wait_spec, entry_spec, waitlist_spec;
WaitList *waitlist_new(State *st);
Entry *entry_new(State *st, Task *task, PyObject *operation);
/* Put a task that waits bare, or a wait, of which the list takes a reference, at the end. A second time changes nothing. */
void waitlist_join(WaitList *list, PyObject *who);
void waitlist_leave(WaitList *list, PyObject *who); /* if it is in; may drop the last reference to a wait */
PyObject *waitlist_oldest(WaitList *list);          /* borrowed, or NULL if empty */
PyObject *waitlist_take(WaitList *list);            /* the oldest, taken out: new reference, or NULL if empty */
static inline bool
waitlist_empty(const WaitList *list)
{
    return law_queue_empty(&list->queue);
}
Task *who_task(PyObject *who);                     /* borrowed */
PyObject *who_operation(State *st, PyObject *who); /* borrowed, or NULL: not the entry of an operation */
PyObject *task_wait(State *st, Task *task);        /* new reference: a wait that stands for what it does, or None */

/* ---- timers.c */
extern PyType_Spec timer_spec, timers_spec;
Timers *timers_new(State *st, Kernel *k);
Timer *timers_arm(State *st, Timers *timers, int64_t deadline_ns, int kind, Task *task,
                  PyObject *scope); /* new reference */
Timer *timers_arm_as(State *st, Timers *timers, uint64_t id, int64_t deadline_ns, int kind, Task *task);
int timers_disarm(Timers *timers, Timer *timer);       /* idempotent; -1 only if the observer failed */
Timer *timers_first(const Timers *timers);             /* borrowed, or NULL */
Timer *timers_pop_due(Timers *timers, int64_t now_ns); /* new reference, disarmed and without a note; or NULL */
/* The deadline of what is armed now and runs for so long: no later than the end of time (`TIME_END_NS`). */
static inline int64_t
k_deadline(const Kernel *k, int64_t for_ns)
{
    return for_ns > LAW_TIME_END_NS - k->now_ns ? LAW_TIME_END_NS : k->now_ns + for_ns;
}
/* ---- worker.c */
extern PyType_Spec worker_spec;
Worker *worker_new(State *st, int id, uint64_t seed);
int worker_reserve_timed(Worker *worker); /* room for one more entry; -1 with MemoryError set */
void worker_push_timed(Worker *worker, Task *task, int64_t deadline_ns); /* after worker_reserve_timed */
void worker_remove_timed(Worker *worker, Task *task);
Task *worker_earliest(const Worker *worker, int64_t now_ns); /* the earliest entry, if it is due; else NULL */

/* ---- deferred_error.c: all return 0, or -1 with an exception set */
int k_note(Kernel *k, const char *what, Task *task, PyObject *detail);
int k_count(Kernel *k, const char *counter);
/* Something failed in the middle of a change that must not stay half done. The exception that is set is put aside, the
 * change is carried on, and the run ends with the first such exception at its next step. Always 0. */
int k_doom(Kernel *k);
COLD int k_doom_again(const Kernel *k); /* always -1, with the exception set again */
static inline int
k_doomed(const Kernel *k)
{
    return LIKELY(k->doom == NULL) ? 0 : k_doom_again(k);
} /* -1 if so */

/* ---- dispatch.c, and dispatch_fast.h for what every poll does: the same */
int k_reserve_timed(Kernel *k, Task *task); /* so that queueing it by a timer cannot fail for want of memory */
int k_ready(Kernel *k, Task *task, bool timed, int64_t deadline_ns);   /* READY and queued (DISPATCH-1) */
int k_enqueue(Kernel *k, Task *task, bool timed, int64_t deadline_ns); /* it is READY already */
int k_unqueue(Kernel *k, Task *task);                                  /* a READY task leaves its lane */
void k_forget(Kernel *k, Task *task); /* a run is dropped in the middle: out of its lane */

/* ---- wake.c: the same */
int k_poll_over(Kernel *k, Task *task);
void k_discard_answer(Task *task);
int k_blocked(Kernel *k, Task *task, PyObject *wait);                   /* a Wait, or whatever behaves like one */
int k_blocked_bare(Kernel *k, Task *task, Request *operation);          /* after it was enlisted by itself */
int k_end_wait(Kernel *k, Task *task, bool timed, int64_t deadline_ns); /* READY, and queued as `k_ready` does */
int k_wake(Kernel *k, Task *task, uint64_t generation, PyObject *value, PyObject *error, bool effect,
           LawNotice *notice);
int k_answer(Kernel *k, PyObject *who, PyObject *value); /* `who` was taken off its list; the operation took place */
int k_refuse(Kernel *k, PyObject *who, PyObject *error);
int k_unpause(Kernel *k, Task *task); /* a BLOCKED one was paused: its wakes count again */
int k_interrupt(Kernel *k, Task *task);

/* ---- ledger.c */
typedef enum {
    BILL_ERROR = -1,
    BILL_PAID = LAW_BILL_PAID,
    BILL_SUSPENDED = LAW_BILL_SUSPENDED,
    BILL_CUT = LAW_BILL_CUT,
    BILL_REFUSED = LAW_BILLS
} BillResult;
BillResult k_bill(Kernel *k, Task *task, const LawCost *cost, PyObject *row, PyObject **refusal);

/* ---- cancel.c: after law/cancel.py; all return 0, or -1 with an exception set */
int cancel_move(State *st, PyObject *scope, LawCancelPhase to);
void cancel_look(State *st, Task *task);
PyObject *cancel_deliverable(State *st, Task *task);         /* borrowed, or NULL: nothing can be delivered */
int cancel_deliver(Kernel *k, Task *task, PyObject **error); /* *error: new reference to what to throw, or NULL */
/* The error has passed through the task that it was thrown into, and is given away: it may serve the next one. */
void cancel_spent(Kernel *k, PyObject *error);
int cancel_request(Kernel *k, PyObject *scope, PyObject *reason);
int cancel_request_nursery(Kernel *k, Nursery *nursery, PyObject *reason);
int cancel_require_innermost(Kernel *k, Block *block);
int cancel_leave(Kernel *k, Block *block);
int cancel_leave_all(Kernel *k, Task *task);
PyObject *cancel_reason_new(State *st, LawCancelKind kind, PyObject *detail, PyObject *by); /* borrows both */
/* The reason in a Cancelled, as its property says it; borrowed, and NULL if there is none. */
static inline PyObject *
cancelled_reason(PyObject *error)
{
    PyObject *args = ((PyBaseExceptionObject *)error)->args;
    bool has = args != NULL && PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None;
    return has ? PyTuple_GET_ITEM(args, 0) : NULL;
}

/* ---- cleanup.c: the same */
int cancel_begin_cleanup(Kernel *k, Task *task);
int cancel_pause_cleanup(Kernel *k, Task *task);
int cancel_resume_cleanup(Kernel *k, Task *task);
int cancel_end_cleanup(Kernel *k, Task *task);
int cleanup_promise(Kernel *k, Task *task); /* the running task may clean up, and its timer is promised (CLEANUP-1) */
COLD int cleanup_keep(Kernel *k);           /* arm the timer that is promised */
static inline int
cleanup_kept(Kernel *k)
{
    return LIKELY(k->promised == NULL) ? 0 : cleanup_keep(k);
} /* if one is */

/* ---- kernel.c: families, ends, time */
extern PyType_Spec kernel_spec;
enum { SPAWN_PINNED = 1, SPAWN_ACTING = 2, SPAWN_AGAIN = 4 }; /* the flags of `Kernel.spawn` */
Task *k_spawn(Kernel *k, Nursery *nursery, PyObject *name, PyObject *budget, PyObject *capabilities, unsigned how,
              Task *spawner, PyObject *permit); /* new reference; permit: NULL, or what it waits for permission with */
Nursery *k_open_nursery(Kernel *k, Task *owner, PyObject *name, PyObject *budget, PyObject *capabilities);
int k_close_nursery(Kernel *k, Nursery *nursery);
int k_end_nursery(Kernel *k, Nursery *nursery);
int k_finish(Kernel *k, Task *task, LawOutcome kind, PyObject *content,
             PyObject *outcome);                        /* 1: done; 0: it waits for children */
int k_returned(Kernel *k, Task *task, PyObject *value); /* with a value, which is given away; 0, or -1 */
PyObject *k_capability(Kernel *k, Task *task, PyObject *kind, const char *operation); /* borrowed; NULL: refused */

/* ---- request.c, poll.c, driver.c and the operations in C */
extern PyType_Spec request_spec, operation_spec, resume_spec, driver_spec;
PyObject *request_perform(Kernel *k, Task *task, Request *request); /* any request; new reference, SUSPENDED, or NULL */
int operation_delist(Kernel *k, PyObject *operation, PyObject *who);
