/* One send or receive on one channel (channel_ops.c), at once or by waiting. */
#pragma once

#include "engine/channel.h"

/* One operation, by the task that runs on `worker`, or by an outside thread. Returns ENGINE_OK, ENGINE_CLOSED,
 * ENGINE_CANCELLED, ENGINE_BUDGET; ENGINE_AGAIN if `wait` is false and it would have to wait. Outside also
 * ENGINE_MEMORY and ENGINE_STOPPING. `value` points at item_bytes bytes. */
int channel_send(Channel *channel, uint32_t generation, struct Worker *worker, const void *value, bool wait);
int channel_receive(Channel *channel, uint32_t generation, struct Worker *worker, void *value, bool wait);

/* For select.c: do one case now, if that is possible. Under the channel's lock. */
int channel_do_now(ChannelPlace *place, struct Worker *worker);
