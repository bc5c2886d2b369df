/* Guards: three ways to notice an overflow, from a page that faults to a canary. stack.h lists them.
 *
 * A pool begins with the best way. If the kernel does not have it, the pool never tries it again, and tries the next
 * way on the same stacks. A guard by advice counts only if it is seen to work: an emulator may accept advice and not
 * follow it.
 *
 * Invariants
 *   GUARD-1  A guard is installed once per slot and stays until the slot is unmapped: trimming does not touch it.
 *   GUARD-2  A stack that is not bare has the guard that its field `guard` names.
 *   GUARD-3  A refusal other than "not known" is an error of the caller's request. Stacks that have guards already keep
 *       them; the others stay bare. */

#pragma once

#include "fiber/stack.h"

/* Guards every bare stack of a list of at most STACK_MAGAZINE stacks. Returns 0, or an errno (GUARD-3). */
int guard_install(struct stack_pool *pool, struct stack *list);

/* Gives back the memory of the stacks of a list; their guards stay. Returns 0, or the errno of the first refusal. */
int guard_release_memory(struct stack_pool *pool, struct stack *list);

/* An arena was unmapped, and with it this many guards of each kind. */
void guard_forget(struct stack_pool *pool, const uint64_t guards[3]);
