/* Parking: how one worker sleeps until another thread wakes it, and how long it pauses between attempts before that.
 *
 * A Parker is a word in which other threads leave tokens. A token stays until the worker collects it, so a wake that
 * comes before the sleep is not lost; and a wake costs a system call only if the worker really sleeps.
 *
 * PARK-1  the word is the set of tokens, or PARK_SLEEPING; only the worker sets and clears PARK_SLEEPING
 * PARK-2  a token is left by `or`. So no other token is lost, and of several wakers exactly one makes the system call:
 *     the one that finds PARK_SLEEPING without tokens
 * PARK-3  the kernel puts the worker to sleep only if the word still is PARK_SLEEPING. It checks that under the lock
 *     that a wake takes too, so no wake can come between the check and the sleep
 * PARK-4  after the worker has collected a token, it sees everything that the waker did before it left the token
 * PARK-5  times are CLOCK_MONOTONIC; a change of the wall clock moves nothing
 *
 * On Linux the word is a futex. Elsewhere, or with BURSAR_PARK_CONDVAR, a mutex and a condition variable replace the
 * kernel's lock of PARK-3. engine/idle.h decides which worker sleeps and which one to wake.
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

/* All other bits are tokens; their users define what they mean. */
#define PARK_SLEEPING (UINT32_C(1) << 31)

typedef struct {
    alignas(CACHE_LINE) atomic_u32 word;
#ifdef PARK_BY_CONDVAR
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
} Parker;

/* Make a parker without tokens. Returns false, with nothing to destroy, if the system has no condition variable left
 * (never on Linux). */
bool parker_init(Parker *parker);

/* No thread may sleep on it or wake it any more. */
void parker_destroy(Parker *parker);

/* Leave tokens, which are not 0, and wake the worker if it sleeps. Any thread. */
void parker_wake(Parker *parker, uint32_t tokens);

/* The worker: sleep until there is a token or the clock reaches `deadline_ns`. Collects and returns all tokens; 0 if
 * the deadline passed first. Returns at once if there are tokens already. */
uint32_t parker_sleep(Parker *parker, int64_t deadline_ns);

/* The worker: collect and return the tokens without sleeping. */
uint32_t parker_collect(Parker *parker);

/* The time on the clock of the deadlines. */
int64_t park_clock_ns(void);

/* ---- backoff: a limited number of attempts to find work, with growing pauses, before a worker sleeps */

#define BACKOFF_NS_MIN INT64_C(1000)       /* a theft takes 10 ns: a shorter pause only disturbs the victim */
#define BACKOFF_NS_MAX INT64_C(1000000)    /* to sleep and wake costs 10 µs: a longer pause saves nothing more */
#define BACKOFF_SPIN_NS_MAX INT64_C(16000) /* shorter pauses are spun: a sleep would take as long */

/* The pauses of one search. Start with {0}. */
typedef struct {
    int64_t pause_ns; /* the last one */
} Backoff;

/* The next pause: 1 µs, 2 µs, 4 µs … 1 ms, then 0: the search is over, park without a deadline. Use backoff_spin for a
 * pause of at most BACKOFF_SPIN_NS_MAX, and idle_park with a deadline for a longer one, so that the pausing worker can
 * be woken. A worker that slept while it counted as a searcher would keep all others from being woken. */
int64_t backoff_next_ns(Backoff *backoff);

/* Pause for that long without giving up the processor. */
void backoff_spin(int64_t pause_ns);
