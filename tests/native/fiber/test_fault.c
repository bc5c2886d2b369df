/* Every system call fails in turn, in one scenario that makes all of them: the caller gets an error, nothing leaks,
 * and the same request works when it is repeated (STACK-8, TRIM-1). */

#include "faulty.h"

#define FIBERS_MAX 150

static struct world world;
static struct fiber fibers[FIBERS_MAX];
static int count; /* of fibers: enough for several magazines, or one */

static int64_t
pauses(void *arg)
{
    fiber_suspend(arg);
    return 1;
}

/* Starts as many fibers as it can get stacks for, two of them big ones, and ends them all. */
static unsigned
run_fibers(unsigned *refused)
{
    unsigned done = 0;
    for (int i = 0; i < count; i++) {
        fiber_init(&fibers[i], "one", pauses, &fibers[i], i % 10 == 9 ? 3 : 0);
        enum fiber_state state = fiber_resume(&world.cache, &fibers[i]);
        if (state == FIBER_NO_STACK) {
            CHECK(stack_cache_error(&world.cache) != 0);
            CHECK_EQUAL(fibers[i].state, FIBER_FRESH);
            *refused += 1;
            state = fiber_resume(&world.cache, &fibers[i]); /* the kernel fails only once */
        }
        CHECK_EQUAL(state, FIBER_SUSPENDED);
    }
    for (int i = 0; i < count; i++) {
        done += fiber_resume(&world.cache, &fibers[i]) == FIBER_DONE;
    }
    return done;
}

/* One run with call number `at` failing. Returns how many calls there were. */
static unsigned
scenario(unsigned at, int error, bool batches, enum stack_guard guard)
{
    struct faulty faulty;
    unsigned refused = 0, errors = 0;
    faulty_init(&faulty);
    faulty.fail_at = at;
    faulty.error = error;
    faulty.no_batches = !batches;
    struct stack_options options = {.system = &faulty.system, .guard = guard};
    world_begin(&world, &options);
    CHECK_EQUAL(run_fibers(&refused), count);
    struct stack *held = stack_cache_get(&world.cache, 0);
    stack_cache_flush(&world.cache);
    errors += stack_pool_trim(&world.pool) != 0;
    stack_cache_put(&world.cache, held);
    CHECK_EQUAL(run_fibers(&refused), count);
    struct stack_statistics now = world_statistics(&world);
    CHECK_EQUAL(now.in_use, 0);
    CHECK_EQUAL(now.stacks, now.cached + now.pooled + now.bare);
    stack_cache_close(&world.cache);
    if (stack_pool_close(&world.pool) != 0) {
        errors++;
        CHECK_EQUAL(stack_pool_close(&world.pool), 0);
    }
    CHECK_EQUAL(faulty.mapped_bytes, 0);
    CHECK(refused + errors <= 1);
    overflow_thread_leave(&world.thread);
    overflow_remove();
    return faulty.calls;
}

static void
test_each_call_in_turn(int error, bool batches, enum stack_guard guard)
{
    /* Without batches there are hundreds of calls, and as many runs of the scenario. */
    count = batches ? FEW(FIBERS_MAX) : FEW(30);
    unsigned calls = scenario(0, error, batches, guard);
    CHECK(calls > 5);
    for (unsigned at = 1; at <= calls; at++) {
        scenario(at, error, batches, guard);
    }
}

static void
test_the_signal_stack(void)
{
    struct faulty faulty;
    struct overflow_thread thread;
    stack_t none = {.ss_flags = SS_DISABLE}, former;
    faulty_init(&faulty);
    sigaltstack(&none, &former);
    faulty.fail_at = 1;
    CHECK_EQUAL(overflow_thread_enter(&thread, &faulty.system), ENOMEM);
    CHECK_EQUAL(overflow_thread_enter(&thread, &faulty.system), 0);
    CHECK(faulty.mapped_bytes > 0);
    overflow_thread_leave(&thread);
    CHECK_EQUAL(faulty.mapped_bytes, 0);
    sigaltstack(&former, NULL);
}

int
main(void)
{
    test_each_call_in_turn(ENOMEM, true, STACK_GUARD_ADVICE);
    test_each_call_in_turn(EAGAIN, false, STACK_GUARD_ADVICE);
    test_each_call_in_turn(EINVAL, false, STACK_GUARD_ADVICE);
    test_each_call_in_turn(EACCES, true, STACK_GUARD_FORBID);
    test_each_call_in_turn(ENOMEM, true, STACK_GUARD_CANARY);
    test_the_signal_stack();
    return finish();
}
