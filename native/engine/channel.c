/* Channels: see channel.h. */
#include "engine/channel.h"

#include <string.h>

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

/* ---- under the lock */

/* Most values are one word. */
static inline void
copy_item(const Channel *channel, void *to, const void *from)
{
    if (__builtin_expect(channel->item_bytes == sizeof(uint64_t), 1)) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, channel->item_bytes);
    }
}

/* The oldest waiter that can still be claimed, claimed; those that cannot are about to leave by themselves. */
static ChannelPlace *
claim_oldest(LawQueue *queue)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(queue)) != NULL) {
        ChannelPlace *place = LAW_RECORD(link, ChannelPlace, link);
        if (waiter_claim(place->waiter)) {
            return place;
        }
    }
    return NULL;
}

static char *
ring_at(Channel *channel, uint32_t offset)
{
    uint64_t at = ((uint64_t)channel->first + offset) % channel->capacity;
    return channel->ring + at * channel->item_bytes;
}

/* Do a send now, if it can be: ENGINE_OK, ENGINE_CLOSED or ENGINE_AGAIN. */
static inline int
send_now(Channel *channel, Worker *worker, const void *value)
{
    if (channel->closed) {
        return ENGINE_CLOSED;
    }
    ChannelPlace *receiver = claim_oldest(&channel->receivers);
    if (receiver != NULL) {
        copy_item(channel, receiver->value, value);
        waiter_finish(receiver->waiter, worker, receiver->which, ENGINE_OK, false);
        return ENGINE_OK;
    }
    if (channel->count == channel->capacity) {
        return ENGINE_AGAIN;
    }
    copy_item(channel, ring_at(channel, channel->count), value);
    channel->count += 1;
    return ENGINE_OK;
}

/* Do a receive now, if it can be. A sender that waits moves up (C2). */
static inline int
receive_now(Channel *channel, Worker *worker, void *value)
{
    ChannelPlace *sender;
    if (channel->count == 0) {
        sender = claim_oldest(&channel->senders);
        if (sender == NULL) {
            return channel->closed ? ENGINE_CLOSED : ENGINE_AGAIN;
        }
        copy_item(channel, value, sender->value);
    } else {
        copy_item(channel, value, ring_at(channel, 0));
        channel->first = (channel->first + 1) % channel->capacity;
        channel->count -= 1;
        sender = claim_oldest(&channel->senders);
        if (sender == NULL) {
            return ENGINE_OK;
        }
        copy_item(channel, ring_at(channel, channel->count), sender->value);
        channel->count += 1;
    }
    waiter_finish(sender->waiter, worker, sender->which, ENGINE_OK, false);
    return ENGINE_OK;
}

int
channel_do_now(ChannelPlace *place, Worker *worker)
{
    return place->sends ? send_now(place->channel, worker, place->value)
                        : receive_now(place->channel, worker, place->value);
}

static bool
is_still(const Channel *channel, uint32_t generation)
{
    return load_u32(&channel->head.generation, RELAXED) == generation;
}

/* ---- one operation */

LawQueue *
channel_queue_of(const ChannelPlace *place)
{
    return place->sends ? &place->channel->senders : &place->channel->receivers;
}

/* Wait in the queue of one channel. The lock is held, and is given. */
static int
wait_in(ChannelPlace *place, Task *caller)
{
    Channel *channel = place->channel;
    Waiter waiter;
    Parker parker;
    if (caller == NULL && !parker_init(&parker)) {
        lock_give(&channel->lock);
        return ENGINE_MEMORY;
    }
    waiter_init(&waiter, channel->scheduler, caller, caller == NULL ? &parker : NULL);
    place->waiter = &waiter;
    law_queue_append(channel_queue_of(place), &place->link);
    lock_give(&channel->lock);
    int ended = waiter_wait(&waiter, PARK_FOREVER);
    if (ended != ENGINE_OK || caller == NULL) { /* outside: also until the one who woke us is out of the parker */
        lock_take(&channel->lock);
        law_queue_discard(channel_queue_of(place), &place->link);
        lock_give(&channel->lock);
    }
    if (caller == NULL) {
        parker_destroy(&parker);
    }
    if (ended == ENGINE_OK) {
        return waiter.result;
    }
    return caller != NULL && ended == ENGINE_CANCELLED ? task_refuse(caller, ended) : ended;
}

static int
operate(ChannelPlace *place, uint32_t generation, Task *caller, bool wait)
{
    Channel *channel = place->channel;
    if (caller != NULL) {
        int refused = task_charge_channel(caller);
        if (refused != ENGINE_OK) {
            return refused;
        }
    }
    lock_take(&channel->lock);
    int done = ENGINE_INVALID;
    if (is_still(channel, generation)) {
        done = channel_do_now(place, caller != NULL ? task_worker(caller) : NULL);
        if (done == ENGINE_AGAIN && wait) {
            return wait_in(place, caller);
        }
    }
    lock_give(&channel->lock);
    return done;
}

int
channel_send(Channel *channel, uint32_t generation, Task *caller, const void *value, bool wait)
{
    ChannelPlace place = {.channel = channel, .value = (void *)(uintptr_t)value, .sends = true};
    return operate(&place, generation, caller, wait);
}

int
channel_receive(Channel *channel, uint32_t generation, Task *caller, void *value, bool wait)
{
    ChannelPlace place = {.channel = channel, .value = value};
    return operate(&place, generation, caller, wait);
}

/* ---- the end of a channel */

/* Refuse everybody who waits (C3). Under the lock. */
static void
shut(Worker *worker, Channel *channel)
{
    channel->closed = true;
    LawQueue *const queues[] = {&channel->receivers, &channel->senders};
    for (int i = 0; i < 2; i++) {
        ChannelPlace *place;
        while ((place = claim_oldest(queues[i])) != NULL) {
            waiter_finish(place->waiter, worker, place->which, ENGINE_CLOSED, false);
        }
    }
}

int
channel_close(Worker *worker, Channel *channel, uint32_t generation)
{
    lock_take(&channel->lock);
    bool same = is_still(channel, generation);
    if (same) {
        shut(worker, channel);
    }
    lock_give(&channel->lock);
    return same ? ENGINE_OK : ENGINE_INVALID;
}

int
channel_look(Channel *channel, uint32_t generation, bool *closed, uint32_t *count)
{
    lock_take(&channel->lock);
    bool same = is_still(channel, generation);
    if (same) {
        *closed = channel->closed;
        *count = channel->count;
    }
    lock_give(&channel->lock);
    return same ? ENGINE_OK : ENGINE_INVALID;
}

int
channel_destroy(Worker *worker, Channel *channel, uint32_t generation)
{
    Scheduler *scheduler = channel->scheduler;
    lock_take(&channel->lock);
    if (!is_still(channel, generation)) {
        lock_give(&channel->lock);
        return ENGINE_INVALID;
    }
    shut(worker, channel);
    char *ring = channel->ring;
    size_t ring_bytes = (size_t)channel->capacity * channel->item_bytes;
    channel->ring = NULL;
    channel->count = channel->capacity = 0;
    slab_give(&scheduler->channels, channel); /* the generation changes under the lock: nobody is in between */
    lock_give(&channel->lock);
    if (ring != NULL) {
        scheduler->memory->release(scheduler->memory->context, ring, ring_bytes);
    }
    return ENGINE_OK;
}
