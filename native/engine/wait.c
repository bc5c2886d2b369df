/* Waiting: see wait.h. */
#include "engine/wait.h"

#include "engine/scheduler.h"
#include "engine/task_leave.h"
#include "engine/task_requests.h"
#include "hints.h"

void
waiter_finish(Waiter *waiter, Worker *worker, int32_t which, int32_t result, bool timed)
{
    Scheduler *scheduler = waiter->scheduler;
    Task *task = waiter->task;
    Parker *parker = waiter->parker;
    waiter->which = which;
    waiter->result = result;
    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not this thread's any more */
    if (task != NULL) {
        worker_wake(scheduler, worker, task, timed ? TO_TIMED : TO_READY, false);
    } else {
        parker_wake(parker, 1);
    }
}

/* The waiter gives up. Returns false if the wait is claimed already: then it will be finished (WAIT-2). */
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
                return ENGINE_CANCELLED; /* nothing can run any more, so nothing can end this wait */
            }
            continue;
        }
        bool stopping = load_u32(&scheduler->phase, ACQUIRE) !=
                        SCHEDULER_RUNNING; /* scheduler_stop wakes the waiters in the list */
        bool late = !stopping && parker_sleep(waiter->parker, deadline_ns) == 0;
        if ((late || stopping) && withdraw(waiter)) {
            return stopping ? ENGINE_STOPPING : ENGINE_TIMEOUT;
        }
        deadline_ns = PARK_FOREVER; /* claimed: it will be finished soon */
    }
    return ENGINE_OK;
}

/* The same, in the list where scheduler_stop can find it. */
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

/* The task must stop: it withdraws, or rests until it is answered (WAIT-2). */
static NOINLINE int
stop_waiting(Waiter *waiter)
{
    if (withdraw(waiter)) {
        return ENGINE_CANCELLED;
    }
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        task_rest(waiter->task, REST_CANCEL_DELIVERED);
    }
    return ENGINE_OK;
}

/* The task was charged just before, and could go on then. A request that has come since then is noted in its word, so
 * its first rest ends at once. */
int
waiter_wait_as_task(Waiter *waiter)
{
    Task *task = waiter->task;
    bool paused = false;
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        task_block(task_worker(task), task);
        if (load_u32(&waiter->state, ACQUIRE) == WAIT_DONE) {
            break;
        }
        if (task_must_stop(task)) {
            return stop_waiting(waiter);
        }
        paused |= task_report_if_paused(task);
    }
    if (UNLIKELY(paused)) {
        task_wait_while_paused(task);
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
    timers_disarm(&scheduler->timers,
                  &waiter.timer); /* also waits until the thread that fired it has given the lock (TIMER-2) */
    return ended == ENGINE_OK ? ENGINE_OK : task_refuse(self, ENGINE_CANCELLED);
}
