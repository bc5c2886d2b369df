/* What the parts under the scheduler cost: deque, injector, notification and wake.
 *
 *     cc -O2 -std=c11 -Inative -o deque_bench benchmarks/bursar_benchmarks/native/deque_bench.c \
 *         native/engine/{atomics,deque,idle,inject,memory,park}.c -lpthread && ./deque_bench
 *
 * Prints the best and the median of interleaved repeats, in nanoseconds per operation. On a shared machine the median
 * also depends on other processes. The argument is the number of repeats (31).
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/deque.h"
#include "engine/idle.h"
#include "engine/inject.h"
#include "engine/park.h"

enum { REPEATS_MAX = 101, OPS = 100000, BATCH = 1000, HANDS = 1000, WAKES = 100 };

static void *
item_of(size_t number)
{
    return (void *)(uintptr_t)(number + 1);
}

static double
per_op(int64_t since_ns, double operations)
{
    return (double)(park_clock_ns() - since_ns) / operations;
}

static int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
median_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

/* ---- one thread */

static double
push_take_depth_1(void)
{
    Deque deque;
    deque_init(&deque, 256, &engine_allocator_libc);
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < OPS; i++) {
        deque_push(&deque, item_of(i));
        if (deque_take(&deque) == NULL) {
            abort();
        }
    }
    double cost = per_op(start_ns, OPS);
    deque_destroy(&deque);
    return cost;
}

static double
push_take_batches(void)
{
    Deque deque;
    deque_init(&deque, 2 * BATCH, &engine_allocator_libc);
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < OPS / BATCH; i++) {
        for (size_t j = 0; j < BATCH; j++) {
            deque_push(&deque, item_of(j));
        }
        for (size_t j = 0; j < BATCH; j++) {
            if (deque_take(&deque) == NULL) {
                abort();
            }
        }
    }
    double cost = per_op(start_ns, OPS);
    deque_destroy(&deque);
    return cost;
}

/* Steals from a full deque that no other thread uses, one by one or in batches; per item. */
static double
steal_alone(bool batches)
{
    Deque deque;
    void *items[DEQUE_BATCH_MAX];
    size_t got = 0, count = 1;
    deque_init(&deque, OPS, &engine_allocator_libc);
    for (size_t i = 0; i < OPS; i++) {
        deque_push(&deque, item_of(i));
    }
    int64_t start_ns = park_clock_ns();
    while ((batches ? deque_steal_batch(&deque, items, DEQUE_BATCH_MAX, &count) : deque_steal(&deque, items)) ==
           STEAL_DONE) {
        got += count;
    }
    double cost = per_op(start_ns, OPS);
    deque_destroy(&deque);
    return got == OPS ? cost : -1;
}

static double
steal_single(void)
{
    return steal_alone(false);
}

static double
steal_batches(void)
{
    return steal_alone(true);
}

static double
inject_batches(void)
{
    static InjectLink links[BATCH];
    Injector injector;
    InjectLink *taken[INJECT_BATCH_MAX];
    inject_init(&injector, INJECT_UNLIMITED);
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < OPS / BATCH; i++) {
        for (size_t j = 0; j < BATCH; j++) {
            inject_push(&injector, &links[j]);
        }
        while (inject_take(&injector, taken, INJECT_BATCH_MAX) != 0) {
        }
    }
    return per_op(start_ns, OPS);
}

static bool
nothing(void *context, uint32_t worker)
{
    (void)context;
    (void)worker;
    return false;
}

/* What a push pays on top when no worker sleeps, and when a worker searches already: the same load. */
static double
notify_without_sleeper(void)
{
    IdleSet set;
    idle_init(&set, 2, nothing, NULL, &engine_allocator_libc);
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < OPS; i++) {
        idle_notify(&set);
    }
    double cost = per_op(start_ns, OPS);
    idle_destroy(&set);
    return cost;
}

/* ---- two threads */

