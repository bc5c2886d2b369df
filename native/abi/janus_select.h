/* The record of a select: a list of cases, which is made once and can be waited for again and again.
 *
 * One caller at a time uses a select: every call sets `busy`, and a call that finds it set is refused.
 */
#pragma once

#include "engine/channel.h"

typedef struct {
    SlabHead head;
    atomic_u32 busy;                          /* 1 during a call */
    uint32_t cases, channels;                 /* all cases; those with a channel, which fill the arrays below */
    int32_t timeout_case, default_case, last; /* numbers of cases, or -1; `last` is that of the last wait */
    int64_t timeout_ns;
    ChannelPlace places[SELECT_CASES_MAX];
    uint32_t generations[SELECT_CASES_MAX];
    int64_t values[SELECT_CASES_MAX], received[SELECT_CASES_MAX];
} Select;
