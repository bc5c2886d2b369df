/* Channels: the state that both ends share (channel.c). After ops/channel.py.
 *
 * The caller of a function of a RequestVT holds the request while it runs; the request holds its end, and the end its
 * channel. So channels need no references of their own.
 */

#pragma once

#include "python/ops/channel_buffer.h"
#include "python/ops/request.h"

/* `ChannelCore`. Its references are set when it is made and never change, except `kernel`. */
typedef struct Channel {
    PyObject_HEAD
    ModuleState *st;
    PyObject *capacity; /* as it was given */
    int64_t places;     /* the same, as far as can be counted */
    ChannelBuffer buffer;
    WaitList *senders; /* sends and reservations, in one queue */
    WaitList *receivers;
    Kernel *kernel; /* owned; NULL until a task uses the channel */
    long long reserved;
    long long send_ends;
    long long receive_ends;
} Channel;

extern PyType_Spec channel_spec; /* st->Channel */

/* How many more values could be accepted now (CHANNEL-1). */
static inline int64_t
channel_room(const Channel *channel)
{
    return channel->places + (int64_t)channel->receivers->queue.length - (int64_t)channel->buffer.length -
           channel->reserved;
}

/* All return 0, or -1 with an exception set. */
int channel_bind(Channel *channel, Kernel *k,
                 Task *task); /* the first use binds it to `k`; another kernel is refused */
int channel_accept(Channel *channel, PyObject *value, Task *sender); /* sender: NULL if no waiting task sends it */
int channel_refill(Channel *channel);
int channel_close_if_unused(Channel *channel);

/* The kernel of a channel that a task waits on; borrowed. NULL with an exception set: it has none. */
Kernel *channel_live(Channel *channel);

/* Raise the error that a method in Python returns. Always NULL. */
PyObject *channel_refuse(Channel *channel, const char *method, const char *argument);
