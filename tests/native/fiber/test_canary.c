/* Stacks without a guard: an overflow is noticed at the next switch, ends the fiber, and retires the stack (STACK-7). */

#include "world.h"

static struct world world;
static struct fiber fiber;

/* Writes a little below its own limit, as one frame too many would, and then stops in one of three ways. */
static __attribute__((noinline)) void
trespass(void)
{
    struct stack *stack = stack_find(__builtin_frame_address(0));
    volatile char *below = (volatile char *)stack->limit;
    below[-40] = 1;
}

static int64_t
trespasses_and_returns(void *arg)
{
    (void)arg;
    trespass();
    return 1;
}

static int64_t
trespasses_and_suspends(void *arg)
{
    trespass();
    fiber_suspend(&fiber);
    return trespasses_and_returns(arg); /* never reached */
}

static int64_t
behaves(void *arg)
{
    (void)arg;
    fiber_suspend(&fiber);
    return 2;
}

static void
test_noticed_when_it_stops(fiber_entry entry)
{
    uint64_t retired = world_statistics(&world).retired;
    fiber_init(&fiber, "trespasser", entry, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
    CHECK_EQUAL(fiber.panic, FIBER_PANIC_CANARY);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_REFUSED);
    CHECK_EQUAL(world_statistics(&world).retired, retired + 1);
    fiber_init(&fiber, "good", behaves, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_SUSPENDED);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
}

static void
test_a_pool_with_retired_stacks_can_be_trimmed(void)
{
    stack_cache_flush(&world.cache);
    CHECK_EQUAL(stack_pool_trim(&world.pool), 0);
    CHECK_EQUAL(world_statistics(&world).stacks, 0);
    CHECK_EQUAL(world_statistics(&world).retired, 0);
    fiber_init(&fiber, "good", behaves, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_SUSPENDED);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
}

/* Under a runner: the loop continues, but not on that stack. */
static int rounds;
static enum fiber_state states[3];

static int64_t
parks(void *arg)
{
    (void)arg;
    trespass();
    runner_park(&fiber, NULL, NULL);
    return 3; /* never reached */
}

static void
loop(struct runner *runner)
{
    fiber_entry entries[3] = {trespasses_and_returns, parks, trespasses_and_returns};
    for (; rounds < 3; rounds++) {
        fiber_init(&fiber, "trespasser", entries[rounds], NULL, 0);
        if (runner_must_hop(runner, &fiber)) {
            CHECK_EQUAL(runner_hop(runner, 0), 0);
        }
        states[rounds] = runner_call(&runner, &fiber);
        CHECK_EQUAL(fiber.panic, FIBER_PANIC_CANARY);
    }
    runner_leave(runner);
}

static void
test_under_a_runner(void)
{
    struct runner runner;
    uint64_t retired = world_statistics(&world).retired;
    rounds = 0;
    runner_init(&runner, &world.cache, loop, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    CHECK(states[0] == FIBER_PANICKED && states[1] == FIBER_PANICKED && states[2] == FIBER_PANICKED);
    CHECK_EQUAL(world_statistics(&world).retired, retired + 3);
}

int
main(void)
{
    struct stack_options options = {.guard = STACK_GUARD_CANARY};
    world_begin(&world, &options);
    CHECK_EQUAL(world_statistics(&world).rung, STACK_GUARD_CANARY);
    test_noticed_when_it_stops(trespasses_and_returns);
    test_noticed_when_it_stops(trespasses_and_suspends);
    test_a_pool_with_retired_stacks_can_be_trimmed();
    test_under_a_runner();
    world_end(&world);
    return finish();
}
