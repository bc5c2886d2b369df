/* Slabs: records of one size, reused only as records of that size, each with an index and a generation.
 *
 * Code that does not know yet that a task, nursery or channel is gone may still read its record: a late wake, or a
 * handle of a C program. So this memory is never used for anything else while the scheduler lives. A holder of (index,
 * generation) can find out, without touching freed memory, that the record is no longer the one it meant.
 *
 * SLAB-1  a record's memory has the slab's type from the first allocation until slab_destroy
 * SLAB-2  the generation is odd while the record is in use, even while it is free, and never falls
 * SLAB-3  a cache belongs to one thread at a time; any thread may use the slab
 * SLAB-4  an allocation without memory returns NULL and changes nothing
 *
 * Records are in chunks, each twice as large as the one before. So 26 chunks hold almost 2**32 records and one count of
 * leading zeros finds an index. Free records move between slab and caches in batches.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/allocator.h"
#include "engine/lock.h"
#include "hints.h"

#define SLAB_FIRST_LOG 6u
#define SLAB_FIRST (1u << SLAB_FIRST_LOG) /* records in the first chunk */
#define SLAB_CHUNKS 26u                   /* enough doublings to reach 2**32 */
#define SLAB_BATCH 512u /* records that move to or from the slab at once; a cache holds up to three such batches */

/* The first member of every record. */
typedef struct SlabHead {
    struct SlabHead *next; /* while free */
    uint32_t index;
    atomic_u32 generation;
} SlabHead;

typedef struct {
    Lock lock;
    size_t record_bytes;
    const EngineAllocator *memory;
    void (*prepare)(void *record); /* called once per record, when its memory is new and zeroed */
    SlabHead *free;
    uint64_t carved; /* records that were ever made */
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
void slab_init(Slab *slab, size_t record_bytes, void (*prepare)(void *record), const EngineAllocator *memory);

/* Free all memory. No thread may read a record any more. */
void slab_destroy(Slab *slab);

/* Take a record, with the content that its last user left (or prepared). Returns NULL if there is no memory. Any
 * thread. */
void *slab_take(Slab *slab);

/* Free a record. Any thread. */
void slab_give(Slab *slab, void *record);

/* The record with this index if it is in use, otherwise NULL. For a thread that has the slab to itself. */
void *slab_at(const Slab *slab, uint64_t index);

/* How many records are in use. An estimate while other threads take and give; cached records count as in use. */
uint64_t slab_in_use(Slab *slab);

void slab_cache_init(SlabCache *cache, Slab *slab);

/* Give the cached records back to the slab. */
void slab_cache_flush(SlabCache *cache);

/* The slow halves of the functions below. */
bool slab_cache_refill(SlabCache *cache);
void slab_cache_spill(SlabCache *cache);

/* The address of the record with an index below `limit`. Chunk k begins with index SLAB_FIRST * (2**k - 1). So the
 * highest bit of index + SLAB_FIRST gives the chunk, and the other bits give the place in it. */
static inline SlabHead *
slab_record(const Slab *slab, uint64_t index)
{
    if (LIKELY(index < SLAB_FIRST)) { /* most programs have few records of a kind, and they are there */
        return (SlabHead *)(void *)((char *)load_ptr(&slab->chunks[0], ACQUIRE) + index * slab->record_bytes);
    }
    uint64_t shifted = index + SLAB_FIRST;
    uint32_t highest = 63u ^ (uint32_t)__builtin_clzll(shifted);
    char *base = load_ptr(&slab->chunks[highest - SLAB_FIRST_LOG], ACQUIRE); /* pairs with the RELEASE in grow */
    return (SlabHead *)(void *)(base + (shifted - (UINT64_C(1) << highest)) * slab->record_bytes);
}

/* The record with this index, in use or free; `*generation` becomes its generation. NULL if there never was such a
 * record. */
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

/* The record changes from free to in use, or back (SLAB-2). Only the thread that takes or frees it writes this. */
static inline void
slab_next_generation(SlabHead *head)
{
    store_u32(&head->generation, load_u32(&head->generation, RELAXED) + 1, RELEASE);
}

/* As slab_take, from a cache that is not empty. */
static inline void *
slab_cache_pop(SlabCache *cache)
{
    SlabHead *head = cache->free;
    cache->free = head->next;
    cache->count -= 1;
    slab_next_generation(head);
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
    slab_next_generation(head);
    head->next = cache->free;
    cache->free = head;
    cache->count += 1;
    if (UNLIKELY(cache->count >= 3 * SLAB_BATCH)) {
        slab_cache_spill(cache);
    }
}
