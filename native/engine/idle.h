/* The idle set: which workers sleep, how many search, and which worker new work wakes.
 *
 * A wake costs the waker microseconds. So new work wakes a worker only if one sleeps and none searches for work
 * already. One searcher at a time is enough: when the last searcher finds work, and there is more, it wakes the next
 * worker. Two numbers in one word say all that:
 *
 *     word = idle << 32 | searching          and one bit per worker: it sleeps and may be picked
 *
 *     runs ──search_begin──► searches ──search_end──► runs          (the last searcher checks whether to wake another)
 *                │ refused       │ found nothing
 *                └──────► park ◄─┘
 *                    1. set own bit   2. idle + 1, searching − 1   3. heavy fence   4. look once more   5. sleep
 *
 * IDLE-1  code that makes work visible calls idle_notify after that, on every path
 * IDLE-2  a worker sleeps only after it has announced itself (step 2), fenced (3) and then seen no work (4). A notifier
 *     fences after it made its work visible and before it reads the word. So either the notifier sees the sleeper, or
 *     the sleeper sees the work
 * IDLE-3  a notifier that sees searching > 0 may return. That searcher leaves through park, where IDLE-2 holds, or
 *     through search_end, which does the same (announce, fence, look) if it was the last searcher and a worker sleeps
 * IDLE-4  searching counts roles. A waker takes a role for the worker that it picks, by one compare-and-swap of
 *     searching from 0 to 1, so there is one waker at a time. That worker has the role when it returns from park
 * IDLE-5  while searching = 0, at least `idle` bits are set. A worker sets its bit before it is counted, and the bit
 *     stays set until after the worker is discounted, unless a waker picked it; then the waker holds a role. So a waker
 *     finds a bit, or the sleepers have returned meanwhile and are discounted already: its loop ends without waiting
 *     for another thread
 * IDLE-6  a worker whose bit was picked does not return before it has the waker's token, so no token remains for a
 *     later sleep. A call (idle_call) does not belong to one sleep; its token stays until it is collected
 * IDLE-7  if no worker is idle, or one searches, a notification is one load of a line that only sleepers and searchers
 *     write
 *
 * Rejected: a wake per push (7 µs each); a semaphore (the waker writes a shared line even if no worker sleeps); a lock
 * around a list of sleepers (a preempted holder stops all wakers); a wake whenever the last searcher finds work (one
 * useless wake for each single task).
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/allocator.h"
#include "engine/atomics.h"
#include "engine/park.h"

#define IDLE_WORKERS_MAX UINT32_C(4096) /* a scan of 64 words; no machine needs more workers */
#define IDLE_NO_WORKER UINT32_MAX       /* no worker */

/* Returns whether there is work that `worker` could take. Called after a fence, so plain loads see what IDLE-2 needs.
 * With IDLE_NO_WORKER it returns whether any other worker could take some. It may be wrong by returning true, but not
 * forever. */
typedef bool (*IdlePending)(void *context, uint32_t worker);

typedef struct {
    alignas(CACHE_LINE) atomic_u64 word;
    alignas(CACHE_LINE) atomic_u64 *bits; /* from here on: never written after init */
    Parker *parkers;
    const EngineAllocator *memory;
    IdlePending pending;
    void *context;
    uint32_t workers;
    bool asymmetric;
} IdleSet;

/* Why a worker returned from park. */
typedef enum {
    IDLE_EXPIRED = 0, /* the deadline passed; the worker has no role */
    IDLE_CALLED = 1,  /* another thread called it by idle_call; the worker has no role */
    IDLE_SEARCH = 2,  /* there is work, or was; the worker has the role of a searcher */
} IdleReason;

/* Make a set of `workers` (1 to IDLE_WORKERS_MAX), all awake, none searching. Returns false, with nothing to destroy,
 * if the number is out of range or there is no memory. */
bool idle_init(IdleSet *set, uint32_t workers, IdlePending pending, void *context, const EngineAllocator *memory);

/* Free the memory. No worker may park in the set, and no thread may notify it, any more. */
void idle_destroy(IdleSet *set);

/* The slow half of idle_notify: wake one worker to search, unless one already searches. */
void idle_wake_one(IdleSet *set);

/* A worker without work asks for the role of a searcher. Returns false if half of the workers have one: then it parks.
 * A worker with the role must leave by idle_search_end or idle_park. */
bool idle_search_begin(IdleSet *set);

/* A searcher has found work and gives up its role. If it was the last searcher and there is more work, it wakes another
 * worker. */
void idle_search_end(IdleSet *set);

/* Worker `worker` has nothing to do: sleep until a notification, a call, or `deadline_ns` (PARK_FOREVER: no deadline).
 * `searching` says that the worker has a role, which it gives up here. */
IdleReason idle_park(IdleSet *set, uint32_t worker, bool searching, int64_t deadline_ns);

/* Wake this worker: it has a message, or the engine stops. If it does not sleep, its next park returns at once. */
void idle_call(IdleSet *set, uint32_t worker);

static inline uint32_t
idle_count(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint32_t
idle_searching(uint64_t word)
{
    return (uint32_t)word;
}

/* There is new work that any worker may take (IDLE-1): wake a worker if one sleeps and none searches (IDLE-7). */
static inline void
idle_notify(IdleSet *set)
{
    fence_light(set->asymmetric); /* the notifier's fence of IDLE-2 */
    uint64_t word = load_u64(&set->word, RELAXED);
    if (idle_count(word) != 0 && idle_searching(word) == 0) {
        idle_wake_one(set);
    }
}
