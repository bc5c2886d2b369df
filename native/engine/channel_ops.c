/* Messages: one send or receive on one channel, at once or by waiting. What they promise is in channel.h.
 *
 * The usual one is short: the task has drawn what it costs, the lock is free, and either a task waits for one word that is
 * sent, or a task waits for one to come. That is written out in channel_send and channel_receive, without a call but
 * the wake or the rest at its end; everything else is `operate`, which is the complete account, and is called last: so
 * the short way saves no registers for its sake. What counts there is the number of instructions; locked ones are few
 * and overlap.
 *
 * A task that was claimed is woken when the lock has been given: the claim keeps it, and its place, where it is
 * (WAIT-1). A thread outside is woken under the lock, because it takes the lock before it takes its parker away.
 *
 * Rejected: a channel without a lock for tasks of one worker (a thread outside may come at any time; it would save two
 * nanoseconds), a slot of the worker for whoever was woken last (it would be ahead of those who have waited longer).
 */
#include <string.h>

#include "engine/channel_ops.h"

#include "engine/channel.h"
#include "engine/pause.h"
#include "engine/scheduler.h"
#include "engine/worker_loop.h"
#include "hints.h"

/* ---- under the lock */

/* Most values are one word. */
static inline void
copy_item(const Channel *channel, void *to, const void *from)
{
    if (LIKELY(channel->item_bytes == sizeof(uint64_t))) {
        memcpy(to, from, sizeof(uint64_t));
    } else {
        memcpy(to, from, channel->item_bytes);
    }
}

static char *
ring_at(Channel *channel, uint32_t offset)
{
    uint64_t at = ((uint64_t)channel->first + offset) % channel->capacity;
    return channel->ring + at * channel->item_bytes;
}

/* Do a send now, if it can be: ENGINE_OK, ENGINE_CLOSED or ENGINE_AGAIN. `*partner` is a receiver that is to be finished. */
static ALWAYS_INLINE int
send_now(Channel *channel, const void *value, ChannelPlace **partner)
{
    *partner = NULL;
    if (UNLIKELY(channel->closed)) {
        return ENGINE_CLOSED;
    }
    ChannelPlace *receiver = channel_claim_oldest(&channel->receivers);
    if (receiver != NULL) {
        copy_item(channel, receiver->value, value);
        *partner = receiver;
        return ENGINE_OK;
    }
    if (channel->count == channel->capacity) {
        return ENGINE_AGAIN;
    }
    copy_item(channel, ring_at(channel, channel->count), value);
    channel->count += 1;
    return ENGINE_OK;
}

/* Take the oldest value out of the ring; a sender that waits moves up (MESSAGES-2), and is to be finished. */
static NOINLINE ChannelPlace *
take_from_ring(Channel *channel, void *value)
{
    copy_item(channel, value, ring_at(channel, 0));
    channel->first = (channel->first + 1) % channel->capacity;
    channel->count -= 1;
    ChannelPlace *sender = channel_claim_oldest(&channel->senders);
    if (sender != NULL) {
        copy_item(channel, ring_at(channel, channel->count), sender->value);
        channel->count += 1;
    }
    return sender;
}

/* Do a receive now, if it can be. `*partner` is a sender that is to be finished. */
static ALWAYS_INLINE int
receive_now(Channel *channel, void *value, ChannelPlace **partner)
{
    if (channel->count != 0) {
        *partner = take_from_ring(channel, value);
        return ENGINE_OK;
    }
    ChannelPlace *sender = channel_claim_oldest(&channel->senders);
    *partner = sender;
    if (sender == NULL) {
        return channel->closed ? ENGINE_CLOSED : ENGINE_AGAIN;
    }
    copy_item(channel, value, sender->value);
    return ENGINE_OK;
}

int
channel_do_now(ChannelPlace *place, Worker *worker)
{
    ChannelPlace *partner;
    int done = place->sends ? send_now(place->channel, place->value, &partner)
                            : receive_now(place->channel, place->value, &partner);
    if (partner != NULL) {
        waiter_finish(partner->waiter, worker, partner->which, ENGINE_OK, false);
    }
    return done;
}

/* ---- waiting. The lock is held, and is given */

