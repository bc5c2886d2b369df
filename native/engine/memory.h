/* Where the engine's data structures get their memory: a table of two functions, handed in.
 *
 * A test hands in one that refuses, and so sees every way in which memory can be short. Nothing in the engine calls
 * malloc by itself.
 *
 * MEMORY-1  a block is aligned to CACHE_LINE
 * MEMORY-2  a block is given back with the size that it was asked for with
 */
#pragma once

#include <stddef.h>

typedef struct {
    void *(*allocate)(void *context, size_t bytes); /* NULL if there is none; not zeroed */
    void (*release)(void *context, void *block, size_t bytes);
    void *context;
} EngineMemory;

/* Memory from libc. */
extern const EngineMemory engine_memory_libc;
