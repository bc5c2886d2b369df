/* Where the engine's data structures get their memory: a table of two functions that the user of the engine passes in.
 *
 * A test passes a table that refuses, and so tests every way in which memory can be short. The engine never calls
 * malloc directly.
 *
 * ALLOCATOR-1  a block is aligned to CACHE_LINE
 * ALLOCATOR-2  a block is released with the size with which it was allocated
 */
#pragma once

#include <stddef.h>

typedef struct {
    void *(*allocate)(void *context, size_t bytes); /* returns NULL if there is no memory; the block is not zeroed */
    void (*release)(void *context, void *block, size_t bytes);
    void *context;
} EngineAllocator;

/* Memory from libc. */
extern const EngineAllocator engine_allocator_libc;