/* The task is to stop. If it is still in the queue, nobody has claimed it, and nobody will; else it waits for the
 * moment until it is answered (WAIT-2). */
static int
leave_queue(ChannelPlace *place)
{
    Waiter *waiter = place->waiter;
    lock_take(&place->channel->lock);
    bool claimed = !law_linked(&place->link);
    law_queue_discard(channel_queue_of(place), &place->link);
    lock_give(&place->channel->lock);
    if (!claimed) {
        return task_refuse(waiter->task, ENGINE_CANCELLED);
    }
    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {
        task_rest(waiter->task, REST_DEAF);
    }
    return waiter->result;
}

/* It was woken, and nobody has finished its wait: it is to stop, to stand still, or it was for nothing (TASK-3). */
static NOINLINE int
wait_on(ChannelPlace *place)
{
    Waiter *waiter = place->waiter;
    Task *task = waiter->task;
    bool stands = false;
    do {
        if (task_must_stop(task)) {
            return leave_queue(place);
        }
        stands |= task_stands_waiting(task);
        task_block(task_worker(task), task);
    } while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE);
    if (stands) {
        task_stand_still(task);
    }
    return waiter->result;
}

/* The task was charged a moment ago, and could go on then: a request that has come since does not let the first rest be
 * one. */
static ALWAYS_INLINE int
wait_as_task(Channel *channel, Worker *worker, Task *caller, void *value, bool sends)
{
    Waiter waiter;
    ChannelPlace place = {.waiter = &waiter, .lone = caller, .channel = channel, .value = value, .sends = sends};
    waiter_init_lone(&waiter, channel->scheduler, caller);
    law_queue_append(sends ? &channel->senders : &channel->receivers, &place.link);
    lock_give(&channel->lock);
    if (load_u32(&waiter.state, ACQUIRE) != WAIT_DONE) {
        task_block(worker, caller);
        if (UNLIKELY(load_u32(&waiter.state, ACQUIRE) != WAIT_DONE)) {
            return wait_on(&place);
        }
    }
    return waiter.result;
}

static NOINLINE int
wait_outside(Channel *channel, void *value, bool sends)
{
    Waiter waiter;
    Parker parker;
    ChannelPlace place = {.waiter = &waiter, .channel = channel, .value = value, .sends = sends};
    if (!parker_init(&parker)) {
        lock_give(&channel->lock);
        return ENGINE_MEMORY;
    }
    waiter_init(&waiter, channel->scheduler, NULL, &parker);
    law_queue_append(channel_queue_of(&place), &place.link);
    lock_give(&channel->lock);
    int ended = waiter_wait_outside(&waiter, PARK_FOREVER);
    lock_take(&channel->lock); /* also until the one who woke us is out of the parker */
    law_queue_discard(channel_queue_of(&place), &place.link);
    lock_give(&channel->lock);
    parker_destroy(&parker);
    return ended == ENGINE_OK ? waiter.result : ended;
}

/* ---- one operation */

_Static_assert(LAW_CHANNEL_PAIRS == 2, "a message costs ops and channel ops, and pay_from_drawn pays for nothing else");

/* Whether the task could pay for a message, LAW_CHANNEL, out of what is drawn; then it has. */
static ALWAYS_INLINE bool
pay_from_drawn(Worker *worker, Task *self)
{
    Credit *credit = &worker->credit;
    if (UNLIKELY(self->ticks_left < LAW_CHANNEL_COSTS_OPS || credit->messages < LAW_CHANNEL_COSTS_CHANNEL_OPS) ||
        UNLIKELY(credit->purse != self->purse || !task_undisturbed(worker->scheduler, self))) {
        return false;
    }
    self->ticks_left -= LAW_CHANNEL_COSTS_OPS;
    credit->messages -= LAW_CHANNEL_COSTS_CHANNEL_OPS;
    return true;
}

/* The partner of an operation that is done is finished, and the lock is given. `worker` is the caller's, NULL outside. */
static NOINLINE void
hand_over(Channel *channel, const ChannelPlace *partner, Worker *worker)
{
    Waiter *waiter = partner->waiter;
    int32_t which = partner->which;
    bool outside = waiter->task == NULL;
    if (outside) {
        waiter_finish(waiter, worker, which, ENGINE_OK, false);
    }
    lock_give(&channel->lock);
    if (!outside) {
        waiter_finish(waiter, worker, which, ENGINE_OK, false);
    }
}

