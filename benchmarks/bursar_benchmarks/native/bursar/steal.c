/* From before a spawn until the child runs on another worker, which searches on another processor. The spawner computes
 * and does not yield. Each round gives the median of SIZE spawns, with both readings of the clock included. */
#include "janus.h"

#include <stdatomic.h>

#define WARM 64 /* hands that wake the second worker and keep it searching */

static int64_t size;
static int here, there;
static _Atomic int64_t hand;
static double *latencies, arrived_ns;

static int64_t
takes(void *arg)
{
    if ((intptr_t)arg == 1) {
        stay_on(there);
    }
    arrived_ns = clock_ns(CLOCK_MONOTONIC);
    atomic_store_explicit(&hand, (int64_t)(intptr_t)arg, memory_order_release);
    return 0;
}

static int64_t
hands(void *arg)
{
    (void)arg;
    stay_on(here);
    janus_nursery_create();
    for (int64_t i = 1; i <= size + WARM; i++) {
        double since_ns = clock_ns(CLOCK_MONOTONIC);
        if (janus_nursery_spawn(takes, (void *)(intptr_t)i) != 0) {
            return -1;
        }
        while (atomic_load_explicit(&hand, memory_order_acquire) != i) {
            __builtin_ia32_pause();
        }
        if (i > WARM) {
            latencies[i - WARM - 1] = arrived_ns - since_ns;
        }
        double until_ns = clock_ns(CLOCK_MONOTONIC) + 300; /* the other one searches again */
        while (clock_ns(CLOCK_MONOTONIC) < until_ns) {
        }
    }
    return janus_nursery_await_all();
}

int
main(int count, char **arguments)
{
    size = argument(count, arguments, 2, 2000);
    latencies = (double *)calloc((size_t)size, sizeof *latencies);
    here = processor(0);
    there = processor(1);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        atomic_store(&hand, 0);
        run(hands, NULL);
        report_latencies(latencies, (size_t)size);
    }
    janus_rt_shutdown();
    free(latencies);
    return 0;
}
