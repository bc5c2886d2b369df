/* How the running task leaves its worker: by a yield, or by a rest until a wake (task_leave.c).
 *
 * Callers of these functions have called task_need_stack first: parking needs room on the task's stack.
 */
#pragma once

#include "engine/worker.h"
#include "hints.h"

/* The running task gives way to other tasks. */
void task_yield(Task *self);

/* The running task gives way to `next`, which was taken out of a queue. */
void task_yield_to(Task *self, Task *next);

/* The running task gives way to the loop, which then makes the thread of the timers. */
void task_yield_for_timers(Task *self);

/* How the running task rests. */
typedef enum {
    REST_BLOCKED,          /* until a wake; a cancel request is one */
    REST_HELD,             /* until a recharge or a cancel request */
    REST_CANCEL_DELIVERED, /* until a wake; its cancel request is delivered, so it does not end the rest */
    REST_PAUSED,           /* until it is resumed or must stop; see task_requests.h */
} Rest;

/* The running task rests until a wake, which may have no cause (TASK-3). */
void task_rest(Task *self, Rest rest);

/* The same as BLOCKED: the form that every message uses. */
void task_block(Worker *worker, Task *self);

/* The same, and `next` runs instead: a task that was taken out of a queue, not NULL. */
void task_rest_for(Task *self, Rest rest, Task *next);

/* A covered task (help_children.c) was woken. It cannot run, so this does what the task would do. */
void task_serve_covered(Worker *worker, Task *task);

/* The child above the running task has ended after a wait: the task gets its stack back (HELP-3). */
void task_uncover(Task *self);

/* ---- room on the stack */

/* What making a thread needs: 4 KiB in the C library, and a reserve. Deep in a small task there is less; then the loop
 * makes it. */
#define THREAD_HEADROOM_BYTES ((size_t)6 << 10)

/* How much stack an operation of the engine needs, parking included. A task that has less ends as overflown before the
 * operation begins, not in the middle of it while it holds a lock (FIBER-7, FIBER-8). */
#define ENGINE_HEADROOM_BYTES (RUNNER_HEADROOM_BYTES + 2 * STACK_SWITCH_BYTES)

/* Whether there is that much, and no canary to check. */
static ALWAYS_INLINE bool
stack_has_headroom(const struct stack *stack)
{
    return LIKELY(stack_headroom(stack) >= ENGINE_HEADROOM_BYTES && stack->guard != STACK_GUARD_CANARY);
}

/* The slow halves of the functions below: end the task if it has less, or has overwritten its canary. */
void task_check_stack(Task *self);
Worker *worker_check_stack(Worker *worker);

/* Call it before the running task asks for an operation: it ends the task if it has less. */
static ALWAYS_INLINE void
task_need_stack(Task *self)
{
    if (!stack_has_headroom(self->fiber.stack)) {
        task_check_stack(self);
    }
}
