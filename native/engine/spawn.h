/* Spawning a child (spawn.c). fast_paths.h has the fast path for a plain child of the running task's own nursery. */
#pragma once

#include "engine/nursery.h"

/* Spawn a child. `caller` is the running task, or NULL on any other thread. It owns the nursery, or `generation` says
 * which nursery is meant. Returns ENGINE_OK; ENGINE_CLOSED if the nursery takes no children; ENGINE_CANCELLED if the
 * caller must stop; ENGINE_BUDGET; ENGINE_MEMORY; ENGINE_INVALID if the stack is too large, or if the record belongs to
 * another nursery by now. A refused spawn leaves nothing behind. `*child`, unless `child` is NULL, becomes index |
 * generation << 32, the contents of a handle. */
int nursery_spawn(Nursery *nursery, uint32_t generation, Task *caller, const TaskOptions *options, uint64_t *child);
