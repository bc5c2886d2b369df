/* Memory from libc, as the table that the engine takes: see allocator.h. */
#include "engine/allocator.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine/atomics.h"

/* Rounds up to whole lines, as aligned_alloc requires. Returns NULL if there is no memory or the size is absurd. */
static void *
allocate(void *context, size_t bytes)
{
    (void)context;
    if (bytes > SIZE_MAX - CACHE_LINE) {
        return NULL;
    }
    return aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

static void
release(void *context, void *block, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(block);
}

const EngineAllocator engine_allocator_libc = {allocate, release, NULL};
