/* Workers: the queues of a worker, and which task it runs next.
 *
 *     cancel lane, timed lane, injector     one each for all workers, lock-free, in order of arrival
 *     fresh     of each worker              not started; newest first for the owner, oldest first for thieves
 *     started   of each worker              yielded or woken; oldest first for owner and thieves. Exception: a task whose
 *                                           last child has just ended goes into `fresh`, so a tree also ends depth first
 *
 * law_decide chooses the lane, with the law's streaks. In the ready lane fresh tasks go first: then a tree of tasks is
 * walked depth first, and few stacks are alive. But at most FRESH_STREAK_MAX fresh tasks run in a row while a started
 * task waits, and the injector is checked every LAW_INJECTOR_INTERVAL turns. So no runnable task waits forever.
 *
 * WORKER-1  a task is in at most one queue, and the thread that takes it out dispatches it
 * WORKER-2  a push that finds no memory goes to the injector, which needs none: no task is ever lost
 * WORKER-3  code that made a task visible in a queue that other threads take from calls scheduler_notify afterwards. A
 *     worker's own single-threaded deque (DEQUE-8) is not such a queue
 * WORKER-4  only its worker writes a statistic; any thread may read it
 * WORKER-5  a worker outlives its tasks: a panic or an overflow ends the task and is counted, and the loop goes on
 *
 * Rejected: cancel and timed lanes per worker. A worker that computes for a second would delay the tasks in its lanes.
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

#define FRESH_STREAK_MAX 61u /* as the injector's interval: a started task waits for about that many short tasks */

/* What a worker has done. */
typedef struct {
    atomic_u64 spawned; /* tasks that this worker's tasks spawned */
    atomic_u64 dispatched;
    atomic_u64 finished;
    atomic_u64 cancelled, failed, panicked, cut_off; /* of the finished ones */
    atomic_u64 exhausted;
    atomic_u64 parked; /* waits */
    atomic_u64 yielded;
    atomic_u64 local_takes; /* from its own two queues */
    atomic_u64 injected_takes;
    atomic_u64 steals, steals_failed, stolen; /* stolen: tasks */
    atomic_u64 sleeps;
    atomic_u64 repaired; /* a task was dropped while it ran, and the loop began again (WORKER-5) */
} WorkerStatistics;

/* What was drawn from a purse for the running task, besides ops, and is not used. It stays with the worker as long as
 * the tasks that run in turn pay from that purse. */
typedef struct Credit {
    struct Purse *purse;
    int32_t spawns;   /* each includes one op */
    int32_t messages; /* channel ops */
} Credit;

/* Whether a spawn that `purse` must pay is paid for in advance. */
static inline bool
credit_has_spawn(const Credit *credit, const struct Purse *purse)
{
    return credit->spawns > 0 && credit->purse == purse;
}

typedef struct Worker {
    struct Scheduler *scheduler;
    struct Worker *host;     /* itself; in a deterministic scheduler the worker whose thread all of them share */
    Task *current;           /* the running task; NULL: the loop runs */
    const void *called_from; /* where the last call by context_visit returns to */
    Credit credit;
    Task *pending; /* of a host: the task to run next when the loop begins again */
    uint32_t id;
    uint32_t cancel_streak, timed_streak, fresh_streak, next_victim;
    uint64_t turns;
    LawRandomStream victims; /* seeded: which worker to steal from */
    LawRandomStream choices; /* seeded: which case a select takes */
    SlabCache tasks, nurseries;
    uint64_t nursery_count; /* of the nurseries that were opened here */
    struct runner runner;
    struct stack_cache stacks;
    struct overflow_thread signals;
    pthread_t thread;
    bool has_thread;
    bool wants_timers; /* of a host: the loop must make the thread of the timers */
    WorkerStatistics statistics;
    Deque fresh;
    Deque started;
} Worker;

/* The lane that a woken task goes to. */
typedef enum {
    TO_READY,
    TO_CANCEL,
    TO_TIMED,
    TO_JOIN, /* ready, and comes next: its last child has ended here, and its own parent waits for it */
} WakeLane;

/* Put a woken or new task into a queue, and wake a worker if necessary. `worker` is the caller's own, or NULL outside. */
void worker_submit(struct Scheduler *scheduler, Worker *worker, Task *task, WakeLane lane);

/* The same for TO_READY, by a worker. */
void worker_requeue(Worker *worker, Task *task);

/* The slow half of worker_queue_fresh: the queue must grow. */
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

/* Steal. Returns a task to run, or NULL. Other tasks that were stolen with it are in the worker's own queues. */
Task *worker_steal(Worker *worker);

/* The next task, when the shared lanes may have some. */
Task *worker_next_shared(Worker *worker);

/* Deterministic: choose the next worker and its task. Sets the runner's worker. NULL: nothing can run. */
Task *worker_next_logical(struct runner *runner);

/* Whether this worker has a task in its own queues. */
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

/* Whether the fiber of a task that was taken out of a queue is in this state. A covered task cannot run, and its fiber
 * must not be read. */
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

/* Add one to a counter of this worker, which alone writes it (WORKER-4). */
static inline void
count_one(atomic_u64 *counter)
{
    count_u64(counter);
}
