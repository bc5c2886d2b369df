/* How every program of this folder measures, and what it prints, in C and C++; go/measure.go does the same in Go.
 *
 *     program WORKERS SIZE ROUNDS          one line per round, each value per operation, in nanoseconds or bytes:
 *
 *     cpu=23.1 wall=25.0                   of the process, all threads together; of the clock
 *     bytes=4439.0
 *     p50=141.0 cpu=…                      a latency: the median of the round's operations
 *
 * The driver (__main__.py) reads these lines and nothing else. On a shared machine `wall` also depends on other
 * processes, `cpu` mostly on the code. A program that got a wrong result ends with `fail`, so that no program is fast
 * because it leaves work out.
 */
#ifndef BURSAR_BENCH_MEASURE_H
#define BURSAR_BENCH_MEASURE_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    double cpu_ns, wall_ns;
} Mark;

static inline double
clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline Mark
mark(void)
{
    Mark now;
    now.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    now.wall_ns = clock_ns(CLOCK_MONOTONIC);
    return now;
}

static inline void
report(Mark since, double operations)
{
    Mark now = mark();
    printf("cpu=%.3f wall=%.3f\n", (now.cpu_ns - since.cpu_ns) / operations,
           (now.wall_ns - since.wall_ns) / operations);
    fflush(stdout);
}

static inline void
fail(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

/* The three numbers of the command line. */
static inline int64_t
argument(int count, char **arguments, int which, int64_t otherwise)
{
    return count > which ? strtoll(arguments[which], NULL, 10) : otherwise;
}

/* The number of the first, second, ... processor that this thread may use. */
static inline int
processor(int which)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &allowed) && which-- == 0) {
                return cpu;
            }
        }
    }
    fail("too few processors");
    return 0;
}

/* This thread stays there. For a latency between two processors: on a busy machine the kernel puts both threads on one, and
 * what is measured is its own switch. */
static inline void
stay_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        fail("not allowed there");
    }
}

/* Resident memory of this process in bytes. */
static inline double
resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        fail("no /proc/self/statm");
    }
    fclose(file);
    return (double)pages * 4096.0;
}

static int
measure_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A round of latencies: sorts them. */
static inline void
report_latencies(double *ns, size_t count)
{
    qsort(ns, count, sizeof *ns, measure_by_size);
    printf("best=%.1f p50=%.1f p99=%.1f\n", ns[0], ns[count / 2], ns[count * 99 / 100]);
    fflush(stdout);
}

#endif
