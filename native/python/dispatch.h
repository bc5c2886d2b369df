/* What every poll does to the lanes, to be compiled into the loop that does it; dispatch.c and runnable.c have the rest.
 *
 * A yield and the decision after it are some hundred instructions of the machine, of which calls between files were a
 * third. So the usual case of each is here, and asks first whether it is one: nobody listens, nothing is doomed or
 * drains, nobody is to stop. Whatever it does not know it leaves to the function of the same name with `otherwise`, which
 * decides any case.
 */

#ifndef BURSAR_PYTHON_DISPATCH_H
#define BURSAR_PYTHON_DISPATCH_H

#include "notes.h"

/* ---- lanes */

static inline Worker *
worker_at(const Kernel *k, int i)
{
    return (Worker *)PyTuple_GET_ITEM(k->workers, i);
}

/* Append a task to a queue of a worker (L1). */
static inline void
lane_put(Worker *home, LawQueue *queue, Task *task, LawLane lane, LawTake which)
{
    LAW_RULE(task->lane == LAW_LANE_IDLE, "L1");
    home->stamp += 1;
    task->stamp = home->stamp;
    task->home = home->id;
    task->lane = (uint8_t)lane;
    if (task->queue != (unsigned)which) {
        task->queue = (uint16_t)which & 3u;
    }
    law_queue_append(queue, &task->link);
}

/* ---- the decision */

/* Record the decision in the chain and start the poll. */
static inline int
k_begin(Kernel *k, Worker *worker, Task *task, LawLane lane, uint32_t limit)
{
    uint32_t streak = worker->cancel_streak;
    law_streaks_after(lane, &streak, &worker->timed_streak);
    LAW_RULE(streak <= limit, "D1");
    worker->cancel_streak = streak;
    k->runnable -= 1;
    worker->dispatched[lane] += 1;
    k->decisions += 1;
    law_begin_poll(&task->wake, &task->generation);
    LAW_RULE(task->state == LAW_STATE_READY, "L1"); /* and from there it may run: see the table */
    task->state = LAW_STATE_RUNNING;
    task->worker = (int16_t)worker->id;
    task->turn_left = k->yield_interval > INT32_MAX ? INT32_MAX : (int32_t)k->yield_interval;
    k->current = task;
    k->at = worker;
    k->chain = law_link(k->chain, task->id, task->nursery->id, lane, (uint64_t)worker->id, streak, limit, task->generation);
    return NOTED(k, note_decision(k, task, lane, worker, limit));
}

/* Whether nothing drains, and all that is runnable is ready, and in one queue of the only worker: so it is nearly always. */
static inline bool
is_plain_step(const Kernel *k)
{
    return k->doom == NULL && k->current == NULL && k->only != NULL && k->runnable > 0
           && k->runnable == (int64_t)k->only->stealable.length && k->draining_regions == 0
           && PyDict_GET_SIZE(k->draining_holders) == 0;
}

int k_step_otherwise(Kernel *k, Task **task);

/* One decision. *task: borrowed from `current`; NULL: nothing is runnable. */
static inline int
k_step(Kernel *k, Task **task)
{
    if (!USUALLY(is_plain_step(k))) {
        return k_step_otherwise(k, task);
    }
    Worker *worker = k->only;
    uint32_t limit = law_cancel_limit(false);
    LawLane lane = law_decide(false, false, true, false, worker->cancel_streak, limit, worker->timed_streak);
    *task = LAW_RECORD(law_queue_take_oldest(&worker->stealable), Task, link);
    (*task)->lane = LAW_LANE_IDLE;
    return k_begin(k, worker, *task, lane, limit);
}

int k_step_over_otherwise(Kernel *k, Task *task);

static inline int
k_step_over(Kernel *k, Task *task)
{
    if (!USUALLY(k->doom == NULL && k->current == NULL && k->observer == NULL)) {
        return k_step_over_otherwise(k, task);
    }
    k->at = NULL;
    return 0;
}

/* ---- becoming ready */

/* Whether a task that becomes ready goes to the end of the lane of the worker that is at work, and nobody is told. */
static inline bool
is_plain_ready(const Kernel *k, const Task *task)
{
    return k->at != NULL && k->observer == NULL && !task->pinned && !task->cancel_pending && !task->cut
           && !task_cleans_up(task);
}

/* That: READY, and queued (K2). Its state may be left for this one, by the table. */
static inline void
k_ready_plainly(Kernel *k, Task *task)
{
    Worker *home = k->at;
    task->state = LAW_STATE_READY;
    task->wake = LAW_WAKE_QUEUED;
    task->since_ns = k->now_ns;
    lane_put(home, &home->stealable, task, LAW_LANE_READY, LAW_TAKE_STEALABLE);
    k->runnable += 1;
}

int k_yielded_otherwise(Kernel *k, Task *task);

/* The poll of the running task is over, and it is READY again: at the end of the lane of the worker that polled it. */
static inline int
k_yielded(Kernel *k, Task *task)
{
    bool usual = k->current == task && k->promised == NULL && task->answer == NULL && !task->effect;
    if (!USUALLY(usual && is_plain_ready(k, task))) {
        return k_yielded_otherwise(k, task);
    }
    k->current = NULL;
    k_ready_plainly(k, task); /* from RUNNING, by K3 */
    return 0;
}

/* A new task, PENDING so far, may run. */
static inline int
k_ready_new(Kernel *k, Task *task)
{
    if (!USUALLY(is_plain_ready(k, task))) {
        return k_ready(k, task, false, 0);
    }
    k_ready_plainly(k, task);
    return 0;
}

#endif
