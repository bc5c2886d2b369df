/* Channels: values from task to task, in order. A task that must wait parks; a worker never sleeps on a channel.
 *
 *     capacity 0    a send is done when a receiver has the value (rendezvous)
 *     capacity n    up to n values wait in a ring
 *
 * MESSAGES-1  values come out in the order in which the sends took effect; waiting tasks are served oldest first
 * MESSAGES-2  no task waits without need: while a receiver waits the ring is empty, while a sender waits it is full,
 *     and never do both wait
 * MESSAGES-3  after a close all sends are refused, also those that wait. Values in the ring can still be received; then
 *     receives are refused too. "Closed" is a code, never a value
 * MESSAGES-4  try_send on a channel without a ring succeeds only if a receiver waits
 * MESSAGES-5  everything happens under the channel's lock, except the wake of a claimed task. The locks of several
 *     channels are taken in the order of their addresses
 *
 * A select waits on several channels: one Waiter, and one ChannelPlace per case. The first partner claims the waiter.
 * If several cases are ready at once, a seeded random draw chooses, so none is starved.
 *
 * Outside threads may use channels too: they sleep on a futex.
 */
#pragma once

#include "engine/lock.h"
#include "engine/slab.h"
#include "engine/wait.h"
#include "law/lanes.h"

#define CHANNEL_ITEM_BYTES_MAX 4096u /* larger items are sent as pointers: a value is copied under the lock */
#define CHANNEL_CAPACITY_MAX (UINT32_C(1) << 24) /* values; a program that needs more never receives */
#define SELECT_CASES_MAX 16u                     /* so the places fit on a small stack */

typedef struct {
    SlabHead head;
    Lock lock;
    bool closed;
    uint32_t item_bytes;
    uint32_t capacity;
    uint32_t count, first; /* of the ring */
    char *ring;
    LawQueue senders, receivers; /* ChannelPlace.link */
    struct Scheduler *scheduler;
} Channel;

/* The place of a waiter in one channel. */
typedef struct {
    LawLink link;
    Waiter *waiter;
    /* The task, if this is its only place: to take it out of the queue, under the lock, is to claim it. */
    Task *only_task;
    Channel *channel;
    void *value;   /* the value to send, or where to put the received one */
    int32_t which; /* the number of the case */
    bool sends;
} ChannelPlace;

void channel_prepare(void *record);

/* Make a channel for values of `item_bytes` (1 to CHANNEL_ITEM_BYTES_MAX). Returns NULL if there is no memory or a
 * number is out of range. */
Channel *channel_make(struct Scheduler *scheduler, uint32_t item_bytes, uint32_t capacity);

/* In the functions below `generation` says which channel is meant; ENGINE_INVALID if the record belongs to another by
 * now. `worker` is the caller's own, or NULL on an outside thread. */

/* Close the channel and free it. Tasks that wait are refused (MESSAGES-3). */
int channel_destroy(struct Worker *worker, Channel *channel, uint32_t generation);

/* Close it. A second close has no effect. */
int channel_close(struct Worker *worker, Channel *channel, uint32_t generation);

/* What a channel looks like at one moment. */
typedef struct {
    bool closed;
    uint32_t item_bytes;
    uint32_t count; /* values in it */
} ChannelLook;

int channel_look(Channel *channel, uint32_t generation, ChannelLook *look);

static inline LawQueue *
channel_queue_of(const ChannelPlace *place)
{
    return place->sends ? &place->channel->senders : &place->channel->receivers;
}

/* Whether the record still is the channel that was meant. Under the lock. */
static inline bool
channel_is(const Channel *channel, uint32_t generation)
{
    return load_u32(&channel->head.generation, RELAXED) == generation;
}

/* Claim the oldest waiter that can still be claimed. The others are about to leave by themselves. Under the lock. */
static inline ChannelPlace *
channel_claim_oldest(LawQueue *queue)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(queue)) != NULL) {
        ChannelPlace *place = LAW_RECORD(link, ChannelPlace, link);
        if (place->only_task != NULL || waiter_claim(place->waiter)) {
            return place;
        }
    }
    return NULL;
}
