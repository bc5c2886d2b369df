/* Runners: how a scheduler's worker runs fibers without a switch for those that never park.
 *
 * A worker does not stand on its thread's stack but on a pooled one, in a loop of its own making. A fresh fiber is
 * *called* from that loop, on that stack. Most fibers return, and that was all. One that parks keeps the stack,
 * with the loop's frame at the bottom of it, and the worker begins its loop anew on another stack:
 *
 *     thread ── runner_enter ──► loop on stack A ── runner_call(f) ──► f on A
 *                                                                      │ runner_park(f)
 *                                loop on stack B  ◄────────────────────┘  A is now f's
 *                                │ runner_resume(f): B is free again
 *                                └──────────────────────────────────► f on A, returns
 *                                loop on stack A  ◄──────────────────┘  A is the worker's again
 *
 * So every stack has a loop at its bottom, and these loops are interchangeable: the loop keeps nothing in its
 * frame that it needs after `runner_call`, and takes from there the runner that it is now in the service of
 * (RUNNER-2). Between two fibers a worker holds one stack; while a fiber runs it holds a spare one as well, so that
 * parking cannot fail (RUNNER-3).
 *
 * Rejected: a stack per fiber from the start (two switches for each, and as many stacks as fibers); a scheduler
 * stack per worker that all fibers return to (two switches per yield instead of one).
 *
 * The functions that change stacks are inline for the reason that fiber.h gives. The contracts are RUNNER-1 to RUNNER-9 in
 * INVARIANTS.md. */

#pragma once

#include <assert.h>

#include "fiber/context.h"
#include "fiber/fiber.h"
#include "hints.h"

/* Runs on behalf of `runner` and never returns: it ends in runner_leave, runner_resume or runner_hop (RUNNER-1). */
typedef void (*runner_loop)(struct runner *runner);

/* Called on the stack that control has arrived at, when what was left is completely saved (RUNNER-4). */
typedef void (*runner_after)(void *arg);

/* What a fiber must have left when it parks: the next to arrive on its stack first does what the one before it left
 * to do (RUNNER-4), and that must not end in the guard. `after` may use half of it. */
#define RUNNER_HEADROOM_BYTES (4 * STACK_SWITCH_BYTES)

/* One per worker. `worker` is the embedding's own; the rest is private. */
struct runner {
    void *worker;
    struct stack_cache *cache;
    struct stack *stack;   /* the one that the worker stands on */
    struct stack *spare;   /* class 0; for the loop to go on if the running fiber parks (RUNNER-3) */
    struct stack *leaving; /* to be put back once it has been left (STACK-5) */
    runner_after after;
    void *after_arg;
    runner_loop loop;
    void *home; /* context of the thread in runner_enter */
    SANITIZE_RUNNER_FIELDS
};

/* Prepares a runner; takes no stack. */
void runner_init(struct runner *runner, struct stack_cache *cache, runner_loop loop, void *worker);

/* Called by a thread on its own stack: begins the loop on a pooled stack, and returns 0 after a runner_leave of the
 * same runner; all its stacks are in the cache then. Returns an errno if there is no stack, and then nothing has
 * happened. */
int runner_enter(struct runner *runner);

/* Called by the loop, not by a fiber: back to runner_enter. */
_Noreturn void runner_leave(struct runner *runner);

/* Called by the loop: begins the loop anew on a stack of the class. Returns an errno if there is none; else it does
 * not return: what is to be done next must be remembered elsewhere than in this frame. */
int runner_hop(struct runner *runner, unsigned class);

/* Whether the loop must runner_hop(runner, fiber->class) before it can call the fiber: the stack under it is of
 * another class, or is to be retired. */
static inline bool
runner_must_hop(const struct runner *runner, const struct fiber *fiber)
{
    return fiber->class != runner->stack->class || runner->stack->condemned;
}

/* For this folder only, down to runner_call. */

/* The first frame of a stack on which the loop begins anew. */
void runner_root(void *runner);

