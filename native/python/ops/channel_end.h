/* What both ends of a channel have in common (channel_end.c). After ops/channel.py. */

#pragma once

#include "python/ops/channel.h"

/* `EndCore`, and with nothing added `SendCore` and `ReceiveCore`. */
typedef struct ChannelEnd {
    PyObject_HEAD
    Channel *channel;
    char open;    /* bool, for T_BOOL */
    char waiting; /* whether a task has ever waited on this end */
} ChannelEnd;

extern PyType_Spec channel_end_spec; /* st->End */

/* For the types of the two ends. */
int channel_end_traverse(ChannelEnd *self, visitproc visit, void *arg);
void channel_end_dealloc(ChannelEnd *self);
