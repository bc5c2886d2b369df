/* Helping: an owner that awaits its children runs its fresh children itself, above its own frames.
 *
 *     stack A:   loop │ owner … await │ child … await │ grandchild          each one called by the one beneath it
 *
 * The owner cannot go on before its children have ended, so it may lend them its stack. A child that ends without a
 * wait was only a function call: no switch, no queue, no wake, and only the owner counts it. That makes fork and join
 * cheap. If a child waits, the whole stack waits: the child like any task, and the tasks beneath it, which are
 * *covered*, rest too. When the child has ended, control returns to its owner by a plain return, on whatever worker the
 * child ended.
 *
 * The owner runs only the task that comes next by the rules of its worker. That task must be a fresh child of the
 * awaited nursery, and there must be as much room on the stack as its class guarantees. Any other task ends the
 * helping, and the owner waits in the usual way.
 *
 * A cancel request goes from owner to owner (nursery.h), and an owner beneath a child cannot pass it on. So another
 * task does:
 *
 * HELP-1  while the child runs or is queued, the child passes requests on. Like every task, it checks a counter of all
 *     requests at every call that could return ENGINE_CANCELLED. If the counter has moved, it looks for requests to
 *     itself and to every task beneath it (task_must_stop). A request is counted after it is visible. When a task
 *     begins, all requests counted so far have been checked for it and for the tasks beneath it. A task that must stop
 *     takes no count as seen, so it looks at every call. While the counter has the value that it had when the nursery
 *     was opened, there was no request to the nursery or to any child
 * HELP-2  while the child waits, the tasks beneath it are BLOCKED. A wake puts a covered task into a queue. The worker
 *     that takes it out passes the request on for it (task_serve_covered in task_leave.c), and the task rests again
 * HELP-3  a covered task has its stack back when its child returns. If it is BLOCKED then, it wakes itself and goes on.
 *     Otherwise it is in a queue or being served. Then it clears `covered` and waits for its turn like any other task
 * HELP-4  only the thread that made a covered task RUNNING touches its record; only the task that runs on its stack
 *     touches `covered` and the drawn ops. So these share no memory with what a queue or the serving worker writes
 *
 * Deterministic schedulers do not help: there each start of a task is a decision.
 */
#include "engine/help_children.h"

#include "engine/fast_paths.h"
#include "engine/pick.h"
#include "engine/task_end.h"
#include "engine/task_leave.h"
#include "engine/task_requests.h"
#include "hints.h"

/* One await that helps. It is in the frame of nursery_help, because after a panic of a child only memory is left, no
 * registers. */
typedef struct {
    struct runner_perch perch;
    Nursery *nursery;
    Task *self;
    Task *next; /* the task that came next and is not a fresh child */
} Helping;

/* The child has ended, or was never begun (FIBER_NO_STACK); the owner is the running task again. */
static ALWAYS_INLINE void
ended_above(Nursery *nursery, Task *self, Task *child, enum fiber_state state)
{
    Worker *worker = task_worker(self);
    nursery->ended += end_fast(worker, child, state) || task_end_above(worker, child, state);
    if (UNLIKELY(load_u32(&self->covered, RELAXED) != 0)) {
        task_uncover(self);
        worker = task_worker(self);
        worker->current = self;
        task_wait_while_paused(self); /* it may have been asked to pause while it was covered */
        worker = task_worker(self);
    }
    worker->current = self;
}

/* As task_pass_ticks. Most tasks have drawn nothing and pay from the same purse, so there is nothing to pass. */
static ALWAYS_INLINE void
pass_ticks(Task *from, Task *to)
{
    if (UNLIKELY(from->ticks_left != 0 || from->purse != to->purse)) {
        task_pass_ticks(from, to);
    }
}

static ALWAYS_INLINE void
run_above(const struct runner_perch *perch, Nursery *nursery, Worker *worker, Task *self, Task *child)
{
    enum fiber_state state = FIBER_NO_STACK;
    task_begin(worker, child);
    if (UNLIKELY(self->requests_seen != nursery->requests_seen) && task_cancelled(child)) {
        child->marks.kind = END_CANCELLED;
    } else {
        child->above = true;
        child->requests_seen =
            self->requests_seen; /* HELP-1: the owner has just looked, and the condition above covers the child */
        pass_ticks(self, child);
        state = runner_call_above(perch, &self->fiber, &child->fiber);
        pass_ticks(child, self);
    }
    ended_above(nursery, self, child, state);
}

/* Whether there is as much room as the class guarantees; most tasks have the smallest class. */
static ALWAYS_INLINE bool
has_room(size_t room, unsigned class)
{
    return LIKELY(class == 0) ? room >= STACK_BYTES_MIN : room >> class >= STACK_BYTES_MIN;
}

/* Run child after child, all from one recovery point (`perch`). */
static void
help(void *arg)
{
    Helping *helping = arg;
    Nursery *nursery = helping->nursery;
    Task *self = helping->self;
    size_t room = stack_headroom(self->fiber.stack);
    const atomic_u32 *requests = &nursery->scheduler->requests;
    while (nursery->spawned != nursery->ended) {
        if (UNLIKELY(load_u32(requests, RELAXED) != self->requests_seen) && task_look_for_requests(self)) {
            return;
        }
        Worker *worker = task_worker(self);
        Task *task = worker_next(worker);
        bool ours = task != NULL && task->nursery == nursery && task_is(task, FIBER_FRESH);
        if (UNLIKELY(!ours || !has_room(room, task->fiber.class))) {
            helping->next = task;
            return;
        }
        run_above(&helping->perch, nursery, worker, self, task);
    }
}

Task *
nursery_help(Nursery *nursery, Task *self)
{
    if (nursery->spawned == nursery->ended || nursery->scheduler->options.deterministic) {
        return NULL;
    }
    Helping helping = {.nursery = nursery, .self = self};
    struct fiber *panicked;
    while ((panicked = runner_perch_on(&helping.perch, &self->fiber, help, &helping)) != NULL) {
        Task *child = LAW_RECORD(panicked, Task, fiber);
        task_pass_ticks(child, self);
        ended_above(nursery, self, child, FIBER_PANICKED);
    }
    return helping.next;
}

/* Deliver the cancel requests to the tasks beneath the running task, which cannot do it themselves. */
static void
deliver_beneath(Task *self)
{
    Task *asked = NULL;
    for (Task *task = self; task->above;) {
        task = task->nursery->owner;
        if (load_u32(&task->covered, RELAXED) != 0) {
            break; /* HELP-2 */
        }
        asked = task_cancelled(task) ? task : asked;
    }
    for (Task *task = self;
         asked != NULL && task != asked;) { /* the outermost task with a request, and all tasks above it */
        task = task->nursery->owner;
        task_deliver_cancel(task);
    }
}

bool
task_look_for_requests(Task *self)
{
    uint32_t requests =
        load_u32(&task_worker(self)->scheduler->requests, ACQUIRE); /* receives the requests that were counted */
    deliver_beneath(self);
    bool stop = task_cancelled(self);
    self->requests_seen = stop ? requests - 1 : requests;
    return stop;
}
