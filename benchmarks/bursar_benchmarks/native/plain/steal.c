/* The lower bound for a steal: the time from setting a flag on one processor until a thread on another one sees it. The
 * two threads do nothing else. The time depends on the two processors: between two chips it may be four times as long
 * as within one. */
#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>

static int there;
static int64_t hands;
static _Alignas(128) _Atomic int64_t hand;
static _Alignas(128) _Atomic int64_t taken;
static double arrived_ns;

static void *
takes(void *arg)
{
    stay_on(there);
    for (int64_t i = 1; i <= hands; i++) {
        while (atomic_load_explicit(&hand, memory_order_acquire) != i) {
            __builtin_ia32_pause();
        }
        arrived_ns = clock_ns(CLOCK_MONOTONIC);
        atomic_store_explicit(&taken, i, memory_order_release);
    }
    return arg;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 2000), rounds = argument(count, arguments, 3, 5);
    double *latencies = (double *)calloc((size_t)size, sizeof *latencies);
    int here = processor(0);
    pthread_t thread;
    there = processor(1);
    hands = rounds * size;
    if (pthread_create(&thread, NULL, takes, NULL) != 0) {
        fail("no thread");
    }
    stay_on(here);
    for (int64_t i = 1; i <= hands; i++) {
        double since_ns = clock_ns(CLOCK_MONOTONIC);
        atomic_store_explicit(&hand, i, memory_order_release);
        while (atomic_load_explicit(&taken, memory_order_acquire) != i) {
            __builtin_ia32_pause();
        }
        latencies[(i - 1) % size] = arrived_ns - since_ns;
        if (i % size == 0) {
            report_latencies(latencies, (size_t)size);
        }
        double until_ns = clock_ns(CLOCK_MONOTONIC) + 300;
        while (clock_ns(CLOCK_MONOTONIC) < until_ns) {
        }
    }
    pthread_join(thread, NULL);
    free(latencies);
    return 0;
}