/* An operation that was paid for, under the lock, which is given. */
static NOINLINE int
operate(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, bool wait)
{
    if (!channel_is(channel, generation)) {
        lock_give(&channel->lock);
        return ENGINE_INVALID;
    }
    ChannelPlace *partner;
    int done = sends ? send_now(channel, value, &partner) : receive_now(channel, value, &partner);
    if (partner != NULL) {
        hand_over(channel, partner, worker);
        return done;
    }
    if (done == ENGINE_AGAIN && wait) {
        return worker != NULL ? wait_as_task(channel, worker, worker->current, value, sends)
                              : wait_outside(channel, value, sends);
    }
    lock_give(&channel->lock);
    return done;
}

/* The same where something has to be done first: to draw money, to wait for the lock; or by a thread outside. */
static NOINLINE int
operate_unpaid(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, bool wait)
{
    if (worker != NULL) {
        Task *caller = worker->current;
        int refused = task_charge(caller, &LAW_CHANNEL);
        if (refused != ENGINE_OK) {
            return refused;
        }
        worker = task_worker(caller); /* others may have run meanwhile */
    }
    lock_take(&channel->lock);
    return operate(channel, generation, worker, value, sends, wait);
}

static NOINLINE int
operate_contended(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, bool wait)
{
    lock_wait(&channel->lock);
    return operate(channel, generation, worker, value, sends, wait);
}

/* End the wait of a task that waits here only, on a worker. */
static ALWAYS_INLINE void
finish_lone(Task *task, Waiter *waiter, Worker *worker)
{
    waiter->result = ENGINE_OK;
    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not ours any more */
    if (task_unblocked(task)) {
        worker_requeue(worker, task);
    }
}

/* The same, and wake who sleeps on the lock. */
static NOINLINE void
finish_lone_and_wake(Channel *channel, Task *task, Waiter *waiter, Worker *worker)
{
    lock_wake(&channel->lock);
    finish_lone(task, waiter, worker);
}

int
channel_send(Channel *channel, uint32_t generation, Worker *worker, const void *value, bool wait)
{
    void *from = (void *)(uintptr_t)value;
    if (UNLIKELY(worker == NULL) || UNLIKELY(!pay_from_drawn(worker, worker->current))) {
        return operate_unpaid(channel, generation, worker, from, true, wait);
    }
    if (UNLIKELY(!lock_try(&channel->lock))) {
        return operate_contended(channel, generation, worker, from, true, wait);
    }
    if (!law_queue_empty(&channel->receivers) && /* there is none in a channel that is closed (MESSAGES-3) */
        channel_is(channel, generation) && channel->item_bytes == sizeof(uint64_t)) {
        ChannelPlace *receiver = LAW_RECORD(channel->receivers.ring.newer, ChannelPlace, link);
        Task *task = receiver->lone;
        if (LIKELY(task != NULL)) {
            law_queue_remove(&channel->receivers, &receiver->link);
            memcpy(receiver->value, value, sizeof(uint64_t));
            Waiter *waiter = receiver->waiter;
            if (UNLIKELY(lock_let_go(&channel->lock))) {
                finish_lone_and_wake(channel, task, waiter, worker);
            } else {
                finish_lone(task, waiter, worker);
            }
            return ENGINE_OK;
        }
    }
    return operate(channel, generation, worker, from, true, wait);
}

int
channel_receive(Channel *channel, uint32_t generation, Worker *worker, void *value, bool wait)
{
    if (UNLIKELY(worker == NULL) || UNLIKELY(!pay_from_drawn(worker, worker->current))) {
        return operate_unpaid(channel, generation, worker, value, false, wait);
    }
    if (UNLIKELY(!lock_try(&channel->lock))) {
        return operate_contended(channel, generation, worker, value, false, wait);
    }
    bool empty = channel->count == 0 && law_queue_empty(&channel->senders);
    if (channel_is(channel, generation) && empty && wait && !channel->closed) {
        return wait_as_task(channel, worker, worker->current, value, false);
    }
    return operate(channel, generation, worker, value, false, wait);
}
