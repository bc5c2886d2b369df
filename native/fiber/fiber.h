/* Fibers: a function that can stop in the middle and go on later, on whichever thread.
 *
 * A fiber is an entry, a stack once it has run for the first time, and a saved context while it does not run.
 * This file has what all fibers share and the plain way to drive them: `fiber_resume` runs one until it
 * suspends, finishes or panics, and returns. Resumes nest: a fiber may resume another. runner.h has the other
 * way, for a scheduler's worker, where a fiber is called on the worker's own stack.
 *
 * A *panic* ends a fiber from inside or from below: by `fiber_panic`, or because it ran out of stack and hit the
 * guard (overflow.h). Its frames are dropped, not unwound: no cleanup runs, locks stay locked. Control returns
 * to whoever resumed or called it; the stack is as good as new; everybody else goes on.
 *
 * Why resume and suspend are inline: after a change of stacks the processor guesses wrong at every `ret` of a
 * function that was called on the other side. Inlined there is none, which halves the cost.
 *
 * No thread-local storage: a fiber is told apart by the stack it stands on (`fiber_self`), and what a call needs
 * it is given. No allocation: the memory of a fiber is its owner's, the stack is the pool's.
 *
 * The contracts are FIBER-1 to FIBER-8 in INVARIANTS.md. */

#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fiber/context.h"
#include "fiber/stack.h"
#include "hints.h"

struct runner;

typedef int64_t (*fiber_entry)(void *arg);

enum fiber_state {
    FIBER_FRESH,     /* has no stack yet */
    FIBER_RUNNING,   /* runs, or waits for a fiber that it has resumed */
    FIBER_SUSPENDED, /* `context` is where it goes on */
    FIBER_DONE,      /* `result` is what the entry returned */
    FIBER_PANICKED,  /* `panic` and `code` say why */
    /* Never a state, only an answer: */
    FIBER_REFUSED,  /* it cannot be run in the state that it is in */
    FIBER_NO_STACK, /* it stays FRESH; stack_cache_error says why */
};

enum fiber_panic_kind {
    FIBER_PANIC_NONE,
    FIBER_PANIC_CALLED,   /* fiber_panic */
    FIBER_PANIC_OVERFLOW, /* hit its guard: `context` is the address; or had too little left to stop: it is NULL */
    FIBER_PANIC_CANARY,   /* ran over its stack without hitting a guard; the stack is retired */
};

/* 64 bytes, made to be embedded in a task. `name`, `result`, `code`, `panic` and `state` may be read by whoever
 * owns the fiber; the rest is private. */
struct fiber {
    void *context;       /* SUSPENDED: where it goes on. PANICKED by overflow: the faulting address */
    struct stack *stack; /* RUNNING, SUSPENDED: what it stands on */
    fiber_entry entry;
    void *arg;
    const char *name;      /* borrowed; for whoever reports a panic */
    struct runner *runner; /* RUNNING under a runner: which one (RUNNER-2) */
    int64_t result;
    int32_t code;  /* what fiber_panic was given */
    uint8_t state; /* enum fiber_state */
    uint8_t panic; /* enum fiber_panic_kind */
    uint8_t class; /* of the stack that it wants */
};

/* Prepares a fiber. Takes no stack (FIBER-1). `class` is from stack_class, below STACK_CLASSES. */
static inline void
fiber_init(struct fiber *fiber, const char *name, fiber_entry entry, void *arg, unsigned class)
{
    *fiber = (struct fiber){.entry = entry, .arg = arg, .name = name, .state = FIBER_FRESH, .class = (uint8_t)class};
}

/* Ends a FRESH or SUSPENDED fiber without running it: its frames are dropped and its stack goes to `cache`. It is
 * DONE afterwards, with result 0. 0, or EINVAL in any other state. */
int fiber_discard(struct stack_cache *cache, struct fiber *fiber);

/* Ends the running fiber as panicked. Returns EINVAL if the caller stands on no fiber's stack, else never. */
int fiber_panic(int32_t code);

/* The fiber on whose stack the caller stands, or NULL. Slower than having been told: it searches the arenas. */
struct fiber *fiber_self(void);

/* How many bytes of stack a running fiber has left, asked by itself. Code that takes a lock on a fiber's stack
 * asks first, because a fiber that panics does not give it back (FIBER-7). */
static ALWAYS_INLINE size_t
fiber_headroom(const struct fiber *self)
{
    return stack_headroom(self->stack);
}

