/* The deque of a worker's fresh tasks: Chase and Lev's, with the orders of Lê, Pop, Cohen and Zappa Nardelli.
 *
 *         thieves ──►  top                           bottom  ◄── owner
 *                       │ oldest                      newest │
 *     … gone, gone,  [ item, item, item, item, item, item ]  free, free, …
 *
 * The owner pushes and takes at the bottom, newest first: a spawned task finds its caller's data still in the cache, and
 * a tree of tasks is walked in depth. Thieves take at the top, oldest first: the oldest task is the biggest piece of
 * the tree. The two meet only over the last item.
 *
 * DEQUE-1  the items are those with top ≤ index < bottom; index i lives in slot i mod capacity
 * DEQUE-2  only the owner writes bottom, buffer, and slots; anybody moves top, by compare-and-swap from t to t + 1, so top
 *     never falls and each index leaves through the top at most once
 * DEQUE-3  the owner takes index b without asking only if, after bottom was lowered to b and a fence, it saw top < b. A
 *     thief takes index t only if, after it saw top = t and a fence, it saw bottom > t. Fences have one order: if the
 *     owner's is first, the thief sees the lowered bottom and leaves b alone; if the thief's is first, the owner sees
 *     top ≥ t
 * DEQUE-4  the last item (top = b) is taken by compare-and-swap by everybody, so by one
 * DEQUE-5  indices are 64 bits, signed, and never wrapped: at a push per nanosecond they last 292 years
 * DEQUE-6  a buffer that was outgrown is not written again and not freed before the deque: a thief that still reads it finds
 *     the same items at the same indices. Capacities double, so all the old ones together are smaller than the last
 * DEQUE-7  a push that gets no memory says so and changes nothing
 * DEQUE-8  a deque is lone if its thieves, if it has any, never run at the same time as its owner: nobody can come
 *     between a look and what is done about it, so neither DEQUE-3 nor DEQUE-4 needs to be asked for. Others may still
 *     read its length
 *
 * Each order is argued where it stands; docs/internals/deque.md has the whole argument. Rejected: a fixed capacity (a
 * full deque loses a task or blocks a worker), epochs or hazard pointers for old buffers (DEQUE-6 is free), a thief
 * that moves top by several at once (the owner takes without asking, so it would take what the thief has counted), and
 * shrinking.
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/atomics.h"
#include "engine/memory.h"
#include "hints.h"

#define DEQUE_CAPACITY_MAX (INT64_C(1) << 32) /* items: 32 GiB of slots. More is a program that never stops spawning */
#define DEQUE_BATCH_MAX 32                    /* items per theft: pays for the search, and leaves no worker bare */

typedef struct DequeBuffer {
    struct DequeBuffer *older; /* the one that this one replaced (DEQUE-6) */
    int64_t mask;              /* its capacity, a power of two, less one */
    atomic_ptr slots[];
} DequeBuffer;

/* What thieves write, what the owner writes: a line each. */
typedef struct {
    alignas(CACHE_LINE) atomic_i64 top;
    alignas(CACHE_LINE) atomic_i64 bottom;
    atomic_ptr buffer;
    int64_t top_seen; /* the owner's: a value that top had once, so never more than it has */
    const EngineMemory *memory;
    bool lone; /* DEQUE-8 */
} Deque;

typedef enum {
    STEAL_EMPTY = 0, /* there was nothing */
    STEAL_LOST = 1,  /* there was something, and somebody else got it: trying again may help */
    STEAL_DONE = 2,
} StealResult;

/* Make an empty deque with room for at least `capacity` items (1 or more; rounded up to a power of two). Its memory
 * comes from `memory`, which must outlive it. False, and nothing to destroy, if there is none or `capacity` is out of
 * range. */
bool deque_init(Deque *deque, size_t capacity, const EngineMemory *memory);

/* The deque is lone from here on (DEQUE-8). Before anybody uses it. */
static inline void
deque_set_lone(Deque *deque)
{
    deque->lone = true;
}

/* Give the memory back. Nobody may use the deque any more; items that are still in it are the caller's loss. */
void deque_destroy(Deque *deque);

/* The owner: make sure that the next `count` pushes succeed. Answers for how many of them that holds: fewer than
 * `count` if there is no memory. Nothing is lost in any case (DEQUE-7). */
