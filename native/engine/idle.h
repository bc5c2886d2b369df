/* The idle set: which workers sleep, how many search, and whom a piece of new work wakes.
 *
 * Waking costs the waker microseconds, so it is done only when somebody sleeps and nobody is looking for work already.
 * One searcher at a time is enough: when the last one finds something, and there is more, it has the next one woken. Two
 * numbers in one word tell all that:
 *
 *     word = idle << 32 | searching          and one bit per worker: sleeps, may be picked
 *
 *     runs ──search_begin──► searches ──search_end──► runs          (the last one looks whether to have another woken)
 *                │ refused       │ found nothing
 *                └──────► park ◄─┘
 *                    1. set own bit   2. idle + 1, searching − 1   3. heavy fence   4. look once more   5. sleep
 *
 * IDLE-1  whoever makes work visible calls idle_notify after that, on every path
 * IDLE-2  a worker sleeps only after it has announced itself (step 2), fenced (3) and then seen no work (4). A notifier
 *     fences between its work and its look at the word. So either the notifier sees the sleeper, or the sleeper sees
 *     the work
 * IDLE-3  a notifier that sees searching > 0 may go: that searcher either leaves through park, and IDLE-2 holds for it,
 *     or through search_end, which does the same (announce, fence, look) if it was the last and somebody sleeps
 * IDLE-4  searching counts roles. A waker takes one in the name of the worker that it picks (from 0 to 1, by one
 *     compare-and- swap, so one waker at a time), and that worker has it when it returns from park
 * IDLE-5  while searching = 0, at least `idle` bits are set: a bit is set before its worker is counted and stays until
 *     after it is discounted, unless it was picked, and then a role is held. So a waker finds a bit, or others returned
 *     meanwhile and are discounted already: its loop ends without waiting for anybody
 * IDLE-6  a worker whose bit was picked does not return before it has the waker's token: no token is left over for a later
 *     sleep. A call (idle_call) is not bound to a sleep and stays until it is collected
 * IDLE-7  nobody idle, or somebody searching: a notification is one load of a line that only sleepers and searchers write
 *
 * Rejected: a wake per push (7 µs each); a semaphore (the waker writes a shared line even if nobody sleeps); a lock around
 * a list of sleepers (a preempted holder stops all wakers); waking blindly when the last searcher finds something (one
 * needless wake for each lonely task).
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/atomics.h"
#include "engine/memory.h"
#include "engine/park.h"

#define IDLE_WORKERS_MAX UINT32_C(4096) /* a scan of 64 words; more threads than that are no workers */
#define IDLE_NOBODY UINT32_MAX          /* no worker */

/* Is there work that `worker` could take? Called after a fence: plain loads see what IDLE-2 needs. `worker` is IDLE_NOBODY
 * when the question is whether somebody else could. May err on the side of yes, but not for ever. */
typedef bool (*IdlePending)(void *context, uint32_t worker);

typedef struct {
    alignas(CACHE_LINE) atomic_u64 word;
    alignas(CACHE_LINE) atomic_u64 *bits; /* this line and what follows: never written after init */
    Parker *parkers;
    const EngineMemory *memory;
    IdlePending pending;
    void *context;
    uint32_t workers;
    bool asymmetric;
} IdleSet;

/* Why a worker returned from park. */
typedef enum {
    IDLE_EXPIRED = 0, /* the deadline passed; it does not search */
    IDLE_CALLED = 1,  /* somebody called it by name; it does not search */
    IDLE_SEARCH = 2,  /* there is work, or was; it has the role of a searcher */
} IdleReason;

/* Make a set of `workers` (1 to IDLE_WORKERS_MAX), all of them awake, none searching. False, and nothing to destroy, if
 * the number is out of range or there is no memory. */
bool idle_init(IdleSet *set, uint32_t workers, IdlePending pending, void *context, const EngineMemory *memory);

/* Give the memory back. Nobody may be in it or notify it any more. */
void idle_destroy(IdleSet *set);

/* The slow half of idle_notify: wake one worker to search, unless somebody does already. */
void idle_wake_one(IdleSet *set);

/* A worker that ran out of work asks to search. False if half of the workers do: it parks instead. With the role it must
 * leave by idle_search_end or idle_park. */
bool idle_search_begin(IdleSet *set);

/* A searcher has found work and gives the role back. Wakes another one if it was the last and there is more. */
void idle_search_end(IdleSet *set);

/* Worker `worker` has nothing to do: sleep until somebody notifies, calls, or the clock reaches `deadline_ns`
 * (PARK_FOREVER: no deadline). `searching` says that it has the role, which it gives up here. */
IdleReason idle_park(IdleSet *set, uint32_t worker, bool searching, int64_t deadline_ns);

/* Wake one worker by name: it has a message, or the engine stops. If it does not sleep, its next park returns at once. */
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

/* There is new work that anybody may take (IDLE-1): have a worker woken if one sleeps and none searches (IDLE-7). */
static inline void
idle_notify(IdleSet *set)
{
    fence_light(set->asymmetric); /* the notifier's fence of IDLE-2 */
    uint64_t word = load_u64(&set->word, RELAXED);
    if (idle_count(word) != 0 && idle_searching(word) == 0) {
        idle_wake_one(set);
    }
}
