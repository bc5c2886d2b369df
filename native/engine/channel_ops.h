/* One send or receive on one channel (channel_ops.c), at once or by waiting. */
#pragma once

#include "engine/channel.h"

/* How an operation is done: any of these, or 0. */
enum {
    CHANNEL_WAIT = 1, /* it may wait */
    CHANNEL_WORD = 2, /* `value` points at one word. This is checked together with the generation, under the lock: only
                         then is it known which channel it is */
};

/* One operation, by the task that runs on `worker`, or by an outside thread. Returns ENGINE_OK, ENGINE_CLOSED,
 * ENGINE_CANCELLED, ENGINE_BUDGET; ENGINE_AGAIN without CHANNEL_WAIT if it would have to wait; ENGINE_INVALID with
 * CHANNEL_WORD if the channel has items of another size. Outside also ENGINE_MEMORY and ENGINE_STOPPING. `value` points
 * at item_bytes bytes. */
int channel_send(Channel *channel, uint32_t generation, struct Worker *worker, const void *value, uint32_t how);
int channel_receive(Channel *channel, uint32_t generation, struct Worker *worker, void *value, uint32_t how);

/* For select.c: do one case now, if that is possible. Under the channel's lock. */
int channel_do_now(ChannelPlace *place, struct Worker *worker);
