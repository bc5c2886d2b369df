/* The loop of a worker. The queues are in worker.c; task_leave.c is how a task leaves the worker and comes back.
 *
 * The loop runs on a pooled stack and calls fresh tasks there. Across a call its frame keeps nothing but the task that
 * it has called on this very stack (RUNNER-2 of native/fiber). A task that gives way takes the next task itself and
 * switches to it. Only if that task is fresh, or there is none, does the loop begin again.
 */
#include "engine/worker_loop.h"

#include "engine/pick.h"
#include "engine/scheduler.h"
#include "engine/shutdown.h"
#include "engine/task_end.h"
#include "engine/task_leave.h"
#include "hints.h"

#define SEARCH_EAGER 32u       /* attempts of a searcher before its pauses begin: some microseconds, less than a wake */
#define SEARCH_EAGER_RELAXES 4 /* between two of them: about 100 ns, so that the victims keep their cache lines */

/* Search, pause, steal, sleep, until there is a task. Returns NULL when the scheduler halts. */
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

/* The next task of the worker that this loop serves. NULL: leave the loop. */
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

/* End a task that was not started. */
static void
end_unstarted(Worker *worker, Task *task, EndKind kind, int64_t code)
{
    task->marks.kind = (uint8_t)kind;
    task->fiber.result = code;
    task_end(worker, task, FIBER_NO_STACK);
}

void
worker_loop(struct runner *runner)
{
    for (;;) {
        Worker *worker = runner->worker, *host = worker->host;
        worker->current = NULL; /* the last task may run elsewhere by now: what is called here is not on its behalf */
        if (UNLIKELY(host->wants_timers)) {
            host->wants_timers = false;
            (void)timers_make_thread(&worker->scheduler->timers); /* the task that asked checks whether it is there */
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
            task_serve_covered(worker, task);
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
            end_unstarted(worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        task_begin(worker, task);
        task->requests_seen = load_u32(&worker->scheduler->requests, ACQUIRE); /* HELP-1 */
        if (UNLIKELY(task_cancelled(task))) {
            end_unstarted(worker, task, END_CANCELLED, 0);
            continue;
        }
        enum fiber_state state = runner_call(&runner, &task->fiber);
        if (UNLIKELY(state == FIBER_NO_STACK)) {
            end_unstarted(runner->worker, task, END_FAILED, ENGINE_MEMORY);
            continue;
        }
        task_end(runner->worker, task, state);
    }
}
