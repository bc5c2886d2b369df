/* The decision chain and the seeded streams. Mirrors src/bursar/law/chain.py.
 *
 *     h' = mix64(mix64(h ^ subject) ^ circumstances)
 *     subject        = task id (low 32 bits) | nursery id << 32
 *     circumstances  = lane | worker << 4 | cancel streak << 20 | cancel limit << 28 | generation << 36
 *
 * each modulo 2**64, as uint64_t computes it. The caller reduces a larger seed modulo 2**64 first.
 * docs/internals/chain.md has worked values.
 */
#pragma once

#include <stdint.h>

#include "law/generated/limits.h"

/* The splitmix64 finalizer: a bijection of 64-bit words in which every input bit moves every output bit. */
static inline uint64_t
law_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Where a chain starts: runs with another seed or worker count never share a value by accident. */
static inline uint64_t
law_seed_chain(uint64_t seed, uint64_t workers)
{
    return law_mix64((seed ^ law_mix64(workers)) + LAW_GOLDEN);
}

/* The chain after one more decision. */
static inline uint64_t
law_link(uint64_t chain, uint64_t task_id, uint64_t nursery_id, uint64_t lane, uint64_t worker, uint64_t cancel_streak,
         uint64_t cancel_limit, uint64_t generation)
{
    uint64_t subject = (task_id & UINT64_C(0xFFFFFFFF)) | nursery_id << 32;
    uint64_t circumstances = lane | worker << 4 | cancel_streak << 20 | cancel_limit << 28 | generation << 36;
    return law_mix64(law_mix64(chain ^ subject) ^ circumstances);
}

/* A seeded stream of 64-bit numbers (splitmix64). Each use has its own stream, so that one more draw in one place does
 * not shift the draws of another. */
typedef struct {
    uint64_t state;
} LawRandomStream;

/* The stream of `seed` for one purpose. */
static inline LawRandomStream
law_random_init(uint64_t seed, int64_t purpose)
{
    LawRandomStream stream = {law_mix64(seed ^ law_mix64((uint64_t)purpose + LAW_GOLDEN))};
    return stream;
}

/* The next number. */
static inline uint64_t
law_random_next(LawRandomStream *stream)
{
    stream->state += LAW_GOLDEN;
    return law_mix64(stream->state);
}

/* The high half of a 64 × 64 bit product, from four 32-bit products: for compilers without a 128-bit word. */
static inline uint64_t
law_high_product_portable(uint64_t a, uint64_t b)
{
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
    uint64_t other = a_low * b_high + (uint32_t)middle;
    return a_high * b_high + (middle >> 32) + (other >> 32);
}

static inline uint64_t
law_high_product(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 Word128;
    return (uint64_t)((Word128)a * b >> 64);
#else
    return law_high_product_portable(a, b);
#endif
}

/* A number in [0, n); 0 if n is 0. It is the high half of a product, so the bias for small n is negligible. */
static inline uint64_t
law_random_below(LawRandomStream *stream, uint64_t n)
{
    return law_high_product(law_random_next(stream), n);
}
