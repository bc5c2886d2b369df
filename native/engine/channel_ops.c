/* Messages: one send or receive on one channel, at once or by waiting. The contract is in channel.h.
 *
 * The usual message is short: the task has drawn its cost, the lock is free, the value is one word, and a task waits
 * for it or waits for one to come. channel_send and channel_receive contain this case directly; their only calls are
 * the wake or the rest at its end. `operate` handles every case, and is called last, so the short case saves no
 * registers for it. The cost of the short case is its number of instructions; its few locked instructions overlap with
 * the rest.
 *
 * A claimed task is woken after the lock was given: the claim keeps the task and its place valid (WAIT-1). An outside
 * thread is woken under the lock, because it takes the lock before it destroys its parker.
 *
 * Rejected: a channel without a lock for the tasks of one worker (an outside thread may come at any time, and it would
 * save only two nanoseconds); a slot of the worker for the task that was woken last (it would run before tasks that
 * have waited longer).
 */
#include <string.h>

#include "engine/channel_ops.h"

#include "engine/channel.h"
#include "engine/scheduler.h"
#include "engine/task_leave.h"
#include "engine/task_requests.h"
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

/* Whether the channel has items of the size that the caller has (CHANNEL_WORD). */
static inline bool
takes(const Channel *channel, uint32_t how)
{
    return (how & CHANNEL_WORD) == 0 || channel->item_bytes == sizeof(uint64_t);
}

static char *
ring_at(Channel *channel, uint32_t offset)
{
    uint64_t at = ((uint64_t)channel->first + offset) % channel->capacity;
    return channel->ring + at * channel->item_bytes;
}

/* Do a send now, if possible: ENGINE_OK, ENGINE_CLOSED or ENGINE_AGAIN. `*partner` becomes a receiver that the caller
 * must finish. */
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

/* Take the oldest value out of the ring. If a sender waits, its value moves into the ring (MESSAGES-2); the caller must
 * finish that sender, which is returned. */
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

/* Do a receive now, if possible. `*partner` becomes a sender that the caller must finish. */
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

/* ---- waiting. Each function is called with the lock held, and gives it */

/* The task must stop. If its place is still in the queue, it was not claimed, and leaves. Otherwise it rests until it
 * is answered (WAIT-2). */
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
        task_rest(waiter->task, REST_CANCEL_DELIVERED);
    }
    return waiter->result;
}

/* The task was woken, and its wait is not finished: it must stop, or pause, or the wake had no cause (TASK-3). */
static NOINLINE int
wait_on(ChannelPlace *place)
{
    Waiter *waiter = place->waiter;
    Task *task = waiter->task;
    bool paused = false;
    do {
        if (task_must_stop(task)) {
            return leave_queue(place);
        }
        paused |= task_report_if_paused(task);
        task_block(task_worker(task), task);
    } while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE);
    if (paused) {
        task_wait_while_paused(task);
    }
    return waiter->result;
}

/* The task was charged just before, and could go on then. A request that has come since then is noted in its word, so
 * its first rest ends at once. */
static ALWAYS_INLINE int
wait_as_task(Channel *channel, Worker *worker, Task *caller, void *value, bool sends)
{
    Waiter waiter;
    ChannelPlace place = {.waiter = &waiter, .only_task = caller, .channel = channel, .value = value, .sends = sends};
    waiter_init_only(&waiter, channel->scheduler, caller);
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
    lock_take(&channel->lock); /* also waits until the thread that woke this one is out of the parker */
    law_queue_discard(channel_queue_of(&place), &place.link);
    lock_give(&channel->lock);
    parker_destroy(&parker);
    return ended == ENGINE_OK ? waiter.result : ended;
}

/* ---- one operation */

_Static_assert(LAW_CHANNEL_PAIRS == 2, "a message costs ops and channel ops, and pay_from_drawn pays for nothing else");

/* If the drawn ops and the credit cover a message (LAW_CHANNEL), pay with them. Returns whether they did. */
static ALWAYS_INLINE bool
pay_from_drawn(Worker *worker, Task *self)
{
    Credit *credit = &worker->credit;
    if (UNLIKELY(self->ticks_left < LAW_CHANNEL_COSTS_OPS || credit->messages < LAW_CHANNEL_COSTS_CHANNEL_OPS) ||
        UNLIKELY(credit->purse != self->purse || !task_may_continue(worker->scheduler, self))) {
        return false;
    }
    self->ticks_left -= LAW_CHANNEL_COSTS_OPS;
    credit->messages -= LAW_CHANNEL_COSTS_CHANNEL_OPS;
    return true;
}

