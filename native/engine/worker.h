/* Workers: where the tasks of one worker wait, and which one is next.
 *
 *     cancel lane, timed lane, injector     one each for all workers, lock-free, in order of arrival
 *     fresh     of each worker              not started; newest first for the owner, oldest first for thieves
 *     started   of each worker              yielded or woken; oldest first for everybody. Only one whose last child has just
 *                                           ended goes among the fresh ones: a tree is finished in depth too
 *
 * The lanes are chosen by law_decide, with the law's streaks. Inside the ready lane fresh tasks go first, because a tree of
 * tasks is then walked in depth and few stacks are alive; but at most FRESH_STREAK_MAX in a row while a started one waits,
 * and the injector is looked at every LAW_INJECTOR_INTERVAL turns. So nothing that is runnable waits for ever.
 *
 * WORKER-1  a task is in at most one queue; whoever takes it out dispatches it
 * WORKER-2  a push that finds no memory goes to the injector instead, which needs none: no task is ever lost
 * WORKER-3  whoever made a task visible in a queue that others take from calls scheduler_notify afterwards; own queues
 *     are not such if they are lone (DEQUE-8)
 * WORKER-4  statistics are written by their worker alone, and may be read by anybody
 * WORKER-5  a worker outlives its tasks: a panic or an overflow ends the task, is counted, and the loop goes on
 *
 * Rejected: cancel and timed lanes per worker. A worker that computes for a second would hold up what is asked to stop.
 */
#pragma once

#include <pthread.h>

#include "engine/deque.h"
#include "engine/idle.h"
#include "engine/task.h"
#include "fiber/overflow.h"
#include "hints.h"
#include "law/chain.h"
#include "law/steal.h"

#define FRESH_STREAK_MAX 61u /* as the injector's interval: a started task waits for about that many short ones */

/* What a worker has done. */
typedef struct {
    atomic_u64 spawned; /* tasks that were spawned by this worker's tasks */
    atomic_u64 dispatched;
    atomic_u64 finished;
    atomic_u64 cancelled, failed, panicked, cut_off; /* of these */
    atomic_u64 exhausted;
    atomic_u64 parked; /* waits */
    atomic_u64 yielded;
    atomic_u64 local_takes; /* from its own two queues */
    atomic_u64 injected_takes;
    atomic_u64 steals, steals_failed, stolen; /* stolen: tasks */
    atomic_u64 sleeps;
    atomic_u64 repaired; /* a task was dropped in the middle, and the loop began anew (WORKER-5) */
} WorkerStatistics;

/* What was drawn from a purse for the task that runs, besides ops, and is not used. It stays with the worker as long as one
 * task after another pays from that purse. */
typedef struct Credit {
    struct Purse *purse;
    int32_t spawns;   /* one op each is in it */
    int32_t messages; /* channel ops */
} Credit;

/* Whether a spawn that `purse` is to pay is paid for. */
static inline bool
credit_has_spawn(const Credit *credit, const struct Purse *purse)
{
    return credit->spawns > 0 && credit->purse == purse;
}

typedef struct Worker {
    struct Scheduler *scheduler;
    struct Worker *host;     /* itself; in a deterministic scheduler the one whose thread all of them share */
    Task *current;           /* the task that runs; NULL: the loop does */
    const void *called_from; /* where the last call by context_visit is to return to */
    Credit credit;
    Task *pending; /* of a host: the task to go on with when the loop begins anew */
    uint32_t id;
    uint32_t cancel_streak, timed_streak, fresh_streak, next_victim;
    uint64_t turns;
    LawRandomStream victims; /* seeded: whom to steal from */
    LawRandomStream choices; /* seeded: which case a select takes */
    SlabCache tasks, nurseries;
    uint64_t nursery_count; /* that were opened here */
    struct runner runner;
    struct stack_cache stacks;
    struct overflow_thread signals;
    pthread_t thread;
    bool has_thread;
    bool wants_timers; /* of a host: the loop is to make the thread of the timers */
    WorkerStatistics statistics;
    Deque fresh;
    Deque started;
} Worker;

/* The lane that a woken task goes to. */
typedef enum {
    TO_READY,
    TO_CANCEL,
    TO_TIMED,
    TO_JOIN, /* ready, and next: its last child has ended here, and its own parent waits for it */
} WakeLane;

/* Put a task, which is QUEUED, into a queue, and have somebody woken if need be. `worker` is the caller's own, or NULL
 * on a thread outside. */
void worker_submit(struct Scheduler *scheduler, Worker *worker, Task *task, WakeLane lane);

/* The same for TO_READY by a worker. */
void worker_requeue(Worker *worker, Task *task);

/* The same for a task that is what comes next, by its worker, when the queue must be made larger: see worker_queue_fresh. */
void worker_queue_full(Worker *worker, Task *task);

/* Wake a task (TASK-3). `from_hold` as for task_notified. */
static inline void
worker_wake(struct Scheduler *scheduler, Worker *worker, Task *task, WakeLane lane, bool from_hold)
{
    if (!task_notified(task, from_hold)) {
        return;
    }
    if (lane == TO_READY && LIKELY(worker != NULL)) {
        worker_requeue(worker, task);
    } else {
        worker_submit(scheduler, worker, task, lane);
    }
}

/* Steal: a task to run, or NULL. Others that came with it are in the worker's own queues. */
Task *worker_steal(Worker *worker);

/* Deterministic: which worker goes next, and with what. Sets the runner's worker. NULL: nothing can run. */
Task *worker_next_logical(struct runner *runner);

/* Whether this worker, or with NULL some worker, has a task in its own queues. */
bool worker_has_ready(const Worker *worker);

/* The task runs from here on. */
static inline void
task_begin(Worker *worker, Task *task)
{
    task_dispatched(task);
    worker->current = task;
    task->has_drawn = false;
    count_u64(&worker->statistics.dispatched);
}

/* Whether a task that was taken out of a queue can be resumed; one that is covered cannot, and its fiber is not to be looked
 * at. */
static inline bool
task_is(const Task *task, enum fiber_state state)
{
    return load_u32(&task->covered, ACQUIRE) == 0 && task->fiber.state == (uint8_t)state;
}

static inline Worker *
task_worker(const Task *self)
{
    return self->fiber.runner->worker;
}

/* One more of something. Only the worker writes it (WORKER-4). */
static inline void
count_one(atomic_u64 *counter)
{
    count_u64(counter);
}
