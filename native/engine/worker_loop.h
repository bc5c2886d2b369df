/* The loop of a worker, and how the running task gives its worker away: by a yield, or by a rest until a wake.
 *
 * A caller of any of these has asked for task_need_stack first: parking needs room on the stack of the task.
 */
#pragma once

#include "engine/worker.h"
#include "hints.h"

/* The loop of every worker: for runner_init. */
void worker_loop(struct runner *runner);

/* The running task gives way to others. */
void task_yield(Task *self);

/* The running task gives way to `next`, which was taken out of a queue. */
void task_yield_to(Task *self, Task *next);

/* The running task gives way to the loop, which then starts the thread of the timers. */
void task_yield_for_timers(Task *self);

/* How the running task rests. */
typedef enum {
    REST_BLOCKED, /* until a wake; a request to stop is one */
    REST_HELD,    /* until a recharge or a request to stop */
    REST_DEAF,    /* until a wake; it knows already that it is to stop */
    REST_PAUSED,  /* until it is resumed or to stop; see pause.h */
} Rest;

/* The running task waits until a wake, which may be spurious (TASK-3). */
void task_rest(Task *self, Rest rest);

/* The same, BLOCKED: the way that every message takes. */
void task_block(Worker *worker, Task *self);

/* The same, and `next`, which was taken out of a queue and is not NULL, runs instead. */
void task_rest_for(Task *self, Rest rest, Task *next);

/* The child above the running task has ended after a wait: the task takes its stack back (HELP-3). */
void task_uncover(Task *self);

/* A task that could not be started is at its end. */
void task_end_unstarted(Worker *worker, Task *task, EndKind kind, int64_t code);

/* ---- room on the stack */

/* What making a thread needs: 4 KiB in the C library, and some. Less is left deep in a small task: then the loop does it. */
#define THREAD_HEADROOM_BYTES ((size_t)6 << 10)

/* What an operation of the engine needs of the stack that it is called on, parking included: a task that has less ends as
 * overflown before the operation has begun, not in the middle with a lock in hand (FIBER-7, FIBER-8). */
#define ENGINE_HEADROOM_BYTES (RUNNER_HEADROOM_BYTES + 2 * STACK_SWITCH_BYTES)

/* Whether there is as much, and no canary to look at. */
static ALWAYS_INLINE bool
stack_is_roomy(const struct stack *stack)
{
    return LIKELY(stack_headroom(stack) >= ENGINE_HEADROOM_BYTES && stack->guard != STACK_GUARD_CANARY);
}

/* The slow halves of what follows: end the task if it has less than that, or has run over its canary. */
void task_look_at_stack(Task *self);
Worker *worker_look_at_stack(Worker *worker);

/* The running task is about to ask for something: it ends if it has less than that. */
static ALWAYS_INLINE void
task_need_stack(Task *self)
{
    if (!stack_is_roomy(self->fiber.stack)) {
        task_look_at_stack(self);
    }
}
