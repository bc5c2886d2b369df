/* The scheduler: workers, the lanes they share, and what everything is allocated from.
 *
 *     spawn ──► fresh queue of the spawning worker ──► called on that worker's stack ──► ends
 *                  ▲ thieves take the oldest             │ waits: keeps the stack
 *     outside ──► injector                               ▼
 *                                        started queue of whoever woke it ──► resumed ──► …
 *
 * Three ways of doing this were left out: a global queue with a lock (every spawn writes a shared line), a stack for every
 * task (a switch for those that never wait), and a thread for whoever blocks (a blocked task costs 4 KiB, not a thread).
 *
 * A deterministic scheduler has the same workers and queues, but no threads: the thread that awaits runs them all, one
 * decision at a time, and its time is virtual. The order is a function of seed, workers, budgets and program, and each
 * decision adds a link to the chain of law/chain.h.
 *
 * SCHEDULER-1  phases only go forward: RUNNING, STOPPING (nothing new from outside, everything is cancelled), HALTED
 * SCHEDULER-2  after scheduler_stop nothing is left: no thread, no task, no stack, no block of memory
 * SCHEDULER-3  threads are made one at a time, when there is work, nobody sleeps and nobody searches; who was searching
 *     or being made looks for more work when it has found some, so no task waits while all threads are busy and one
 *     could be made. One that cannot be made is counted, and the others do the work. The first one is made by
 *     scheduler_start, and must be
 * SCHEDULER-4  a thread outside is counted while it is inside a call: stopping waits for it
 */
#pragma once

#include <pthread.h>

#include "engine/budget.h"
#include "engine/charge.h"
#include "engine/help_children.h"
#include "engine/idle.h"
#include "engine/inject.h"
#include "engine/nursery.h"
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
    bool sovereign; /* a task that nothing is said about may not spawn */
    LawStealPolicy policy;
    LawBudget budget;                  /* of the root purse */
    int64_t yield_interval;            /* 0: LAW_YIELD_INTERVAL */
    uint32_t cleanup_calls;            /* 0: LAW_CLEANUP_OPS */
    const EngineMemory *memory;        /* NULL: libc */
    const EngineThreads *threads;      /* NULL: pthreads */
    const struct stack_system *system; /* NULL: the kernel */
    /* Called on every thread that runs tasks, before the first and after the last: `runner` leads to the running task by
     * runner->worker, and is NULL afterwards. */
    void (*thread_hook)(void *context, struct runner *runner);
    /* Called when a nursery that is watched is cancelled, on whatever thread or task that is, without a lock. */
    void (*cancel_hook)(void *context, struct Nursery *nursery, uint32_t generation, LawCancelKind kind);
    void *hook_context;
} SchedulerOptions;

enum { SCHEDULER_RUNNING = 0, SCHEDULER_STOPPING = 1, SCHEDULER_HALTED = 2 };

/* What a deterministic scheduler has besides. */
typedef struct {
    Lock driving;
    uint64_t chain;
    uint64_t decisions;
    int64_t now_ns;
    LawRandomStream turns;   /* which worker goes next */
    const atomic_u32 *until; /* the driver leaves when this is set */
    uint32_t until_value;
    bool stuck; /* it left because nothing could run */
} Logical;

typedef struct Scheduler {
    Injector cancel_lane, timed_lane, injector;
    IdleSet idle;
    alignas(CACHE_LINE) atomic_u32 phase; /* from here on read by everybody, written rarely */
    atomic_u32 requests; /* to stop, counted once they can be seen: tells who runs to look (task_must_stop) */
    atomic_u32 dormant;  /* workers that have no thread yet and may get one */
    uint32_t worker_count;
    Worker *workers;
    const EngineMemory *memory;
    SchedulerOptions options;
    Slab tasks, nurseries, channels;
    struct stack_pool stacks;
    PurseSet purse_set;
    Timers timers;
    Lock roots_lock;  /* before a nursery's */
    LawQueue roots;   /* nurseries that were opened outside */
    LawQueue outside; /* waiters that sleep outside */
    Logical logical;
    atomic_u64 next_nursery;
    atomic_u64 outside_spawned;
    atomic_u64 threads, threads_refused;
    atomic_u32 starting; /* a thread is being made (SCHEDULER-3) */
    atomic_i64 guests;   /* SCHEDULER-4 */
    Parker quiet;        /* the one who stops sleeps here */
} Scheduler;

