/* Handles: what programs hold of nurseries, channels, selects, tokens and tasks.
 *
 *     handle = epoch (4 bits) << 60 | kind << 56 | generation (24 bits) << 32 | index
 *
 * A handle is looked up, never dereferenced: its index and generation lead to the record, or to NULL if the record
 * belongs to another object by now (engine/slab.h). The epoch is that of the runtime: after a restart all older
 * handles are stale.
 */
#pragma once

#include "abi/visit.h"
#include "engine/channel.h"

typedef enum {
    HANDLE_NURSERY = 1,
    HANDLE_CHANNEL,
    HANDLE_SELECT,
    HANDLE_TOKEN,
    HANDLE_TASK,
    HANDLE_RUNTIME
} HandleKind;

/* Handles carry 24 bits of the generation; records have 32. */
#define HANDLE_GENERATION_MASK UINT32_C(0xffffff)

/* The handle of a record, or of the record with index | generation << 32. */
void *handle_of(HandleKind kind, const SlabHead *head);
void *handle_from(HandleKind kind, uint64_t place);

/* The record of a handle, and its generation. NULL if the handle is null, of another kind or runtime, stale, or
 * invented. */
void *handle_find(const Visit *visit, HandleKind kind, const void *handle, uint32_t *generation);

/* The same in a given slab. */
static inline void *
handle_find_in(const Slab *slab, uint32_t mark, HandleKind kind, const void *handle, uint32_t *generation)
{
    uint64_t word = (uint64_t)(uintptr_t)handle;
    if ((word >> 56 ^ (uint64_t)kind) != mark) {
        return NULL;
    }
    SlabHead *head = slab_peek(slab, (uint32_t)word, generation);
    bool same = head != NULL && ((*generation ^ (uint32_t)(word >> 32)) & HANDLE_GENERATION_MASK) == 0;
    return same && *generation % 2 == 1 ? head : NULL;
}

/* The same for channels; inline, because every message looks one up. */
static inline Channel *
handle_find_channel(const Visit *visit, const void *handle, uint32_t *generation)
{
    Runtime *runtime = visit->runtime;
    return runtime == NULL
               ? NULL
               : handle_find_in(&runtime->scheduler.channels, runtime->mark, HANDLE_CHANNEL, handle, generation);
}
