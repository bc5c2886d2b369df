/* Which guard a stack gets if the kernel lacks a kind of guard, or has no more of it (GUARD-1 to GUARD-3). */

#include "faulty.h"

static struct world world;
static struct faulty faulty;

static void
begin(unsigned forbidden_max)
{
    struct stack_options options = {.system = &faulty.system, .forbidden_max = forbidden_max};
    world_begin(&world, &options);
}

/* Takes `count` stacks, puts them back, and returns what guarded them. */
static struct stack_statistics
after_taking(unsigned count)
{
    struct stack *taken = NULL;
    for (unsigned i = 0; i < count; i++) {
        struct stack *stack = stack_cache_get(&world.cache, 0);
        CHECK(stack != NULL);
        stack->next = taken;
        taken = stack;
    }
    while (taken != NULL) {
        struct stack *next = taken->next;
        stack_cache_put(&world.cache, taken);
        taken = next;
    }
    return world_statistics(&world);
}

static void
end(void)
{
    world_end(&world);
    CHECK_EQUAL(faulty.mapped_bytes, 0);
}

static void
test_guards_come_in_batches(void)
{
    faulty_init(&faulty);
    begin(0);
    struct stack_statistics now = after_taking(STACK_MAGAZINE * 2);
    CHECK_EQUAL(now.guards[STACK_GUARD_ADVICE], STACK_MAGAZINE * 2);
    CHECK_EQUAL(faulty.batches, 2);
    CHECK_EQUAL(faulty.advised, 1); /* no huge pages */
    CHECK_EQUAL(now.failures, 0);
    end();
}

static void
test_without_batches_one_by_one(void)
{
    faulty_init(&faulty);
    faulty.no_batches = true;
    begin(0);
    struct stack_statistics now = after_taking(3);
    CHECK_EQUAL(now.guards[STACK_GUARD_ADVICE], STACK_MAGAZINE);
    CHECK_EQUAL(faulty.advised, STACK_MAGAZINE + 1);
    end();
}

static void
test_a_kernel_without_guards(void)
{
    faulty_init(&faulty);
    faulty.no_guards = true;
    begin(0);
    struct stack_statistics now = after_taking(3);
    CHECK_EQUAL(now.guards[STACK_GUARD_FORBID], STACK_MAGAZINE);
    CHECK_EQUAL(now.rung, STACK_GUARD_FORBID);
    end();
}

/* An emulator: accepts the advice and does nothing. */
static void
test_a_kernel_that_does_not_do_what_it_says(void)
{
    faulty_init(&faulty);
    faulty.deaf = true;
    begin(0);
    struct stack_statistics now = after_taking(3);
    CHECK_EQUAL(now.guards[STACK_GUARD_FORBID], STACK_MAGAZINE);
    struct fiber fiber;
    fiber_init(&fiber, "glutton", overflowing, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
    end();
}

/* Above the limit stacks get canaries. The limit is per process, and closing a pool lowers the count. */
static void
test_the_cap_on_forbidding(void)
{
    for (int round = 0; round < 3; round++) {
        faulty_init(&faulty);
        faulty.no_guards = true;
        begin(100);
        struct stack_statistics now = after_taking(STACK_MAGAZINE * 2);
        CHECK_EQUAL(now.guards[STACK_GUARD_FORBID], 100);
        CHECK_EQUAL(now.guards[STACK_GUARD_CANARY], STACK_MAGAZINE * 2 - 100);
        CHECK_EQUAL(now.rung, STACK_GUARD_CANARY);
        end();
    }
}

static void
test_a_kernel_out_of_mappings(void)
{
    faulty_init(&faulty);
    faulty.no_guards = true;
    faulty.no_forbid = true;
    begin(0);
    struct stack_statistics now = after_taking(3);
    CHECK_EQUAL(now.guards[STACK_GUARD_CANARY], STACK_MAGAZINE);
    end();
}

/* A guard stays when memory is given back (GUARD-1), and a guard of several pages has all of them. */
static void
test_guards_stay(void)
{
    struct stack_options options = {.guard_bytes = 4 * (size_t)sysconf(_SC_PAGESIZE)};
    world_begin(&world, &options);
    struct stack *held = stack_cache_get(&world.cache, 0), *stack = stack_cache_get(&world.cache, 0);
    char *limit = stack->limit;
    stack_cache_put(&world.cache, stack);
    stack_cache_flush(&world.cache);
    CHECK_EQUAL(stack_pool_trim(&world.pool), 0); /* `held` keeps the arena */
    for (size_t below = 1; below <= options.guard_bytes; below += 4095) {
        CHECK(!stack_system_linux.readable(NULL, limit - below));
    }
    CHECK(stack_system_linux.readable(NULL, limit));
    struct fiber fiber;
    fiber_init(&fiber, "glutton", overflowing, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
    stack_cache_put(&world.cache, held);
    world_end(&world);
}

int
main(void)
{
    if (kernel_has_guards()) {
        test_guards_come_in_batches();
        test_without_batches_one_by_one();
    }
    test_a_kernel_without_guards();
    test_a_kernel_that_does_not_do_what_it_says();
    test_the_cap_on_forbidding();
    test_a_kernel_out_of_mappings();
    test_guards_stay();
    return finish();
}
