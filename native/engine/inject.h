/* The injector: threads that own no deque put work here, and any worker takes it, oldest first.
 *
 *     tail ──► [link] ──► [link] ──► [link] ◄── head
 *     takers, one at a time                    producers, any number
 *
 * It is Vyukov's intrusive queue. A producer swaps its link in as the head, then links the former head to it: two
 * stores, no loop, no allocation. A flag lets one taker in at a time; no thread waits for the flag.
 *
 * INJECT-1  a link is in at most one injector, once, from its push until it is taken; meanwhile it must not move or be
 *     freed
 * INJECT-2  a push allocates nothing, so it fails only at the limit that the injector was made with
 * INJECT-3  count ≥ the number of links that can be taken: it is raised before a push and lowered after a take. So a
 *     thread that reads 0 after its fence has missed no push that was complete before
 * INJECT-4  the pushes of one thread come out in order; all pushes come out in the order of their swaps
 * INJECT-5  between its two stores a producer hides its own link and later links from takers. It has not announced its
 *     work yet (idle_notify comes after the push), so no worker goes to sleep for good because of that
 * INJECT-6  only the thread that set `taking` touches `tail`
 *
 * Memory: only the struct. The links are part of the tasks, so the number of tasks, and `limit`, bound the queue.
 * Rejected: a mutex around a list (a preempted producer that holds it stops all others); a ring (it fills up or must
 * grow); a stack that takers reverse (one taker reverses a million links while the others wait).
 *
 * A task that yields does not come here: it goes into a deque of its worker that is taken from its oldest end
 * (worker.h).
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/atomics.h"

#define INJECT_UNLIMITED INT64_MAX
#define INJECT_BATCH_MAX 64 /* links per take: a taker holds the flag briefly, and leaves some for the others */

/* The place of a task in an injector. */
typedef struct {
    atomic_ptr next; /* an InjectLink: the link that was pushed after this one */
} InjectLink;

/* Producers write the first cache line, takers write the second. */
typedef struct {
    alignas(CACHE_LINE) atomic_ptr head; /* an InjectLink: the newest */
    atomic_i64 count;
    int64_t limit;
    alignas(CACHE_LINE) atomic_u32 taking;
    InjectLink *tail; /* the oldest, or the stub before it (INJECT-6) */
    InjectLink stub;  /* takes the place of the last link when that is taken, so the list is never empty */
} Injector;

/* Make an empty injector that holds at most `limit` links (INJECT_UNLIMITED: no limit). It must not be moved. Cannot
 * fail, and there is nothing to free. To find the links that are still in it, take them. */
void inject_init(Injector *injector, int64_t limit);

/* Push a link. Any thread. Returns false, with nothing changed, if the injector is at its limit. */
bool inject_push(Injector *injector, InjectLink *link);

/* Take up to `links_max` links, at most INJECT_BATCH_MAX, oldest first. Any thread. Returns the number: 0 if there are
 * none, if another thread is taking, or if the oldest push is not complete. */
size_t inject_take(Injector *injector, InjectLink **links, size_t links_max);

/* Not 0 if there is a link, incomplete pushes included (INJECT-3). It is an integer so that several can be tested by
 * one `|`. */
static inline int64_t
inject_any(const Injector *injector)
{
    return load_i64(&injector->count, RELAXED);
}

/* The number of links, incomplete pushes included. An estimate while other threads push or take. */
static inline size_t
inject_length(const Injector *injector)
{
    int64_t count = load_i64(&injector->count, RELAXED);
    return count > 0 ? (size_t)count : 0;
}
