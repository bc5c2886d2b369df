/* Select: wait for the first of several sends and receives that can be done (select.c). */
#pragma once

#include "engine/channel.h"

/* Do the first of `count` places that can be done; `*which` becomes its number. The caller has filled in channel, value
 * and sends of each place; `generations` says which channels are meant. `timeout_ns` < 0: no limit; 0: do not wait.
 * Returns ENGINE_OK, ENGINE_CLOSED (for the case in `*which`), ENGINE_TIMEOUT, ENGINE_CANCELLED, ENGINE_BUDGET,
 * ENGINE_INVALID or ENGINE_MEMORY; an outside thread also ENGINE_STOPPING. */
int channel_select(struct Scheduler *scheduler, Task *caller, ChannelPlace *places, const uint32_t *generations,
                   uint32_t count, int64_t timeout_ns, int32_t *which);
