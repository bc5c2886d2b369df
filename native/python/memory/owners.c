/* The owner table: from the address of a live block to the account that pays for it.
 *
 * Every block that a metered task allocates is put into the table, and taken out when it is freed, by any thread, with or
 * without the GIL. Almost always this is the thread of the task, with the GIL. Such a thread is *alone*: it needs no lock, and
 * touches one line of the cache. A loop that fills large blocks evicts the table from the cache, so the number of lines is the
 * cost of an access.
 *
 * The table has two parts. Only a thread that is alone puts entries into the *sets*. An address belongs to one set, and goes
 * to its first free slot. No entry is moved to make room or to close a gap, so other threads can search the sets, under a
 * lock. Other threads put their entries into the *rest*; so does a thread that is alone if the set is full. The rest has
 * shards. Each shard is an array with open addressing, and has its own lock, which is held for a few dozen instructions. A
 * removal from a shard moves the entries behind it back. So there are no tombstones, and a program that runs for weeks does
 * not slow down.
 *
 * Other threads may take entries out of a set while another thread is alone, because a slot never has two writers. A block is
 * freed by one thread, and only that thread empties the block's slot. Only the thread that is alone fills a free slot. To grow
 * or to clear the sets, a thread must be alone and hold every lock, which excludes all others.
 *
 * Rejected: a header in front of each block. Blocks from before the meter was installed have none, and cannot be recognized.
 * Rejected: a mutex. The table is used at every free, mostly to find nothing, and must not enter the system's kernel for that.
 * Rejected: a lock for every access. It costs two exchanges and three lines per block. Rejected: sets for each thread. A free
 * would have to search all of them, and a thread that ends would leave its set behind.
 *
 * OWNERS-1  A block is taken out *before* the allocator gets it back: after that, another thread may get the same address.
 *     An entry comes out once: it is taken, or visited when the table is cleared. An address is in the table twice only if
 *     a release was not seen; then the next two releases that are seen take both.
 * OWNERS-2  At most one thread at a time is alone, and it sees what earlier such threads wrote. The caller guarantees it,
 *     by the GIL.
 * OWNERS-3  A free slot of a set is filled by the thread that is alone, its address last. A slot in use is emptied by the
 *     thread that frees the block, its address last: alone, or under the lock of the block's shard.
 * OWNERS-4  Place and number of the sets change only by a thread that is alone and holds all locks. A reader is alone, or
 *     holds one.
 * OWNERS-5  `placed` is at least `gone` plus the entries in the sets: it is raised before an entry is put, and both are
 *     changed after an entry was taken. A thread that adds to `gone` has seen its entry placed, and releases that. So if a
 *     thread acquires `gone`, and then reads the same number from `placed`, no entry of its blocks is in the sets.
 * OWNERS-6  The rest of a shard is at most three quarters full, so that every search ends.
 * OWNERS-7  Nothing here allocates through Python: the table is used inside Python's own allocators.
 */

#include "python/memory/owners.h"

#include "hints.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BITS 4 /* 16 shards: more threads rarely free at the same moment */
#define SHARDS (1u << SHARD_BITS)
#define SPINS_MAX 64  /* then a waiting thread yields: the holder of the lock may have been preempted */
#define LINE_BYTES 64 /* of the cache */
#define WAYS 8u       /* slots of a set, two per line; almost always one of the first two is used */
#define SETS_MIN 64u  /* at first use: four pages */
#define SLOTS_MIN 64u /* of a shard's rest at first use: half a page */

/* A slot of a set: an `Owned` whose address other threads may read at the same time. */
typedef struct {
    _Atomic uintptr_t block; /* 0: the slot is free */
    int64_t bytes;
    void *account;
    bool arena;
} Slot;

typedef struct {
    _Alignas(LINE_BYTES) Slot slots[WAYS];
} Set;

/* What a thread that is alone needs, in a line that other threads do not write. */
static struct {
    _Alignas(LINE_BYTES) Set *sets;
    size_t count;          /* a power of two, or 0 */
    _Atomic size_t placed; /* entries that were ever put there, minus those taken out by a thread that was alone */
} front;

