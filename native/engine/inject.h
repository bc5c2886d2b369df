/* The injector: where threads that own no deque hand in work, and any worker takes it, oldest first.
 *
 *     tail ──► [link] ──► [link] ──► [link] ◄── head
 *     takers, one at a time                    producers, any number
 *
 * Vyukov's intrusive queue. A producer swaps itself in as the head and then links its predecessor to itself: two stores,
 * no loop, no allocation. Takers exclude each other by a flag that nobody waits for.
 *
 * INJECT-1  a link is in at most one injector, once, from its push until it is taken; it must not move or be freed meanwhile
 * INJECT-2  a push allocates nothing, and so cannot fail but by the limit that the injector was made with
 * INJECT-3  count ≥ the number of links that can be taken: it is raised before a push and lowered after a take. So
 *     whoever sees 0 after its fence has missed no push that was finished before
 * INJECT-4  what one thread pushed comes out in the order of its pushes; all pushes come out in the order of their swaps
 * INJECT-5  between its two stores a producer hides its own link and later ones from takers. It has not announced its
 *     work yet (idle_notify comes after the push), so nobody sleeps on account of that
 * INJECT-6  only the thread that set `taking` touches `tail`
 *
 * Memory: none but the struct. The links are part of the tasks, so what the queue holds is bounded by the tasks there
 * are, and by `limit`. Rejected: a mutex around a list (a producer that is preempted inside stops all others), a ring
 * (full or growing), and a stack that takers turn around (a million links turned by one taker while the others wait).
 *
 * What yields needs none of this: it goes into a deque of its worker that is taken from its oldest end (worker.h).
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/atomics.h"

#define INJECT_UNLIMITED INT64_MAX
#define INJECT_BATCH_MAX 64 /* links per take: the flag is not held for long, and one worker does not take it all */

/* The place of a task in an injector. */
typedef struct {
    atomic_ptr next; /* an InjectLink: the one pushed after this one */
} InjectLink;

/* What producers write, what takers write: a line each. */
typedef struct {
    alignas(CACHE_LINE) atomic_ptr head; /* an InjectLink: the newest */
    atomic_i64 count;
    int64_t limit;
    alignas(CACHE_LINE) atomic_u32 taking;
    InjectLink *tail; /* the oldest, or the stub before it (INJECT-6) */
    InjectLink stub;  /* stands in when the last link is taken: the list is never without one */
} Injector;

/* Make an empty injector that holds at most `limit` links (INJECT_UNLIMITED: no limit). It must not be moved. Cannot
 * fail. Nothing is to be given back in the end; links that are still in it are the caller's to find, by taking them. */
void inject_init(Injector *injector, int64_t limit);

/* Hand in a link. Any thread. False if the injector is at its limit: then nothing has changed. */
bool inject_push(Injector *injector, InjectLink *link);

/* Take up to `links_max` links, at most INJECT_BATCH_MAX, oldest first. Any thread. Answers how many: 0 if there are
 * none, if somebody else is taking, or if the oldest push is not finished. */
size_t inject_take(Injector *injector, InjectLink **links, size_t links_max);

/* Not 0 if there is anything, unfinished pushes included (INJECT-3): bits, so that several can be asked at once. */
static inline int64_t
inject_any(const Injector *injector)
{
    return load_i64(&injector->count, RELAXED);
}

/* How many links there are, unfinished pushes included. A guess while others push or take. */
static inline size_t
inject_length(const Injector *injector)
{
    int64_t count = load_i64(&injector->count, RELAXED);
    return count > 0 ? (size_t)count : 0;
}