/* Make a scheduler and its first thread. ENGINE_OK, ENGINE_INVALID for options out of range, ENGINE_MEMORY; if it is not
 * OK nothing is left behind. The record is the caller's, aligned to CACHE_LINE, and must not move. */
int scheduler_start(Scheduler *scheduler, const SchedulerOptions *options);

/* Deterministic: run until `*word` is `value`. False if nothing can run any more and it is not. */
bool scheduler_drive(Scheduler *scheduler, const atomic_u32 *word, uint32_t value);

/* What all workers have done together; each counter as in WorkerStatistics. */
typedef struct {
    uint64_t threads, threads_refused;
    uint64_t spawned, dispatched, finished, cancelled, failed, panicked, cut_off, exhausted, parked, yielded;
    uint64_t local_takes, injected_takes, steals, steals_failed, stolen, sleeps, repaired;
} SchedulerStatistics;

void scheduler_statistics(const Scheduler *scheduler, SchedulerStatistics *out);

/* What one of them has done. ENGINE_OK, or ENGINE_INVALID if there is no such worker. */
int scheduler_worker_statistics(const Scheduler *scheduler, uint32_t worker, SchedulerStatistics *out);

/* A thread for the engine, through the table. 0, or an errno. */
int scheduler_thread(Scheduler *scheduler, pthread_t *thread, void *(*start)(void *), void *arg);

/* For shutdown.c: what scheduler_start has made. */
void scheduler_free_worker(Worker *worker);
void scheduler_unprepare(Scheduler *scheduler);

/* The slow half of scheduler_notify: make one more thread. */
void scheduler_grow(Scheduler *scheduler);

/* For a worker that has just found a task: whoever queued another one may have left it to this worker's search, or to this
 * very thread, which was being made. So it looks whether there is more, and makes a thread if nobody else could take it. */
void scheduler_grow_again(Scheduler *scheduler);

/* Whether the running task is to stop. It looks closer only if there were requests, to whomever, since it last did. */
static inline bool
task_must_stop(Task *self)
{
    uint32_t requests = load_u32(&task_worker(self)->scheduler->requests, RELAXED);
    return UNLIKELY(requests != self->requests_seen) && task_look_for_requests(self);
}

/* Whether nothing was asked of the running task, for all it knows, and it is not out of money: a look before it goes on. */
static inline bool
task_undisturbed(const Scheduler *scheduler, const Task *self)
{
    return load_u32(&scheduler->requests, RELAXED) == self->requests_seen && !self->marks.exceeded &&
           !task_paused(self);
}

/* Whether the running task may go on: ENGINE_OK, ENGINE_CANCELLED or ENGINE_BUDGET. Charges nothing. */
static inline int
task_check(Task *self)
{
    return LIKELY(task_undisturbed(task_worker(self)->scheduler, self)) ? ENGINE_OK : task_check_slow(self);
}

/* There is a new task in a queue that anybody may take (WORKER-3). A deterministic scheduler has no sleepers, and none
 * to make. */
static inline void
scheduler_notify(Scheduler *scheduler)
{
    idle_notify(&scheduler->idle);
    if (UNLIKELY(load_u32(&scheduler->dormant, RELAXED) != 0)) {
        scheduler_grow(scheduler);
    }
}

/* A spawned task is what comes next on its worker. */
static inline void
worker_queue_fresh(Worker *worker, Task *task)
{
    count_one(&worker->statistics.spawned);
    if (UNLIKELY(!deque_push_within(&worker->fresh, task))) {
        worker_queue_full(worker, task);
    } else if (!worker->fresh.lone) { /* else nobody could come for it */
        scheduler_notify(worker->scheduler);
    }
}

/* The task has ended, and its record is free. */
static inline void
task_let_go(Worker *worker, Task *task, LawOutcome outcome)
{
    task_word_end(task, outcome);
    count_one(&worker->statistics.finished);
    slab_cache_give(&worker->host->tasks, task);
}
