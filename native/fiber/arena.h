/* Arenas: big mappings cut into stack slots, and the registry that leads from an address to a stack.
 *
 *     | struct arena, struct stack × count | gap | slot 0 | slot 1 | …           |
 *     ^ base, registered                         ^ slots                  base + bytes ^
 *
 * An arena is a power of two in size, so that one atomic word says base and size, and a signal handler can read
 * the registry while others change it. The descriptions at the head are written when a slot is cut, so an arena
 * of which little is used costs little.
 *
 * The registry is the one piece of static state here: a signal handler gets an address and nothing else.
 *
 * Invariants
 *   ARENA-1  An arena is registered exactly while it is mapped.
 *   ARENA-2  The handler reads an arena's head only if the address that it looks for lies inside; and it looks only
 *       for addresses of stacks that are in use, or of none.
 *   ARENA-3  `cut` only grows; a description below it is complete. */

#pragma once

#include "fiber/stack.h"

/* 4096 arenas of the default size are 16 million stacks. */
#define ARENAS_MAX 4096u

/* An arena of a large class has at least this many slots, less its head. */
#define ARENA_SLOTS_MIN 8u

struct arena {
    struct arena *next;
    struct stack_pool *pool;
    char *slots;
    size_t bytes, slot_bytes;
    uint32_t count;
    _Atomic uint32_t cut;
    uint32_t retired; /* cut, and never to be used again */
    uint32_t idle;    /* used while trimming */
    unsigned class;
    _Alignas(64) struct stack stacks[];
};

/* The whole slot of a stack, guard included. */
char *arena_slot(const struct stack *stack);

/* Maps and registers an arena for a class of the pool. NULL and errno, and then nothing is left behind. */
struct arena *arena_map(struct stack_pool *pool, unsigned class);

/* Unregisters and unmaps. 0, or an errno, and then the arena is as before. */
int arena_unmap(struct arena *arena);

/* Cuts up to `count` slots and returns them as a list, all bare; NULL if none is left. */
struct stack *arena_cut(struct arena *arena, uint32_t count);
