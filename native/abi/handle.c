/* Handles: see handle.h. */
#include "abi/handle.h"

void *
handle_from(HandleKind kind, uint64_t place)
{
    uint64_t low = place & ((uint64_t)HANDLE_GENERATION_MASK << 32 | UINT32_MAX);
    return (void *)(uintptr_t)((uint64_t)the_runtime.mark << 56 | (uint64_t)kind << 56 | low);
}

void *
handle_of(HandleKind kind, const SlabHead *head)
{
    return handle_from(kind, (uint64_t)load_u32(&head->generation, RELAXED) << 32 | head->index);
}

static Slab *
slab_of(Runtime *runtime, HandleKind kind)
{
    switch (kind) {
    case HANDLE_NURSERY:
        return &runtime->scheduler.nurseries;
    case HANDLE_CHANNEL:
        return &runtime->scheduler.channels;
    case HANDLE_TASK:
        return &runtime->scheduler.tasks;
    case HANDLE_SELECT:
        return &runtime->selects;
    default:
        return &runtime->tokens;
    }
}

void *
handle_find(const Visit *visit, HandleKind kind, const void *handle, uint32_t *generation)
{
    Runtime *runtime = visit->runtime;
    return runtime == NULL ? NULL : handle_find_in(slab_of(runtime, kind), runtime->mark, kind, handle, generation);
}
