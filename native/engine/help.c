/* Helping: an owner that awaits its children runs those that have not begun itself, above its own frames.
 *
 *     stack A:   loop │ owner … await │ child … await │ grandchild          each one called by the one beneath it
 *
 * The owner cannot go on before they have ended, so it may lend them its stack. A child that ends was a function call: no
 * switch, no queue, no wake, and nobody but the owner counts it. That is what makes fork and join cheap. If a child waits, the
 * whole stack waits: the child as any task does, and those beneath it, who are *covered*, rest too. When the child has ended
 * control is back in its owner by a plain return, on whatever worker.
 *
 * Only what comes next by the rules of the worker is run, and only if it is a child of the awaited nursery that has not
 * begun and finds as much room as its class guarantees; anything else ends the helping, and the owner waits in the usual way.
 *
 * A request to stop goes from owner to owner (nursery.h), and an owner that lies beneath a child cannot pass it on. So
 * somebody else does:
 *
 * T1  while the child runs or is in a queue, the child: it looks at a counter of all requests at every call at which it could
 *     be told to stop, and if that has moved, it asks for all beneath it (task_must_stop)
 * T2  while the child waits, those beneath it are BLOCKED in the eyes of everybody. A wake puts a covered task into a queue,
 *     and whoever takes it out does what it would do (serve_covered in loop.c), and lets it rest again
 * T3  a covered task has its stack back when its child returns. If it is BLOCKED then, it wakes itself and goes on; else it is
 *     in a queue or being served, and it waits for its turn as any other, after it has said that it is covered no longer
 * T4  a covered task's record is touched only by whoever made it RUNNING; `covered` by the one on its stack
 *
 * Deterministic schedulers do without: there each start is a decision of its own.
 */
#include "engine/pause.h"
#include "engine/scheduler.h"

static bool
can_run(const Nursery *nursery, Task *self, const Task *task)
{
    return task_is(task, FIBER_FRESH) && task->nursery == nursery &&
           stack_headroom(self->fiber.stack) >= STACK_BYTES_MIN << task->fiber.class;
}

static void
run_above(Nursery *nursery, Task *self, Task *child)
{
    Worker *worker = task_worker(self);
    enum fiber_state state = FIBER_NO_STACK;
    task_begin(worker, child);
    if (__builtin_expect(task_cancelled(child), 0)) {
        child->marks.kind = END_CANCELLED;
    } else {
        child->above = true;
        child->requests_seen = self->above ? self->requests_seen : load_u32(&worker->scheduler->requests, ACQUIRE) - 1;
        task_pass_ticks(self, child);
        state = runner_call_above(&self->fiber, &child->fiber);
        task_pass_ticks(child, self);
        worker = task_worker(self);
    }
    nursery->ended += task_end_above(worker, child, state);
    if (__builtin_expect(load_u32(&self->covered, RELAXED) != 0, 0)) {
        task_uncover(self);
        worker = task_worker(self);
        worker->current = self;
        task_stand_still(self); /* it may have said so while it was covered */
        worker = task_worker(self);
    }
    worker->current = self;
}

Task *
nursery_help(Nursery *nursery, Task *self)
{
    if (task_worker(self)->scheduler->options.deterministic) {
        return NULL;
    }
    while (nursery->spawned != nursery->ended && !task_must_stop(self)) {
        Task *task = worker_next(task_worker(self));
        if (task == NULL || !can_run(nursery, self, task)) {
            return task;
        }
        run_above(nursery, self, task);
    }
    return NULL;
}

void
task_pass_on(Task *self)
{
    uint32_t requests = load_u32(&self->nursery->scheduler->requests, ACQUIRE);
    Task *asked = NULL;
    for (Task *task = self; task->above;) {
        task = task->nursery->owner;
        if (load_u32(&task->covered, RELAXED) != 0) {
            break; /* T2 */
        }
        asked = task_cancelled(task) ? task : asked;
    }
    for (Task *task = self; asked != NULL && task != asked;) { /* from the outermost one on all that lie above it */
        task = task->nursery->owner;
        task_tell(task);
    }
    self->requests_seen = requests;
}
