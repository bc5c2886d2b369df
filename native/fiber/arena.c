/* Arenas and their registry: see arena.h. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/arena.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

/* base | log2(bytes); 0 is a free entry. Bases are page-aligned, so their low bits are free. */
static _Atomic uintptr_t registry[ARENAS_MAX];
/* Entries from this one on have never been used. */
static _Atomic uint32_t registry_end;

#define REGISTRY_LOG2 ((uintptr_t)63)

/* ENOMEM if the registry is full. */
static int
registry_add(const struct arena *arena)
{
    uintptr_t word = (uintptr_t)arena | (uintptr_t)__builtin_ctzl(arena->bytes);
    for (uint32_t i = 0; i < ARENAS_MAX; i++) {
        uintptr_t free_entry = 0;
        if (atomic_compare_exchange_strong(&registry[i], &free_entry, word)) {
            uint32_t end = atomic_load(&registry_end);
            while (end <= i && !atomic_compare_exchange_weak(&registry_end, &end, i + 1)) {
            }
            return 0;
        }
    }
    return ENOMEM;
}

static void
registry_remove(const struct arena *arena)
{
    for (uint32_t i = 0; i < ARENAS_MAX; i++) {
        if ((atomic_load(&registry[i]) & ~REGISTRY_LOG2) == (uintptr_t)arena) {
            atomic_store(&registry[i], 0);
            return;
        }
    }
    assert(0 && "ARENA-1");
}

/* A linear search: panics are rare, and a thousand words are read in a microsecond. */
struct stack *
stack_find(const void *address)
{
    uint32_t end = atomic_load(&registry_end);
    for (uint32_t i = 0; i < end; i++) {
        uintptr_t word = atomic_load(&registry[i]);
        uintptr_t base = word & ~REGISTRY_LOG2;
        if (word == 0 || (uintptr_t)address - base >= (uintptr_t)1 << (word & REGISTRY_LOG2)) {
            continue;
        }
        struct arena *arena = (struct arena *)base; /* ARENA-2 */
        if ((const char *)address < arena->slots) {
            return NULL;
        }
        size_t index = (size_t)((const char *)address - arena->slots) / arena->slot_bytes;
        return index < atomic_load(&arena->cut) ? &arena->stacks[index] : NULL; /* ARENA-3 */
    }
    return NULL;
}

static size_t
power_of_two_from(size_t bytes)
{
    return (size_t)1 << (8 * sizeof(long) - (unsigned)__builtin_clzl(bytes - 1));
}

char *
arena_slot(const struct stack *stack)
{
    return stack->limit - stack->arena->pool->options.guard_bytes;
}

struct arena *
arena_map(struct stack_pool *pool, unsigned class)
{
    const struct stack_system *system = pool->options.system;
    size_t colours = STACK_COLOURS * STACK_COLOUR_BYTES;
    size_t usable = (STACK_BYTES_MIN << class) + STACK_ABOVE_BYTES;
    size_t slot_bytes = power_of_two_from(usable + pool->options.guard_bytes + colours);
    size_t bytes = pool->options.arena_bytes;
    if (bytes < ARENA_SLOTS_MIN * slot_bytes) {
        bytes = ARENA_SLOTS_MIN * slot_bytes;
    }
    struct arena *arena = system->map(system->context, bytes);
    if (arena == NULL) {
        atomic_fetch_add(&pool->failures, 1);
        return NULL;
    }
    /* With huge pages a slot would cost two megabytes. A kernel without huge pages refuses this advice, which is no
     * error. */
    (void)system->advise(system->context, arena, bytes, MADV_NOHUGEPAGE);
    arena->pool = pool;
    arena->bytes = bytes;
    arena->slot_bytes = slot_bytes;
    arena->count = (uint32_t)((bytes - sizeof(struct arena)) / (slot_bytes + sizeof(struct stack)));
    arena->slots = (char *)arena + bytes - arena->count * slot_bytes;
    arena->class = class;
    int error = registry_add(arena);
    if (error != 0) {
        (void)system->unmap(system->context, arena, bytes);
        errno = error;
        return NULL;
    }
    return arena;
}

int
arena_unmap(struct arena *arena)
{
    struct stack_pool *pool = arena->pool;
    const struct stack_system *system = pool->options.system;
    registry_remove(arena);
    if (system->unmap(system->context, arena, arena->bytes) != 0) {
        int error = errno;
        atomic_fetch_add(&pool->failures, 1);
        /* Its entry was just freed, so there is room unless thousands of arenas were mapped at the same moment. */
        int registered = registry_add(arena);
        assert(registered == 0 && "ARENA-1");
        (void)registered;
        return error;
    }
    return 0;
}

struct stack *
arena_cut(struct arena *arena, uint32_t count)
{
    uint32_t cut = atomic_load(&arena->cut);
    uint32_t end = arena->count - cut < count ? arena->count : cut + count;
    struct stack *list = NULL;
    /* Downwards, so that the list begins with the lowest slot. */
    for (uint32_t i = end; i-- > cut;) {
        struct stack *stack = &arena->stacks[i];
        char *slot = arena->slots + i * arena->slot_bytes;
        stack->limit = slot + arena->pool->options.guard_bytes;
        stack->top = slot + arena->slot_bytes - i % STACK_COLOURS * STACK_COLOUR_BYTES;
        stack->arena = arena;
        stack->class = (uint8_t)arena->class;
        stack->bare = true;
        stack->next = list;
        list = stack;
    }
    atomic_store(&arena->cut, end);
    return list;
}
