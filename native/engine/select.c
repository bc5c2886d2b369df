/* Select: the first of several channel operations, or a time limit. See channel.h. */
#include "engine/select.h"

#include "engine/channel.h"
#include "engine/channel_ops.h"
#include "engine/scheduler.h"

/* Sort the places by the addresses of their channels (MESSAGES-5), by insertion: there are at most sixteen. */
static void
sort(ChannelPlace **order, ChannelPlace *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && (uintptr_t)order[at - 1]->channel > (uintptr_t)places[i].channel; at--) {
            order[at] = order[at - 1];
        }
        order[at] = &places[i];
    }
}

/* Take each lock once: the same channel may be in several cases. */
static void
lock_all(ChannelPlace **order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || order[i]->channel != order[i - 1]->channel) {
            lock_take(&order[i]->channel->lock);
        }
    }
}

static void
unlock_all(ChannelPlace **order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || order[i]->channel != order[i - 1]->channel) {
            lock_give(&order[i]->channel->lock);
        }
    }
}

/* Whether a case seems possible now. A waiting partner may still leave, so this is only a first check. */
static bool
seems_ready(const ChannelPlace *place)
{
    const Channel *channel = place->channel;
    if (place->sends) {
        return channel->closed || channel->receivers.length != 0 || channel->count < channel->capacity;
    }
    return channel->closed || channel->senders.length != 0 || channel->count != 0;
}

/* Do one of the cases that are ready, drawn from `stream`. ENGINE_AGAIN: none is ready. Under all locks. */
static int
do_one(ChannelPlace *places, uint32_t count, Worker *worker, LawRandomStream *stream, int32_t *which)
{
    uint32_t left = 0, ready[SELECT_CASES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        if (seems_ready(&places[i])) {
            ready[left++] = i;
        }
    }
    while (left != 0) {
        uint32_t drawn = (uint32_t)law_random_below(stream, left);
        ChannelPlace *place = &places[ready[drawn]];
        int done = channel_do_now(place, worker);
        if (done != ENGINE_AGAIN) {
            *which = place->which;
            return done;
        }
        ready[drawn] = ready[--left];
    }
    return ENGINE_AGAIN;
}

static bool
generations_match(const ChannelPlace *places, const uint32_t *generations, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (load_u32(&places[i].channel->head.generation, RELAXED) != generations[i]) {
            return false;
        }
    }
    return true;
}

/* Wait in all queues. Called with all locks held, and gives them. */
static int
wait_in_all(ChannelPlace **order, uint32_t count, Waiter *waiter, int64_t deadline_ns, int32_t *which)
{
    Scheduler *scheduler = waiter->scheduler;
    Task *caller = waiter->task;
    bool timed = deadline_ns != PARK_FOREVER, by_timer = timed && (caller != NULL || scheduler->options.deterministic);
    if (by_timer && timers_arm(&scheduler->timers, &waiter->timer, deadline_ns) != ENGINE_OK) {
        unlock_all(order, count);
        return ENGINE_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i]->waiter = waiter;
        law_queue_append(channel_queue_of(order[i]), &order[i]->link);
    }
    unlock_all(order, count);
    int ended = caller != NULL ? waiter_wait_as_task(waiter)
                               : waiter_wait_outside(waiter, by_timer ? PARK_FOREVER : deadline_ns);
    if (by_timer) {
        timers_disarm(&scheduler->timers, &waiter->timer);
    }
    lock_all(order, count);
    for (uint32_t i = 0; i < count; i++) {
        law_queue_discard(channel_queue_of(order[i]), &order[i]->link);
    }
    unlock_all(order, count);
    if (ended != ENGINE_OK) {
        return caller != NULL && ended == ENGINE_CANCELLED ? task_refuse(caller, ended) : ended;
    }
    *which = waiter->which;
    return waiter->result;
}

int
channel_select(Scheduler *scheduler, Task *caller, ChannelPlace *places, const uint32_t *generations, uint32_t count,
               int64_t timeout_ns, int32_t *which)
{
    ChannelPlace *order[SELECT_CASES_MAX];
    Waiter waiter;
    Parker parker;
    if (count > SELECT_CASES_MAX) {
        return ENGINE_INVALID;
    }
    if (caller != NULL) {
        int refused = task_charge(caller, count != 0 ? &LAW_CHANNEL : &LAW_OP); /* without a channel it is a sleep */
        if (refused != ENGINE_OK) {
            return refused;
        }
    }
    if (caller != NULL && timeout_ns > 0 && !timers_ready(&scheduler->timers, caller)) {
        return ENGINE_MEMORY;
    }
    sort(order, places, count);
    Worker *worker = caller != NULL ? task_worker(caller) : NULL;
    LawRandomStream outside = law_random_init(scheduler->options.seed, park_clock_ns());
    lock_all(order, count);
    int done = ENGINE_INVALID;
    if (generations_match(places, generations, count)) {
        done = do_one(places, count, worker, worker != NULL ? &worker->choices : &outside, which);
    }
    if (done != ENGINE_AGAIN || timeout_ns == 0) {
        unlock_all(order, count);
        return done == ENGINE_AGAIN ? ENGINE_TIMEOUT : done;
    }
    if (caller == NULL && !parker_init(&parker)) {
        unlock_all(order, count);
        return ENGINE_MEMORY;
    }
    waiter_init(&waiter, scheduler, caller, caller == NULL ? &parker : NULL);
    int64_t now_ns = timeout_ns < 0 ? 0 : scheduler_now_ns(scheduler);
    int64_t deadline_ns = timeout_ns < 0 || timeout_ns > INT64_MAX - now_ns - 1 ? PARK_FOREVER : now_ns + timeout_ns;
    done = wait_in_all(order, count, &waiter, deadline_ns, which);
    if (caller == NULL) {
        parker_destroy(&parker);
    }
    return done;
}
