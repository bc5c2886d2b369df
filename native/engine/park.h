/* Parking: how one worker sleeps until somebody has a reason to wake it, and how long it hesitates before.
 *
 * A Parker is a word in which others leave tokens. Tokens stay until they are collected, so a wake that comes before the
 * sleep is not lost; and a wake costs a system call only if the worker really sleeps.
 *
 * PARK-1  the word is the set of tokens left, or PARK_SLEEPING; only the worker sets and clears PARK_SLEEPING
 * PARK-2  a token is left by `or`: no other token is lost, and of several wakers exactly one (the one that finds the bare
 *     PARK_SLEEPING) makes the system call
 * PARK-3  the kernel puts the worker to sleep only if the word still is PARK_SLEEPING, and looks at it under the lock that a
 *     wake takes too: so there is no gap between the look and the sleep
 * PARK-4  what a waker did before it left a token, the worker sees after it collected it
 * PARK-5  times are CLOCK_MONOTONIC; a change of the wall clock moves nothing
 *
 * On Linux the word is a futex. Elsewhere, or with BURSAR_PARK_CONDVAR, a mutex and a condition stand in for the kernel's
 * lock of PARK-3. Who sleeps and whom to wake is engine/idle.h.
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/atomics.h"

#if !defined(__linux__) && !defined(BURSAR_PARK_CONDVAR)
#  define BURSAR_PARK_CONDVAR
#endif
#if defined(BURSAR_PARK_CONDVAR) && !defined(BURSAR_EXPLORE)
#  define PARK_BY_CONDVAR
#  include <pthread.h>
#endif

#define PARK_FOREVER INT64_MAX /* no deadline */

/* Tokens are the bits but this one; what they mean is their users' affair. */
#define PARK_SLEEPING (UINT32_C(1) << 31)

typedef struct {
    alignas(CACHE_LINE) atomic_u32 word;
#ifdef PARK_BY_CONDVAR
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
} Parker;

/* Make a parker without tokens. False, and nothing to destroy, if the system has no more conditions (never on Linux). */
bool parker_init(Parker *parker);

/* Nobody may sleep on it or wake it any more. */
void parker_destroy(Parker *parker);

/* Leave tokens, which are not 0, and wake the worker if it sleeps. Any thread. */
void parker_wake(Parker *parker, uint32_t tokens);

/* The worker: sleep until there is a token or the clock reaches `deadline_ns`. Collects and answers all tokens; 0 if the
 * deadline passed first. Returns at once if there are tokens already. */
uint32_t parker_sleep(Parker *parker, int64_t deadline_ns);

/* The worker: collect the tokens without sleeping. */
uint32_t parker_collect(Parker *parker);

/* Now, on the clock of the deadlines. */
int64_t park_clock_ns(void);

/* ---- hesitation: bounded attempts to find work, with growing pauses, before a worker sleeps */

#define BACKOFF_NS_MIN INT64_C(1000)       /* a theft takes 10 ns: shorter pauses only disturb the victim */
#define BACKOFF_NS_MAX INT64_C(1000000)    /* sleeping and waking costs 10 µs: longer pauses save nothing more */
#define BACKOFF_SPIN_NS_MAX INT64_C(16000) /* pauses up to here are spun: a sleep would take as long */

/* The pauses of one search. Start with {0}. */
typedef struct {
    int64_t pause_ns; /* the last one */
} Backoff;

/* The next pause: 1 µs, 2 µs, 4 µs … 1 ms, then 0: the search is over, park without a deadline. A pause of at most
 * BACKOFF_SPIN_NS_MAX is for backoff_spin; a longer one for idle_park with a deadline, so that a worker which hesitates
 * can be woken: one that slept while it counts as a searcher would keep others from being woken at all. */
int64_t backoff_next_ns(Backoff *backoff);

/* Pause for that long without giving up the processor. */
void backoff_spin(int64_t pause_ns);
