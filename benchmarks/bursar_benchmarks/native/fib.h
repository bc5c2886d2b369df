/* The value of fib(n), and the number of forks of a program that forks at every number above 1. */
#ifndef BURSAR_BENCH_FIB_H
#define BURSAR_BENCH_FIB_H

#include <stdint.h>

static inline int64_t
fib_value(int64_t n)
{
    int64_t a = 0, b = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t c = a + b;
        a = b;
        b = c;
    }
    return a;
}

static inline int64_t
fib_forks(int64_t n)
{
    return fib_value(n + 1) - 1;
}

#endif
