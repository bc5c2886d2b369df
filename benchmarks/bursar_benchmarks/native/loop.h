/* The loop body that is measured with and without a tick: a multiplication and an addition on the last result. */
#ifndef BURSAR_BENCH_LOOP_H
#define BURSAR_BENCH_LOOP_H

#include <stdint.h>

static inline uint64_t
loop_body(uint64_t x)
{
    x = x * UINT64_C(6364136223846793005) + 1;
    __asm__ __volatile__("" : "+r"(x));
    return x;
}

#endif
