/* Runners: a worker runs fibers without a switch of stacks for those that never park.
 *
 * A worker does not run on its thread's stack but on a pooled one, in a loop that its owner wrote. The loop *calls* a
 * fresh fiber on the same stack. Most fibers return, and that was all. A fiber that parks keeps the stack, with the
 * loop's frame at the bottom of it, and the worker begins its loop anew on another stack:
 *
 *     thread ── runner_enter ──► loop on stack A ── runner_call(f) ──► f on A
 *                                                                      │ runner_park(f)
 *                                loop on stack B  ◄────────────────────┘  A is now f's
 *                                │ runner_resume(f): B is free again
 *                                └──────────────────────────────────► f on A, returns
 *                                loop on stack A  ◄──────────────────┘  A is the worker's again
 *
 * So every stack has a loop at its bottom, and each loop can serve each worker. The loop keeps nothing in its frame
 * that it needs after `runner_call`, and uses the runner that `runner_call` returned (RUNNER-2). Between two fibers a
 * worker holds one stack. While a fiber runs, the worker also holds a spare one, so that parking cannot fail
 * (RUNNER-3).
 *
 * Rejected: a stack for each fiber from its start (two switches for each, and as many stacks as fibers). Also
 * rejected: a scheduler's stack in each worker, to which all fibers return (two switches per yield instead of one).
 *
 * The functions that change stacks are inline, for the reason in fiber.h. The contracts are RUNNER-1 to RUNNER-9 in
 * INVARIANTS.md. */

#pragma once

#include <assert.h>

#include "fiber/context.h"
#include "fiber/fiber.h"
#include "fiber/trim.h"
#include "hints.h"

/* The loop of a worker. It never returns, but ends in runner_leave, runner_resume or runner_hop (RUNNER-1). */
typedef void (*runner_loop)(struct runner *runner);

/* Called on the new stack, when the context on the old stack is completely saved (RUNNER-4). */
typedef void (*runner_after)(void *arg);

/* How much stack a fiber must have left when it parks: when it continues, it first calls the `after` of the code that
 * ran before (RUNNER-4), and that must not hit the guard. `after` may use half of this. */
#define RUNNER_HEADROOM_BYTES (4 * STACK_SWITCH_BYTES)

/* One per worker. `worker` belongs to the code that uses this folder; the rest is private. */
struct runner {
    void *worker;
    struct stack_cache *cache;
    struct stack *stack;   /* the one that the worker runs on */
    struct stack *spare;   /* class 0; for the loop if the running fiber parks (RUNNER-3) */
    struct stack *leaving; /* to be put back once nothing runs on it (STACK-5) */
    runner_after after;
    void *after_arg;
    runner_loop loop;
    void *home; /* context of the thread in runner_enter */
    SANITIZE_RUNNER_FIELDS
};

/* Prepares a runner; takes no stack. */
void runner_init(struct runner *runner, struct stack_cache *cache, runner_loop loop, void *worker);

/* Called by a thread on its own stack: begins the loop on a pooled stack. Returns 0 after a runner_leave of the same
 * runner, with all its stacks in the cache. Returns an errno if there is no stack, and then nothing has happened. */
int runner_enter(struct runner *runner);

/* Called by the loop, not by a fiber: runner_enter returns. */
_Noreturn void runner_leave(struct runner *runner);

/* Called by the loop: begins the loop anew on a stack of the class. Returns an errno if there is none. Otherwise it
 * does not return: the loop must remember its next step elsewhere than in its frame. */
int runner_hop(struct runner *runner, unsigned class);

/* Whether the loop must runner_hop(runner, fiber->class) before it can call the fiber: its stack is of another class,
 * or must be retired. */
static inline bool
runner_must_hop(const struct runner *runner, const struct fiber *fiber)
{
    return fiber->class != runner->stack->class || runner->stack->condemned;
}

/* The functions from here to runner_call are for this folder only. */

/* The first frame of a stack on which the loop begins anew. */
void runner_root(void *runner);

/* What runner_call calls: the fiber's entry. */
void runner_body(void *fiber);

/* Puts a stack on which nothing runs into the cache, or retires it. */
void runner_give_back(struct runner *runner, struct stack *stack);

/* The first call on every stack that control arrives at. It does what could not be done on the stack that was left. */
static inline void
runner_arrive(struct runner *runner)
{
    if (UNLIKELY(runner->leaving != NULL)) {
        struct stack *left = runner->leaving;
        runner->leaving = NULL;
        runner_give_back(runner, left); /* STACK-5 */
    }
    runner_after after = runner->after;
    if (after != NULL) {
        runner->after = NULL;
        after(runner->after_arg); /* RUNNER-4 */
    }
}

