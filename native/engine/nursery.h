/* Nurseries: who belongs to whom, when a family is complete, and what it came to.
 *
 * A nursery does not list all its children. One that never waits needs nobody to find it: it ends by itself. So a child
 * enters the nursery's list when it waits for the first time, and a request to stop wakes those in the list; everybody
 * else sees the nursery's state at the next point where it could wait. The request travels down from owner to owner: a
 * task that is told cancels what it has opened. So it needs no recursion, and no lock over more than one nursery.
 *
 * NURSERY-2 and NURSERY-4 of law/nursery.h hold here too. Four more rules:
 *
 * CHILDREN-1  every task is a child of exactly one nursery; a nursery is opened by a task, or by a thread outside (a root)
 * CHILDREN-2  a terminal state is reached only in the await, or when the owner has ended, and only without live children
 * CHILDREN-3  live = children alive + NURSERY_BIAS − those that the owner spawned + those that ended above it (help_children.c),
 *     until the owner stops spawning: so its spawns count in its own memory, and an end is one subtraction or none.
 *     Afterwards live is what it says, and whoever brings it to 0 is the last to touch the nursery
 * CHILDREN-4  a task does not end before the nurseries that it has opened are drained; if it panicked, whoever ends the last
 *     child also ends the task
 *
 * Rejected: a list of all children (two locked changes per task that computes a few nanoseconds); a tree of cancel tokens
 * (a second tree beside the one of nurseries that can disagree with it).
 */
#pragma once

#include "engine/budget.h"
#include "engine/park.h"
#include "engine/task.h"
#include "law/nursery.h"

#define NURSERY_BIAS (INT64_C(1) << 60) /* more children than will ever live */

/* Who waits for the children. */
typedef enum {
    AWAIT_NOBODY = 0,
    AWAIT_TASK = 1,   /* the owner, parked */
    AWAIT_THREAD = 2, /* a thread outside, asleep */
    AWAIT_END = 3,    /* the owner has ended: its end goes on when they are gone (CHILDREN-4) */
} AwaitKind;

typedef struct {
    LawBudget budget; /* LAW_OPEN: shares the pool of the owner, or the root's */
    bool keep_going;  /* a failure does not cancel the siblings */
    bool hold;        /* a task that cannot pay waits for a recharge instead of ending */
} NurseryOptions;

typedef struct Nursery {
    SlabHead head;
    atomic_u32 state;   /* LawNurseryState; changed under the lock */
    atomic_u32 watched; /* not 0: somebody outside is to hear of a cancellation; see SchedulerOptions.cancel_hook */
    struct Scheduler *scheduler;
    Task *owner;           /* NULL: a root */
    struct Nursery *outer; /* the one that its owner opened before */
    Purse *purse;
    uint64_t id;
    uint64_t spawned;       /* by the owner: only it writes this */
    uint64_t ended;         /* above the owner: only it writes this */
    uint64_t handed;        /* by others, under the lock */
    uint32_t requests_seen; /* how many requests to stop, of all, there were when it was opened (HELP-1) */
    Lock lock;
    bool own_purse, keep_going, hold;
    bool failed;         /* under the lock, as the rest */
    uint8_t cancel_kind; /* LawCancelKind, once CANCELLING */
    uint8_t awaits;      /* AwaitKind: written before the bias goes */
    Ending failure;
    Task *await_task;
    Parker *await_parker;
    LawQueue waiting; /* children that have waited at least once */
    LawLink root_link;
    /* CHILDREN-3. Others write this and the next at every end; the owner reads what is above at every spawn. */
    atomic_i64 live;
    atomic_u32 drained;
} Nursery;

_Static_assert(offsetof(Nursery, live) >= offsetof(Nursery, requests_seen) + 64, "so they are on different lines");

/* What a task is made of. All zero but `entry` is a plain one. */
typedef struct {
    int64_t (*entry)(void *arg);
    void *arg;
    int64_t (*through)(void *task); /* an adapter that is called instead, and finds `entry` and `arg` in the task */
    const char *name;               /* borrowed until the task has ended */
    size_t stack_bytes;
    const LawBudget *budget; /* NULL: shares the nursery's purse */
    const LawBudget
        *recharge; /* CapBudget: what it may give itself; NULL: nothing. Only a task that has it can pass it on */
    struct Lender *lender; /* who fills its purse; `budget` then states all five. NULL: nobody */
    int64_t *value_out;
    TaskDone done;
    void *done_arg;
} TaskOptions;

/* Once per record, by the slab. */
void nursery_prepare(void *record);

/* Open a nursery. `owner` is the running task, or NULL for a root; `options` may be NULL.
 * NULL if there is no memory, or the owner's purse has
 * nothing: `*error` is ENGINE_MEMORY, ENGINE_BUDGET or ENGINE_STOPPING. */
Nursery *nursery_open(struct Scheduler *scheduler, Task *owner, const NurseryOptions *options, int *error);

/* Ask the nursery's children to stop. Idempotent. True if it was the first request. For its owner, and for whoever else
 * keeps it from going away. */
bool nursery_cancel(Nursery *nursery, LawCancelKind kind);

/* Why it was cancelled, if it was. For its owner, its children, and whoever else keeps it from going away. */
LawCancelKind nursery_reason(Nursery *nursery);

/* Cancel under the lock of the roots: whoever watches is told later, by nursery_tell. */
bool nursery_cancel_silent(Nursery *nursery, LawCancelKind kind);
void nursery_tell(Nursery *nursery, uint32_t generation, LawCancelKind kind);

/* The same for anybody who holds a generation: ENGINE_OK, or ENGINE_INVALID if the record is another's by now. */
int nursery_cancel_if(Nursery *nursery, uint32_t generation, LawCancelKind kind);

/* The owner: wait until all children have ended, and learn what it came to; a task gives the address of its `awaited`.
 * A task that is asked to stop meanwhile cancels
 * the nursery and goes on waiting. Never fails; the nursery is terminal then and may be freed. */
void nursery_await(Nursery *nursery, Task *caller, Ending *ending);

/* The same, and it is freed as well. */
void nursery_await_and_free(Nursery *nursery, Task *caller, Ending *ending);

/* A task learns that it is to stop: it passes that on to what it has opened. */
void task_tell(Task *task);

/* The owner: take no more children. */
void nursery_shut(Nursery *nursery);

/* Free a terminal nursery that is off its owner's list. `worker` is the caller's, or NULL outside. */
void nursery_free(Nursery *nursery, struct Worker *worker);

/* The same for anybody who holds a generation: ENGINE_OK; ENGINE_INVALID if the record is another's by now; ENGINE_AGAIN if
 * it is not terminal. */
int nursery_free_if(Nursery *nursery, uint32_t generation);

/* ---- for the end of a task */

/* A child has ended. If that was the last one, whoever awaits is woken; if the owner itself is at its end (CHILDREN-4),
 * it is answered, for the caller to go on with. */
Task *nursery_left(struct Worker *worker, Nursery *nursery);

/* The owner has ended and left this nursery open: cancel, and begin to wait. True: there is nobody to wait for. */
bool nursery_abandon(Nursery *nursery);

/* All children are gone: terminal state, purse back, off the owner's list. */
void nursery_close(Nursery *nursery, Ending *ending);

/* Note a failed child; cancels its siblings if the nursery says so. */
void nursery_note(Nursery *nursery, const Ending *ending);

/* The number of a task: no other task of the scheduler has it. */
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

/* Whether a task is to stop. */
static inline bool
task_cancelled(const Task *task)
{
    return task_asked(task) || nursery_cancelled(task->nursery);
}
