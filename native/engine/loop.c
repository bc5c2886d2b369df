/* The loop of a worker, and how a task leaves it and comes back. The queues are in worker.c.
 *
 * The loop stands on a pooled stack and calls fresh tasks there; it keeps nothing in its frame across a call but the task
 * that it has called on this very stack (R2 of native/fiber). A task that gives way takes the next one itself and
 * switches to it; only if that one has not run yet, or there is none, does the loop begin anew.
 */
#include "engine/scheduler.h"

/* The task runs from here on. */
static inline void
begin(Worker *worker, Task *task)
{
    task_dispatched(task);
    worker->current = task;
    task->ticks_left = task->ticks_drawn = 0; /* a new turn */
    count_one(&worker->statistics.dispatched);
}

/* Hesitate, steal, sleep: until there is a task, or NULL: the scheduler halts. */
static Task *
search(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    bool alone = scheduler->options.no_stealing || scheduler->worker_count == 1;
    bool searching = !alone && idle_search_begin(&scheduler->idle);
    Backoff backoff = {0};
    for (;;) {
        Task *task = worker_next(worker);
        if (task == NULL && searching) {
            task = worker_steal(worker);
        }
        uint32_t phase = load_u32(&scheduler->phase, ACQUIRE);
        if (task != NULL || phase == SCHEDULER_HALTED) {
            if (searching) {
                idle_search_end(&scheduler->idle);
            }
            return task;
        }
        if (phase == SCHEDULER_STOPPING) {
            scheduler_check_quiet(scheduler);
        }
        int64_t pause_ns = searching ? backoff_next_ns(&backoff) : 0;
        if (pause_ns != 0 && pause_ns <= BACKOFF_SPIN_NS_MAX) {
            backoff_spin(pause_ns);
            continue;
        }
        int64_t deadline_ns = pause_ns == 0 ? PARK_FOREVER : park_clock_ns() + pause_ns;
        count_one(&worker->statistics.sleeps);
        IdleReason reason = idle_park(&scheduler->idle, worker->id, searching, deadline_ns);
        searching = reason == IDLE_SEARCH;
        if (searching) {
            backoff.pause_ns = 0;
        } else if (reason == IDLE_EXPIRED && !alone) {
            searching = idle_search_begin(&scheduler->idle);
        }
    }
}

/* The next task of whichever worker this loop serves, or NULL: leave. */
static Task *
find(struct runner *runner)
{
    Worker *worker = runner->worker;
    if (worker->scheduler->options.deterministic) {
        return worker_next_logical(runner);
    }
    Task *task = worker_next(worker);
    return task != NULL ? task : search(worker);
}

/* There is no stack for a task: it ends without having run. */
static void
end_unstarted(Worker *worker, Task *task, EndKind kind, int64_t code)
{
    task->kind = (uint8_t)kind;
    task->fiber.result = code;
    task_end(worker, task, FIBER_NO_STACK);
}

void
worker_loop(struct runner *runner)
{
    for (;;) {
        Worker *worker = runner->worker, *host = worker->host;
        if (__builtin_expect(host->wants_timers, 0)) {
            host->wants_timers = false;
            (void)timers_make_thread(&worker->scheduler->timers); /* whoever asked looks whether it is there */
        }
        Task *task = host->pending;
        host->pending = NULL;
        if (task == NULL && (task = find(runner)) == NULL) {
            runner_leave(runner);
        }
        worker = runner->worker;
        if (__builtin_expect(load_u32(&worker->scheduler->dormant, RELAXED) != 0, 0)) {
            scheduler_grow_again(worker->scheduler);
        }
        if (task->fiber.state == FIBER_SUSPENDED) {
            begin(worker, task);
            runner_resume(runner, &task->fiber);
        }
        if (__builtin_expect(runner_must_hop(runner, &task->fiber), 0) && !task_cancelled(task)) {
            host->pending = task;
            runner_hop(runner, task->fiber.class); /* returns only if there is no such stack */
            host->pending = NULL;
            begin(worker, task);
            end_unstarted(worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        begin(worker, task);
        if (__builtin_expect(task_cancelled(task), 0)) {
            end_unstarted(worker, task, END_CANCELLED, 0);
            continue;
        }
        enum fiber_state state = runner_call(&runner, &task->fiber);
        if (__builtin_expect(state == FIBER_NO_STACK, 0)) {
            end_unstarted(runner->worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        task_end(runner->worker, task, state);
    }
}

/* ---- what a task left to do, done on the stack that control arrived at, when its registers are saved */

static void
after_yield(void *arg)
{
    Task *task = arg;
    Worker *worker = task_worker(task);
    worker_submit(worker->scheduler, worker, task, TO_READY);
}

/* The task rests, unless it was woken already. A request to stop that came before it rested found it running: so it is
 * looked for once more. The two fences, here and in nursery_cancel, order the two sides (A3). */
static void
rest(Task *task, LawState state, bool deaf)
{
    Worker *worker = task_worker(task);
    Scheduler *scheduler = worker->scheduler;
    struct Nursery *nursery = task->nursery; /* the task may be another's in a moment */
    uint32_t generation = load_u32(&task->head.generation, RELAXED);
    if (task_rests(task, state)) {
        worker_submit(scheduler, worker, task, TO_READY);
        return;
    }
    fence_light(scheduler->idle.asymmetric);
    uint32_t request = load_u32(&task->cancel, RELAXED);
    if (!deaf && (request == generation || nursery_cancelled(nursery))) {
        worker_wake(scheduler, worker, task, TO_CANCEL, true);
    } else if (state == LAW_STATE_PAUSED && request != generation + 1) {
        worker_wake(scheduler, worker, task, TO_READY, true); /* resumed while it was on its way */
    }
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
after_deaf(void *task)
{
    rest(task, LAW_STATE_BLOCKED, true);
}

static void
after_pause(void *task)
{
    rest(task, LAW_STATE_PAUSED, false);
}

/* Leave the running task for the next one. Inline, as all that is entered on one stack and left on another: each function
 * in between has a return that the processor guesses wrong. */
static SANITIZE_INLINE void
leave(Task *self, Task *next, runner_after after)
{
    Worker *worker = task_worker(self);
    if (next == NULL || next->fiber.state != FIBER_SUSPENDED) {
        worker->host->pending = next;
        runner_park(&self->fiber, after, self);
        return;
    }
    begin(worker, next);
    runner_switch(&self->fiber, &next->fiber, after, self);
}

void
task_yield(Task *self)
{
    task_need_stack(self);
    Worker *worker = task_worker(self);
    bool logical = worker->scheduler->options.deterministic;
    Task *next = logical ? NULL : worker_next(worker);
    count_one(&worker->statistics.yielded);
    if (next != NULL || logical) {
        task_settle(self);
        leave(self, next, after_yield);
    }
}

void
task_yield_for_timers(Task *self)
{
    task_settle(self);
    task_worker(self)->host->wants_timers = true;
    leave(self, NULL, after_yield);
}

void
task_rest(Task *self, Rest rest_as)
{
    static const runner_after after[] = {after_block, after_hold, after_deaf, after_pause};
    Worker *worker = task_worker(self);
    struct Nursery *nursery = self->nursery;
    if (!self->linked) {
        lock_take(&nursery->lock);
        law_queue_append(&nursery->waiting, &self->family);
        lock_give(&nursery->lock);
        self->linked = true;
    }
    task_settle(self);
    count_one(&worker->statistics.parked);
    leave(self, worker->scheduler->options.deterministic ? NULL : worker_next(worker), after[rest_as]);
}
