/* Channels. Contract: include/janus_rt.h. */
#include "abi/handle.h"
#include "engine/channel_ops.h"
#include "include/janus_rt.h"

void *
janus_channel_create(size_t item_bytes, size_t capacity)
{
    if (!visit_pay_op()) {
        return NULL;
    }
    Visit visit = visit_begin_or_start();
    void *handle = NULL;
    if (visit.runtime != NULL && item_bytes <= CHANNEL_ITEM_BYTES_MAX && capacity <= CHANNEL_CAPACITY_MAX) {
        Channel *channel = channel_make(&visit.runtime->scheduler, (uint32_t)item_bytes, (uint32_t)capacity);
        handle = channel != NULL ? handle_of(HANDLE_CHANNEL, &channel->head) : NULL;
    }
    visit_end(&visit);
    return handle;
}

int
janus_channel_destroy(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Channel *channel = handle_find_channel(&visit, handle, &generation);
    int error = channel == NULL ? JANUS_INVALID : channel_destroy(visit.worker, channel, generation);
    visit_end(&visit);
    return error;
}

int
janus_channel_close(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Channel *channel = handle_find_channel(&visit, handle, &generation);
    int error = channel == NULL ? JANUS_INVALID : channel_close(visit.worker, channel, generation);
    visit_end(&visit);
    return error;
}

/* One operation by an outside thread. */
static NOINLINE int
operate_outside(void *handle, const void *from, void *to, uint32_t how)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Channel *channel = handle_find_channel(&visit, handle, &generation);
    int error = JANUS_INVALID;
    if (channel != NULL) {
        error = from != NULL ? channel_send(channel, generation, NULL, from, how)
                             : channel_receive(channel, generation, NULL, to, how);
    }
    visit_end(&visit);
    return error;
}

/* One operation: a send of `*from`, or, if `from` is NULL, a receive into `*to`. */
static inline int
operate(Worker *worker, void *handle, const void *from, void *to, uint32_t how)
{
    if (UNLIKELY(worker == NULL)) {
        return operate_outside(handle, from, to, how);
    }
    uint32_t generation;
    Channel *channel =
        handle_find_in(&the_runtime.scheduler.channels, the_runtime.mark, HANDLE_CHANNEL, handle, &generation);
    if (UNLIKELY(channel == NULL)) {
        return JANUS_INVALID;
    }
    return from != NULL ? channel_send(channel, generation, worker, from, how)
                        : channel_receive(channel, generation, worker, to, how);
}

/* ---- receiving: through context_visit (fiber/context.h), because a receive often waits. A send rarely waits, and all
 * sends would pay for it */

/* Note where the running task was called from. Returns the task, or NULL on an outside thread. */
static inline Task *
note_caller(Worker *worker, const void *from)
{
    if (worker == NULL) {
        return NULL;
    }
    worker->called_from = from;
    return worker->current;
}

/* The result for context_visit. The task that noted its place last on this worker may be another one. */
static inline struct context_visit
visit_result(const Task *self, const void *from, int64_t answer)
{
    return (struct context_visit){.answer = answer, .guess = self != NULL ? task_worker(self)->called_from : from};
}

static struct context_visit
receive_item(void *channel, void *item, const void *from)
{
    Worker *worker = visit_worker();
    const Task *self = note_caller(worker, from);
    return visit_result(self, from, operate(worker, channel, NULL, item, CHANNEL_WAIT));
}

static struct context_visit
receive_word(void *channel, void *error, const void *from)
{
    int64_t value = 0;
    Worker *worker = visit_worker();
    const Task *self = note_caller(worker, from);
    bool got = operate(worker, channel, NULL, &value, CHANNEL_WAIT | CHANNEL_WORD) == JANUS_OK;
    if (error != NULL) {
        *(int32_t *)error = got ? 0 : -1;
    }
    return visit_result(self, from, got ? value : 0);
}

int
janus_channel_receive(void *channel, void *item)
{
    return item != NULL ? (int)context_visit(receive_item, channel, item) : JANUS_INVALID;
}

int
janus_channel_send(void *channel, const void *item)
{
    return item != NULL ? operate(visit_worker(), channel, item, NULL, CHANNEL_WAIT) : JANUS_INVALID;
}

int
janus_channel_try_send(void *channel, const void *item)
{
    return item != NULL ? operate(visit_worker(), channel, item, NULL, 0) : JANUS_INVALID;
}

int
janus_channel_try_receive(void *channel, void *item)
{
    return item != NULL ? operate(visit_worker(), channel, NULL, item, 0) : JANUS_INVALID;
}

/* ---- items of int64_t */

void *
janus_channel_create_i64(int32_t capacity)
{
    return janus_channel_create(sizeof(int64_t), capacity < 0 ? 0 : (size_t)capacity);
}

void
janus_channel_destroy_i64(void *channel)
{
    (void)janus_channel_destroy(channel);
}

int32_t
janus_channel_send_i64(void *channel, int64_t value)
{
    return operate(visit_worker(), channel, &value, NULL, CHANNEL_WAIT | CHANNEL_WORD) == JANUS_OK ? 0 : -1;
}

int64_t
janus_channel_recv_i64(void *channel, int32_t *error)
{
    return context_visit(receive_word, channel, error);
}

/* The result of an operation that does not wait, for int64_t. */
static int32_t
try_result(int error)
{
    return error == JANUS_OK ? 1 : error == JANUS_AGAIN ? 0 : -1;
}

int32_t
janus_channel_try_send_i64(void *channel, int64_t value)
{
    return try_result(operate(visit_worker(), channel, &value, NULL, CHANNEL_WORD));
}

int32_t
janus_channel_try_recv_i64(void *channel, int64_t *value)
{
    return value != NULL ? try_result(operate(visit_worker(), channel, NULL, value, CHANNEL_WORD)) : -1;
}

void
janus_channel_close_i64(void *channel)
{
    (void)janus_channel_close(channel);
}

/* What a stale channel looks like: closed and empty. */
static ChannelLook
look(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    ChannelLook now = {.closed = true};
    Channel *channel = handle_find_channel(&visit, handle, &generation);
    if (channel != NULL) {
        (void)channel_look(channel, generation, &now);
    }
    visit_end(&visit);
    return now;
}

int32_t
janus_channel_is_closed_i64(void *channel)
{
    return look(channel).closed;
}

int32_t
janus_channel_len_i64(void *channel)
{
    return (int32_t)look(channel).count;
}
