/* Which task a worker runs next, as long as only its own queues have any: the usual case, and inline wherever a task
 * gives way to another one. When the lanes that all share have something too, the law chooses (worker.c).
 *
 * Looking at the shared lanes is three loads of lines that nobody writes meanwhile. Rejected: one word that says "some
 * lane has something", which every push and every take would write.
 */
#pragma once

#include "engine/scheduler.h"
#include "hints.h"

/* The worker's own queues. */
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

/* The next task when the lanes that all share may have something. */
Task *worker_next_shared(Worker *worker);

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
