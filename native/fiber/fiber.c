/* Fibers and their panics: see fiber.h. */

#include "fiber/fiber.h"

#include <errno.h>

#include "fiber/arena.h"

_Static_assert(sizeof(void *) != 8 || sizeof(struct fiber) == 64, "a fiber is one cache line");

#if defined(__x86_64__)
/* Whether a switch compares mxcsr before it loads it (switch_x86_64.S). It depends on the processor,
 * so it is static. */
extern unsigned char context_compares;
unsigned char context_compares __attribute__((visibility("hidden"))) = 1;

__attribute__((constructor)) static void
know_processor(void)
{
    __builtin_cpu_init();
    context_compares = !__builtin_cpu_is("amd");
}
#endif

void
fiber_root(void *arg)
{
    struct fiber *fiber = arg;
    SANITIZE(sanitize_arrive(&fiber->stack->here, &fiber->stack->back);)
    fiber->result = fiber->entry(fiber->arg);
    fiber->state = FIBER_DONE;
    SANITIZE(sanitize_leave(NULL, &fiber->stack->back);)
    context_jump(fiber->stack->recover, NULL);
}

int
fiber_discard(struct stack_cache *cache, struct fiber *fiber)
{
    if (fiber->state != FIBER_FRESH && fiber->state != FIBER_SUSPENDED) {
        return EINVAL;
    }
    fiber->state = FIBER_DONE;
    if (fiber->stack != NULL) {
        fiber_give_back(cache, fiber);
    }
    return 0;
}

struct fiber *
fiber_self(void)
{
    struct stack *stack = stack_find(__builtin_frame_address(0));
    return stack == NULL ? NULL : stack->owner;
}

static void
record_panic(struct stack *stack, enum fiber_panic_kind kind, int32_t code, void *address)
{
    struct fiber *fiber = stack->owner;
    fiber->state = FIBER_PANICKED;
    fiber->panic = (uint8_t)kind;
    fiber->code = code;
    fiber->context = address;
}

void *
fiber_mark_panicked(struct stack *stack, enum fiber_panic_kind kind, int32_t code, void *address)
{
    record_panic(stack, kind, code, address);
    SANITIZE(if (stack->owner->runner == NULL) { sanitize_abandon(&stack->back); })
    return stack->recover;
}

void
fiber_retire_stack(struct stack *stack)
{
    stack->condemned = true;
    record_panic(stack, FIBER_PANIC_CANARY, 0, NULL);
}

_Noreturn void
fiber_abandon(struct stack *stack, enum fiber_panic_kind kind, int32_t code)
{
    context_abandon(fiber_mark_panicked(stack, kind, code, NULL), stack);
}

int
fiber_panic(int32_t code)
{
    struct stack *stack = stack_find(__builtin_frame_address(0));
    if (stack == NULL || stack->owner == NULL) {
        return EINVAL;
    }
    fiber_abandon(stack, FIBER_PANIC_CALLED, code);
}
