/* Waiting: one task, or one outside thread, waits for the first of several events.
 *
 *     PENDING ──claim──► TAKEN ──finish──► DONE          by a partner at a channel, or a timer
 *        └─────────── withdraw ──────────► WITHDRAWN     by the waiter itself, when it must stop
 *
 * A thread that wants to end the wait claims it first; only one claim succeeds. Between claim and finish that thread
 * hands over the value. The Waiter is on the waiting task's stack. After DONE the finishing thread does not touch it
 * any more. The waiter leaves only when it is out of every queue, and it leaves each queue under that queue's lock.
 *
 * A task that waits for one channel only, without a time limit, goes from PENDING to DONE. The thread that takes it out
 * of the channel's queue, under the lock, has claimed it; it withdraws under that lock too (channel_ops.c).
 *
 * WAIT-1  a wait ends once, by one of the threads that could end it
 * WAIT-2  an operation that took effect is answered as such, even if the task was asked to stop meanwhile (CANCEL-3)
 * WAIT-3  an outside thread sleeps on a futex and a task parks; a worker never sleeps for a task
 */
#pragma once

#include "engine/park.h"
#include "engine/task.h"
#include "engine/timer.h"
#include "law/heap.h"
#include "law/lanes.h"

enum { WAIT_PENDING = 0, WAIT_TAKEN = 1, WAIT_DONE = 2, WAIT_WITHDRAWN = 3 };

typedef struct {
    atomic_u32 state;
    int32_t which; /* the case that was done; set between claim and finish */
    int32_t result;
    Task *task; /* NULL: an outside thread */
    Parker *parker;
    struct Scheduler *scheduler;
    LawHeapEntry timer; /* in the heap of timers */
    LawLink outside;    /* in the scheduler's list while an outside thread sleeps: stopping must find it */
} Waiter;

/* A function call at a given time: a Waiter without a task or thread. See timer.h. */
struct Alarm {
    Waiter waiter;
    void (*call)(void *context, uint64_t what);
    void *context;
    uint64_t what;
};

/* Prepare a wait of the running task, or of an outside thread that has made `parker`. With neither it belongs to an
 * alarm (timer.h). */
static inline void
waiter_init(Waiter *waiter, struct Scheduler *scheduler, Task *task, Parker *parker)
{
    init_u32(&waiter->state, WAIT_PENDING);
    waiter->which = -1;
    waiter->result = ENGINE_OK;
    waiter->task = task;
    waiter->parker = parker;
    waiter->scheduler = scheduler;
    waiter->timer = 0;
    waiter->outside = (LawLink){0};
}

/* The same for a task that waits for one channel only, without a timer. */
static inline void
waiter_init_only(Waiter *waiter, struct Scheduler *scheduler, Task *task)
{
    init_u32(&waiter->state, WAIT_PENDING);
    waiter->task = task;
    waiter->parker = NULL;
    waiter->scheduler = scheduler;
}

/* Claim a wait (WAIT-1). */
static inline bool
waiter_claim(Waiter *waiter)
{
    uint32_t pending = WAIT_PENDING;
    return cas_u32(&waiter->state, &pending, WAIT_TAKEN, ACQ_REL);
}

/* End a wait that was claimed, and wake its task or thread; in the timed lane if a timer ended it. `worker` is the
 * caller's, NULL on an outside thread. */
void waiter_finish(Waiter *waiter, struct Worker *worker, int32_t which, int32_t result, bool timed);

/* The running task waits. ENGINE_OK: the wait is finished. ENGINE_CANCELLED: the task must stop, and the wait is
 * withdrawn. */
int waiter_wait_as_task(Waiter *waiter);

/* An outside thread waits. ENGINE_OK: the wait is finished. ENGINE_CANCELLED, ENGINE_STOPPING or ENGINE_TIMEOUT: the
 * wait is withdrawn. */
int waiter_wait_outside(Waiter *waiter, int64_t deadline_ns);

/* The running task sleeps until a time. ENGINE_OK, ENGINE_CANCELLED, ENGINE_BUDGET or ENGINE_MEMORY. */
int task_sleep_until(Task *self, int64_t deadline_ns);

/* The time on the clock of the deadlines: monotonic, or virtual. */
int64_t scheduler_now_ns(struct Scheduler *scheduler);
