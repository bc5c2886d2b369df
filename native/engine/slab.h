/* Slabs: records of one size that are reused for ever as records of that size, each with an index and a generation.
 *
 * A task, a nursery, a channel may be looked at by somebody who does not know yet that it is gone: a late wake, a handle
 * of a C program. So their memory is never given to anything else while the scheduler lives, and whoever holds
 * (index, generation) can find out, without touching anything freed, that its record is no longer the one it meant.
 *
 * SLAB-1  a record's memory is of the slab's type from the first allocation to slab_destroy
 * SLAB-2  the generation is odd while the record is in use, even while it is free, and never falls
 * SLAB-3  a cache belongs to one thread at a time; the slab may be used by any
 * SLAB-4  without memory an allocation answers NULL and changes nothing
 *
 * Records lie in chunks of which each next one is twice as large, so 27 of them hold four thousand million and an index
 * is found by one count of leading zeros. Free records travel between caches in batches.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/lock.h"
#include "engine/memory.h"
#include "hints.h"

#define SLAB_FIRST_LOG 6u
#define SLAB_FIRST (1u << SLAB_FIRST_LOG) /* records in the first chunk */
#define SLAB_CHUNKS 26u                   /* so many doublings reach 2**32 */
#define SLAB_BATCH 512u /* records that go to or come from the slab at once; a cache holds three such batches */

/* The first member of every record. */
typedef struct SlabHead {
    struct SlabHead *next; /* while free */
    uint32_t index;
    atomic_u32 generation;
} SlabHead;

typedef struct {
    Lock lock;
    size_t record_bytes;
    const EngineMemory *memory;
    void (*prepare)(void *record); /* once per record, when its memory is new and zeroed */
    SlabHead *free;
    uint64_t carved; /* records that were ever handed out */
    uint64_t room;   /* records in all chunks */
    uint32_t chunk_count;
    atomic_u64 limit; /* carved, for lookups */
    atomic_ptr chunks[SLAB_CHUNKS];
} Slab;

typedef struct {
    Slab *slab;
    SlabHead *free;
    uint32_t count;
} SlabCache;

/* Make an empty slab. Takes no memory, cannot fail. `record_bytes` is a multiple of 16. */
void slab_init(Slab *slab, size_t record_bytes, void (*prepare)(void *record), const EngineMemory *memory);

/* Give all memory back. No record may be in use any more, in the sense that nobody will look at it. */
void slab_destroy(Slab *slab);

/* A record in use, its content as its last user left it (or prepared). NULL if there is no memory. Any thread. */
void *slab_take(Slab *slab);

/* Free a record. Any thread. */
void slab_give(Slab *slab, void *record);

/* The record with this index if it is in use, else NULL. For whoever has the slab to itself. */
void *slab_at(const Slab *slab, uint64_t index);

/* How many records are in use. A guess while others take and give; caches count as in use. */
uint64_t slab_in_use(Slab *slab);

void slab_cache_init(SlabCache *cache, Slab *slab);

/* Give back what is cached. */
void slab_cache_flush(SlabCache *cache);

/* For the two functions below. */
bool slab_cache_refill(SlabCache *cache);
void slab_cache_spill(SlabCache *cache);

/* The place of an index below `limit`. Chunk k begins with index SLAB_FIRST * (2**k - 1): so the highest bit of index +
 * SLAB_FIRST tells the chunk, and the others the place in it. */
static inline SlabHead *
slab_record(const Slab *slab, uint64_t index)
{
    if (LIKELY(index < SLAB_FIRST)) { /* who has few of a kind has them there */
        return (SlabHead *)(void *)((char *)load_ptr(&slab->chunks[0], ACQUIRE) + index * slab->record_bytes);
    }
    uint64_t shifted = index + SLAB_FIRST;
    uint32_t highest = 63u ^ (uint32_t)__builtin_clzll(shifted);
    char *base = load_ptr(&slab->chunks[highest - SLAB_FIRST_LOG], ACQUIRE); /* receives the zeroed memory */
    return (SlabHead *)(void *)(base + (shifted - (UINT64_C(1) << highest)) * slab->record_bytes);
}

/* The record with this index, whatever its generation, which `*generation` becomes; NULL if there never was one. */
static inline void *
slab_peek(const Slab *slab, uint32_t index, uint32_t *generation)
{
    if (index >= load_u64(&slab->limit, ACQUIRE)) {
        return NULL;
    }
    SlabHead *head = slab_record(slab, index);
    *generation = load_u32(&head->generation, ACQUIRE);
    return head;
}

/* The record is in use, or free, from here on (SLAB-2). The owner alone writes it. */
static inline void
slab_turn(SlabHead *head)
{
    store_u32(&head->generation, load_u32(&head->generation, RELAXED) + 1, RELEASE);
}

/* As slab_take, from a cache that has some. */
static inline void *
slab_cache_pop(SlabCache *cache)
{
    SlabHead *head = cache->free;
    cache->free = head->next;
    cache->count -= 1;
    slab_turn(head);
    return head;
}

/* As slab_take, from the cache. */
static inline void *
slab_cache_take(SlabCache *cache)
{
    if (UNLIKELY(cache->free == NULL) && !slab_cache_refill(cache)) {
        return NULL;
    }
    return slab_cache_pop(cache);
}

/* As slab_give, to the cache. */
static inline void
slab_cache_give(SlabCache *cache, void *record)
{
    SlabHead *head = record;
    slab_turn(head);
    head->next = cache->free;
    cache->free = head;
    cache->count += 1;
    if (UNLIKELY(cache->count >= 3 * SLAB_BATCH)) {
        slab_cache_spill(cache);
    }
}
