/* The owner table: from the address of a live block to the account that pays for it.
 *
 * Every block that a metered task allocates is put in here, and taken out when it is freed, by whatever thread, with
 * or without the GIL. So the table is cut into shards, each with a lock of its own that is held for a few dozen
 * instructions. Inside a shard it is an array with open addressing; a removal moves the entries behind it back, so
 * that there are no tombstones and a program that runs for weeks does not slow down.
 *
 * Rejected: a header in front of each block (blocks from before the meter was installed have none, and nobody can
 * tell them apart); a mutex (a table that is asked at every free must not enter the kernel to find nothing).
 *
 * Invariants:
 *   1. A block is in the table at most once. Whoever frees it takes it out *before* the allocator gets it back: from
 *      then on another thread may be given the same address.
 *   2. A shard is at most three quarters full, so that every search ends.
 *   3. Nothing here allocates through Python: the table is used inside Python's own allocators.
 */

#include "owners.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SHARD_BITS 4  /* more threads than this seldom free at the same instant */
#define SHARDS (1u << SHARD_BITS)
#define SLOTS_MIN 64u /* of a shard when it is first used: one page and a half */
#define SPINS_MAX 64  /* before a thread lets the holder of the lock run: it may have been preempted */

typedef struct {
    atomic_flag held;
    _Atomic size_t used; /* written under the lock; most frees of unmetered blocks read it and nothing else */
    size_t slots; /* a power of two, or 0 */
    Owned *owned;
} Shard;

static Shard shards[SHARDS];

/* How many blocks of a shard have an owner. */
static size_t
used(Shard *shard)
{
    return atomic_load_explicit(&shard->used, memory_order_relaxed);
}

/* Writes that down. A plain store: the lock is held. */
static void
set_used(Shard *shard, size_t count)
{
    atomic_store_explicit(&shard->used, count, memory_order_relaxed);
}

/* Takes the lock of a shard. Never fails. */
static void
lock(Shard *shard)
{
    for (int spins = 0; atomic_flag_test_and_set_explicit(&shard->held, memory_order_acquire); spins++) {
        if (spins >= SPINS_MAX) {
            (void)sched_yield();
        }
    }
}

/* Gives it back. */
static void
unlock(Shard *shard)
{
    atomic_flag_clear_explicit(&shard->held, memory_order_release);
}

/* The hash of an address. Allocators align to 16 bytes, so the low bits say nothing. */
static uint64_t
hash_of(uintptr_t block)
{
    return (uint64_t)(block >> 4) * UINT64_C(0x9E3779B97F4A7C15);
}

static Shard *
shard_of(uint64_t hash)
{
    return &shards[hash >> (64 - SHARD_BITS)];
}

/* Where a search in `slots` slots begins: bits that did not choose the shard. */
static size_t
home_of(uint64_t hash, size_t slots)
{
    return (size_t)(hash >> 24) & (slots - 1);
}

/* The slot that holds `block`, or the free one where it belongs. The shard has slots and one of them is free. */
static size_t
find(const Shard *shard, uintptr_t block, uint64_t hash)
{
    size_t at = home_of(hash, shard->slots);
    while (shard->owned[at].block != 0 && shard->owned[at].block != block) {
        at = (at + 1) & (shard->slots - 1);
    }
    return at;
}

/* Makes room for one more. False if there is no memory for it; then nothing has changed. */
static bool
make_room(Shard *shard)
{
    if (used(shard) + 1 <= shard->slots / 4 * 3) {
        return true;
    }
    size_t slots = shard->slots ? shard->slots * 2 : SLOTS_MIN;
    Owned *owned = calloc(slots, sizeof *owned);
    if (owned == NULL) {
        return false;
    }
    Owned *before = shard->owned;
    size_t slots_before = shard->slots;
    shard->slots = slots;
    shard->owned = owned;
    for (size_t i = 0; i < slots_before; i++) {
        if (before[i].block != 0) {
            owned[find(shard, before[i].block, hash_of(before[i].block))] = before[i];
        }
    }
    free(before);
    return true;
}

/* Frees the slot `hole` and closes the gap: whoever was pushed past it by a collision moves back. */
static void
remove_at(Shard *shard, size_t hole)
{
    size_t mask = shard->slots - 1;
    for (size_t at = (hole + 1) & mask; shard->owned[at].block != 0; at = (at + 1) & mask) {
        size_t home = home_of(hash_of(shard->owned[at].block), shard->slots);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            shard->owned[hole] = shard->owned[at];
            hole = at;
        }
    }
    shard->owned[hole] = (Owned){0};
    set_used(shard, used(shard) - 1);
}

/* Writes down an owner. A stale entry of the same address, whose release was not seen, is overwritten.
 * False if there is no memory for it: the block is then nobody's. */
bool
owners_put(const Owned *owned)
{
    uint64_t hash = hash_of(owned->block);
    Shard *shard = shard_of(hash);
    lock(shard);
    bool done = make_room(shard);
    if (done) {
        Owned *slot = &shard->owned[find(shard, owned->block, hash)];
        if (slot->block == 0) {
            set_used(shard, used(shard) + 1);
        }
        *slot = *owned;
    }
    unlock(shard);
    return done;
}

/* Takes an owner out. False if the block is nobody's; then `owned` is left as it was. */
bool
owners_take(const void *block, Owned *owned)
{
    uint64_t hash = hash_of((uintptr_t)block);
    Shard *shard = shard_of(hash);
    bool found = false;
    if (used(shard) == 0) { /* whoever was handed the block has also seen that it was put here */
        return false;
    }
    lock(shard);
    if (shard->slots != 0) {
        size_t at = find(shard, (uintptr_t)block, hash);
        found = shard->owned[at].block != 0;
        if (found) {
            *owned = shard->owned[at];
            remove_at(shard, at);
        }
    }
    unlock(shard);
    return found;
}

/* Empties the table, because releases will not be seen from here on. `visit` hears of every entry, under the lock of
 * its shard: it must not come back here. */
void
owners_clear(void (*visit)(const Owned *owned))
{
    for (size_t i = 0; i < SHARDS; i++) {
        Shard *shard = &shards[i];
        lock(shard);
        for (size_t at = 0; at < shard->slots; at++) {
            if (shard->owned[at].block != 0) {
                visit(&shard->owned[at]);
            }
        }
        free(shard->owned);
        shard->owned = NULL;
        shard->slots = 0;
        set_used(shard, 0);
        unlock(shard);
    }
}

/* How many blocks have an owner. */
size_t
owners_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        count += used(&shards[i]);
    }
    return count;
}

static void
lock_all(void)
{
    for (size_t i = 0; i < SHARDS; i++) {
        lock(&shards[i]);
    }
}

static void
unlock_all(void)
{
    for (size_t i = 0; i < SHARDS; i++) {
        unlock(&shards[i]);
    }
}

/* From now on a child process does not inherit a lock that a thread of its parent held. To be called once. */
bool
owners_survive_fork(void)
{
    return pthread_atfork(lock_all, unlock_all, unlock_all) == 0;
}
