/* The loop of a worker, and how a task leaves it and comes back. The queues are in worker.c.
 *
 * The loop stands on a pooled stack and calls fresh tasks there; it keeps nothing in its frame across a call but the task
 * that it has called on this very stack (RUNNER-2 of native/fiber). A task that gives way takes the next one itself and
 * switches to it; only if that one has not run yet, or there is none, does the loop begin anew.
 */
#include "engine/worker_loop.h"

#include "engine/pause.h"
#include "engine/pick.h"
#include "engine/scheduler.h"
#include "engine/shutdown.h"
#include "engine/task_end.h"
#include "hints.h"

#define SEARCH_EAGER 32u /* looks that a searcher takes before its pauses begin: some microseconds, less than a wake */
#define SEARCH_EAGER_RELAXES \
    4 /* between two of them: about 100 ns, so that the victims have their lines to themselves */

/* Hesitate, steal, sleep: until there is a task, or NULL: the scheduler halts. */
static Task *
search(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    bool alone = scheduler->options.no_stealing || scheduler->worker_count == 1;
    bool searching = !alone && idle_search_begin(&scheduler->idle);
    Backoff backoff = {0};
    uint32_t looks = 0;
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
        if (searching && looks++ < SEARCH_EAGER) {
            for (int i = 0; i < SEARCH_EAGER_RELAXES; i++) {
                cpu_relax();
            }
            continue;
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
            looks = 0;
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

void
task_end_unstarted(Worker *worker, Task *task, EndKind kind, int64_t code)
{
    task->marks.kind = (uint8_t)kind;
    task->fiber.result = code;
    task_end(worker, task, FIBER_NO_STACK);
}

/* The task rests, unless it was woken already: a request that came while it was on its way has left a note. Only a
 * request to its nursery that came before it entered the family could not find it; the nursery's lock has shown it to
 * us since. */
static void
rest_on(Worker *worker, Task *task, LawState state, bool deaf)
{
    Scheduler *scheduler = worker->scheduler;
    struct Nursery *nursery = task->nursery; /* the task may be another's in a moment */
    if (task_rests(task, state)) {
        worker_requeue(worker, task);
    } else if (!deaf && nursery_cancelled(nursery)) {
        worker_wake(scheduler, worker, task, TO_CANCEL, true);
    }
}

static void
rest(Task *task, LawState state, bool deaf)
{
    rest_on(task_worker(task), task, state, deaf);
}

/* A task whose child waits above it on its stack (help_children.c) was woken: it cannot run. What it would do is done
 * for it. */
static NOINLINE void
serve_covered(Worker *worker, Task *task)
{
    task_dispatched(task);
    bool told = task_cancelled(task);
    if (told) {
        task_tell(task);
    }
    (void)task_stands_waiting(task); /* if it is to stand still it will, before it goes on: see help_children.c */
    rest_on(worker, task, LAW_STATE_BLOCKED, told);
}

void
worker_loop(struct runner *runner)
{
    for (;;) {
        Worker *worker = runner->worker, *host = worker->host;
        worker->current = NULL; /* whoever was may run elsewhere by now: what is called here is not on its behalf */
        if (UNLIKELY(host->wants_timers)) {
            host->wants_timers = false;
            (void)timers_make_thread(&worker->scheduler->timers); /* whoever asked looks whether it is there */
        }
        Task *task = host->pending;
        host->pending = NULL;
        if (task == NULL && (task = find(runner)) == NULL) {
            runner_leave(runner);
        }
        worker = runner->worker;
        if (UNLIKELY(load_u32(&worker->scheduler->dormant, RELAXED) != 0)) {
            scheduler_grow_again(worker->scheduler);
        }
        if (UNLIKELY(load_u32(&task->covered, ACQUIRE) != 0)) {
            serve_covered(worker, task);
            continue;
        }
        if (task->fiber.state == FIBER_SUSPENDED) {
            task_begin(worker, task);
            runner_resume(runner, &task->fiber);
        }
        if (UNLIKELY(runner_must_hop(runner, &task->fiber)) && !task_cancelled(task)) {
            host->pending = task;
            runner_hop(runner, task->fiber.class); /* returns only if there is no such stack */
            host->pending = NULL;
            task_begin(worker, task);
            task_end_unstarted(worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        task_begin(worker, task);
        task->requests_seen = load_u32(&worker->scheduler->requests, ACQUIRE); /* HELP-1 */
        if (UNLIKELY(task_cancelled(task))) {
            task_end_unstarted(worker, task, END_CANCELLED, 0);
            continue;
        }
        enum fiber_state state = runner_call(&runner, &task->fiber);
        if (UNLIKELY(state == FIBER_NO_STACK)) {
            task_end_unstarted(runner->worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        task_end(runner->worker, task, state);
    }
}

/* ---- what a task left to do, done on the stack that control arrived at, when its registers are saved */

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
after_deaf(void *task)
{
    rest(task, LAW_STATE_BLOCKED, true);
}

static void
after_pause(void *task)
{
    rest(task, LAW_STATE_PAUSED, false);
}

void
task_look_at_stack(Task *self)
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
worker_look_at_stack(Worker *worker)
{
    task_look_at_stack(worker->current);
    return worker;
}

/* Leave the running task for the next one. Inline, as all that is entered on one stack and left on another: each function
 * in between has a return that the processor guesses wrong. */
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

/* From its first wait on a request to stop must find it. */
static NOINLINE void
enter_family(Task *task)
{
    struct Nursery *nursery = task->nursery;
    lock_take(&nursery->lock);
    law_queue_append(&nursery->waiting, &task->family);
    lock_give(&nursery->lock);
    task->marks.linked = true;
}

/* Those beneath a task that is about to rest rest with it: each one that does not do so already. */
static NOINLINE void
cover(Task *self)
{
    Worker *worker = task_worker(self);
    for (Task *task = self; task->above;) {
        task = task->nursery->owner;
        if (load_u32(&task->covered, RELAXED) != 0) {
            return; /* and so do those beneath it */
        }
        if (!task->marks.linked) {
            enter_family(task);
        }
        store_u32(&task->covered, 1, RELAXED); /* published by the rest */
        rest_on(worker, task, LAW_STATE_BLOCKED, task->marks.told);
    }
}

/* The task is no longer covered, and its registers are saved: it can be run as any other. If somebody was about to serve it,
 * that one finds the note, or was here before: then this is its wake. */
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
        store_u32(&self->covered, 0, RELAXED); /* woken by itself, it needs no queue */
        return;
    }
    Worker *worker = task_worker(self);
    leave(worker, self, worker_next(worker), after_uncover); /* it is in a queue, or being served */
}

/* The running task rests, and what it leaves to do says how. `next` as for task_rest_for, or NULL: whoever comes next. */
static ALWAYS_INLINE void
lie_down(Worker *worker, Task *self, Task *next, runner_after after)
{
    if (UNLIKELY(!self->marks.linked)) {
        enter_family(self);
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
    static const runner_after after[] = {after_block, after_hold, after_deaf, after_pause};
    lie_down(task_worker(self), self, next, after[rest_as]);
}

void
task_rest(Task *self, Rest rest_as)
{
    task_rest_for(self, rest_as, NULL);
}

void
task_block(Worker *worker, Task *self)
{
    lie_down(worker, self, NULL, after_block);
}
