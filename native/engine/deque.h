/* The deque of a worker's fresh tasks: Chase and Lev's algorithm, with the memory orders of Lê, Pop, Cohen and Zappa
 * Nardelli.
 *
 *         thieves ──►  top                           bottom  ◄── owner
 *                       │ oldest                      newest │
 *     … gone, gone,  [ item, item, item, item, item, item ]  free, free, …
 *
 * The owner pushes and takes at the bottom, newest first. So the data of a spawned task's caller is still in the cache,
 * and a tree of tasks is walked depth first. Thieves take at the top, oldest first: the oldest task is the largest part
 * of the tree. The owner and a thief compete only for the last item.
 *
 * DEQUE-1  the items are those with top ≤ index < bottom; index i is in slot i mod capacity
 * DEQUE-2  only the owner writes bottom, buffer and slots. Any thread may move top, only by compare-and-swap from t to
 *     t + 1 (the owner of a deque under DEQUE-8: by a store). So top never falls, and each index leaves through the top
 *     at most once
 * DEQUE-3  the owner takes index b without a compare-and-swap only if it lowered bottom to b, then fenced, then saw
 *     top < b. A thief takes index t only if it saw top = t, then fenced, then saw bottom > t. All fences have one
 *     order. If the owner's fence is first, the thief sees the lowered bottom and does not take b. If the thief's fence
 *     is first, the owner sees top ≥ t
 * DEQUE-4  owner and thieves take the last item (top = b) by compare-and-swap, so exactly one of them gets it
 * DEQUE-5  indices are signed 64-bit numbers and never wrap: at one push per nanosecond they last 292 years
 * DEQUE-6  an outgrown buffer is not written again, and not freed before the deque is destroyed. A thief that still
 *     reads it finds the same items at the same indices. Capacities double, so all old buffers together are smaller
 *     than the newest
 * DEQUE-7  a push that gets no memory returns false and changes nothing
 * DEQUE-8  a deque is single-threaded if its owner and its thieves never run at the same time. Then no thread can
 *     change it between a check and the action that follows, so its owner needs neither DEQUE-3 nor DEQUE-4. Other
 *     threads may still read its length
 *
 * A comment at each access gives the reason for its order; docs/internals/deque.md has the whole argument. Rejected: a
 * fixed capacity (a full deque loses a task or blocks a worker); epochs or hazard pointers for old buffers (DEQUE-6
 * costs nothing); a thief that moves top by several at once (the owner takes without a compare-and-swap, so it could
 * take an item that the thief has counted); shrinking.
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/allocator.h"
#include "engine/atomics.h"
#include "hints.h"

#define DEQUE_CAPACITY_MAX (INT64_C(1) << 32) /* items, 32 GiB of slots: only endless spawning needs more */
#define DEQUE_BATCH_MAX 32 /* items per theft: enough to pay for the search, and the victim keeps some */

typedef struct DequeBuffer {
    struct DequeBuffer *older; /* the buffer that this one replaced (DEQUE-6) */
    int64_t mask;              /* the capacity, a power of two, minus one */
    atomic_ptr slots[];
} DequeBuffer;

/* Thieves write the first cache line, the owner writes the second. */
typedef struct {
    alignas(CACHE_LINE) atomic_i64 top;
    alignas(CACHE_LINE) atomic_i64 bottom;
    atomic_ptr buffer;
    int64_t top_seen; /* the owner's: an earlier value of top, so at most its present value */
    const EngineAllocator *memory;
    bool single_threaded; /* DEQUE-8 */
} Deque;

typedef enum {
    STEAL_EMPTY = 0, /* there was no item */
    STEAL_LOST = 1,  /* there was an item, and another thread took it: a second attempt may succeed */
    STEAL_DONE = 2,
} StealResult;

/* Make an empty deque with room for at least `capacity` items (1 or more; rounded up to a power of two). `memory` must
 * outlive it. Returns false, with nothing to destroy, if there is no memory or `capacity` is out of range. */
bool deque_init(Deque *deque, size_t capacity, const EngineAllocator *memory);

/* Make the deque single-threaded (DEQUE-8). Call it before the first use. */
static inline void
deque_set_single_threaded(Deque *deque)
{
    deque->single_threaded = true;
}

/* Free the memory. No thread may use the deque any more. Items that are still in it are lost. */
void deque_destroy(Deque *deque);

/* The owner: make sure that the next `count` pushes succeed. Returns how many of them will: fewer than `count` if there
 * is no memory. No item is lost in either case (DEQUE-7). */
size_t deque_reserve(Deque *deque, size_t count);

