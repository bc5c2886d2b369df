/* What the native runtime costs through its C interface: spawn and join, yield, channels, skynet, fib, parked memory.
 *
 *     engine_bench [workers [repeats]]          best and median of the repeats, interleaved, in nanoseconds per operation
 *
 * Budgets, cancellation, guards and statistics are on, as always. `budget` in the name: the same under a finite purse, so
 * that every spawn and tick is paid for. The figures beside are those that were asked for at the outset: a switch below
 * 1000 ns, a million spawns per second. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "janus_interop.h"

#define REPEATS_MAX 101

static double
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int64_t
run(janus_task_fn fn, void *arg)
{
    janus_nursery_create();
    if (janus_nursery_spawn(fn, arg) != 0) {
        abort();
    }
    int64_t ended = janus_nursery_await_all();
    if (ended != 0) {
        fprintf(stderr, "a benchmark ended with %lld\n", (long long)ended);
        exit(1);
    }
    return ended;
}

/* ---- spawn and join, in nurseries of 1000 */

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t
batches(void *arg)
{
    for (int64_t left = *(int64_t *)arg; left > 0; left -= 1000) {
        janus_nursery_create();
        for (int i = 0; i < 1000; i++) {
            if (janus_nursery_spawn(nothing, NULL) != 0) {
                return -1;
            }
        }
        int64_t ended = janus_nursery_await_all();
        if (ended != 0) {
            return ended;
        }
    }
    return 0;
}

static double
spawn_join(void)
{
    int64_t count = 500000;
    double begin = now_ns();
    run(batches, &count);
    return (now_ns() - begin) / (double)count;
}

static double
spawn_join_budget(void)
{
    int64_t count = 500000;
    janus_budget purse = {INT64_C(1) << 40, 0, INT64_C(1) << 40, 0, 0};
    janus_nursery_options options = {.size = sizeof options, .budget = &purse};
    void *n = janus_nursery_open(&options);
    double begin = now_ns();
    if (janus_nursery_spawn_in(n, batches, &count) != 0 || janus_nursery_await(n) != 0) {
        exit(1);
    }
    double ns = (now_ns() - begin) / (double)count;
    janus_nursery_destroy(n);
    return ns;
}

/* ---- two tasks that yield */

static int64_t
yields(void *arg)
{
    for (int64_t left = *(int64_t *)arg; left > 0; left--) {
        if (janus_yield() != 0) {
            return -1;
        }
    }
    return 0;
}

static double
yield(void)
{
    int64_t count = 300000;
    double begin = now_ns();
    janus_nursery_create();
    if (janus_nursery_spawn(yields, &count) != 0 || janus_nursery_spawn(yields, &count) != 0 ||
        janus_nursery_await_all() != 0) {
        exit(1);
    }
    return (now_ns() - begin) / (2.0 * (double)count);
}

/* ---- ping-pong over two channels */

static void *there, *back;

static int64_t
ping(void *arg)
{
    int32_t error;
    for (int64_t left = *(int64_t *)arg; left > 0; left--) {
        if (janus_channel_send_i64(there, left) != 0 || janus_channel_recv_i64(back, &error) != left) {
            return -1;
        }
    }
    return 0;
}

static int64_t
pong(void *arg)
{
    int32_t error;
    for (int64_t left = *(int64_t *)arg; left > 0; left--) {
        if (janus_channel_send_i64(back, janus_channel_recv_i64(there, &error)) != 0) {
            return -1;
        }
    }
    return 0;
}

static double
ping_pong(int32_t capacity)
{
    int64_t count = 200000;
    there = janus_channel_create_i64(capacity);
    back = janus_channel_create_i64(capacity);
    double begin = now_ns();
    janus_nursery_create();
    if (janus_nursery_spawn(ping, &count) != 0 || janus_nursery_spawn(pong, &count) != 0 || janus_nursery_await_all() != 0) {
        exit(1);
    }
    double ns = (now_ns() - begin) / (2.0 * (double)count);
    janus_channel_destroy_i64(there);
    janus_channel_destroy_i64(back);
    return ns;
}

static double
ping_pong_buffered(void)
{
    return ping_pong(1);
}

static double
ping_pong_rendezvous(void)
{
    return ping_pong(0);
}

/* ---- skynet: a tree of ten children per node, a million leaves; every leaf has a number, and the root gets the sum */

typedef struct {
    int64_t first, leaves, sum;
} Node;

static int64_t
skynet_node(void *arg)
{
    Node *node = arg, children[10];
    if (node->leaves == 1) {
        node->sum = node->first;
        return 0;
    }
    janus_nursery_create();
    for (int i = 0; i < 10; i++) {
        int64_t leaves = node->leaves / 10;
        children[i] = (Node){node->first + i * leaves, leaves, 0};
        if (janus_nursery_spawn(skynet_node, &children[i]) != 0) {
            return -1;
        }
    }
    int64_t ended = janus_nursery_await_all();
    for (int i = 0; i < 10; i++) {
        node->sum += children[i].sum;
    }
    return ended;
}