static _Alignas(LINE_BYTES) _Atomic size_t gone; /* entries of the sets that were ever taken out under a lock */

typedef struct {
    _Alignas(LINE_BYTES) atomic_flag held;
    _Atomic size_t used; /* of the rest; written under the lock */
    size_t slots;        /* a power of two, or 0 */
    Owned *owned;
} Shard;

static Shard shards[SHARDS];

/* A count that other threads may read at the same time. There is one writer at a time, so a plain store is enough. */
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

/* Take the lock of a shard. Never fails. */
static void
lock(Shard *shard)
{
    for (int spins = 0; atomic_flag_test_and_set_explicit(&shard->held, memory_order_acquire); spins++) {
        if (spins >= SPINS_MAX) {
            (void)sched_yield();
        }
    }
}

/* Release the lock. */
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

/* The hash of an address. Allocators align to 16 bytes, so the low bits are always zero. */
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

/* The place of a block among `count` sets or slots, a power of two. Uses other bits than `shard_of`. */
static inline size_t
home_of(uint64_t hash, size_t count)
{
    return (size_t)(hash >> 24) & (count - 1);
}

/* ---- the sets */

/* The content of a slot. */
static inline Owned
entry(Slot *slot)
{
    uintptr_t block = atomic_load_explicit(&slot->block, memory_order_relaxed);
    return (Owned){.block = block, .bytes = slot->bytes, .account = slot->account, .arena = slot->arena};
}

/* The first free slot of the set where a block belongs, or NULL. The load acquires: the thread that emptied the slot has read
 * it before. */
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

/* Fill a slot, its address last. */
static inline void
fill(Slot *slot, const Owned *owned)
{
    slot->bytes = owned->bytes;
    slot->account = owned->account;
    slot->arena = owned->arena;
    atomic_store_explicit(&slot->block, owned->block, memory_order_release);
}

/* Put an entry into its set. Only if alone. False: there is no room. */
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

/* Take an entry out of its set. Only if alone, or under the lock of the block's shard. */
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

/* Double the number of sets if half of their slots are in use, or make the first sets. The entries of one set are spread over
 * two, so there is room for each. False: nothing has changed, because a set is full only by chance, or there is no memory.
 * Only if alone. */
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

/* The slot that holds `block`, or the free slot where it belongs. `block` 0: always the free slot. At least one slot is
 * free. */
static size_t
find(const Shard *shard, uintptr_t block, uint64_t hash)
{
    size_t at = home_of(hash, shard->slots);
    while (shard->owned[at].block != 0 && shard->owned[at].block != block) {
        at = (at + 1) & (shard->slots - 1);
    }
    return at;
}

/* Make room for one more entry. False: no memory, and nothing has changed. */
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

/* Free the slot `hole` and close the gap: entries that a collision pushed behind it move back. */
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

/* Put an entry whose set is full, or for a thread that is not alone. */
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

bool
owners_put(const Owned *owned, bool alone)
{
    uint64_t hash = hash_of(owned->block);
    return (alone && place(owned, hash)) || put_slow(owned, hash, alone);
}

/* Whether no block of this thread is in the sets. For a thread that is not alone and frees a block: a thread that got the
 * block has seen that it was put (OWNERS-5). */
static inline bool
no_sets(void)
{
    size_t before = atomic_load_explicit(&gone, memory_order_acquire); /* first, see OWNERS-5 */
    return before == read_count(&front.placed);
}

/* Take an entry that is not in its set, or for a thread that is not alone. */
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

size_t
owners_count(void)
{
    size_t count = read_count(&front.placed) - read_count(&gone);
    for (size_t i = 0; i < SHARDS; i++) {
        count += read_count(&shards[i].used);
    }
    return count;
}

/* If another thread of the parent was alone during the fork, the child has a slot that is not in use yet, or a count that is
 * one too high. Both are harmless. */
bool
owners_survive_fork(void)
{
    return pthread_atfork(lock_all, unlock_all, unlock_all) == 0;
}
