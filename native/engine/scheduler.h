/* The scheduler: the workers, the lanes that they share, and the memory that everything comes from.
 *
 *     spawn ──► fresh queue of the spawning worker ──► called on that worker's stack ──► ends
 *                  ▲ thieves take the oldest             │ waits: keeps the stack
 *     outside ──► injector                               ▼
 *                                        started queue of the waking worker ──► resumed ──► …
 *
 * Three other designs were rejected: a global queue with a lock (every spawn writes a shared line); a stack for every
 * task (a stack switch even for tasks that never wait); a thread for every blocked task (here it costs 4 KiB, not a
 * thread).
 *
 * A deterministic scheduler has the same workers and queues, but no threads. The thread that awaits runs all workers,
 * one decision at a time, and time is virtual. The order is a function of seed, workers, budgets and program, and each
 * decision adds a link to the chain of law/chain.h.
 *
 * SCHEDULER-1  phases only go forward: RUNNING, STOPPING (refuses outside calls, cancels everything), HALTED
 * SCHEDULER-2  after scheduler_stop nothing is left: no thread, no task, no stack, no block of memory
 * SCHEDULER-3  threads are made one at a time, when there is work and no worker sleeps or searches. A worker that was
 *     searching or being made looks for more work when it has found some. So no task waits while all threads are busy
 *     and one more could be made. If a thread cannot be made, that is counted, and the others do the work.
 *     scheduler_start makes the first thread, and fails if it cannot
 * SCHEDULER-4  an outside thread is counted while it is inside a call, and stopping waits for it
 */
#pragma once

#include <pthread.h>

#include "engine/charge.h"
#include "engine/help_children.h"
#include "engine/idle.h"
#include "engine/inject.h"
#include "engine/nursery.h"
#include "engine/purse.h"
#include "engine/slab.h"
#include "engine/task.h"
#include "engine/timer.h"
#include "engine/wait.h"
#include "engine/worker.h"
#include "hints.h"

/* How threads are made: a table, so that a test can refuse. Returns what pthread_create returns. */
typedef struct {
    int (*create)(void *context, pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                  void *arg);
    void *context;
} EngineThreads;

typedef struct {
    uint32_t workers; /* 0: one per processor */
    uint64_t seed;
    bool deterministic;
    bool no_stealing;
    bool sovereign; /* a task without a stated budget may not spawn */
    LawStealPolicy policy;
    LawBudget budget;                  /* of the root purse */
    int64_t yield_interval;            /* 0: LAW_YIELD_INTERVAL */
    uint32_t cleanup_calls;            /* 0: LAW_CLEANUP_OPS */
    const EngineAllocator *memory;     /* NULL: libc */
    const EngineThreads *threads;      /* NULL: pthreads */
    const struct stack_system *system; /* NULL: the kernel */
    /* Called on every thread that runs tasks, before the first task and after the last. `runner` leads to the running
     * task by runner->worker; after the last task it is NULL. */
    void (*thread_hook)(void *context, struct runner *runner);
    /* Called when a watched nursery is cancelled, on the thread and task that cancels it, without a lock. */
    void (*cancel_hook)(void *context, struct Nursery *nursery, uint32_t generation, LawCancelKind kind);
    void *hook_context;
} SchedulerOptions;

enum { SCHEDULER_RUNNING = 0, SCHEDULER_STOPPING = 1, SCHEDULER_HALTED = 2 };

/* Additional state of a deterministic scheduler. */
typedef struct {
    Lock driving;
    uint64_t chain;
    uint64_t decisions;
    int64_t now_ns;
    LawRandomStream turns;   /* which worker decides next */
    const atomic_u32 *until; /* the driver returns when this word has `until_value` */
    uint32_t until_value;
    bool stuck; /* it returned because nothing could run */
} Logical;

typedef struct Scheduler {
    Injector cancel_lane, timed_lane, injector;
    IdleSet idle;
    alignas(CACHE_LINE) atomic_u32 phase; /* from here on: read by all threads, written rarely */
    atomic_u32 requests;                  /* counts cancel requests, each after it is visible: see task_must_stop */
    atomic_u32 dormant;                   /* workers that have no thread yet and may get one */
    uint32_t worker_count;
    Worker *workers;
    const EngineAllocator *memory;
    SchedulerOptions options;
    Slab tasks, nurseries, channels;
    struct stack_pool stacks;
    PurseSet purse_set;
    Timers timers;
    Lock roots_lock;  /* taken before a nursery's lock */
    LawQueue roots;   /* nurseries that outside threads opened */
    LawQueue outside; /* waits of outside threads */
    Logical logical;
    atomic_u64 next_nursery;
    atomic_u64 outside_spawned;
    atomic_u64 threads, threads_refused;
    atomic_u32 starting;      /* not 0: a thread is being made (SCHEDULER-3) */
    atomic_i64 outside_calls; /* SCHEDULER-4 */
    Parker quiet;             /* the thread that stops the scheduler sleeps here */
} Scheduler;

