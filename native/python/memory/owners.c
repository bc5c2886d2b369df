/* The owner table: from the address of a live block to the account that pays for it.
 *
 * Every block that a metered task allocates is put in here, and taken out when it is freed, by whatever thread, with
 * or without the GIL. Nearly always that is the thread of the task, with the GIL. It says that it is *alone*, and then
 * it needs no lock, and sees one line of the cache that is not at hand: a loop that fills large blocks has nothing else
 * of ours left in the cache by then, so lines are what a look into the table costs.
 *
 * The table has two parts. In the *sets* only who is alone writes anything down: an address belongs to one set, and
 * goes to the first slot of it that is free. No entry is ever moved to make room or to close a gap, so others may look
 * for theirs meanwhile, under a lock. They write down in the *rest*, as does who is alone where a set is full: that is
 * cut into shards, each an array with open addressing and with a lock of its own that is held for a few dozen
 * instructions. A removal there moves the entries behind it back. So nowhere are there tombstones, and a program that
 * runs for weeks does not slow down.
 *
 * Why others can take out of a set while somebody alone is at work in it: a block is freed by one thread, and nobody
 * else asks for it meanwhile. A slot in use is emptied by whoever frees what lies in it, a free one is filled by
 * whoever is alone; so no slot ever has two writers. What moves or drops the entries of others, growing and clearing, is
 * done by somebody alone who also holds every lock, and that shuts out both.
 *
 * Rejected: a header in front of each block (blocks from before the meter was installed have none, and nobody can
 * tell them apart); a mutex (a table that is asked at every free must not enter the kernel to find nothing); a lock for
 * everybody (two exchanges and three lines for each block); sets for each thread (who frees would have to look through
 * all of them, and a thread that ends leaves its own behind).
 *
 * Invariants:
 *   1. Whoever frees a block takes it out *before* the allocator gets it back: from then on another thread may be given
 *      the same address. What was put comes out once: it is taken, or visited when the table is cleared. An address is
 *      twice in the table only if a release was not seen; then the next two that are seen take both.
 *   2. At most one thread at a time is alone, and sees what those before it wrote. Who calls vouches for that; the GIL
 *      sees to it.
 *   3. A free slot of a set is filled by whoever is alone, its address last. A slot in use is emptied by whoever frees
 *      the block, its address last: alone, or under the lock of the block's shard.
 *   4. Where the sets are and how many changes only by somebody alone who holds all locks. Who looks is alone, or holds
 *      one of them.
 *   5. `placed` is never less than `gone` and the entries in the sets together: it is raised before an entry comes, and
 *      either is changed after one has gone. Who adds to `gone` has seen its entry placed, and releases that; so who
 *      acquires `gone` first, and then finds `placed` to be the same, has nothing in the sets.
 *   6. The rest of a shard is at most three quarters full, so that every search ends.
 *   7. Nothing here allocates through Python: the table is used inside Python's own allocators.
 */

#include "python/memory/owners.h"

#include "hints.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BITS 4 /* more threads than this seldom free at the same instant */
#define SHARDS (1u << SHARD_BITS)
#define SPINS_MAX 64  /* before a thread lets the holder of the lock run: it may have been preempted */
#define LINE_BYTES 64 /* of a cache: what is together in one costs one look */
#define WAYS 8u       /* of a set, two to a line; nearly always it is one of the first two */
#define SETS_MIN 64u  /* when they are first used: four pages */
#define SLOTS_MIN 64u /* of a rest when it is first used: half a page */

/* A slot of a set: an `Owned` whose address others may read meanwhile. */
typedef struct {
    _Atomic uintptr_t block; /* 0: the slot is free */
    int64_t bytes;
    void *account;
    bool arena;
} Slot;

typedef struct {
    _Alignas(LINE_BYTES) Slot slots[WAYS];
} Set;

/* What everybody alone needs, in a line that nobody else writes. */
static struct {
    _Alignas(LINE_BYTES) Set *sets;
    size_t count;          /* a power of two, or 0 */
    _Atomic size_t placed; /* entries that were ever put there, less those taken out by somebody alone */
} front;

static _Alignas(LINE_BYTES) _Atomic size_t gone; /* entries of the sets that were taken out under a lock, ever */

typedef struct {
    _Alignas(LINE_BYTES) atomic_flag held;
    _Atomic size_t used; /* of the rest; written under the lock */
    size_t slots;        /* a power of two, or 0 */
    Owned *owned;
} Shard;

