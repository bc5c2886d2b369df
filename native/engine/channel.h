/* Channels: values from task to task, in order, and whoever must wait parks; a worker never sleeps on one.
 *
 *     capacity 0    a send is done when a receiver has the value (rendezvous)
 *     capacity n    up to n values wait in a ring
 *
 * MESSAGES-1  values come out in the order in which sends took effect; waiters are served oldest first
 * MESSAGES-2  nobody waits in vain: while a receiver waits the ring is empty, while a sender waits it is full, and not
 *     both wait
 * MESSAGES-3  after a close sends are refused, also those that wait; what is in the ring can still be received, then
 *     receives are refused too. An answer is never a value: closed is a code
 * MESSAGES-4  try_send on a channel without a ring succeeds only if a receiver waits
 * MESSAGES-5  all of it under the channel's lock, but for the wake of a task that was claimed; the locks of several
 *     channels are taken in the order of their addresses
 *
 * A select waits on several at once: one Waiter, one ChannelPlace per case, and whoever comes first claims the waiter.
 * Among cases that are ready at once it draws, seeded, so none is starved.
 *
 * Threads outside may use channels too: they sleep on a futex.
 */
#pragma once

#include "engine/lock.h"
#include "engine/slab.h"
#include "engine/wait.h"
#include "law/lanes.h"

#define CHANNEL_ITEM_BYTES_MAX 4096u /* larger things are sent as pointers: a value is copied under the lock */
#define CHANNEL_CAPACITY_MAX (UINT32_C(1) << 24) /* values; more is a program that never receives */
#define SELECT_CASES_MAX 16u                     /* they fit on a small stack */

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
    Task *lone; /* the task, if it waits here only: whoever takes it out of the queue, under the lock, has claimed it */
    Channel *channel;
    void *value;   /* from or to where */
    int32_t which; /* the number of the case */
    bool sends;
} ChannelPlace;

void channel_prepare(void *record);

/* Make a channel for values of `item_bytes` (1 to CHANNEL_ITEM_BYTES_MAX). NULL if there is no memory or a number is out of
 * range. */
Channel *channel_make(struct Scheduler *scheduler, uint32_t item_bytes, uint32_t capacity);

/* In all that follows `generation` is that of the record that is meant: if it is another's by now, ENGINE_INVALID. `worker`
 * is the caller's own, or NULL outside. */

/* Close it and free it. Whoever waits is refused (MESSAGES-3). */
int channel_destroy(struct Worker *worker, Channel *channel, uint32_t generation);

/* Idempotent. */
int channel_close(struct Worker *worker, Channel *channel, uint32_t generation);

/* Whether it is closed, and how many values wait in it. */
int channel_look(Channel *channel, uint32_t generation, bool *closed, uint32_t *count);

static inline LawQueue *
channel_queue_of(const ChannelPlace *place)
{
    return place->sends ? &place->channel->senders : &place->channel->receivers;
}

/* Whether the record still is what was meant. Under the lock. */
static inline bool
channel_is(const Channel *channel, uint32_t generation)
{
    return load_u32(&channel->head.generation, RELAXED) == generation;
}

/* The oldest waiter that can still be claimed, claimed; those that cannot are about to leave by themselves. Under the
 * lock. */
static inline ChannelPlace *
channel_claim_oldest(LawQueue *queue)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(queue)) != NULL) {
        ChannelPlace *place = LAW_RECORD(link, ChannelPlace, link);
        if (place->lone != NULL || waiter_claim(place->waiter)) {
            return place;
        }
    }
    return NULL;
}
