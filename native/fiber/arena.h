/* Arenas: big mappings that are cut into stack slots, and the registry that finds the stack of an address.
 *
 *     | struct arena, struct stack × count | gap | slot 0 | slot 1 | …           |
 *     ^ base, registered                         ^ slots                  base + bytes ^
 *
 * The size of an arena is a power of two, so that one atomic word holds base and size, and a signal handler can read
 * the registry while other threads change it. The descriptions at the head are written when a slot is cut, so an
 * arena with few used stacks needs little memory.
 *
 * The registry is static, because a signal handler gets only an address.
 *
 * Invariants
 *   ARENA-1  An arena is registered exactly while it is mapped.
 *   ARENA-2  The handler reads an arena's head only if the address that it looks for is inside the arena. It looks only
 *       for addresses of stacks that are in use, or outside all arenas.
 *   ARENA-3  `cut` only grows; a description below it is complete. */

#pragma once

#include "fiber/stack.h"

/* 4096 arenas of the default size are 16 million stacks. */
#define ARENAS_MAX 4096u

/* An arena of a large class has room for at least this many slots, its head included. */
#define ARENA_SLOTS_MIN 8u

struct arena {
    struct arena *next;
    struct stack_pool *pool;
    char *slots;
    size_t bytes, slot_bytes;
    uint32_t count;
    _Atomic uint32_t cut;
    uint32_t retired; /* slots that were cut and must not be used again */
    uint32_t idle;    /* used while trimming */
    unsigned class;
    _Alignas(64) struct stack stacks[];
};

/* The whole slot of a stack, guard included. */
char *arena_slot(const struct stack *stack);

/* Maps and registers an arena for a class of the pool. Returns NULL and sets errno on failure, which leaves nothing
 * behind. */
struct arena *arena_map(struct stack_pool *pool, unsigned class);

/* Unregisters and unmaps. Returns 0, or an errno, and then the arena is as before. */
int arena_unmap(struct arena *arena);

/* The stack whose slot, guard included, contains the address, or NULL. Safe in a signal handler. The address must be
 * on a stack that is in use, so that its arena stays mapped, or outside all arenas. */
struct stack *stack_find(const void *address);

/* Cuts up to `count` slots and returns their stacks as a list, all without guards; NULL if no slot is left. */
struct stack *arena_cut(struct arena *arena, uint32_t count);
