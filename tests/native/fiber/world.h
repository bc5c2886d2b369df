/* What the tests of fibers share: a pool, a cache, the handler, and the check at the end that nothing was lost. */

#ifndef TESTS_NATIVE_FIBER_WORLD_H
#define TESTS_NATIVE_FIBER_WORLD_H

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "check.h"

#include <errno.h>
#include <pthread.h>

#include "fiber/arena.h"
#include "fiber/fiber.h"
#include "fiber/overflow.h"
#include "fiber/runner.h"
#include "fiber/trim.h"

/* Several threads make checks here, and the counters of check.h are not atomic. */
static pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void
world_check(bool holds, const char *text, const char *file, int line)
{
    pthread_mutex_lock(&world_lock);
    check(holds, text, file, line);
    pthread_mutex_unlock(&world_lock);
}

static inline void
world_check_equal(uint64_t a, uint64_t b, const char *text, const char *file, int line)
{
    pthread_mutex_lock(&world_lock);
    check_equal(a, b, text, file, line);
    pthread_mutex_unlock(&world_lock);
}

#undef CHECK
#undef CHECK_EQUAL
#define CHECK(holds) world_check((holds), #holds, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b) world_check_equal((uint64_t)(a), (uint64_t)(b), #a " == " #b, __FILE__, __LINE__)

/* A number of fibers or rounds: sanitizers are slow, and ThreadSanitizer knows at most 8000 threads of control. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define FEW(number) ((number) / 100 < 10 ? 10 : (number) / 100)
#else
#  define FEW(number) (number)
#endif

struct world {
    struct stack_pool pool;
    struct stack_cache cache;
    struct overflow_thread thread;
};

static inline void
world_begin(struct world *world, const struct stack_options *options)
{
    CHECK_EQUAL(stack_pool_init(&world->pool, options), 0);
    stack_cache_init(&world->cache, &world->pool);
    CHECK_EQUAL(overflow_install(), 0);
    CHECK_EQUAL(overflow_thread_enter(&world->thread, NULL), 0);
}

static inline struct stack_statistics
world_statistics(struct world *world)
{
    struct stack_statistics now;
    stack_pool_statistics(&world->pool, &now);
    return now;
}

/* Checks that all stacks were put back, that the sums are right, and that the pool closes. */
static inline void
world_end(struct world *world)
{
    struct stack_statistics now = world_statistics(world);
    CHECK_EQUAL(now.in_use, 0);
    CHECK_EQUAL(now.stacks, now.cached + now.pooled + now.bare + now.retired);
    CHECK_EQUAL(now.stacks, now.guards[0] + now.guards[1] + now.guards[2] + now.bare);
    stack_cache_close(&world->cache);
    CHECK_EQUAL(stack_pool_close(&world->pool), 0);
    overflow_thread_leave(&world->thread);
    overflow_remove();
}

/* Overflows any stack. The argument is used after the call, so that the compiler makes no loop of the recursion. */
static __attribute__((noinline, unused)) int64_t
devour(volatile int64_t depth)
{
    volatile char some[200];
    some[0] = (char)depth;
    some[199] = some[0];
    return depth < 0 ? 0 : devour(depth + 1) + some[199];
}

static inline int64_t
overflowing(void *arg)
{
    (void)arg;
    return devour(0);
}

#endif
