/* Which task a worker runs next while only its own queues have tasks. This is the usual case, so the functions by which
 * a task leaves its worker inline it (task_leave.c). If the shared lanes have tasks too, the law chooses (worker.c).
 *
 * To check the shared lanes costs three loads of lines that are rarely written. Rejected: one word that says "a shared
 * lane has a task"; every push and every take would write it.
 */
#pragma once

#include "engine/scheduler.h"
#include "hints.h"

/* Take a task from the worker's own queues. */
static inline Task *
worker_take_own(Worker *worker)
{
    Task *task;
    if (LIKELY(worker->fresh_streak < FRESH_STREAK_MAX) && (task = deque_take(&worker->fresh)) != NULL) {
        worker->fresh_streak += 1;
        count_one(&worker->statistics.local_takes);
        return task;
    }
    worker->fresh_streak = 0;
    if ((task = deque_take_oldest(&worker->started)) != NULL || (task = deque_take(&worker->fresh)) != NULL) {
        count_one(&worker->statistics.local_takes);
    }
    return task;
}

/* The next task of this worker without stealing, or NULL. */
static inline Task *
worker_next(Worker *worker)
{
    const Scheduler *scheduler = worker->scheduler;
    worker->turns += 1;
    int64_t shared =
        inject_any(&scheduler->cancel_lane) | inject_any(&scheduler->timed_lane) | inject_any(&scheduler->injector);
    if (UNLIKELY(shared != 0)) { /* one branch, not three */
        return worker_next_shared(worker);
    }
    worker->cancel_streak = worker->timed_streak = 0;
    return worker_take_own(worker);
}
