/* Waiting: one task, or one thread outside, that waits for the first of several things.
 *
 *     PENDING ──claim──► TAKEN ──finish──► DONE          by a channel's partner, a timer
 *        └─────────── withdraw ──────────► WITHDRAWN     by the waiter itself, when it is to stop
 *
 * Whoever wants to end the wait claims it first: of all that could, one does. Between claim and finish it hands over what
 * it has. The record is on the waiter's stack: after DONE the one who finished does not touch it any more, and the waiter
 * leaves only when it is out of every queue, each under its lock.
 *
 * A task that waits for one channel only, without a time limit, goes from PENDING to DONE: whoever takes it out of the
 * channel's queue, under the lock, has claimed it, and it is withdrawn under that lock too (channel_ops.c).
 *
 * WAIT-1  a wait ends once, by one of those who could end it
 * WAIT-2  an operation that took effect is answered as such, also if the waiter was asked to stop meanwhile (CANCEL-3)
 * WAIT-3  a thread outside sleeps on a futex, a task parks; a worker never sleeps on behalf of a task
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
    int32_t which; /* the case that came true; set between claim and finish */
    int32_t result;
    Task *task; /* NULL: a thread outside */
    Parker *parker;
    struct Scheduler *scheduler;
    LawHeapEntry timer; /* in the heap of timers */
    LawLink outside;    /* in the scheduler's list, while a thread outside sleeps: stopping must find it */
} Waiter;

/* A call at a time: a wait that nobody waits in. See timer.h. */
struct Alarm {
    Waiter waiter;
    void (*ring)(void *context, uint64_t what);
    void *context;
    uint64_t what;
};

/* Prepare a wait of the running task, or of a thread outside that has made `parker`. With neither it is an alarm's
 * (timer.h). */
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

/* The same for a task that waits for one thing only, and without a timer. */
static inline void
waiter_init_lone(Waiter *waiter, struct Scheduler *scheduler, Task *task)
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

/* End a wait that was claimed, and wake whoever waits; in the timed lane if a timer did it. `worker` is the caller's, NULL
 * outside. */
void waiter_finish(Waiter *waiter, struct Worker *worker, int32_t which, int32_t result, bool timed);

/* The running task waits. ENGINE_OK: somebody finished it. ENGINE_CANCELLED: the task is to stop, and the wait is
 * withdrawn. */
int waiter_wait_as_task(Waiter *waiter);

/* A thread outside waits. ENGINE_OK; ENGINE_CANCELLED, ENGINE_STOPPING, ENGINE_TIMEOUT: the wait is withdrawn. */
int waiter_wait_outside(Waiter *waiter, int64_t deadline_ns);

/* The running task sleeps until a time. ENGINE_OK, ENGINE_CANCELLED, or ENGINE_MEMORY. */
int task_sleep_until(Task *self, int64_t deadline_ns);

/* Now, on the clock of deadlines: monotonic, or the virtual one. */
int64_t scheduler_now_ns(struct Scheduler *scheduler);
