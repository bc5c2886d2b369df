/* Dispatch, the fast paths: what every poll does to the lanes. The slow twins are in dispatch.c and dispatch_wake.c.
 *
 * A yield and the decision after it took some hundred machine instructions. A third of them were calls between files,
 * and another third were repeated checks. So the plain case is inlined into the loop that polls: one worker, no
 * observer, no deferred error, and no task drains or is asked to stop.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/dispatch.h"
#include "python/law/task.h"
#include "python/trace/events.h"

/* ---- lanes */

static inline Worker *
worker_at(const Kernel *k, int i)
{
    return (Worker *)PyTuple_GET_ITEM(k->workers, i);
}

/* Append a task to a queue of a worker (LANES-1). `task->queue` names this kind of queue already. */
static inline void
lane_put_again(Worker *home, LawQueue *queue, Task *task, LawLane lane)
{
    LAW_RULE(task->lane == LAW_LANE_IDLE, "LANES-1");
    home->stamp += 1;
    task->stamp = home->stamp;
    task->home = home->id;
    task->lane = (uint8_t)lane;
    law_queue_append(queue, &task->link);
}

/* Append a task to a queue of a worker (LANES-1). */
static inline void
lane_put(Worker *home, LawQueue *queue, Task *task, LawLane lane, LawTake which)
{
    task->queue = (uint16_t)which & 3u;
    lane_put_again(home, queue, task, lane);
}

/* ---- the decision */

/* Record the decision in the chain and start the poll, without an event. */
static inline void
k_begin_unobserved(Kernel *k, Worker *worker, Task *task, LawLane lane, uint32_t limit)
{
    uint32_t streak = worker->cancel_streak;
    law_streaks_after(lane, &streak, &worker->timed_streak);
    LAW_RULE(streak <= limit, "DECIDE-1");
    worker->cancel_streak = streak;
    k->runnable -= 1;
    worker->dispatched[lane] += 1;
    k->decisions += 1;
    law_begin_poll(&task->wake, &task->generation);
    law_state_move(&task->state, LAW_STATE_READY, LAW_STATE_RUNNING); /* LANES-1 */
    task->worker = (int16_t)worker->id;
    task->turn_left = k->turn;
    k->current = task;
    k->at = worker;
    k->chain =
        law_link(k->chain, task->id, task->nursery->id, lane, (uint64_t)worker->id, streak, limit, task->generation);
}

static inline int
k_begin(Kernel *k, Worker *worker, Task *task, LawLane lane, uint32_t limit)
{
    k_begin_unobserved(k, worker, task, lane, limit);
    return NOTED(k, note_decision(k, task, lane, worker, limit));
}

/* After a plain yield: whether the next step is plain too. The yield has checked that there is no observer, no deferred
 * error and no running task. */
static inline bool
is_plain_next_step(const Kernel *k)
{
    const Worker *only = k->only;
    return FAST_PATHS && only != NULL && k->runnable == (int64_t)only->stealable.length && k->draining_nurseries == 0 &&
           PyDict_GET_SIZE(k->draining_holders) == 0;
}

/* Whether the decision is plain: no observer, nothing drains, and every runnable task is in the stealable queue of the
 * only worker. */
static inline bool
is_plain_step(const Kernel *k)
{
    return FAST_PATHS && k->observer == NULL && k->deferred_error == NULL && k->current == NULL && k->runnable > 0 &&
           is_plain_next_step(k);
}

/* Prefetch the next task of a queue while the current one is polled. Its first cache line is in the cache already,
 * because taking the current task wrote the link there. */
static inline void
prefetch_next(const LawQueue *queue)
{
    PREFETCH((const char *)queue->ring.newer + 64);
    PREFETCH((const char *)queue->ring.newer + 128);
}

/* What `k_step` does in that case. The task is borrowed from `current`. */
static inline Task *
k_step_fast(Kernel *k)
{
    Worker *worker = k->only;
    uint32_t limit = law_cancel_limit(false);
    LawLane lane = law_decide(false, false, true, false, worker->cancel_streak, limit, worker->timed_streak);
    Task *task = LAW_RECORD(law_queue_take_oldest(&worker->stealable), Task, link);
    task->lane = LAW_LANE_IDLE;
    prefetch_next(&worker->stealable);
    k_begin_unobserved(k, worker, task, lane, limit);
    return task;
}

static inline int
k_step_over(Kernel *k, Task *task)
{
    if (!LIKELY(FAST_PATHS && k->deferred_error == NULL && k->current == NULL && k->observer == NULL)) {
        return k_step_over_slow(k, task);
    }
    k->at = NULL;
    return 0;
}

/* ---- becoming ready */

/* Whether a task that becomes ready goes to the stealable queue of the worker that decided this step, without an
 * event. */
static inline bool
is_plain_ready(const Kernel *k, const Task *task)
{
    return FAST_PATHS && !task->pinned && !task->cancel_pending && !task->cut && k->at != NULL && k->observer == NULL &&
           !task_cleans_up(task);
}

/* What `k_ready` does in that case (DISPATCH-1). `task->queue` names the stealable queue already. */
static inline void
k_ready_again(Kernel *k, Task *task, LawState from)
{
    Worker *home = k->at;
    law_state_move(&task->state, from, LAW_STATE_READY);
    law_wake_queued_fast(&task->wake);
    task->since_ns = k->now_ns;
    lane_put_again(home, &home->stealable, task, LAW_LANE_READY);
    k->runnable += 1;
}

/* The same for a task with any `task->queue`. */
static inline void
k_ready_fast(Kernel *k, Task *task, LawState from)
{
    task->queue = LAW_TAKE_STEALABLE;
    k_ready_again(k, task, from);
}

/* Whether a task that yields only goes back to the queue that it came from: no answer came meanwhile, no timer is
 * promised, and there is no deferred error. */
static inline bool
is_plain_yield(const Kernel *k, const Task *task)
{
    return FAST_PATHS && !task->effect && task->queue == LAW_TAKE_STEALABLE && is_plain_ready(k, task) &&
           k->current == task && k->deferred_error == NULL && k->postponed.promised == NULL && task->answer == NULL;
}

/* What `k_yielded` does in that case. */
static inline void
k_yield_fast(Kernel *k, Task *task)
{
    k->current = NULL;
    k_ready_again(k, task, LAW_STATE_RUNNING); /* DISPATCH-2 */
}

/* Queue a PENDING or BLOCKED task, which is in no queue. 0, or -1 with an exception set. */
static inline int
k_ready_new(Kernel *k, Task *task)
{
    if (!LIKELY(is_plain_ready(k, task))) {
        return k_ready(k, task, false, 0);
    }
    k_ready_fast(k, task, task->state);
    return 0;
}
