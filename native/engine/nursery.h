/* Nurseries: which tasks belong to which owner, when all children have ended, and the result.
 *
 * A nursery does not list all its children. A child that never waits need not be found: it ends by itself. So a child
 * enters the nursery's list when it waits for the first time. A cancel request wakes the children in the list. Every
 * other child sees the nursery's state at the next point where it could wait. The request travels down from owner to
 * owner: a task that gets it cancels the nurseries that it has opened. So it needs no recursion, and no lock over more
 * than one nursery.
 *
 * NURSERY-2 and NURSERY-4 of law/nursery.h hold here too. Four more rules:
 *
 * CHILDREN-1  every task is a child of exactly one nursery; a task opens a nursery, or an outside thread does (a root)
 * CHILDREN-2  a nursery reaches a terminal state only in the await or after its owner has ended, and only without live
 *     children
 * CHILDREN-3  live = living children + NURSERY_BIAS − children that the owner spawned + children that ended above the
 *     owner (help_children.c), until the owner stops spawning. So the owner counts its spawns in its own memory, and
 *     the end of a child is one subtraction or none. Afterwards live is the number of living children, and the thread
 *     that brings it to 0 is the last to touch the nursery
 * CHILDREN-4  a task does not end before the nurseries that it has opened are drained. If it panicked or left one open,
 *     the thread that ends the last child also ends the task
 *
 * Rejected: a list of all children (two locked changes for a task that computes for a few nanoseconds); a tree of
 * cancel tokens (a second tree beside the tree of nurseries, which could disagree with it).
 */
#pragma once

#include "engine/park.h"
#include "engine/purse.h"
#include "engine/task.h"
#include "law/nursery.h"

#define NURSERY_BIAS (INT64_C(1) << 60) /* more children than can ever live */

/* What waits for the children. */
typedef enum {
    AWAIT_NONE = 0,
    AWAIT_TASK = 1,   /* the owner, parked */
    AWAIT_THREAD = 2, /* an outside thread, asleep */
    AWAIT_END = 3,    /* the owner has ended; its end continues when the children have ended (CHILDREN-4) */
} AwaitKind;

typedef struct {
    LawBudget budget; /* LAW_OPEN: shares the pool of the owner, or the root's */
    bool keep_going;  /* a failure does not cancel the siblings */
    bool hold;        /* a task that cannot pay waits for a recharge instead of ending */
} NurseryOptions;

typedef struct Nursery {
    SlabHead head;
    atomic_u32 state;   /* LawNurseryState; changed under the lock */
    atomic_u32 watched; /* not 0: run SchedulerOptions.cancel_hook when this nursery is cancelled */
    struct Scheduler *scheduler;
    Task *owner;           /* NULL: a root */
    struct Nursery *outer; /* the nursery that its owner opened before */
    Purse *purse;
    uint64_t id;
    uint64_t spawned;           /* by the owner, which alone writes this */
    uint64_t ended;             /* children that ended above the owner, which alone writes this */
    uint64_t spawned_by_others; /* under the lock */
    uint32_t requests_seen;     /* the scheduler's count of cancel requests when the nursery was opened (HELP-1) */
    Lock lock;
    bool own_purse, keep_going, hold;
    bool failed;         /* under the lock, as the rest */
    uint8_t cancel_kind; /* LawCancelKind, once CANCELLING */
    uint8_t awaits;      /* AwaitKind: written before the bias is subtracted */
    Ending failure;
    Task *await_task;
    Parker *await_parker;
    LawQueue have_waited; /* children that have waited at least once */
    LawLink root_link;
    /* CHILDREN-3. Other threads write this and the next field at every end; the owner reads the fields above at every
     * spawn. */
    atomic_i64 live;
    atomic_u32 drained;
} Nursery;

_Static_assert(offsetof(Nursery, live) >= offsetof(Nursery, requests_seen) + 64, "so they are on different lines");

/* The options of a task. A plain task has only `entry` and `arg`. */
typedef struct {
    int64_t (*entry)(void *arg);
    void *arg;
    int64_t (*through)(
        void *task);  /* an adapter that is called instead of `entry`, and finds `entry` and `arg` in the task */
    const char *name; /* must stay valid until the task has ended */
    size_t stack_bytes;
    const LawBudget *budget;   /* NULL: shares the nursery's purse */
    const LawBudget *recharge; /* CapBudget: its limit for itself; only a task that has it can pass it on. NULL: none */
    struct Lender *lender;     /* fills its purse; `budget` then states all five. NULL: none */
    int64_t *value_out;
    TaskDone done;
    void *done_arg;
} TaskOptions;

