/* Slabs: chunks, lookups and the exchange with caches. See slab.h. */
#include "engine/slab.h"

#include <string.h>

#include "law/rule.h"

/* How many records chunk `chunk` has. */
static uint64_t
chunk_records(uint32_t chunk)
{
    return (uint64_t)SLAB_FIRST << chunk;
}

void
slab_init(Slab *slab, size_t record_bytes, void (*prepare)(void *record), const EngineAllocator *memory)
{
    LAW_RULE(record_bytes % 16 == 0 && record_bytes >= sizeof(SlabHead), "SLAB-1");
    lock_init(&slab->lock);
    slab->record_bytes = record_bytes;
    slab->memory = memory;
    slab->prepare = prepare;
    slab->free = NULL;
    slab->carved = slab->room = 0;
    slab->chunk_count = 0;
    init_u64(&slab->limit, 0);
    for (uint32_t i = 0; i < SLAB_CHUNKS; i++) {
        init_ptr(&slab->chunks[i], NULL);
    }
}

void
slab_destroy(Slab *slab)
{
    for (uint32_t i = 0; i < slab->chunk_count; i++) {
        void *base = load_ptr(&slab->chunks[i], RELAXED);
        slab->memory->release(slab->memory->context, base, chunk_records(i) * slab->record_bytes);
    }
    slab->chunk_count = 0;
    slab->carved = slab->room = 0;
    slab->free = NULL;
    store_u64(&slab->limit, 0, RELAXED);
}

/* Add a chunk. Returns false if there is no memory, or if there are SLAB_CHUNKS chunks. Under the lock. */
static bool
grow(Slab *slab)
{
    uint32_t chunk = slab->chunk_count;
    if (chunk == SLAB_CHUNKS) {
        return false;
    }
    size_t bytes = chunk_records(chunk) * slab->record_bytes;
    void *base = slab->memory->allocate(slab->memory->context, bytes);
    if (base == NULL) {
        return false;
    }
    store_ptr(&slab->chunks[chunk], base, RELEASE);
    slab->room += chunk_records(chunk);
    slab->chunk_count += 1;
    return true;
}

/* A free record, or NULL. Under the lock. Memory is first touched when a record is made, not when its chunk is
 * allocated. */
static SlabHead *
take_locked(Slab *slab)
{
    SlabHead *head = slab->free;
    if (head != NULL) {
        slab->free = head->next;
        return head;
    }
    if (slab->carved == slab->room && !grow(slab)) {
        return NULL;
    }
    head = slab_record(slab, slab->carved);
    memset(head, 0, slab->record_bytes);
    head->index = (uint32_t)slab->carved;
    init_u32(&head->generation, 0);
    if (slab->prepare != NULL) {
        slab->prepare(head);
    }
    slab->carved += 1;
    store_u64(&slab->limit, slab->carved, RELEASE); /* publishes the record to lookups */
    return head;
}

void *
slab_take(Slab *slab)
{
    lock_take(&slab->lock);
    SlabHead *head = take_locked(slab);
    lock_give(&slab->lock);
    if (head != NULL) {
        slab_next_generation(head);
    }
    return head;
}

void
slab_give(Slab *slab, void *record)
{
    SlabHead *head = record;
    slab_next_generation(head);
    lock_take(&slab->lock);
    head->next = slab->free;
    slab->free = head;
    lock_give(&slab->lock);
}

void *
slab_at(const Slab *slab, uint64_t index)
{
    SlabHead *head = index < slab->carved ? slab_record(slab, index) : NULL;
    return head != NULL && load_u32(&head->generation, RELAXED) % 2 == 1 ? head : NULL;
}

uint64_t
slab_in_use(Slab *slab)
{
    lock_take(&slab->lock);
    uint64_t count = slab->carved;
    for (SlabHead *head = slab->free; head != NULL; head = head->next) {
        count -= 1;
    }
    lock_give(&slab->lock);
    return count;
}

void
slab_cache_init(SlabCache *cache, Slab *slab)
{
    *cache = (SlabCache){.slab = slab};
}

/* Give the first `count` records of the cache back to the slab. */
static void
give_back(SlabCache *cache, uint32_t count)
{
    SlabHead *first = cache->free, *last = first;
    for (uint32_t i = 1; i < count; i++) {
        last = last->next;
    }
    cache->free = last->next;
    cache->count -= count;
    lock_take(&cache->slab->lock);
    last->next = cache->slab->free;
    cache->slab->free = first;
    lock_give(&cache->slab->lock);
}

void
slab_cache_flush(SlabCache *cache)
{
    if (cache->count != 0) {
        give_back(cache, cache->count);
    }
}

void
slab_cache_spill(SlabCache *cache)
{
    give_back(cache, SLAB_BATCH);
}

bool
slab_cache_refill(SlabCache *cache)
{
    lock_take(&cache->slab->lock);
    while (cache->count < SLAB_BATCH) {
        SlabHead *head = take_locked(cache->slab);
        if (head == NULL) {
            break;
        }
        head->next = cache->free;
        cache->free = head;
        cache->count += 1;
    }
    lock_give(&cache->slab->lock);
    return cache->free != NULL;
}
