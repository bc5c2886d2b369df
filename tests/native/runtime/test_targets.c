/* The first performance targets of the engine, as ratios: a switch below a microsecond, a million spawns a second, a
 * steal below ten microseconds, 16 KiB per task. A function call, measured in turn with the others, represents the
 * nanosecond. The best of several runs, in processor time, so other programs on the machine have no influence. The
 * benchmarks measure the real speed.
 */
#include "rt.h"

#include <time.h>

#include "engine/deque.h"
#include "fiber/fiber.h"
#include "fiber/trim.h"

#define REPEATS 7
#define CALLS 20000

static int64_t
cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static __attribute__((noinline)) int64_t
called(void *arg)
{
    __asm__ __volatile__("");
    return (int64_t)(intptr_t)arg;
}

static int64_t (*volatile through)(void *) = called;

static void
calls(void)
{
    for (int i = 0; i < CALLS; i++) {
        (void)through(NULL);
    }
}

static struct stack_pool pool;
static struct stack_cache cache;
static struct fiber fiber;

static int64_t
suspends(void *arg)
{
    for (;;) {
        fiber_suspend(&fiber);
    }
    return (int64_t)(intptr_t)arg;
}

static void
switches(void) /* two each */
{
    for (int i = 0; i < CALLS / 2; i++) {
        (void)fiber_resume(&cache, &fiber);
    }
}

static int64_t
spawns_and_joins(void *arg)
{
    (void)arg;
    for (int round = 0; round < CALLS / 1000; round++) {
        MUST(janus_nursery_create() != NULL);
        for (int i = 0; i < 1000; i++) {
            MUST(janus_nursery_spawn(called, NULL) == 0);
        }
        MUST(janus_nursery_await_all() == JANUS_OK);
    }
    return 0;
}

static void
spawns(void)
{
    CHECK_EQUAL(rt_run(spawns_and_joins, NULL), JANUS_OK);
}

static Deque deque;

static void
steals(void)
{
    void *got;
    for (int i = 0; i < CALLS; i++) {
        CHECK(deque_push(&deque, &deque) && deque_steal(&deque, &got) == STEAL_DONE);
    }
}

static void
targets(void)
{
    void (*const what[])(void) = {calls, switches, spawns, steals};
    static const char *const names[] = {"call", "switch", "spawn and join", "steal"};
    static const int64_t most[] = {1, 1000, 1000, 10000}; /* the limit, in calls */
    int64_t best[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    const struct stack_options options = {0};
    CHECK_EQUAL(stack_pool_init(&pool, &options), 0);
    stack_cache_init(&cache, &pool);
    fiber_init(&fiber, "switched", suspends, NULL, 0);
    CHECK(deque_init(&deque, 64, &engine_allocator_libc));
    rt_up(1);
    for (int round = 0; round < REPEATS; round++) {
        for (int i = 0; i < 4; i++) {
            int64_t begun = cpu_ns();
            what[i]();
            int64_t took = cpu_ns() - begun;
            best[i] = took < best[i] ? took : best[i];
        }
    }
    for (int i = 0; i < 4; i++) {
        fprintf(stderr, "%-16s %6.1f ns, %6.1f calls\n", names[i], (double)best[i] / CALLS,
                (double)best[i] / (double)best[0]);
        CHECK(best[i] <= best[0] * most[i]);
    }
    janus_rt_shutdown();
    deque_destroy(&deque);
    CHECK_EQUAL(fiber_discard(&cache, &fiber), 0);
    stack_cache_close(&cache);
    CHECK_EQUAL(stack_pool_close(&pool), 0);
}

int
main(void)
{
#if SANITIZE_ADDRESS || SANITIZE_THREAD
    CHECK(true); /* a sanitizer makes it slow: nothing to measure */
    (void)targets;
#else
    targets();
#endif
    return finish();
}
