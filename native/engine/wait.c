/* Waiting: see wait.h. */
#include "engine/wait.h"

#include "engine/pause.h"
#include "engine/scheduler.h"
#include "engine/worker_loop.h"
#include "hints.h"

void
waiter_finish(Waiter *waiter, Worker *worker, int32_t which, int32_t result, bool timed)
{
    Scheduler *scheduler = waiter->scheduler;
    Task *task = waiter->task;
    Parker *parker = waiter->parker;
    waiter->which = which;
    waiter->result = result;
    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not ours any more */
    if (task != NULL) {
        worker_wake(scheduler, worker, task, timed ? TO_TIMED : TO_READY, false);
    } else {
        parker_wake(parker, 1);
    }
}

/* The waiter gives up. False: somebody has claimed it already, and will finish (WAIT-2). */
static bool
withdraw(Waiter *waiter)
{
    uint32_t pending = WAIT_PENDING;
    return cas_u32(&waiter->state, &pending, WAIT_WITHDRAWN, ACQ_REL);
}

static int
sleep_outside(Waiter *waiter, int64_t deadline_ns)
{
    Scheduler *scheduler = waiter->scheduler;
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        if (scheduler->options.deterministic) {
            if (!scheduler_drive(scheduler, &waiter->state, WAIT_DONE) && withdraw(waiter)) {
                return ENGINE_CANCELLED; /* nothing can run any more: nobody will come */
            }
            continue;
        }
        bool stopping = load_u32(&scheduler->phase, ACQUIRE) != SCHEDULER_RUNNING; /* it wakes those in the list */
        bool late = !stopping && parker_sleep(waiter->parker, deadline_ns) == 0;
        if ((late || stopping) && withdraw(waiter)) {
            return stopping ? ENGINE_STOPPING : ENGINE_TIMEOUT;
        }
        deadline_ns = PARK_FOREVER; /* claimed: it will be finished in a moment */
    }
    return ENGINE_OK;
}

/* The same, where the one who stops the scheduler can find us. */
int
waiter_wait_outside(Waiter *waiter, int64_t deadline_ns)
{
    Scheduler *scheduler = waiter->scheduler;
    lock_take(&scheduler->roots_lock);
    law_queue_append(&scheduler->outside, &waiter->outside);
    lock_give(&scheduler->roots_lock);
    int ended = sleep_outside(waiter, deadline_ns);
    lock_take(&scheduler->roots_lock);
    law_queue_remove(&scheduler->outside, &waiter->outside);
    lock_give(&scheduler->roots_lock);
    return ended;
}

/* The task is to stop: it withdraws, or waits for the moment until it is answered (WAIT-2). */
static NOINLINE int
stop_waiting(Waiter *waiter)
{
    if (withdraw(waiter)) {
        return ENGINE_CANCELLED;
    }
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        task_rest(waiter->task, REST_DEAF);
    }
    return ENGINE_OK;
}

/* It was charged a moment ago, and could go on then: a request that has come since does not let the first rest be one. */
int
waiter_wait_as_task(Waiter *waiter)
{
    Task *task = waiter->task;
    bool stands = false;
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        task_block(task_worker(task), task);
        if (load_u32(&waiter->state, ACQUIRE) == WAIT_DONE) {
            break;
        }
        if (task_must_stop(task)) {
            return stop_waiting(waiter);
        }
        stands |= task_stands_waiting(task);
    }
    if (UNLIKELY(stands)) {
        task_stand_still(task);
    }
    return ENGINE_OK;
}

int64_t
scheduler_now_ns(Scheduler *scheduler)
{
    return scheduler->options.deterministic ? scheduler->logical.now_ns : park_clock_ns();
}

int
task_sleep_until(Task *self, int64_t deadline_ns)
{
    Scheduler *scheduler = task_worker(self)->scheduler;
    Waiter waiter;
    int refused = task_charge(self, &LAW_OP);
    if (refused != ENGINE_OK) {
        return refused;
    }
    waiter_init(&waiter, scheduler, self, NULL);
    if (!timers_ready(&scheduler->timers, self) ||
        timers_arm(&scheduler->timers, &waiter.timer, deadline_ns) != ENGINE_OK) {
        return ENGINE_MEMORY;
    }
    int ended = waiter_wait_as_task(&waiter);
    timers_disarm(&scheduler->timers, &waiter.timer); /* also waits until the one who fired it has let go (TIMER-2) */
    return ended == ENGINE_OK ? ENGINE_OK : task_refuse(self, ENGINE_CANCELLED);
}