static Shard shards[SHARDS];

/* A count that others may read meanwhile. There is one writer at a time, so writing it is a plain store. */
static inline size_t
read_count(_Atomic size_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void
write_count(_Atomic size_t *count, size_t value)
{
    atomic_store_explicit(count, value, memory_order_relaxed);
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

/* The hash of an address. Allocators align to 16 bytes, so the low bits say nothing. */
static inline uint64_t
hash_of(uintptr_t block)
{
    return (uint64_t)(block >> 4) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline Shard *
shard_of(uint64_t hash)
{
    return &shards[hash >> (64 - SHARD_BITS)];
}

/* Where a block belongs among `count` sets or slots, a power of two: bits that did not choose the shard. */
static inline size_t
home_of(uint64_t hash, size_t count)
{
    return (size_t)(hash >> 24) & (count - 1);
}

/* ---- the sets */

/* What a slot holds. */
static inline Owned
entry(Slot *slot)
{
    uintptr_t block = atomic_load_explicit(&slot->block, memory_order_relaxed);
    return (Owned){.block = block, .bytes = slot->bytes, .account = slot->account, .arena = slot->arena};
}

/* The first free slot of the set where a block belongs, or NULL. Acquires it: who emptied it has read it before. */
static inline Slot *
vacancy(Set *sets, size_t count, uint64_t hash)
{
    Slot *slots = sets[home_of(hash, count)].slots;
    for (size_t i = 0; i < WAYS; i++) {
        if (atomic_load_explicit(&slots[i].block, memory_order_acquire) == 0) {
            return &slots[i];
        }
    }
    return NULL;
}

/* Fills a slot, its address last. */
static inline void
fill(Slot *slot, const Owned *owned)
{
    slot->bytes = owned->bytes;
    slot->account = owned->account;
    slot->arena = owned->arena;
    atomic_store_explicit(&slot->block, owned->block, memory_order_release);
}

/* Puts into a set, for somebody alone. False if there is no room. */
static inline bool
place(const Owned *owned, uint64_t hash)
{
    Slot *slot = front.count == 0 ? NULL : vacancy(front.sets, front.count, hash);
    if (slot == NULL) {
        return false;
    }
    write_count(&front.placed, read_count(&front.placed) + 1);
    fill(slot, owned);
    return true;
}

/* Takes out of a set. For somebody alone, or under the lock of the block's shard. */
static inline bool
displace(uintptr_t block, uint64_t hash, Owned *owned)
{
    if (front.count == 0) {
        return false;
    }
    Slot *slots = front.sets[home_of(hash, front.count)].slots;
    for (size_t i = 0; i < WAYS; i++) {
        if (atomic_load_explicit(&slots[i].block, memory_order_relaxed) == block) {
            *owned = entry(&slots[i]);
            atomic_store_explicit(&slots[i].block, 0, memory_order_release);
            return true;
        }
    }
    return false;
}

/* Doubles the sets if half of their slots are in use, or makes the first ones. What was in one set is spread over two,
 * so each has room for it. False if they are as they were: a set may be full by chance, and there may be no memory.
 * For somebody alone. */
static bool
double_sets(void)
{
    if (read_count(&front.placed) - read_count(&gone) < front.count * WAYS / 2) {
        return false;
    }
    size_t before = front.count, count = before ? before * 2 : SETS_MIN;
    Set *sets = aligned_alloc(LINE_BYTES, count * sizeof *sets);
    if (sets == NULL) {
        return false;
    }
    memset(sets, 0, count * sizeof *sets);
    lock_all();
    for (size_t i = 0; i < before * WAYS; i++) {
        Owned owned = entry(&front.sets[i / WAYS].slots[i % WAYS]);
        if (owned.block != 0) {
            fill(vacancy(sets, count, hash_of(owned.block)), &owned);
        }
    }
    free(front.sets);
    front.sets = sets;
    front.count = count;
    unlock_all();
    return true;
}

/* ---- the rest: all of it under the lock */

/* The slot that holds `block`, or the free one where it belongs; 0 finds that one. There are slots, and one is free. */
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
    if (read_count(&shard->used) + 1 <= shard->slots / 4 * 3) {
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
            owned[find(shard, 0, hash_of(before[i].block))] = before[i];
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
    write_count(&shard->used, read_count(&shard->used) - 1);
}

static bool
put_rest(Shard *shard, const Owned *owned, uint64_t hash)
{
    if (!make_room(shard)) {
        return false;
    }
    write_count(&shard->used, read_count(&shard->used) + 1);
    shard->owned[find(shard, 0, hash)] = *owned;
    return true;
}

static bool
take_rest(Shard *shard, uintptr_t block, uint64_t hash, Owned *owned)
{
    size_t at = shard->slots == 0 ? 0 : find(shard, block, hash);
    if (shard->slots == 0 || shard->owned[at].block == 0) {
        return false;
    }
    *owned = shard->owned[at];
    remove_at(shard, at);
    return true;
}

/* ---- both */

/* Puts an entry for which there was no room in its set, or of a thread that is not alone. */
static COLD bool
put_slow(const Owned *owned, uint64_t hash, bool alone)
{
    if (alone && double_sets() && place(owned, hash)) {
        return true;
    }
    Shard *shard = shard_of(hash);
    lock(shard);
    bool done = put_rest(shard, owned, hash);
    unlock(shard);
    return done;
}

/* Writes down an owner. False if there is no memory for it: the block is then nobody's. `alone`: see invariant 2. */
bool
owners_put(const Owned *owned, bool alone)
{
    uint64_t hash = hash_of(owned->block);
    return (alone && place(owned, hash)) || put_slow(owned, hash, alone);
}

/* Whether there is nothing in the sets. For somebody not alone who frees a block: whoever was handed it has seen that
 * it was put. */
static inline bool
no_sets(void)
{
    size_t before = atomic_load_explicit(&gone, memory_order_acquire); /* first, see invariant 5 */
    return before == read_count(&front.placed);
}

/* Takes an entry that is not in its set, or for a thread that is not alone. */
static COLD bool
take_slow(uintptr_t block, uint64_t hash, Owned *owned, bool alone)
{
    Shard *shard = shard_of(hash);
    if (read_count(&shard->used) == 0 && (alone || no_sets())) {
        return false;
    }
    lock(shard);
    bool found = !alone && displace(block, hash, owned);
    if (found) {
        atomic_fetch_add_explicit(&gone, 1, memory_order_acq_rel);
    }
    found = found || take_rest(shard, block, hash, owned);
    unlock(shard);
    return found;
}

/* Takes an owner out. False if the block is nobody's; then `owned` is left as it was. `alone`: see invariant 2. */
bool
owners_take(const void *block, Owned *owned, bool alone)
{
    uint64_t hash = hash_of((uintptr_t)block);
    if (alone && displace((uintptr_t)block, hash, owned)) {
        write_count(&front.placed, read_count(&front.placed) - 1);
        return true;
    }
    return take_slow((uintptr_t)block, hash, owned, alone);
}

/* Empties the table, because releases will not be seen from here on. `visit` hears of every entry, under the locks: it
 * must not come back here. Who calls is alone (invariant 2). */
void
owners_clear(void (*visit)(const Owned *owned))
{
    lock_all();
    for (size_t i = 0; i < front.count * WAYS; i++) {
        Owned owned = entry(&front.sets[i / WAYS].slots[i % WAYS]);
        if (owned.block != 0) {
            visit(&owned);
        }
    }
    free(front.sets);
    front.sets = NULL;
    front.count = 0;
    write_count(&front.placed, read_count(&gone));
    for (Shard *shard = shards; shard < shards + SHARDS; shard++) {
        for (size_t at = 0; at < shard->slots; at++) {
            if (shard->owned[at].block != 0) {
                visit(&shard->owned[at]);
            }
        }
        free(shard->owned);
        shard->owned = NULL;
        shard->slots = 0;
        write_count(&shard->used, 0);
    }
    unlock_all();
}

/* How many blocks have an owner. Exact while nobody puts or takes. */
size_t
owners_count(void)
{
    size_t count = read_count(&front.placed) - read_count(&gone);
    for (size_t i = 0; i < SHARDS; i++) {
        count += read_count(&shards[i].used);
    }
    return count;
}

/* From now on a child process does not inherit a lock that a thread of its parent held. To be called once. If another
 * thread of the parent was alone, it leaves a slot that is not in use yet, or a count that is one too high. */
bool
owners_survive_fork(void)
{
    return pthread_atfork(lock_all, unlock_all, unlock_all) == 0;
}
