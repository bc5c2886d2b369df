/* Fibers: functions that can stop in the middle and continue later, also on another thread.
 *
 * A fiber is an entry function, a stack from its first run on, and a saved context while it does not run. This file
 * has what all fibers share, and the simple way to run them: `fiber_resume` runs a fiber until it suspends, finishes
 * or panics, and returns. Resumes nest: a fiber may resume another one. runner.h has the second way, for the workers
 * of a scheduler, which call a fiber on their own stack.
 *
 * A *panic* ends a fiber in the middle: by `fiber_panic`, or because the fiber overflowed its stack and hit the guard
 * (overflow.h). Its frames are dropped, not unwound: no cleanup runs, and locks stay locked. Control returns to the
 * code that resumed or called the fiber. The stack can be used again, and all other fibers continue.
 *
 * Why resume and suspend are inline: a processor predicts a `ret` from the call that it belongs to. After a change of
 * stacks that prediction is wrong for every function that was called on the other stack. Inlined, there is no `ret`,
 * which halves the cost.
 *
 * There is no thread-local storage: `fiber_self` finds the running fiber by the stack pointer, and functions get what
 * they need as arguments. There is no allocation: a fiber is in memory of its owner, and a stack comes from the pool.
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
    FIBER_RUNNING,   /* runs, or waits for a fiber that it resumed */
    FIBER_SUSPENDED, /* `context` is where it continues */
    FIBER_DONE,      /* `result` is what the entry returned */
    FIBER_PANICKED,  /* `panic` and `code` say why */
    /* Never a state, only a result: */
    FIBER_REFUSED,  /* it cannot be run in its state */
    FIBER_NO_STACK, /* it stays FRESH; stack_cache_error says why */
};

enum fiber_panic_kind {
    FIBER_PANIC_NONE,
    FIBER_PANIC_CALLED,   /* fiber_panic */
    FIBER_PANIC_OVERFLOW, /* hit its guard: `context` is the address; or had too little stack left to stop: NULL */
    FIBER_PANIC_CANARY,   /* wrote below its stack, where no guard was; the stack is retired */
};

/* 64 bytes, made to be embedded in a task. The owner of the fiber may read `name`, `result`, `code`, `panic` and
 * `state`; the rest is private. */
struct fiber {
    void *context;       /* SUSPENDED: where it continues. PANICKED by overflow: the faulting address */
    struct stack *stack; /* RUNNING, SUSPENDED: its stack */
    fiber_entry entry;
    void *arg;
    const char *name;      /* borrowed; for reports of a panic */
    struct runner *runner; /* RUNNING under a runner: that runner (RUNNER-2) */
    int64_t result;
    int32_t code;  /* the argument of fiber_panic */
    uint8_t state; /* enum fiber_state */
    uint8_t panic; /* enum fiber_panic_kind */
    uint8_t class; /* the class of stack that it needs */
};

/* Prepares a fiber. Takes no stack (FIBER-1). `class` is from stack_class, below STACK_CLASSES. */
static inline void
fiber_init(struct fiber *fiber, const char *name, fiber_entry entry, void *arg, unsigned class)
{
    *fiber = (struct fiber){.entry = entry, .arg = arg, .name = name, .state = FIBER_FRESH, .class = (uint8_t)class};
}

/* Ends a FRESH or SUSPENDED fiber without running it: its frames are dropped, and its stack goes to `cache`. It is DONE
 * afterwards, with result 0. Returns 0, or EINVAL in any other state. */
int fiber_discard(struct stack_cache *cache, struct fiber *fiber);

/* Ends the running fiber as panicked. Returns only on a stack of no fiber, with EINVAL. */
int fiber_panic(int32_t code);

/* The fiber on whose stack the caller runs, or NULL. Slow: it searches the arenas. */
struct fiber *fiber_self(void);

/* How many bytes of stack the running fiber `self` has left. Code that takes a lock on a fiber's stack checks this
 * first, because a fiber that panics does not release the lock (FIBER-7). */
static ALWAYS_INLINE size_t
fiber_headroom(const struct fiber *self)
{
    return stack_headroom(self->stack);
}

/* The functions from here to fiber_resume are for this folder only. */

/* Records that the owner of `stack` has panicked. Returns the context to continue. Touches only the records, so it is
 * safe in a signal handler. `address` is the faulting address, or NULL. */
void *fiber_mark_panicked(struct stack *stack, enum fiber_panic_kind kind, int32_t code, void *address);

/* Records that the owner of `stack` has overwritten its canary, and that the stack must not be used again. */
void fiber_retire_stack(struct stack *stack);

/* Ends the running fiber, which is the owner of `stack`, as panicked. */
_Noreturn void fiber_abandon(struct stack *stack, enum fiber_panic_kind kind, int32_t code);

/* The first function on a fiber's stack, started by context_start. Never returns (SWITCH-6). */
void fiber_root(void *fiber);

/* Gives the stack of an ended fiber to the cache. */
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

/* The fiber has stopped, and the code that resumed it runs again. */
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

/* Runs a FRESH or SUSPENDED fiber until it stops. Returns its new state: FIBER_SUSPENDED, FIBER_DONE or
 * FIBER_PANICKED. Or returns FIBER_NO_STACK or FIBER_REFUSED, and then nothing has happened. The first run takes a
 * stack from its `cache`, and the run that ends the fiber gives the stack to its own `cache` (FIBER-2); the two may
 * differ. The caller may be a thread or a fiber. */
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

/* Called by a fiber that was resumed by fiber_resume: control goes back to the resumer. Returns at the next resume,
 * perhaps on another thread (SWITCH-7). A fiber with less than STACK_SWITCH_BYTES left panics instead. */
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
