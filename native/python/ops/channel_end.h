/* What both ends of a channel have in common (channel_end.c). After ops/channel.py. */

#pragma once

#include "python/ops/channel.h"

/* `EndCore`, and with nothing added `SendCore` and `ReceiveCore`. */
typedef struct End {
    PyObject_HEAD
    Channel *channel;
    char open;    /* bool, for T_BOOL */
    char waiting; /* whether a task has ever waited on this very end */
} End;

extern PyType_Spec end_spec; /* st->End */

/* For the types of the two ends. */
int end_traverse(End *self, visitproc visit, void *arg);
void end_dealloc(End *self);