/* The loop gives up its stack. The stack becomes the spare one if there is none; otherwise it is put back once it is
 * left. */
static inline void
runner_give_up(struct runner *runner)
{
    struct stack *stack = runner->stack;
    if (runner->spare == NULL && stack->class == 0 && !stack->condemned) {
        runner->spare = stack;
    } else {
        runner->leaving = stack;
    }
}

/* The worker is about to run on this stack, on which nothing runs yet. */
static ALWAYS_INLINE void
runner_move_to(struct runner *runner, struct stack *stack)
{
    runner->stack = stack;
    stack->owner = NULL;
    SANITIZE(sanitize_begin(&stack->here, stack->limit, stack->top);)
}

/* Ends the running fiber if it has overwritten its canary, or has too little stack left to stop: before anything has
 * changed (FIBER-8). */
static ALWAYS_INLINE void
runner_need_room(struct fiber *self)
{
    if (UNLIKELY(!stack_sound(self->stack))) {
        fiber_abandon(self->stack, FIBER_PANIC_CANARY, 0);
    }
    if (UNLIKELY(stack_headroom(self->stack) < RUNNER_HEADROOM_BYTES)) {
        fiber_abandon(self->stack, FIBER_PANIC_OVERFLOW, 0);
    }
}

/* The running fiber becomes SUSPENDED. */
static ALWAYS_INLINE struct runner *
runner_set_down(struct fiber *self, runner_after after, void *arg)
{
    struct runner *runner = self->runner;
    assert(runner->stack == self->stack && "RUNNER-5");
    self->state = FIBER_SUSPENDED;
    runner->after = after;
    runner->after_arg = arg;
    return runner;
}

/* A SUSPENDED fiber is about to run under this runner. */
static inline void
runner_pick_up(struct runner *runner, struct fiber *next)
{
    assert(next->state == FIBER_SUSPENDED && next->runner != NULL && "RUNNER-5");
    next->state = FIBER_RUNNING;
    next->runner = runner;
    runner->stack = next->stack;
}

/* Called by the loop: runs a FRESH fiber on the loop's stack, to its end. Returns FIBER_DONE or FIBER_PANICKED,
 * perhaps much later and on another thread; `*at` is then the runner that the loop serves now. Returns FIBER_NO_STACK
 * if there is no spare stack: the fiber is still FRESH. Returns FIBER_REFUSED if it is not FRESH, or cannot be called
 * on this stack: see runner_must_hop. */
static ALWAYS_INLINE enum fiber_state
runner_call(struct runner **at, struct fiber *fiber)
{
    struct runner *runner = *at;
    struct stack *stack = runner->stack;
    if (fiber->state != FIBER_FRESH || runner_must_hop(runner, fiber)) {
        return FIBER_REFUSED;
    }
    if (runner->spare == NULL) {
        runner->spare = stack_cache_get(runner->cache, 0); /* RUNNER-3 */
        if (runner->spare == NULL) {
            return FIBER_NO_STACK;
        }
    }
    fiber->stack = stack;
    fiber->runner = runner;
    fiber->state = FIBER_RUNNING;
    stack->owner = fiber;
    void *panicked = context_call(&stack->recover, runner_body, fiber);
    if (UNLIKELY(panicked != NULL)) {
        SANITIZE(sanitize_dropped(&stack->here, stack->limit, stack->recover);)
        if (fiber->panic == FIBER_PANIC_OVERFLOW) {
            stack_shed(stack);
        }
    } else {
        fiber->state = FIBER_DONE;
    }
    if (UNLIKELY(!stack_sound(stack))) {
        fiber_retire_stack(stack);
    }
    stack->owner = NULL;
    fiber->stack = NULL;
    if (UNLIKELY(fiber->runner != runner)) {
        *at = fiber->runner; /* RUNNER-2. Without the branch, the usual case would wait for its own store. */
    }
    return (enum fiber_state)fiber->state;
}

/* A perch: a recovery point in the frames of a running fiber, from which it calls other fibers above itself
 * (RUNNER-9). One perch serves many calls, because making a recovery point costs more than a call. */
struct runner_perch {
    void *landing; /* a context in runner_perch_on: where control continues if a fiber above panics */
    void *recover; /* the stack's `recover` while `self` itself runs */
};

