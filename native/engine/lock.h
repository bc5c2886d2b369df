/* A lock of four bytes, for the few places of the engine where several words change together.
 *
 *     0 free        1 taken        2 taken, and somebody may sleep
 *
 * Taken and given by one read-modify-write each; a thread sleeps on the word as a futex. It knows no owner: it may be
 * taken on one stack and given on another, as long as it is the same thread.
 *
 * LOCK-1  nobody parks a fiber, calls a program's function or ends a fiber while it holds one
 * LOCK-2  the order in which several are taken: `driving` of a deterministic scheduler, the gate of the C interface, tokens,
 *     roots, a nursery, channels by address, timers, a lender, books, a slab. Under a guest's mailbox nothing else is taken
 *
 * Rejected: pthread_mutex_t (40 bytes in every channel and nursery, twice the cost), spinning only (with more workers
 * than processors the holder may be asleep).
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

/* Take it if it is free. */
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

/* Give it. True: somebody may sleep, and lock_wake is still to be called. */
static inline bool
lock_let_go(Lock *lock)
{
    return UNLIKELY(swap_u32(&lock->word, 0, RELEASE) == 2);
}

static inline void
lock_give(Lock *lock)
{
    if (lock_let_go(lock)) {
        lock_wake(lock);
    }
}