/* Finish the partner of an operation that is done, and give the lock. `worker` is the caller's, NULL on an outside
 * thread. */
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

/* An operation that was paid for. Called with the lock held, and gives it. */
static NOINLINE int
operate(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, uint32_t how)
{
    if (!channel_is(channel, generation) || !takes(channel, how)) {
        lock_give(&channel->lock);
        return ENGINE_INVALID;
    }
    ChannelPlace *partner;
    int done = sends ? send_now(channel, value, &partner) : receive_now(channel, value, &partner);
    if (partner != NULL) {
        hand_over(channel, partner, worker);
        return done;
    }
    if (done == ENGINE_AGAIN && (how & CHANNEL_WAIT) != 0) {
        return worker != NULL ? wait_as_task(channel, worker, worker->current, value, sends)
                              : wait_outside(channel, value, sends);
    }
    lock_give(&channel->lock);
    return done;
}

/* The same, for a task that must draw budget or wait for the lock first, and for an outside thread. */
static NOINLINE int
operate_unpaid(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, uint32_t how)
{
    if (worker != NULL) {
        Task *caller = worker->current;
        int refused = task_charge(caller, &LAW_CHANNEL);
        if (refused != ENGINE_OK) {
            return refused;
        }
        worker = task_worker(caller); /* other tasks may have run meanwhile */
    }
    lock_take(&channel->lock);
    return operate(channel, generation, worker, value, sends, how);
}

static NOINLINE int
operate_contended(Channel *channel, uint32_t generation, Worker *worker, void *value, bool sends, uint32_t how)
{
    lock_wait(&channel->lock);
    return operate(channel, generation, worker, value, sends, how);
}

/* Finish the wait of a task that waits only here, on a worker. */
static ALWAYS_INLINE void
finish_only(Task *task, Waiter *waiter, Worker *worker)
{
    waiter->result = ENGINE_OK;
    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not this thread's any more */
    if (task_unblocked(task)) {
        worker_requeue(worker, task);
    }
}

/* The same, and wake a thread that sleeps on the lock. */
static NOINLINE void
finish_only_and_wake(Channel *channel, Task *task, Waiter *waiter, Worker *worker)
{
    lock_wake(&channel->lock);
    finish_only(task, waiter, worker);
}

int
channel_send(Channel *channel, uint32_t generation, Worker *worker, const void *value, uint32_t how)
{
    void *from = (void *)(uintptr_t)value;
    if (UNLIKELY(worker == NULL) || UNLIKELY(!pay_from_drawn(worker, worker->current))) {
        return operate_unpaid(channel, generation, worker, from, true, how);
    }
    if (UNLIKELY(!lock_try(&channel->lock))) {
        return operate_contended(channel, generation, worker, from, true, how);
    }
    if (FAST_PATHS && !law_queue_empty(&channel->receivers) && /* a closed channel has no receivers (MESSAGES-3) */
        channel_is(channel, generation) && channel->item_bytes == sizeof(uint64_t)) {
        ChannelPlace *receiver = LAW_RECORD(channel->receivers.ring.newer, ChannelPlace, link);
        Task *task = receiver->only_task;
        if (LIKELY(task != NULL)) {
            law_queue_remove(&channel->receivers, &receiver->link);
            memcpy(receiver->value, value, sizeof(uint64_t));
            Waiter *waiter = receiver->waiter;
            if (UNLIKELY(lock_give_no_wake(&channel->lock))) {
                finish_only_and_wake(channel, task, waiter, worker);
            } else {
                finish_only(task, waiter, worker);
            }
            return ENGINE_OK;
        }
    }
    return operate(channel, generation, worker, from, true, how);
}

int
channel_receive(Channel *channel, uint32_t generation, Worker *worker, void *value, uint32_t how)
{
    if (UNLIKELY(worker == NULL) || UNLIKELY(!pay_from_drawn(worker, worker->current))) {
        return operate_unpaid(channel, generation, worker, value, false, how);
    }
    if (UNLIKELY(!lock_try(&channel->lock))) {
        return operate_contended(channel, generation, worker, value, false, how);
    }
    bool empty = channel->count == 0 && law_queue_empty(&channel->senders);
    if (FAST_PATHS && channel_is(channel, generation) && empty && (how & CHANNEL_WAIT) != 0 && !channel->closed &&
        channel->item_bytes == sizeof(uint64_t)) {
        return wait_as_task(channel, worker, worker->current, value, false);
    }
    return operate(channel, generation, worker, value, false, how);
}