/* What runner_call calls: the fiber's entry. */
void runner_body(void *fiber);

/* Nobody stands on the stack any more: back to the cache, or out of use. */
void runner_give_back(struct runner *runner, struct stack *stack);

/* First thing on every stack that control arrives at: what the place that was left could not do itself. */
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

/* The loop gives up the stack under it: it becomes the spare one if there is none, else it goes once it is left. */
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

/* A stack is about to become the one under the worker, with nobody in it. */
static ALWAYS_INLINE void
runner_move_to(struct runner *runner, struct stack *stack)
{
    runner->stack = stack;
    stack->owner = NULL;
    SANITIZE(sanitize_begin(&stack->here, stack->limit, stack->top);)
}

/* A running fiber that has run over its canary, or has too little left to stop, ends here, before anything has changed
 * (FIBER-8). */
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

/* A SUSPENDED fiber is about to run in the service of the runner. */
static inline void
runner_pick_up(struct runner *runner, struct fiber *next)
{
    assert(next->state == FIBER_SUSPENDED && next->runner != NULL && "RUNNER-5");
    next->state = FIBER_RUNNING;
    next->runner = runner;
    runner->stack = next->stack;
}

/* Called by the loop: runs a FRESH fiber on the stack under it, to its end. Returns FIBER_DONE or FIBER_PANICKED,
 * perhaps much later, and then `*at` is the runner in whose service the loop now is, perhaps on another thread.
 * FIBER_NO_STACK: there is no spare stack to be had; the fiber is still FRESH. FIBER_REFUSED: it is not FRESH, or
 * cannot be called on the stack under the loop: see runner_must_hop. */
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
        *at = fiber->runner; /* RUNNER-2. The branch spares the usual case a wait for its own store. */
    }
    return (enum fiber_state)fiber->state;
}

/* A place in the frames of a running fiber from where it calls others above itself (RUNNER-9). One for many of them:
 * what makes a panic possible costs more than a call. */
struct runner_perch {
    void *landing; /* a context in runner_perch_on: where control goes on if one of the others panics */
    void *recover; /* that of the stack while `self` itself runs */
};

/* For the two functions below: a fiber above has ended, and the one beneath has the stack to itself again. */
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

/* Called by a running fiber about itself: calls `body(arg)`, which may call any number of fibers by runner_call_above. NULL
 * when it has returned. If one of them panics, the frames of `body` are dropped, and that fiber is the answer. */
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

/* Called in the body of the perch: runs a FRESH fiber on the stack of the one beneath, above its frames, and returns when it
 * has ended: FIBER_DONE, or FIBER_PANICKED if it has spoilt its canary; a panic leads elsewhere, see above. If the fiber
 * parks, both are parked: so this is for a fiber that cannot go on before that end anyway, and has made sure that there
 * is as much room as the class of the fiber guarantees. `self` is afterwards in the service of the runner that the
 * fiber ended under (RUNNER-8). */
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

/* Called by a running fiber about itself: it keeps its stack, and the worker's loop begins anew on the spare one.
 * There, first of all, `after(arg)` is called, unless NULL: not before it may anybody try to run the fiber (RUNNER-4).
 * Returns when the fiber is run again, with the runner in whose service it then is. Cannot fail; but a fiber with
 * less than RUNNER_HEADROOM_BYTES of stack left ends here as panicked, and then `after` is not called. */
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

/* The same, but the worker goes straight on with `next`, a SUSPENDED fiber: one switch, no loop. For a fiber that knows
 * that it has RUNNER_HEADROOM_BYTES left, and a whole canary. */
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

/* Called by the loop: gives up the stack under it and goes on with a SUSPENDED fiber. */
static ALWAYS_INLINE _Noreturn void
runner_resume(struct runner *runner, struct fiber *next)
{
    runner_give_up(runner);
    assert(runner->spare != NULL && "RUNNER-3");
    runner_pick_up(runner, next);
    SANITIZE(sanitize_leave(NULL, &next->stack->here);)
    context_jump(next->context, runner);
}