typedef struct {
    Deque deque;
    IdleSet idle;
    atomic_u32 done;
    atomic_i64 hand; /* what the thief got last, plus one */
    atomic_i64 woken_ns;
    double cost;
} Pair;

static void *
contending_thief(void *argument)
{
    Pair *pair = argument;
    void *item;
    size_t got = 0;
    store_i64(&pair->hand, 1, RELEASE); /* ready */
    int64_t start_ns = park_clock_ns();
    while (load_u32(&pair->done, RELAXED) == 0) {
        got += deque_steal(&pair->deque, &item) == STEAL_DONE;
    }
    pair->cost = got == 0 ? -1 : per_op(start_ns, (double)got);
    return NULL;
}

static Pair *
pair_start(pthread_t *thread, void *(*body)(void *), IdlePending pending)
{
    Pair *pair = engine_allocator_libc.allocate(NULL, sizeof *pair);
    deque_init(&pair->deque, 1 << 16, &engine_allocator_libc);
    idle_init(&pair->idle, 1, pending, pair, &engine_allocator_libc);
    init_u32(&pair->done, 0);
    init_i64(&pair->hand, 0);
    init_i64(&pair->woken_ns, 0);
    pair->cost = 0;
    pthread_create(thread, NULL, body, pair);
    return pair;
}

static double
pair_stop(Pair *pair, pthread_t thread)
{
    store_u32(&pair->done, 1, RELEASE);
    idle_call(&pair->idle, 0);
    pthread_join(thread, NULL);
    double cost = pair->cost;
    idle_destroy(&pair->idle);
    deque_destroy(&pair->deque);
    engine_allocator_libc.release(NULL, pair, sizeof *pair);
    return cost;
}

/* The owner pushes two and takes one all the time; a thief steals. Answers what a steal costs the thief. */
static double
steal_contended(void)
{
    pthread_t thread;
    Pair *pair = pair_start(&thread, contending_thief, nothing);
    while (load_i64(&pair->hand, ACQUIRE) == 0) {
        sched_yield();
    }
    for (size_t i = 0; i < 10 * OPS; i++) {
        deque_push(&pair->deque, item_of(i));
        deque_push(&pair->deque, item_of(i));
        deque_take(&pair->deque);
    }
    return pair_stop(pair, thread);
}

static void *
handing_thief(void *argument)
{
    Pair *pair = argument;
    void *item;
    while (load_u32(&pair->done, RELAXED) == 0) {
        if (deque_steal(&pair->deque, &item) == STEAL_DONE) {
            store_i64(&pair->woken_ns, park_clock_ns(), RELAXED);
            store_i64(&pair->hand, (int64_t)(uintptr_t)item, RELEASE);
        }
        cpu_relax();
    }
    return NULL;
}

/* From before the push until a spinning thief has the item; the median of many hands, two readings of the clock included. */
static double
push_to_thief(void)
{
    static double hands[HANDS];
    pthread_t thread;
    Pair *pair = pair_start(&thread, handing_thief, nothing);
    for (size_t i = 0; i < HANDS; i++) {
        int64_t start_ns = park_clock_ns();
        deque_push(&pair->deque, item_of(i));
        while (load_i64(&pair->hand, ACQUIRE) != (int64_t)(i + 1)) {
            cpu_relax();
        }
        hands[i] = (double)(load_i64(&pair->woken_ns, RELAXED) - start_ns);
    }
    pair_stop(pair, thread);
    return median_of(hands, HANDS);
}

static bool
pair_pending(void *context, uint32_t worker)
{
    Pair *pair = context;
    (void)worker;
    return deque_length(&pair->deque) != 0;
}

static void *
sleeping_thief(void *argument)
{
    Pair *pair = argument;
    bool searching = false;
    void *item;
    while (load_u32(&pair->done, ACQUIRE) == 0) {
        if (searching && deque_steal(&pair->deque, &item) == STEAL_DONE) {
            store_i64(&pair->woken_ns, park_clock_ns(), RELAXED);
            idle_search_end(&pair->idle);
            searching = false;
            store_i64(&pair->hand, (int64_t)(uintptr_t)item, RELEASE);
        }
        searching = idle_park(&pair->idle, 0, searching, PARK_FOREVER) == IDLE_SEARCH;
    }
    if (searching) {
        idle_search_end(&pair->idle);
    }
    return NULL;
}

