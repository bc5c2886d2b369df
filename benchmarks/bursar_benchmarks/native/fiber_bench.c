/* What fibers cost: a raw switch, a fiber's life on a hot stack, a call under a runner, the first touch of a stack;
 * beside them Boost.Context's switch, if it is linked in. Best and median of interleaved repeats, in nanoseconds.
 *
 *     cc -O2 -I native benchmarks/bursar_benchmarks/native/fiber_bench.c native/fiber/(all).c native/fiber/switch_(machine).S -lpthread
 *     ... -DWITH_BOOST -lboost_context       with Boost beside it
 *
 * or the target fiber_bench of native/fiber, which finds Boost by itself. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fiber/context.h"
#include "fiber/fiber.h"
#include "fiber/overflow.h"
#include "fiber/runner.h"

#define REPEATS 101
#define ROUNDS 50000

static struct stack_pool pool;
static struct stack_cache cache;

static double
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Two contexts that do nothing but switch to each other. */
static void *here, *there;

static void
raw_other(void *arg)
{
    (void)arg;
    for (;;) {
        context_switch(&there, here, NULL);
    }
}

static double
raw_switch(void)
{
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        context_switch(&here, there, NULL);
    }
    return (now_ns() - begin) / (2.0 * ROUNDS);
}

static struct fiber ponger;

static int64_t
pongs(void *arg)
{
    (void)arg;
    for (;;) {
        fiber_suspend(&ponger);
    }
    return 0;
}

static double
resume_and_suspend(void)
{
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        fiber_resume(&cache, &ponger);
    }
    return (now_ns() - begin) / (2.0 * ROUNDS);
}

static int64_t
nothing(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

static double
life_of_a_fiber(void)
{
    struct fiber fiber;
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        fiber_init(&fiber, "short", nothing, NULL, 0);
        fiber_resume(&cache, &fiber);
    }
    return (now_ns() - begin) / ROUNDS;
}

static double call_ns;

static void
call_loop(struct runner *runner)
{
    static struct fiber fiber;
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        fiber_init(&fiber, "called", nothing, NULL, 0);
        runner_call(&runner, &fiber);
    }
    call_ns = (now_ns() - begin) / ROUNDS;
    runner_leave(runner);
}

static double
call_under_a_runner(void)
{
    struct runner runner;
    runner_init(&runner, &cache, call_loop, NULL);
    runner_enter(&runner);
    return call_ns;
}

/* Two fibers that hand over to each other; the figure is for one hand-over. */
static struct fiber pair[2];
static int pair_started;

static int64_t
hands_over(void *arg)
{
    struct fiber *self = arg, *other = self == &pair[0] ? &pair[1] : &pair[0];
    runner_park(self, NULL, NULL);
    double begin = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        runner_switch(self, other, NULL, NULL);
    }
    call_ns = (now_ns() - begin) / (2.0 * ROUNDS);
    return 0;
}

static void
pair_loop(struct runner *runner)
{
    if (pair_started < 2) {
        struct fiber *fiber = &pair[pair_started++];
        fiber_init(fiber, "pair", hands_over, fiber, 0);
        (void)runner_call(&runner, fiber);
        /* Here one of the two has ended; the other one is dropped. */
        fiber_discard(&cache, fiber == &pair[0] ? &pair[1] : &pair[0]);
        runner_leave(runner);
    }
    runner_resume(runner, &pair[0]);
}

static double
hand_over_under_a_runner(void)
{
    struct runner runner;
    pair_started = 0;
    runner_init(&runner, &cache, pair_loop, NULL);
    runner_enter(&runner);
    return call_ns;
}

/* New stacks: guard, first touch, start, park; then all memory goes back. */
#define FRESH 2000
static struct fiber fresh[FRESH];

static int64_t
parks(void *arg)
{
    fiber_suspend(arg);
    return 0;
}

static double
first_start_and_park(void)
{
    stack_cache_flush(&cache);
    stack_pool_trim(&pool);
    double begin = now_ns();
    for (int i = 0; i < FRESH; i++) {
        fiber_init(&fresh[i], "fresh", parks, &fresh[i], 0);
        fiber_resume(&cache, &fresh[i]);
    }
    double each = (now_ns() - begin) / FRESH;
    for (int i = 0; i < FRESH; i++) {
        fiber_resume(&cache, &fresh[i]);
    }
    return each;
}

