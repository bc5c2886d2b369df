/* What the tests of the runtime share. Several threads may make checks. A task reports by its return value instead:
 * printing needs more stack than it has. docs/internals/checklist.md says which test shows which item of the
 * conformance list, and which fault.
 */
#ifndef TESTS_NATIVE_RUNTIME_RT_H
#define TESTS_NATIVE_RUNTIME_RT_H

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "fiber/sanitize.h"
#include "include/janus_interop.h"

static pthread_mutex_t rt_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void
rt_check(bool holds, const char *text, const char *file, int line)
{
    pthread_mutex_lock(&rt_lock);
    check(holds, text, file, line);
    pthread_mutex_unlock(&rt_lock);
}

static inline void
rt_check_equal(int64_t a, int64_t b, const char *text, const char *file, int line)
{
    rt_check(a == b, text, file, line);
    if (a != b) {
        fprintf(stderr, "    %" PRId64 " is not %" PRId64 "\n", a, b);
    }
}

#undef CHECK
#undef CHECK_EQUAL
#define CHECK(holds) rt_check((holds), #holds, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b) rt_check_equal((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)

/* A number of tasks or rounds. Sanitizers are slow, and ThreadSanitizer supports few fibers. */
#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define FEW(number) ((number) / 100 < 10 ? 10 : (number) / 100)
#else
#  define FEW(number) (number)
#endif

#define UNLIMITED JANUS_UNLIMITED

/* In a task: the line that failed is its value. */
#define MUST(holds)                             \
    do {                                        \
        if (!(holds)) {                         \
            return -(int64_t)(1000 + __LINE__); \
        }                                       \
    } while (0)

static inline void
rt_up(uint32_t workers)
{
    CHECK_EQUAL(janus_rt_init((janus_rt_config){workers, 42}), 0);
}

static inline void
rt_up_logical(uint32_t workers, uint64_t seed, const janus_budget *budget)
{
    janus_rt_options options = {
        .size = sizeof options, .worker_count = workers, .seed = seed, .deterministic = true, .budget = budget};
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
}

static inline janus_statistics
rt_statistics(void)
{
    janus_statistics now = {0};
    CHECK_EQUAL(janus_rt_statistics(&now), JANUS_OK);
    return now;
}

/* Run one task in its own nursery. Returns the result of the nursery. */
static inline int64_t
rt_run(janus_task_fn fn, void *arg)
{
    CHECK(janus_nursery_create() != NULL);
    CHECK_EQUAL(janus_nursery_spawn(fn, arg), 0);
    return janus_nursery_await_all();
}

static inline janus_result
rt_result(void)
{
    janus_result result = {JANUS_KIND_NONE, 0, 0};
    CHECK_EQUAL(janus_nursery_result(&result), JANUS_OK);
    return result;
}

/* Run a test on one worker, on four, and deterministically. */
static inline void
rt_each(void (*test)(void))
{
    rt_up(1);
    test();
    janus_rt_shutdown();
    rt_up(4);
    test();
    janus_rt_shutdown();
    rt_up_logical(3, 7, NULL);
    test();
    janus_rt_shutdown();
    CHECK(!janus_rt_is_running());
}

#endif
