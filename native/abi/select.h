/* The records behind the handles of selects and tokens. */
#ifndef BURSAR_ABI_SELECT_H
#define BURSAR_ABI_SELECT_H

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

/* A token knows its parent, and is kept until its last child is gone: so there is no table of children to run full. It is
 * cancelled if it, or anybody above it, is. All fields are under the runtime's tokens_lock. */
typedef struct Token {
    SlabHead head;
    struct Token *parent;
    uint32_t children;
    bool cancelled, destroyed;
    Nursery *nursery; /* the nursery that it stands for, or NULL */
    uint32_t nursery_generation;
} Token;

#endif
