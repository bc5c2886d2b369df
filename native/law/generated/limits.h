/* The limits that both kernels keep.
 *
 * Written by scripts/generate_c.py from the law in Python: do not edit.
 */
#pragma once

#include <stdint.h>

/* `UNITS_MAX` of law/budget.py: fits a signed 64-bit word with room for one addition. */
#define LAW_UNITS_MAX INT64_C(4611686018427387903)

/* `PAID` of law/pool.py: what `pay` returns when no component is short. */
#define LAW_PAID (-1)

/* `GOLDEN` of law/chain.py: 2**64 / golden ratio, odd: the counter step of splitmix64. */
#define LAW_GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* `CANCEL_STREAK_MAX` of law/decide.py: enough to unwind a nursery's tasks at once, too few to be noticed. */
#define LAW_CANCEL_STREAK_MAX UINT32_C(16)

/* `TIMED_STREAK_MAX` of law/decide.py: a burst of timers may go first, a stream of them may not. */
#define LAW_TIMED_STREAK_MAX UINT32_C(8)

/* `INJECTOR_INTERVAL` of law/lanes.py: a prime, so that it does not fall in step with programs that work in rounds
 * of 2ⁿ. */
#define LAW_INJECTOR_INTERVAL 61

/* `STEAL_ATTEMPTS_MAX` of law/steal.py: limits the cost of an idle worker when many workers are idle. */
#define LAW_STEAL_ATTEMPTS_MAX 4

/* `ADMIT` of law/permission.py: stands for a lane in the chain; the number after the last lane. */
#define LAW_LINK_ADMIT 6

/* `TIME_END_NS` of law/timers.py: 292 years after the run began. */
#define LAW_TIME_END_NS INT64_C(9223372036854775807)

/* `YIELD_INTERVAL` of law/kernel.py: ops per turn, unless the profile says otherwise. */
#define LAW_YIELD_INTERVAL INT64_C(1024)

/* `CLEANUP_OPS` of law/kernel.py: how many ops a cancelled task may spend on its cleanup. */
#define LAW_CLEANUP_OPS UINT32_C(10000)

/* `CLEANUP_BYTES` of drive/memory.py: what a task may hold beyond its limit while it cleans up: one arena of the
 * interpreter. */
#define LAW_CLEANUP_BYTES INT64_C(1048576)

/* `PRIORITY_MAX` of law/admission/authority.py: also as a negative number; aging cannot bridge such a distance. */
#define LAW_PRIORITY_MAX 1000000000

/* `TEXT_MAX` of text.py: characters of a program's own text that a message repeats. */
#define LAW_TEXT_MAX 400

/* `SECONDS_MAX` of law/timers.py: thirty years: a longer time is a mistake. */
#define LAW_SECONDS_MAX 1000000000.0

/* `Priority` of a task that states none. */
#define LAW_PRIORITY_NORMAL 50

/* The `yield_interval` of the profile "cluster". */
#define LAW_YIELD_INTERVAL_CLUSTER INT64_C(512)
