/* Helping: an owner that awaits its children runs those that have not begun itself, above its own frames.
 *
 *     stack A:   loop │ owner … await │ child … await │ grandchild          each one called by the one beneath it
 *
 * The owner cannot go on before they have ended, so it may lend them its stack. A child that ends was a function call: no
 * switch, no queue, no wake, and nobody but the owner counts it. That is what makes fork and join cheap. If a child
 * waits, the whole stack waits: the child as any task does, and those beneath it, who are *covered*, rest too. When the
 * child has ended control is back in its owner by a plain return, on whatever worker.
 *
 * Only what comes next by the rules of the worker is run, and only if it is a child of the awaited nursery that has not
 * begun and finds as much room as its class guarantees; anything else ends the helping, and the owner waits in the
 * usual way.
 *
 * A request to stop goes from owner to owner (nursery.h), and an owner that lies beneath a child cannot pass it on. So
 * somebody else does:
 *
 * HELP-1  while the child runs or is in a queue, the child: as every task it looks at a counter of all requests at
 *     every call at which it could be told to stop, and if that has moved, it asks for itself and for all beneath it
 *     (task_must_stop). A request is counted after it can be seen. When a task begins, what was asked until then has
 *     been looked at for it and for those beneath it; one that is to stop takes no count as seen, and so looks every
 *     time. Nobody can have asked a child, or its nursery, to stop as long as the counter is what it was when the
 *     nursery was opened
 * HELP-2  while the child waits, those beneath it are BLOCKED in the eyes of everybody. A wake puts a covered task into
 *     a queue, and whoever takes it out does what it would do (serve_covered in worker_loop.c), and lets it rest again
 * HELP-3  a covered task has its stack back when its child returns. If it is BLOCKED then, it wakes itself and goes on;
 *     else it is in a queue or being served, and it waits for its turn as any other, after it has said that it is
 *     covered no longer
 * HELP-4  a covered task's record is touched only by whoever made it RUNNING; `covered`, and what is drawn, by the one
 *     on its stack. So these share no memory with what a queue or its server writes
 *
 * Deterministic schedulers do without: there each start is a decision of its own.
 */
#include "engine/help_children.h"

#include "engine/fast_paths.h"
#include "engine/pause.h"
#include "engine/pick.h"
#include "engine/task_end.h"
#include "engine/worker_loop.h"
#include "hints.h"

/* One await that helps. It is in the frame of nursery_help: what a panic of a child leaves of it is what was written
 * here. */
typedef struct {
    struct runner_perch perch;
    Nursery *nursery;
    Task *self;
    Task *next; /* what came next and was not for us */
} Helping;

/* The child has ended, or was not even begun (FIBER_NO_STACK); the owner is the running task again. */
static ALWAYS_INLINE void
ended_above(Nursery *nursery, Task *self, Task *child, enum fiber_state state)
{
    Worker *worker = task_worker(self);
    nursery->ended += end_fast(worker, child, state) || task_end_above(worker, child, state);
    if (UNLIKELY(load_u32(&self->covered, RELAXED) != 0)) {
        task_uncover(self);
        worker = task_worker(self);
        worker->current = self;
        task_stand_still(self); /* it may have said so while it was covered */
        worker = task_worker(self);
    }
    worker->current = self;
}

/* As task_pass_ticks. Most have drawn nothing, and pay from the same purse: they have nothing to pass on. */
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
        child->requests_seen = self->requests_seen; /* HELP-1: the owner has just looked, and here is the rest */
        pass_ticks(self, child);
        state = runner_call_above(perch, &self->fiber, &child->fiber);
        pass_ticks(child, self);
    }
    ended_above(nursery, self, child, state);
}

/* Whether there is as much room as a class guarantees; most ask for the smallest one. */
static ALWAYS_INLINE bool
has_room(size_t room, unsigned class)
{
    return LIKELY(class == 0) ? room >= STACK_BYTES_MIN : room >> class >= STACK_BYTES_MIN;
}

/* Child after child, all from one perch. */
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

/* What was asked of those beneath a task is passed on in their place. */
static void
pass_on(Task *self)
{
    Task *asked = NULL;
    for (Task *task = self; task->above;) {
        task = task->nursery->owner;
        if (load_u32(&task->covered, RELAXED) != 0) {
            break; /* HELP-2 */
        }
        asked = task_cancelled(task) ? task : asked;
    }
    for (Task *task = self; asked != NULL && task != asked;) { /* from the outermost one on all that lie above it */
        task = task->nursery->owner;
        task_tell(task);
    }
}

bool
task_look_for_requests(Task *self)
{
    uint32_t requests = load_u32(&task_worker(self)->scheduler->requests, ACQUIRE); /* receives what was asked */
    pass_on(self);
    bool stop = task_cancelled(self);
    self->requests_seen = stop ? requests - 1 : requests;
    return stop;
}