/* Called by the slab once per record. */
void nursery_prepare(void *record);

/* Open a nursery. `owner` is the running task, or NULL for a root; `options` may be NULL. Returns NULL if there is no
 * memory, if the owner's purse is empty, or if the scheduler stops: `*error` is ENGINE_MEMORY, ENGINE_BUDGET or
 * ENGINE_STOPPING. */
Nursery *nursery_open(struct Scheduler *scheduler, Task *owner, const NurseryOptions *options, int *error);

/* Cancel the nursery. Returns true for the first request; later ones have no effect. The caller is the owner, or keeps
 * the nursery from being freed in another way. */
bool nursery_cancel(Nursery *nursery, LawCancelKind kind);

/* Why the nursery was cancelled, if it was. For the owner, a child, or a caller that keeps the nursery from being
 * freed. */
LawCancelKind nursery_reason(Nursery *nursery);

/* Cancel while the caller holds the lock of the roots. The hook is not run; nursery_run_cancel_hook does that later. */
bool nursery_cancel_silent(Nursery *nursery, LawCancelKind kind);
void nursery_run_cancel_hook(Nursery *nursery, uint32_t generation, LawCancelKind kind);

/* The same as nursery_cancel, for a caller that holds only a generation: ENGINE_OK, or ENGINE_INVALID if the record
 * belongs to another nursery by now. */
int nursery_cancel_if(Nursery *nursery, uint32_t generation, LawCancelKind kind);

/* The owner: wait until all children have ended, and get the result in `*ending`; a task passes the address of its
 * `awaited`. A task that must stop meanwhile cancels the nursery and goes on waiting. Never fails; afterwards the
 * nursery is terminal and may be freed. */
void nursery_await(Nursery *nursery, Task *caller, Ending *ending);

/* The same, and free the nursery. */
void nursery_await_and_free(Nursery *nursery, Task *caller, Ending *ending);

/* Deliver a cancel request to a task: note it, and cancel the nurseries that the task has opened. */
void task_deliver_cancel(Task *task);

/* Free a terminal nursery that is off its owner's list. `worker` is the caller's, or NULL on an outside thread. */
void nursery_free(Nursery *nursery, struct Worker *worker);

/* The same for a caller that holds only a generation: ENGINE_OK; ENGINE_INVALID if the record belongs to another
 * nursery by now; ENGINE_AGAIN if the nursery is not terminal. */
int nursery_free_if(Nursery *nursery, uint32_t generation);

/* ---- for the end of a task */

/* A child has ended. If it was the last one, wake the task or thread that awaits. If the owner itself waits for that
 * with its own end (CHILDREN-4), return the owner: the caller must end it. */
Task *nursery_child_ended(struct Worker *worker, Nursery *nursery);

/* The owner has ended and left this nursery open: cancel it, and begin to wait. True: it has no living children. */
bool nursery_abandon(Nursery *nursery);

/* All children have ended: enter the terminal state, give the purse back, leave the owner's list. */
void nursery_close(Nursery *nursery, Ending *ending);

/* Note a failed child; cancel its siblings unless the nursery says `keep_going`. */
void nursery_note_failure(Nursery *nursery, const Ending *ending);

/* The number of a task, unique in the scheduler. */
static inline uint64_t
task_id(const Task *task)
{
    return task->nursery->id << 32 | task->number;
}

static inline LawNurseryState
nursery_state(const Nursery *nursery)
{
    return (LawNurseryState)load_u32(&nursery->state, ACQUIRE);
}

static inline bool
nursery_cancelled(const Nursery *nursery)
{
    LawNurseryState state = (LawNurseryState)load_u32(&nursery->state, RELAXED);
    return state == LAW_NURSERY_CANCELLING || state == LAW_NURSERY_CANCELLED;
}

/* Whether a task must stop. */
static inline bool
task_cancelled(const Task *task)
{
    return task_cancel_requested(task) || nursery_cancelled(task->nursery);
}