/* For the two functions below: a fiber above has ended, and the stack belongs to the fiber beneath again. */
static ALWAYS_INLINE enum fiber_state
runner_ended_above(const struct runner_perch *perch, struct fiber *self, struct fiber *fiber)
{
    struct stack *stack = self->stack;
    if (UNLIKELY(!stack_sound(stack))) {
        fiber_retire_stack(stack);
    }
    stack->owner = self;
    stack->recover = perch->recover;
    fiber->stack = NULL;
    if (UNLIKELY(self->runner != fiber->runner)) {
        self->runner = fiber->runner;
    }
    return (enum fiber_state)fiber->state;
}

/* Called by a running fiber: calls `body(arg)`, which may call any number of fibers by runner_call_above. Returns
 * NULL when `body` has returned. If one of these fibers panics, drops the frames of `body` and returns that fiber. */
static ALWAYS_INLINE struct fiber *
runner_perch_on(struct runner_perch *perch, struct fiber *self, void (*body)(void *arg), void *arg)
{
    struct stack *stack = self->stack;
    perch->recover = stack->recover;
    if (LIKELY(context_call(&perch->landing, body, arg) == NULL)) {
        return NULL;
    }
    SANITIZE(sanitize_dropped(&stack->here, stack->limit, perch->landing);)
    struct fiber *fiber = stack->owner;
    if (fiber->panic == FIBER_PANIC_OVERFLOW) {
        stack_shed(stack);
    }
    runner_ended_above(perch, self, fiber);
    return fiber;
}

/* Called in the body of a perch: runs a FRESH fiber on the stack of `self`, above its frames. Returns when the fiber
 * has ended: FIBER_DONE, or FIBER_PANICKED if it has overwritten the canary; any other panic ends in runner_perch_on.
 * If the fiber parks, `self` is parked with it. So `self` must be a fiber that waits for this end anyway, and must
 * have checked that as much stack is left as the class of the fiber guarantees. Afterwards `self` runs under the
 * runner under which the fiber ended (RUNNER-8). */
static ALWAYS_INLINE enum fiber_state
runner_call_above(const struct runner_perch *perch, struct fiber *self, struct fiber *fiber)
{
    struct stack *stack = self->stack;
    assert(fiber->state == FIBER_FRESH && "RUNNER-8");
    fiber->stack = stack;
    fiber->runner = self->runner;
    fiber->state = FIBER_RUNNING;
    stack->recover = perch->landing;
    stack->owner = fiber;
    fiber->result = fiber->entry(fiber->arg);
    fiber->state = FIBER_DONE;
    return runner_ended_above(perch, self, fiber);
}

/* Called by a running fiber: it keeps its stack, and the worker's loop begins anew on the spare stack. There
 * `after(arg)` is called first, unless NULL. Before that call no other code may try to run the fiber (RUNNER-4).
 * Returns when the fiber runs again, with the runner under which it then runs. Cannot fail. But a fiber with less
 * than RUNNER_HEADROOM_BYTES of stack left panics here, and then `after` is not called. */
static ALWAYS_INLINE struct runner *
runner_park(struct fiber *self, runner_after after, void *arg)
{
    runner_need_room(self);
    struct runner *runner = runner_set_down(self, after, arg);
    struct stack *stack = runner->spare;
    assert(stack != NULL && "RUNNER-3");
    runner->spare = NULL;
    runner_move_to(runner, stack);
    SANITIZE(sanitize_leave(&self->stack->here, &stack->here);)
    runner = (struct runner *)context_start(&self->context, stack->top, runner_root, runner);
    SANITIZE(sanitize_arrive(&self->stack->here, NULL);)
    runner_arrive(runner);
    return runner;
}

/* The same, but the worker continues `next`, a SUSPENDED fiber, at once: one switch, no loop. The caller must have
 * checked that `self` has RUNNER_HEADROOM_BYTES left and an intact canary. */
static ALWAYS_INLINE struct runner *
runner_switch(struct fiber *self, struct fiber *next, runner_after after, void *arg)
{
    struct runner *runner = runner_set_down(self, after, arg);
    assert(next != self && "RUNNER-5");
    runner_pick_up(runner, next);
    SANITIZE(sanitize_leave(&self->stack->here, &next->stack->here);)
    runner = (struct runner *)context_switch(&self->context, next->context, runner);
    SANITIZE(sanitize_arrive(&self->stack->here, NULL);)
    runner_arrive(runner);
    return runner;
}

/* Called by the loop: gives up its stack and continues a SUSPENDED fiber. */
static ALWAYS_INLINE _Noreturn void
runner_resume(struct runner *runner, struct fiber *next)
{
    runner_give_up(runner);
    assert(runner->spare != NULL && "RUNNER-3");
    runner_pick_up(runner, next);
    SANITIZE(sanitize_leave(NULL, &next->stack->here);)
    context_jump(next->context, runner);
}