static double
skynet(void)
{
    Node root = {0, 1000000, 0};
    double begin = now_ns();
    run(skynet_node, &root);
    if (root.sum != INT64_C(499999500000)) {
        exit(1);
    }
    return (now_ns() - begin) / 1e6; /* milliseconds in all */
}

/* ---- fib: one child is spawned, the other computed */

typedef struct {
    int64_t n, value;
} Fib;

static int64_t
fib_task(void *arg)
{
    Fib *fib = arg;
    if (fib->n < 2) {
        fib->value = fib->n;
        return 0;
    }
    Fib left = {fib->n - 1, 0}, right = {fib->n - 2, 0};
    janus_nursery_create();
    if (janus_nursery_spawn(fib_task, &left) != 0 || fib_task(&right) != 0) {
        return -1;
    }
    int64_t ended = janus_nursery_await_all();
    fib->value = left.value + right.value;
    return ended;
}

static double
fib(void)
{
    Fib root = {21, 0};
    double begin = now_ns();
    run(fib_task, &root);
    if (root.value != 10946) {
        exit(1);
    }
    return (now_ns() - begin) / 17710.0; /* forks of fib(21) */
}

/* ---- a loop that ticks, and the same loop without */

static double tick_ns, plain_ns;

static int64_t
ticking(void *arg)
{
    uint64_t x = (uint64_t)(uintptr_t)arg | 1, rounds = 3000000;
    double begin = now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * UINT64_C(6364136223846793005) + 1;
        __asm__ __volatile__("" : "+r"(x));
    }
    plain_ns = (now_ns() - begin) / (double)rounds;
    janus_ticks *ticks = janus_ticks_get();
    begin = now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * UINT64_C(6364136223846793005) + 1;
        __asm__ __volatile__("" : "+r"(x));
        if (janus_tick(ticks) != 0) {
            return -1;
        }
    }
    tick_ns = (now_ns() - begin) / (double)rounds;
    return 0;
}

static double
tick(void)
{
    run(ticking, NULL);
    return tick_ns - plain_ns;
}

/* ---- memory */

static double
resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int64_t
parks(void *channel)
{
    int32_t error;
    (void)janus_channel_recv_i64(channel, &error);
    return 0;
}

static double parked_bytes;

static int64_t
parked_crowd(void *arg)
{
    const int64_t count = 100000;
    janus_statistics before, now;
    janus_rt_statistics(&before);
    double bytes = resident_bytes();
    janus_nursery_create();
    for (int64_t i = 0; i < count; i++) {
        if (janus_nursery_spawn(parks, arg) != 0) {
            return -1;
        }
    }
    do {
        janus_yield();
        janus_rt_statistics(&now);
    } while (now.parked < before.parked + (uint64_t)count);
    parked_bytes = (resident_bytes() - bytes) / (double)count;
    janus_channel_close_i64(arg);
    return janus_nursery_await_all();
}

static double
parked(void)
{
    void *channel = janus_channel_create_i64(0), *n = janus_nursery_open(NULL);
    janus_task_options big = {.size = sizeof big, .stack_bytes = 64 << 10}; /* it reads a file */
    if (janus_nursery_spawn_with(n, parked_crowd, channel, &big, NULL) != 0 || janus_nursery_await(n) != 0) {
        exit(1);
    }
    janus_nursery_destroy(n);
    janus_channel_destroy_i64(channel);
    return parked_bytes;
}

static int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int
main(int count, char **arguments)
{
    static const struct {
        const char *name, *unit;
        double (*measure)(void);
    } rows[] = {
        {"spawn+join, nurseries of 1000", "ns", spawn_join},
        {"spawn+join, finite budget", "ns", spawn_join_budget},
        {"yield, two tasks, per switch", "ns", yield},
        {"channel of 1, per message", "ns", ping_pong_buffered},
        {"rendezvous, per message", "ns", ping_pong_rendezvous},
        {"skynet, a million leaves", "ms", skynet},
        {"fib, per fork", "ns", fib},
        {"tick, beside a multiplication", "ns", tick},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    static double times[ROWS][REPEATS_MAX];
    uint32_t workers = count > 1 ? (uint32_t)atoi(arguments[1]) : 1;
    int repeats = count > 2 ? atoi(arguments[2]) : 11;
    repeats = repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : repeats;
    if (janus_rt_init((janus_rt_config){workers, 1}) != 0) {
        return 1;
    }
    double bytes = parked(); /* first, while no stack has been touched */
    for (int i = 0; i < repeats; i++) {
        for (int row = 0; row < ROWS; row++) {
            times[row][i] = rows[row].measure();
        }
    }
    printf("%u worker%s, %d repeats                  best    median\n", workers, workers == 1 ? "" : "s", repeats);
    for (int row = 0; row < ROWS; row++) {
        qsort(times[row], (size_t)repeats, sizeof(double), by_size);
        printf("%-34s %9.1f %9.1f %s\n", rows[row].name, times[row][0], times[row][repeats / 2], rows[row].unit);
    }
    printf("%-34s %9.0f           bytes\n", "a parked task, its stack and guard", bytes);
    janus_rt_shutdown();
    return 0;
}
