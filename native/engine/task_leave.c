/* How a task leaves its worker: by a yield, or by a rest until a wake. The contract is in task_leave.h.
 *
 * A task that gives way takes the next task itself and switches to it. Only if that task is fresh, or there is none,
 * does the loop begin again (worker_loop.c).
 */
#include "engine/task_leave.h"

#include "engine/pick.h"
#include "engine/scheduler.h"
#include "engine/task_requests.h"
#include "hints.h"

/* The task rests, unless it was woken already: a request that came while it was RUNNING is noted in its word. Only one
 * request cannot have woken it: a request to its nursery before it entered the nursery's list. The nursery's lock,
 * taken on entry, makes that request visible here. */
static void
rest_on(Worker *worker, Task *task, LawState state, bool cancel_delivered)
{
    Scheduler *scheduler = worker->scheduler;
    struct Nursery *nursery = task->nursery; /* read now: after the rest the record may belong to another task */
    if (task_rests(task, state)) {
        worker_requeue(worker, task);
    } else if (!cancel_delivered && nursery_cancelled(nursery)) {
        worker_wake(scheduler, worker, task, TO_CANCEL, true);
    }
}

static void
rest(Task *task, LawState state, bool cancel_delivered)
{
    rest_on(task_worker(task), task, state, cancel_delivered);
}

NOINLINE void
task_serve_covered(Worker *worker, Task *task)
{
    task_dispatched(task);
    bool must_stop = task_cancelled(task);
    if (must_stop) {
        task_deliver_cancel(task);
    }
    (void)task_report_if_paused(task); /* if it was asked to pause, it pauses before it goes on: see help_children.c */
    rest_on(worker, task, LAW_STATE_BLOCKED, must_stop);
}

/* ---- what a task left to do: runs on the next stack, after the task's registers are saved */

static void
after_yield(void *arg)
{
    worker_requeue(task_worker(arg), arg);
}

static void
after_block(void *task)
{
    rest(task, LAW_STATE_BLOCKED, false);
}

static void
after_hold(void *task)
{
    rest(task, LAW_STATE_EXHAUSTED, false);
}

static void
after_block_cancelled(void *task)
{
    rest(task, LAW_STATE_BLOCKED, true);
}

static void
after_pause(void *task)
{
    rest(task, LAW_STATE_PAUSED, false);
}

void
task_check_stack(Task *self)
{
    struct stack *stack = self->fiber.stack;
    if (!stack_sound(stack)) {
        fiber_abandon(stack, FIBER_PANIC_CANARY, 0);
    }
    if (stack_headroom(stack) < ENGINE_HEADROOM_BYTES) {
        fiber_abandon(stack, FIBER_PANIC_OVERFLOW, 0);
    }
}

Worker *
worker_check_stack(Worker *worker)
{
    task_check_stack(worker->current);
    return worker;
}

/* Leave the running task for the next one. Inline, as is every function that is entered on one stack and left on
 * another: each call in between has a return that the processor predicts wrong. */
static ALWAYS_INLINE void
leave(Worker *worker, Task *self, Task *next, runner_after after)
{
    if (UNLIKELY(next == NULL) || UNLIKELY(!task_is(next, FIBER_SUSPENDED))) {
        task_return_drawn(self);
        worker->host->pending = next;
        runner_park(&self->fiber, after, self);
        return;
    }
    task_begin(worker, next);
    task_pass_ticks(self, next);
    if (worker->credit.purse != next->purse && worker->credit.purse != NULL) {
        credit_return(worker);
    }
    runner_switch(&self->fiber, &next->fiber, after, self); /* task_need_stack */
}

void
task_yield(Task *self)
{
    Worker *worker = task_worker(self);
    bool logical = UNLIKELY(worker->scheduler->options.deterministic);
    Task *next = logical ? NULL : worker_next(worker);
    count_one(&worker->statistics.yielded);
    if (next != NULL || logical) {
        leave(worker, self, next, after_yield);
    }
}

void
task_yield_to(Task *self, Task *next)
{
    leave(task_worker(self), self, next, after_yield);
}

void
task_yield_for_timers(Task *self)
{
    Worker *worker = task_worker(self);
    worker->host->wants_timers = true;
    leave(worker, self, NULL, after_yield);
}

/* From its first wait on, a cancel request to the nursery must find the task. */
static NOINLINE void
enter_nursery_list(Task *task)
{
    struct Nursery *nursery = task->nursery;
    lock_take(&nursery->lock);
    law_queue_append(&nursery->have_waited, &task->nursery_link);
    lock_give(&nursery->lock);
    task->marks.linked = true;
}

/* The tasks beneath a task that is about to rest begin to rest too, unless they rest already. */
static NOINLINE void
cover(Task *self)
{
    Worker *worker = task_worker(self);
    for (Task *task = self; task->above;) {
        task = task->nursery->owner;
        if (load_u32(&task->covered, RELAXED) != 0) {
            return; /* so the tasks beneath it rest too */
        }
        if (!task->marks.linked) {
            enter_nursery_list(task);
        }
        store_u32(&task->covered, 1, RELAXED); /* published by the rest */
        rest_on(worker, task, LAW_STATE_BLOCKED, task->marks.cancel_delivered);
    }
}

/* The task is no longer covered, and its registers are saved, so any worker can run it. A worker that is about to serve
 * it finds the noted wake, or has served it before: then this is its wake. */
static void
after_uncover(void *arg)
{
    Task *task = arg;
    Worker *worker = task_worker(task);
    store_u32(&task->covered, 0, RELEASE);
    worker_wake(worker->scheduler, worker, task, TO_JOIN, true);
}

void
task_uncover(Task *self)
{
    if (task_notified(self, true)) {
        store_u32(&self->covered, 0, RELAXED); /* it woke itself, so it enters no queue */
        return;
    }
    Worker *worker = task_worker(self);
    leave(worker, self, worker_next(worker), after_uncover); /* it is in a queue, or being served */
}

/* The running task rests; `after` says how. `next` as for task_rest_for, or NULL: the task that comes next. */
static ALWAYS_INLINE void
begin_rest(Worker *worker, Task *self, Task *next, runner_after after)
{
    if (UNLIKELY(!self->marks.linked)) {
        enter_nursery_list(self);
    }
    if (self->above && load_u32(&self->nursery->owner->covered, RELAXED) == 0) {
        cover(self);
    }
    count_one(&worker->statistics.parked);
    if (next == NULL && LIKELY(!worker->scheduler->options.deterministic)) {
        next = worker_next(worker);
    }
    leave(worker, self, next, after);
}

void
task_rest_for(Task *self, Rest rest_as, Task *next)
{
    static const runner_after after[] = {after_block, after_hold, after_block_cancelled, after_pause};
    begin_rest(task_worker(self), self, next, after[rest_as]);
}

void
task_rest(Task *self, Rest rest_as)
{
    task_rest_for(self, rest_as, NULL);
}

void
task_block(Worker *worker, Task *self)
{
    begin_rest(worker, self, NULL, after_block);
}
