/* Giving memory back to the kernel: trimming a pool, closing it, and shedding the memory of one stack.
 *
 * Trimming is rare: the load has gone, or memory is short. So it holds the pool's lock all the time, and walks every
 * pooled stack. It gives back the memory of free stacks, whose addresses and guards stay, and all of an arena whose
 * stacks are all free or retired.
 *
 * TRIM-1  whatever fails, each stack is afterwards in exactly one place: in the depot, in a cache, in use, retired, or
 *     gone with its arena
 */
#pragma once

#include "fiber/stack.h"

/* Gives the memory of all pooled stacks back to the kernel. Flush the caches first: cached stacks keep theirs. Unmaps
 * arenas without a stack in use or in a cache. Returns 0, or the error of the first call that failed; the pool is
 * usable either way. */
int stack_pool_trim(struct stack_pool *pool);

/* Unmaps everything. Returns 0. Returns EBUSY if a cache is open or a stack in use, and then nothing has happened.
 * Returns the error of the first unmapping that failed, and then it can be called again. */
int stack_pool_close(struct stack_pool *pool);

/* Called on this stack, after a fiber has overflowed it: gives back the memory below the caller's frame. A refusal is
 * counted, and costs only memory. */
void stack_shed(struct stack *stack);