/* Take the oldest item of a deque. Any thread. `*item` is set only for STEAL_DONE. */
StealResult deque_steal(Deque *victim, void **item);

/* Take up to half of a deque, at most `items_max` and at most DEQUE_BATCH_MAX, oldest first, into an array. Any thread.
 * `*count` is the number of items: at least 1 for STEAL_DONE, otherwise 0. */
StealResult deque_steal_batch(Deque *victim, void **items, size_t items_max, size_t *count);

/* The same, by the owner of `thief`. `*item` is the oldest item, to be run at once; the others go into `thief`, oldest
 * first. `*count` counts all of them. Takes fewer if there is no memory for more. */
StealResult deque_steal_into(Deque *victim, Deque *thief, void **item, size_t *count);

/* The number of items. Exact for the owner while no thief runs, an estimate for every other thread. */
static inline size_t
deque_length(const Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED);
    int64_t length = bottom - load_i64(&deque->top, RELAXED);
    return length > 0 ? (size_t)length : 0;
}

/* How many items fit before the deque must grow. Only for the owner. */
static inline size_t
deque_capacity(const Deque *deque)
{
    const DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
    return (size_t)(buffer->mask + 1);
}

/* The slot of an index. */
static inline atomic_ptr *
deque_slot(DequeBuffer *buffer, int64_t index)
{
    return &buffer->slots[index & buffer->mask];
}

/* The owner: put an item, which is not NULL, at the bottom if `top_seen` shows that there is room. Returns false, with
 * nothing changed, if it does not. */
static inline bool
deque_push_within(Deque *deque, void *item)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED);      /* the owner's own store (DEQUE-2) */
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED); /* the owner's own store (DEQUE-2) */
    if (UNLIKELY(bottom - deque->top_seen > buffer->mask)) {
        return false;
    }
    store_ptr(deque_slot(buffer, bottom), item, RELAXED); /* no thief reads it before bottom is raised */
    store_i64(&deque->bottom, bottom + 1, RELEASE); /* publishes the slot and everything that the item points at */
    return true;
}

/* The same, and grows if necessary. Returns false if the deque is full and there is no memory: the item is still the
 * caller's. */
static inline bool
deque_push(Deque *deque, void *item)
{
    return deque_push_within(deque, item) || (deque_reserve(deque, 1) != 0 && deque_push_within(deque, item));
}

/* The owner: take the newest item. Returns NULL if there is none. An empty deque costs two loads. */
static inline void *
deque_take(Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED) - 1; /* the owner's own store (DEQUE-2) */
    if (load_i64(&deque->top, RELAXED) > bottom) {
        return NULL; /* top never falls (DEQUE-2): a deque that is empty for an older value of top is empty */
    }
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
    store_i64(&deque->bottom, bottom, RELEASE); /* as in a push: a thief that reads this store may take an older item */
    if (deque->single_threaded) {
        return load_ptr(deque_slot(buffer, bottom), RELAXED); /* DEQUE-8 */
    }
    fence_seq_cst(); /* the owner's fence of DEQUE-3 */
    int64_t top = load_i64(&deque->top, RELAXED);
    void *item = NULL;
    if (top <= bottom) {
        item = load_ptr(deque_slot(buffer, bottom), RELAXED); /* the owner's own store (DEQUE-2) */
        if (top < bottom) {
            return item; /* DEQUE-3 */
        }
        if (!cas_i64(&deque->top, &top, top + 1, ACQ_REL)) {
            item = NULL; /* DEQUE-4: a thief took it */
        }
    }
    store_i64(&deque->bottom, bottom + 1, RELEASE); /* empty: bottom = top again */
    return item;
}

/* The owner: take the oldest item, as a thief does. Returns NULL if there is none. For a deque that is used as a queue:
 * its owner never calls deque_take. No fence is needed: the owner reads its own store of bottom, and every thread moves
 * top by compare-and-swap. */
static inline void *
deque_take_oldest(Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED); /* the owner's own store (DEQUE-2) */
    int64_t top = load_i64(&deque->top, ACQUIRE);       /* as in deque_steal: see deque_reserve */
    while (top < bottom) {
        DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
        void *item = load_ptr(deque_slot(buffer, top), RELAXED); /* the owner's own store (DEQUE-2) */
        if (deque->single_threaded) {
            store_i64(&deque->top, top + 1, RELEASE); /* DEQUE-8 */
            return item;
        }
        if (cas_i64(&deque->top, &top, top + 1, ACQ_REL)) {
            return item;
        }
    }
    return NULL;
}
