/* Overflow: a guard that is hit ends that one fiber (OVERFLOW-1 to OVERFLOW-6). With guards by advice, and with
 * guards by mprotect, which are forced. */

#include "world.h"

#include <pthread.h>

static struct world world;

static int64_t
seven(void *arg)
{
    (void)arg;
    return 7;
}

/* The next fiber runs on the same stack each time. */
static void
test_a_thousand_times_with_names(void)
{
    for (int i = 0; i < FEW(1000); i++) {
        struct fiber fiber;
        char name[32];
        snprintf(name, sizeof name, "glutton %d", i);
        fiber_init(&fiber, name, overflowing, NULL, 0);
        CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
        CHECK_EQUAL(fiber.panic, FIBER_PANIC_OVERFLOW);
        CHECK(fiber.name == name && fiber.context != NULL);
        fiber_init(&fiber, "modest", seven, NULL, 0);
        CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
        CHECK_EQUAL(fiber.result, 7);
    }
    struct stack_statistics now = world_statistics(&world);
    CHECK_EQUAL(now.retired, 0);
    CHECK_EQUAL(now.in_use, 0);
}

#define OTHERS 100
static struct fiber others[OTHERS];

static int64_t
remembers(void *arg)
{
    volatile uint64_t mine[64];
    struct fiber *self = arg;
    for (uint64_t i = 0; i < 64; i++) {
        mine[i] = (uint64_t)(uintptr_t)self + i;
    }
    fiber_suspend(self);
    for (uint64_t i = 0; i < 64; i++) {
        if (mine[i] != (uint64_t)(uintptr_t)self + i) {
            return 0;
        }
    }
    return 1;
}

/* Every second stack overflows while parked fibers have data on the stacks between. */
static void
test_neighbours_keep_what_they_have(void)
{
    struct fiber fiber;
    int64_t intact = 0;
    for (int i = 0; i < OTHERS; i++) {
        fiber_init(&others[i], "neighbour", remembers, &others[i], 0);
        CHECK_EQUAL(fiber_resume(&world.cache, &others[i]), FIBER_SUSPENDED);
    }
    for (int i = 0; i < OTHERS; i += 2) {
        CHECK_EQUAL(fiber_resume(&world.cache, &others[i]), FIBER_DONE);
        fiber_init(&fiber, "glutton", overflowing, NULL, 0);
        CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
        intact += others[i].result;
    }
    for (int i = 1; i < OTHERS; i += 2) {
        CHECK_EQUAL(fiber_resume(&world.cache, &others[i]), FIBER_DONE);
        intact += others[i].result;
    }
    CHECK_EQUAL(intact, OTHERS);
}

static int64_t
hosts_a_glutton(void *arg)
{
    struct fiber inner;
    (void)arg;
    fiber_init(&inner, "inner", overflowing, NULL, 0);
    return fiber_resume(&world.cache, &inner) == FIBER_PANICKED && inner.panic == FIBER_PANIC_OVERFLOW ? 9 : 0;
}

static void
test_returns_to_the_resuming_fiber(void)
{
    struct fiber outer;
    fiber_init(&outer, "outer", hosts_a_glutton, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &outer), FIBER_DONE);
    CHECK_EQUAL(outer.result, 9);
}

static struct fiber brink;

/* Suspends with less and less stack left: at some point the fiber must panic, and the process must not end. */
static __attribute__((noinline)) int64_t
suspends_ever_deeper(volatile int64_t depth)
{
    volatile char some[16];
    some[0] = (char)depth;
    fiber_suspend(&brink);
    return depth < 0 ? 0 : suspends_ever_deeper(depth + 1) + some[0];
}

static int64_t
goes_to_the_brink(void *arg)
{
    (void)arg;
    return suspends_ever_deeper(0);
}

static void
test_suspending_on_the_brink(void)
{
    enum fiber_state state = FIBER_SUSPENDED;
    fiber_init(&brink, "on the brink", goes_to_the_brink, NULL, 0);
    while (state == FIBER_SUSPENDED) {
        state = fiber_resume(&world.cache, &brink);
    }
    CHECK_EQUAL(state, FIBER_PANICKED);
    CHECK_EQUAL(brink.panic, FIBER_PANIC_OVERFLOW);
}

static struct fiber late;

static int64_t
suspends_then_overflows(void *arg)
{
    fiber_suspend(&late);
    return overflowing(arg);
}

static void *
overflows_elsewhere(void *arg)
{
    struct stack_cache cache;
    struct overflow_thread thread;
    struct fiber own;
    stack_cache_init(&cache, &world.pool);
    CHECK_EQUAL(overflow_thread_enter(&thread, NULL), 0);
    if (arg != NULL) {
        CHECK_EQUAL(fiber_resume(&cache, arg), FIBER_PANICKED);
    }
    int panicked = 0;
    for (int i = 0; i < FEW(500); i++) {
        fiber_init(&own, "own", overflowing, NULL, 0);
        panicked += fiber_resume(&cache, &own) == FIBER_PANICKED;
    }
    CHECK_EQUAL(panicked, FEW(500));
    overflow_thread_leave(&thread);
    stack_cache_close(&cache);
    return NULL;
}

/* Two threads overflow at the same time, one of them on a fiber that another thread began. */
static void
test_on_other_threads(void)
{
    pthread_t threads[2];
    fiber_init(&late, "late", suspends_then_overflows, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &late), FIBER_SUSPENDED);
    CHECK_EQUAL(pthread_create(&threads[0], NULL, overflows_elsewhere, &late), 0);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, overflows_elsewhere, NULL), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_EQUAL(late.panic, FIBER_PANIC_OVERFLOW);
}

/* After an overflow the signal mask of the resumer is restored. */
static void
test_the_signal_mask_survives(void)
{
    struct fiber fiber;
    sigset_t some, now;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    fiber_init(&fiber, "glutton", overflowing, NULL, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_PANICKED);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK_EQUAL(sigismember(&now, SIGUSR2), 1);
    CHECK_EQUAL(sigismember(&now, SIGSEGV), 0);
    pthread_sigmask(SIG_UNBLOCK, &some, NULL);
}

static void
all(const struct stack_options *options, enum stack_guard expected)
{
    world_begin(&world, options);
    test_a_thousand_times_with_names();
    test_neighbours_keep_what_they_have();
    test_returns_to_the_resuming_fiber();
    test_suspending_on_the_brink();
    test_on_other_threads();
    test_the_signal_mask_survives();
    struct stack_statistics now = world_statistics(&world);
    CHECK(now.guards[expected] == now.stacks && now.rung == expected);
    world_end(&world);
}

int
main(void)
{
    struct stack_options forbid = {.guard = STACK_GUARD_FORBID};
    struct world probe;
    world_begin(&probe, NULL);
    stack_cache_put(&probe.cache, stack_cache_get(&probe.cache, 0));
    enum stack_guard best = world_statistics(&probe).rung; /* what this kernel has */
    world_end(&probe);
    fprintf(stderr, "best guard here: %d\n", (int)best);
    all(NULL, best);
    all(&forbid, STACK_GUARD_FORBID);
    return finish();
}
