/* Runners, the parts that need not be fast: see runner.h. */

#include "fiber/runner.h"

#include <stdlib.h>
#include <string.h>

void
runner_init(struct runner *runner, struct stack_cache *cache, runner_loop loop, void *worker)
{
    memset(runner, 0, sizeof *runner);
    runner->cache = cache;
    runner->loop = loop;
    runner->worker = worker;
}

void
runner_give_back(struct runner *runner, struct stack *stack)
{
    if (stack->condemned) {
        stack_cache_retire(runner->cache, stack);
    } else {
        stack_cache_put(runner->cache, stack);
    }
}

void
runner_root(void *arg)
{
    struct runner *runner = arg;
    SANITIZE(sanitize_arrive(&runner->stack->here, NULL);)
    runner_arrive(runner);
    runner->loop(runner);
    abort(); /* RUNNER-1 */
}

/* The first function on a runner's first stack: control comes from the thread's own stack. */
static void
runner_first(void *arg)
{
    struct runner *runner = arg;
    SANITIZE(sanitize_arrive(&runner->stack->here, &runner->home_place);)
    runner->loop(runner);
    abort(); /* RUNNER-1 */
}

void
runner_body(void *arg)
{
    struct fiber *fiber = arg;
    fiber->result = fiber->entry(fiber->arg);
}

int
runner_enter(struct runner *runner)
{
    struct stack *stack = stack_cache_get(runner->cache, 0);
    if (stack == NULL) {
        return stack_cache_error(runner->cache);
    }
    runner_move_to(runner, stack);
    SANITIZE(sanitize_note(&runner->home_place); sanitize_leave(&runner->home_place, &stack->here);)
    context_start(&runner->home, stack->top, runner_first, runner);
    SANITIZE(sanitize_arrive(&runner->home_place, NULL);)
    runner_give_back(runner, runner->stack);
    if (runner->spare != NULL) {
        runner_give_back(runner, runner->spare);
    }
    runner->stack = runner->spare = NULL;
    return 0;
}

_Noreturn void
runner_leave(struct runner *runner)
{
    assert(runner->leaving == NULL && "STACK-5");
    SANITIZE(sanitize_leave(NULL, &runner->home_place);)
    context_jump(runner->home, NULL);
}

int
runner_hop(struct runner *runner, unsigned class)
{
    struct stack *left = runner->stack, *stack = stack_cache_get(runner->cache, class);
    if (stack == NULL) {
        return stack_cache_error(runner->cache);
    }
    runner_give_up(runner);
    runner_move_to(runner, stack);
    SANITIZE(sanitize_leave(NULL, &stack->here);)
    context_start(&left->recover, stack->top, runner_root, runner); /* no code will continue this context */
    abort();
}