/* For this folder only, down to fiber_resume. */

/* Records that the owner of `stack` has panicked. Returns the context to continue with. Touches nothing but the
 * records: safe in a signal handler. `address` is what it tried to touch, or NULL. */
void *fiber_mark_panicked(struct stack *stack, enum fiber_panic_kind kind, int32_t code, void *address);

/* Records that the owner of `stack` has run over its canary, and that the stack is not to be used again. */
void fiber_retire_stack(struct stack *stack);

/* Ends the running fiber, which is the owner of `stack`, as panicked. */
_Noreturn void fiber_abandon(struct stack *stack, enum fiber_panic_kind kind, int32_t code);

/* The first frame of a fiber; its stack has been entered by context_start. Never returns (SWITCH-6). */
void fiber_root(void *fiber);

/* Gives the stack of a fiber that will not use it again to the cache. */
static inline void
fiber_give_back(struct stack_cache *cache, struct fiber *fiber)
{
    struct stack *stack = fiber->stack;
    fiber->stack = NULL;
    stack->owner = NULL;
    if (UNLIKELY(stack->condemned)) {
        stack_cache_retire(cache, stack);
    } else {
        stack_cache_put(cache, stack);
    }
}

/* The resumer of a fiber runs again. */
static ALWAYS_INLINE enum fiber_state
fiber_stopped(struct stack_cache *cache, struct fiber *fiber)
{
    struct stack *stack = fiber->stack;
    SANITIZE(if (fiber->state == FIBER_PANICKED) { sanitize_landed(&stack->back); })
    SANITIZE(sanitize_arrive(&stack->back, NULL);)
    if (UNLIKELY(!stack_sound(stack))) {
        fiber_retire_stack(stack);
    }
    enum fiber_state state = (enum fiber_state)fiber->state;
    if (state != FIBER_SUSPENDED) {
        fiber_give_back(cache, fiber);
    }
    return state;
}

/* Runs a FRESH or SUSPENDED fiber until it stops. Returns FIBER_SUSPENDED, FIBER_DONE or FIBER_PANICKED, which is
 * its state then; or FIBER_NO_STACK or FIBER_REFUSED, and then nothing has happened. A stack is taken from
 * `cache` at the first run and goes back to the `cache` of the run that ends it (FIBER-2), so the two may differ. The
 * caller may be a plain thread or a fiber. */
static ALWAYS_INLINE enum fiber_state
fiber_resume(struct stack_cache *cache, struct fiber *fiber)
{
    struct stack *stack = fiber->stack;
    if (fiber->state == FIBER_SUSPENDED && fiber->runner == NULL) {
        fiber->state = FIBER_RUNNING;
        SANITIZE(sanitize_note(&stack->back); sanitize_leave(&stack->back, &stack->here);)
        context_switch(&stack->recover, fiber->context, NULL);
        return fiber_stopped(cache, fiber);
    }
    if (fiber->state != FIBER_FRESH) {
        return FIBER_REFUSED;
    }
    stack = stack_cache_get(cache, fiber->class);
    if (stack == NULL) {
        return FIBER_NO_STACK;
    }
    fiber->stack = stack;
    fiber->state = FIBER_RUNNING;
    stack->owner = fiber;
    SANITIZE(sanitize_begin(&stack->here, stack->limit, stack->top);)
    SANITIZE(sanitize_note(&stack->back); sanitize_leave(&stack->back, &stack->here);)
    context_start(&stack->recover, stack->top, fiber_root, fiber);
    return fiber_stopped(cache, fiber);
}

/* Called by a fiber about itself, when it was resumed by fiber_resume: back to the resumer. Returns at the next
 * resume, perhaps on another thread (SWITCH-7). A fiber with less than STACK_SWITCH_BYTES left ends as panicked. */
static ALWAYS_INLINE void
fiber_suspend(struct fiber *self)
{
    struct stack *stack = self->stack;
    if (UNLIKELY(stack_headroom(stack) < STACK_SWITCH_BYTES)) {
        fiber_abandon(stack, FIBER_PANIC_OVERFLOW, 0); /* FIBER-8 */
    }
    self->state = FIBER_SUSPENDED;
    SANITIZE(sanitize_leave(&stack->here, &stack->back);)
    context_switch(&self->context, stack->recover, NULL);
    SANITIZE(sanitize_arrive(&stack->here, &stack->back);)
}
