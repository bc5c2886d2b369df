/* Channels: how they begin and end. See channel.h; channel_ops.c has send and receive. */
#include "engine/channel.h"

#include "engine/scheduler.h"

void
channel_prepare(void *record)
{
    Channel *channel = record;
    lock_init(&channel->lock);
    law_queue_init(&channel->senders);
    law_queue_init(&channel->receivers);
}

Channel *
channel_make(Scheduler *scheduler, uint32_t item_bytes, uint32_t capacity)
{
    if (item_bytes == 0 || item_bytes > CHANNEL_ITEM_BYTES_MAX || capacity > CHANNEL_CAPACITY_MAX) {
        return NULL;
    }
    char *ring = NULL;
    if (capacity != 0) {
        ring = scheduler->memory->allocate(scheduler->memory->context, (size_t)capacity * item_bytes);
        if (ring == NULL) {
            return NULL;
        }
    }
    Channel *channel = slab_take(&scheduler->channels);
    if (channel == NULL) {
        if (ring != NULL) {
            scheduler->memory->release(scheduler->memory->context, ring, (size_t)capacity * item_bytes);
        }
        return NULL;
    }
    lock_take(&channel->lock); /* a select with a stale handle may hold it */
    channel->closed = false;
    channel->item_bytes = item_bytes;
    channel->capacity = capacity;
    channel->count = channel->first = 0;
    channel->ring = ring;
    channel->scheduler = scheduler;
    lock_give(&channel->lock);
    return channel;
}

/* ---- the end of a channel */

/* Close the channel and refuse all waiters (MESSAGES-3). Under the lock. */
static void
close_locked(Worker *worker, Channel *channel)
{
    channel->closed = true;
    LawQueue *const queues[] = {&channel->receivers, &channel->senders};
    for (int i = 0; i < 2; i++) {
        ChannelPlace *place;
        while ((place = channel_claim_oldest(queues[i])) != NULL) {
            waiter_finish(place->waiter, worker, place->which, ENGINE_CLOSED, false);
        }
    }
}

int
channel_close(Worker *worker, Channel *channel, uint32_t generation)
{
    lock_take(&channel->lock);
    bool same = channel_is(channel, generation);
    if (same) {
        close_locked(worker, channel);
    }
    lock_give(&channel->lock);
    return same ? ENGINE_OK : ENGINE_INVALID;
}

int
channel_look(Channel *channel, uint32_t generation, ChannelLook *look)
{
    lock_take(&channel->lock);
    bool same = channel_is(channel, generation);
    if (same) {
        *look = (ChannelLook){.closed = channel->closed, .item_bytes = channel->item_bytes, .count = channel->count};
    }
    lock_give(&channel->lock);
    return same ? ENGINE_OK : ENGINE_INVALID;
}

int
channel_destroy(Worker *worker, Channel *channel, uint32_t generation)
{
    Scheduler *scheduler = channel->scheduler;
    lock_take(&channel->lock);
    if (!channel_is(channel, generation)) {
        lock_give(&channel->lock);
        return ENGINE_INVALID;
    }
    close_locked(worker, channel);
    char *ring = channel->ring;
    size_t ring_bytes = (size_t)channel->capacity * channel->item_bytes;
    channel->ring = NULL;
    channel->count = channel->capacity = 0;
    slab_give(&scheduler->channels, channel); /* the generation changes under the lock, so no operation is in between */
    lock_give(&channel->lock);
    if (ring != NULL) {
        scheduler->memory->release(scheduler->memory->context, ring, ring_bytes);
    }
    return ENGINE_OK;
}
