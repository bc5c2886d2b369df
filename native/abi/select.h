/* The record behind the handle of a select. */
#pragma once

#include "abi/abi.h"

typedef struct {
    SlabHead head;
    atomic_u32 busy;
    uint32_t cases, channels;
    int32_t timeout_case, default_case, last;
    int64_t timeout_ns;
    ChannelPlace places[SELECT_CASES_MAX];
    uint32_t generations[SELECT_CASES_MAX];
    int64_t values[SELECT_CASES_MAX], received[SELECT_CASES_MAX];
} Select;
