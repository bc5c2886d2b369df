/* Sending (channel_send.c). After ops/channel.py. Only module.c needs the types. */

#pragma once

#include "python/ops/channel_end.h"

/* The request behind `SendEnd.send`. */
typedef struct Send {
    Request request;
    ChannelEnd *end;
    PyObject *value; /* NULL only once it is garbage */
} Send;

extern PyType_Spec send_end_spec; /* st->SendEnd, derived from st->End */
extern PyType_Spec send_spec;     /* st->Send, derived from st->Operation */
