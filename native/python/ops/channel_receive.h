/* Receiving (channel_receive.c). After ops/channel.py. Only module.c needs the types. */

#pragma once

#include "python/ops/channel_end.h"

/* The request behind `ReceiveEnd.receive`. */
typedef struct Receive {
    Request request;
    ChannelEnd *end;
} Receive;

extern PyType_Spec receive_end_spec; /* st->ReceiveEnd, derived from st->End */
extern PyType_Spec receive_spec;     /* st->Receive, derived from st->Operation */
extern PyType_Spec next_spec;        /* st->Next, derived from st->Receive */