/* The same with a thief that sleeps: what the waker pays (`pays`), or how long until the thief has it. */
static double
wake_sleeper(bool pays)
{
    static double wakes[WAKES];
    pthread_t thread;
    Pair *pair = pair_start(&thread, sleeping_thief, pair_pending);
    for (size_t i = 0; i < WAKES; i++) {
        while (load_u32(&pair->idle.parkers[0].word, ACQUIRE) != PARK_SLEEPING) {
            sched_yield();
        }
        for (int j = 0; j < 20; j++) { /* asleep in the kernel, not only on the way there */
            backoff_spin(BACKOFF_NS_MIN);
        }
        int64_t start_ns = park_clock_ns();
        deque_push(&pair->deque, item_of(i));
        idle_notify(&pair->idle);
        int64_t paid_ns = park_clock_ns() - start_ns;
        while (load_i64(&pair->hand, ACQUIRE) != (int64_t)(i + 1)) {
            sched_yield();
        }
        wakes[i] = (double)(pays ? paid_ns : load_i64(&pair->woken_ns, RELAXED) - start_ns);
    }
    pair_stop(pair, thread);
    return median_of(wakes, WAKES);
}

static double
wake_pays(void)
{
    return wake_sleeper(true);
}

static double
wake_takes(void)
{
    return wake_sleeper(false);
}

/* The floor: what the processor asks for a fence, and for a compare-and-swap. A take has one fence, the last one both. */
static double
bare_fence(void)
{
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < OPS; i++) {
        fence_seq_cst();
    }
    return per_op(start_ns, OPS);
}

static double
bare_cas(void)
{
    atomic_i64 cell;
    init_i64(&cell, 0);
    int64_t start_ns = park_clock_ns();
    for (int64_t i = 0; i < OPS; i++) {
        int64_t expected = i;
        cas_i64(&cell, &expected, i + 1, ACQ_REL);
    }
    return per_op(start_ns, OPS);
}

static double
heavy_fence(void)
{
    bool asymmetric = fence_asymmetric();
    int64_t start_ns = park_clock_ns();
    for (size_t i = 0; i < HANDS; i++) {
        fence_heavy(asymmetric);
    }
    return per_op(start_ns, HANDS);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double (*measure)(void);
    } cases[] = {
        {"a fence", bare_fence},
        {"a compare-and-swap", bare_cas},
        {"push + take, depth 1", push_take_depth_1},
        {"push + take, batches of 1000", push_take_batches},
        {"steal, uncontended, one by one", steal_single},
        {"steal, uncontended, in batches, per item", steal_batches},
        {"steal, owner pushes and takes", steal_contended},
        {"push until a spinning thief has it", push_to_thief},
        {"inject + take, batches, per item", inject_batches},
        {"notify, no worker idle", notify_without_sleeper},
        {"push + notify, waker pays for one sleeper", wake_pays},
        {"push until the sleeper has it", wake_takes},
        {"heavy fence (what a sleeper pays)", heavy_fence},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    static double costs[CASES][REPEATS_MAX];
    size_t repeats = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 31;
    repeats = repeats == 0 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : repeats;
    for (size_t r = 0; r < repeats; r++) {
        for (size_t c = 0; c < CASES; c++) {
            costs[c][r] = cases[c].measure();
        }
    }
    printf("%-44s %10s %10s\n", "ns per operation", "best", "median");
    for (size_t c = 0; c < CASES; c++) {
        double median = median_of(costs[c], repeats); /* sorts */
        printf("%-44s %10.1f %10.1f\n", cases[c].name, costs[c][0], median);
    }
    return 0;
}