/* Make a scheduler and its first thread. Returns ENGINE_OK; ENGINE_INVALID for options out of range; ENGINE_MEMORY. On
 * an error nothing is left behind. The caller provides the record, aligned to CACHE_LINE; it must not move. */
int scheduler_start(Scheduler *scheduler, const SchedulerOptions *options);

/* Deterministic: run until `*word` is `value`. Returns false if nothing can run any more and it is not. */
bool scheduler_drive(Scheduler *scheduler, const atomic_u32 *word, uint32_t value);

/* The sums over all workers; each counter as in WorkerStatistics. */
typedef struct {
    uint64_t threads, threads_refused;
    uint64_t spawned, dispatched, finished, cancelled, failed, panicked, cut_off, exhausted, parked, yielded;
    uint64_t local_takes, injected_takes, steals, steals_failed, stolen, sleeps, repaired;
} SchedulerStatistics;

void scheduler_statistics(const Scheduler *scheduler, SchedulerStatistics *out);

/* The counters of one worker. ENGINE_OK, or ENGINE_INVALID if there is no such worker. */
int scheduler_worker_statistics(const Scheduler *scheduler, uint32_t worker, SchedulerStatistics *out);

/* Make a thread for the engine, by options.threads. Returns 0, or an errno. */
int scheduler_thread(Scheduler *scheduler, pthread_t *thread, void *(*start)(void *), void *arg);

/* For shutdown.c: free what scheduler_start has made. */
void scheduler_free_worker(Worker *worker);
void scheduler_unprepare(Scheduler *scheduler);

/* The slow half of scheduler_notify: make one more thread. */
void scheduler_grow(Scheduler *scheduler);

/* For a worker that has just found a task. A thread that queued another task may have left it to this worker's search,
 * or to this thread while it was being made. So the worker looks for more work, and makes a thread if no other worker
 * could take it. */
void scheduler_grow_again(Scheduler *scheduler);

/* Whether the running task must stop. It looks closer only if there was a cancel request, to any task, since it last
 * looked. */
static inline bool
task_must_stop(Task *self)
{
    uint32_t requests = load_u32(&task_worker(self)->scheduler->requests, RELAXED);
    return UNLIKELY(requests != self->requests_seen) && task_look_for_requests(self);
}

/* Whether the running task has no unseen request, is not paused, and has not exceeded its budget. A first check. */
static inline bool
task_may_continue(const Scheduler *scheduler, const Task *self)
{
    return load_u32(&scheduler->requests, RELAXED) == self->requests_seen && !self->marks.exceeded &&
           !task_paused(self);
}

/* Whether the running task may go on: ENGINE_OK, ENGINE_CANCELLED or ENGINE_BUDGET. Charges nothing. */
static inline int
task_check(Task *self)
{
    return LIKELY(task_may_continue(task_worker(self)->scheduler, self)) ? ENGINE_OK : task_check_slow(self);
}

/* Charge the running task one op (LAW_OP), mostly from its turn. Returns as task_charge does. */
static inline int
task_charge_op(Task *self)
{
    _Static_assert(LAW_OP_PAIRS == 1, "an op costs ops only");
    if (UNLIKELY(self->ticks_left < LAW_OP_COSTS_OPS || !task_may_continue(task_worker(self)->scheduler, self))) {
        return task_charge(self, &LAW_OP);
    }
    self->ticks_left -= LAW_OP_COSTS_OPS;
    return ENGINE_OK;
}

/* There is a new task in a queue that any worker may take from (WORKER-3). A deterministic scheduler has no sleepers,
 * and no threads to make. */
static inline void
scheduler_notify(Scheduler *scheduler)
{
    idle_notify(&scheduler->idle);
    if (UNLIKELY(load_u32(&scheduler->dormant, RELAXED) != 0)) {
        scheduler_grow(scheduler);
    }
}

/* Queue a spawned task; it comes next on its worker. */
static inline void
worker_queue_fresh(Worker *worker, Task *task)
{
    count_one(&worker->statistics.spawned);
    if (UNLIKELY(!deque_push_within(&worker->fresh, task))) {
        worker_queue_full(worker, task);
    } else if (!worker->fresh.single_threaded) { /* otherwise no thief could take it */
        scheduler_notify(worker->scheduler);
    }
}

/* The task has ended: free its record. */
static inline void
task_free(Worker *worker, Task *task, LawOutcome outcome)
{
    task_word_end(task, outcome);
    count_one(&worker->statistics.finished);
    slab_cache_give(&worker->host->tasks, task);
}
