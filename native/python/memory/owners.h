/* The owner table (owners.c): from the address of a block to the account that pays for it.
 *
 * `alone` says that the caller runs a task and holds the GIL, so that no other thread is alone (OWNERS-2).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uintptr_t block; /* 0: the slot is free */
    int64_t bytes;
    void *account;
    bool arena; /* an arena of small objects, not a block */
} Owned;

bool owners_put(const Owned *owned, bool alone);               /* false: no memory, and the block has no owner */
bool owners_take(const void *block, Owned *owned, bool alone); /* false: the block has no owner; `owned` is unchanged */
/* Empty the table, and call `visit` for each entry, under the locks: it must not call these functions. Only if alone. */
void owners_clear(void (*visit)(const Owned *owned));
size_t owners_count(void); /* how many blocks have an owner; exact while no thread puts or takes */
/* To be called once: from then on, a child process does not inherit a lock that another thread held. False: no memory. */
bool owners_survive_fork(void);
