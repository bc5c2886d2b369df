/* Select: wait for the first of several sends and receives that can be done (select.c). */
#pragma once

#include "engine/channel.h"

/* The first of `count` places that can be done is done; `*which` is its number. The places' channel, value and sends are
 * filled in, `generations` says which records are meant. `timeout_ns` < 0: no limit; 0: do not wait. ENGINE_OK,
 * ENGINE_CLOSED (of the case in `*which`), ENGINE_TIMEOUT, ENGINE_CANCELLED, ENGINE_BUDGET, ENGINE_INVALID,
 * ENGINE_MEMORY. */
int channel_select(struct Scheduler *scheduler, Task *caller, ChannelPlace *places, const uint32_t *generations,
                   uint32_t count, int64_t timeout_ns, int32_t *which);