size_t deque_reserve(Deque *deque, size_t count);

/* Take the oldest item of somebody's deque. Any thread. `*item` is set only for STEAL_DONE. */
StealResult deque_steal(Deque *victim, void **item);

/* Take up to half of a deque, at most `items_max` and at most DEQUE_BATCH_MAX, oldest first, into an array. Any thread.
 * `*count` says how many there are: at least 1 for STEAL_DONE, else 0. */
StealResult deque_steal_batch(Deque *victim, void **items, size_t items_max, size_t *count);

/* The same, by the owner of `thief`: the oldest item is handed out in `*item`, to be run at once, the others go into
 * `thief` in order of age; `*count` counts all of them. Without memory for more than that, fewer are taken. */
StealResult deque_steal_into(Deque *victim, Deque *thief, void **item, size_t *count);

/* How many items there are. Exact for the owner while nobody steals, a guess for all others. */
static inline size_t
deque_length(const Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED);
    int64_t length = bottom - load_i64(&deque->top, RELAXED);
    return length > 0 ? (size_t)length : 0;
}

/* How many items fit before the next growth. The owner only. */
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

/* The owner: put an item, which is not NULL, at the bottom, if it is known that there is room. False: nothing has
 * changed. */
static inline bool
deque_push_within(Deque *deque, void *item)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED);      /* own store (DEQUE-2) */
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED); /* own store (DEQUE-2) */
    if (UNLIKELY(bottom - deque->top_seen > buffer->mask)) {
        return false;
    }
    store_ptr(deque_slot(buffer, bottom), item, RELAXED); /* seen by nobody before bottom says so */
    store_i64(&deque->bottom, bottom + 1, RELEASE);       /* publishes the slot, and all that the item points at */
    return true;
}

/* The same. False if the deque is full and there is no memory to grow: then the item is still the caller's. */
static inline bool
deque_push(Deque *deque, void *item)
{
    return deque_push_within(deque, item) || (deque_reserve(deque, 1) != 0 && deque_push_within(deque, item));
}

/* The owner: take the newest item, or NULL if there is none. An empty deque costs two loads. */
static inline void *
deque_take(Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED) - 1; /* own store (DEQUE-2) */
    if (load_i64(&deque->top, RELAXED) > bottom) {
        return NULL; /* top never falls (DEQUE-2): what was empty for any of its values is empty */
    }
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
    store_i64(&deque->bottom, bottom, RELEASE); /* as the push did: a thief may learn of older items from this store */
    if (deque->lone) {
        return load_ptr(deque_slot(buffer, bottom), RELAXED); /* DEQUE-8 */
    }
    fence_seq_cst(); /* the owner's fence of DEQUE-3 */
    int64_t top = load_i64(&deque->top, RELAXED);
    void *item = NULL;
    if (top <= bottom) {
        item = load_ptr(deque_slot(buffer, bottom), RELAXED); /* own store (DEQUE-2) */
        if (top < bottom) {
            return item; /* DEQUE-3 */
        }
        if (!cas_i64(&deque->top, &top, top + 1, ACQ_REL)) {
            item = NULL; /* DEQUE-4: a thief has it */
        }
    }
    store_i64(&deque->bottom, bottom + 1, RELEASE); /* empty: bottom = top again */
    return item;
}

/* The owner: take the oldest item, as a thief would, or NULL if there is none. For a deque that is a queue: then the owner
 * never calls deque_take. No fence: bottom is its own store, so it sees it as it is, and over top everybody asks. */
static inline void *
deque_take_oldest(Deque *deque)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED); /* own store (DEQUE-2) */
    int64_t top = load_i64(&deque->top, ACQUIRE);       /* as in deque_steal: see deque_reserve */
    while (top < bottom) {
        DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
        void *item = load_ptr(deque_slot(buffer, top), RELAXED); /* own store (DEQUE-2) */
        if (deque->lone) {
            store_i64(&deque->top, top + 1, RELEASE); /* DEQUE-8 */
            return item;
        }
        if (cas_i64(&deque->top, &top, top + 1, ACQ_REL)) {
            return item;
        }
    }
    return NULL;
}
