/* Guards: the ladder from a page that faults to a canary. See stack.h for the rungs.
 *
 * The first attempt is the probe: a rung that the kernel does not have is left, for this pool and for good, and
 * the next one is tried on the same stacks. A rung counts as there only if the guard was seen to work, because an
 * emulator may accept advice that it does not follow.
 *
 * Invariants
 *   GUARD-1  A guard is installed once per slot and stays until the slot is unmapped: trimming does not touch it.
 *   GUARD-2  A stack that is not bare has the guard that `guard` says.
 *   GUARD-3  A refusal that is not "I do not know this" is an error and goes to the caller; the stacks that already
 *       have guards keep them, the others stay bare. */

#pragma once

#include "fiber/stack.h"

/* Guards every bare stack of a list of at most STACK_MAGAZINE. 0, or an errno (GUARD-3). */
int guard_install(struct stack_pool *pool, struct stack *list);

/* Gives the memory of the stacks of a list back, not their guards. 0, or the errno of the first refusal. */
int guard_release_memory(struct stack_pool *pool, struct stack *list);

/* An arena is gone, and with it so many guards of each kind. */
void guard_forget(struct stack_pool *pool, const uint64_t guards[3]);