static __attribute__((noinline)) int64_t
devour(volatile int64_t depth)
{
    volatile char some[200];
    some[0] = (char)depth;
    return depth < 0 ? 0 : devour(depth + 1) + some[0];
}

static int64_t
overflows(void *arg)
{
    (void)arg;
    return devour(0);
}

static double
contained_overflow(void)
{
    struct fiber fiber;
    double begin = now_ns();
    for (int i = 0; i < 200; i++) {
        fiber_init(&fiber, "glutton", overflows, NULL, 0);
        fiber_resume(&cache, &fiber);
    }
    return (now_ns() - begin) / 200;
}

#ifdef WITH_BOOST
/* The C face of Boost.Context: its own assembly, called as its C++ classes call it. */
typedef void *fcontext_t;
typedef struct {
    fcontext_t context;
    void *data;
} transfer_t;
transfer_t jump_fcontext(fcontext_t to, void *data);
fcontext_t make_fcontext(void *top, size_t bytes, void (*entry)(transfer_t));

static fcontext_t boost_other;

static void
boost_entry(transfer_t from)
{
    for (;;) {
        from = jump_fcontext(from.context, NULL);
    }
}

/* Boost loads the control words at every switch. Where that changes anything it is slow, and the flag "inexact",
 * which one side has raised and the other has not, is such a change: so it is measured with and without. */
static double
boost_switches(bool clear_flags)
{
    double begin = now_ns();
#  if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(clear_flags ? 0x1f80 : 0x1fa0);
#  else
    (void)clear_flags;
#  endif
    for (int i = 0; i < ROUNDS; i++) {
        boost_other = jump_fcontext(boost_other, NULL).context;
    }
    return (now_ns() - begin) / (2.0 * ROUNDS);
}

static double
boost_switch(void)
{
    return boost_switches(true);
}

static double
boost_switch_with_flags(void)
{
    return boost_switches(false);
}
#endif

static int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int
main(void)
{
    struct {
        const char *name;
        double (*run)(void);
        double ns[REPEATS];
    } static cases[] = {
        {"raw switch", raw_switch, {0}},
#ifdef WITH_BOOST
        {"Boost.Context jump_fcontext", boost_switch, {0}},
        {"the same, exception flags differ", boost_switch_with_flags, {0}},
#endif
        {"fiber_resume / fiber_suspend, one way", resume_and_suspend, {0}},
        {"create + run + recycle, hot stack", life_of_a_fiber, {0}},
        {"runner_call, fiber that returns", call_under_a_runner, {0}},
        {"runner_switch between two parked fibers", hand_over_under_a_runner, {0}},
        {"new stack: guard, first touch, start, park", first_start_and_park, {0}},
        {"overflow contained", contained_overflow, {0}},
    };
    struct overflow_thread thread;
    if (stack_pool_init(&pool, NULL) != 0 || overflow_install() != 0 || overflow_thread_enter(&thread, NULL) != 0) {
        return EXIT_FAILURE;
    }
    stack_cache_init(&cache, &pool);
    context_start(&here, stack_cache_get(&cache, 0)->top, raw_other, NULL);
    fiber_init(&ponger, "ponger", pongs, NULL, 0);
    fiber_resume(&cache, &ponger);
#ifdef WITH_BOOST
    boost_other = make_fcontext(stack_cache_get(&cache, 0)->top, STACK_BYTES_MIN, boost_entry);
#else
    printf("Boost.Context is not linked in: nothing to compare with\n");
#endif
    size_t count = sizeof cases / sizeof *cases;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t i = 0; i < count; i++) {
            cases[i].ns[repeat] = cases[i].run();
        }
    }
    printf("%-46s %10s %10s\n", "ns", "best", "median");
    for (size_t i = 0; i < count; i++) {
        qsort(cases[i].ns, REPEATS, sizeof(double), by_size);
        printf("%-46s %10.1f %10.1f\n", cases[i].name, cases[i].ns[0], cases[i].ns[REPEATS / 2]);
    }
    return EXIT_SUCCESS;
}
