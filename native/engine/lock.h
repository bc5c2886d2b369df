/* A lock of four bytes, for the few places of the engine where several words change together.
 *
 *     0 free        1 taken        2 taken, and a thread may sleep
 *
 * It is taken and given by one read-modify-write each; a thread sleeps on the word as a futex. The lock stores no
 * owner: it may be taken on one stack and given on another, as long as the thread is the same.
 *
 * LOCK-1  a thread that holds a lock parks no fiber, ends no fiber and calls no function of the program
 * LOCK-2  several locks are taken only in this order: `driving` of a deterministic scheduler, the gate of the C
 *     interface, tokens, roots, a nursery, channels by address, timers, a lender, the purse set, a slab. A thread that
 *     holds a mailbox's lock takes no other
 *
 * Rejected: pthread_mutex_t (40 bytes in every channel and nursery, twice the cost); spinning only (with more workers
 * than processors the holder may not be running).
 */
#pragma once

#include "engine/atomics.h"
#include "hints.h"

typedef struct {
    atomic_u32 word;
} Lock;

/* The slow halves. */
void lock_wait(Lock *lock);
void lock_wake(Lock *lock);

static inline void
lock_init(Lock *lock)
{
    init_u32(&lock->word, 0);
}

/* Take it if it is free. Returns whether it was. */
static inline bool
lock_try(Lock *lock)
{
    uint32_t seen = 0;
    return cas_u32(&lock->word, &seen, 1, ACQUIRE);
}

static inline void
lock_take(Lock *lock)
{
    if (UNLIKELY(!lock_try(lock))) {
        lock_wait(lock);
    }
}

/* Give it without the wake. True: a thread may sleep, and the caller must call lock_wake. */
static inline bool
lock_give_no_wake(Lock *lock)
{
    return UNLIKELY(swap_u32(&lock->word, 0, RELEASE) == 2);
}

static inline void
lock_give(Lock *lock)
{
    if (lock_give_no_wake(lock)) {
        lock_wake(lock);
    }
}
