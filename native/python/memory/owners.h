/* Who owns which block: a table from the address of a block to the account that pays for it. See owners.c. */

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

bool owners_put(const Owned *owned, bool alone);
bool owners_take(const void *block, Owned *owned, bool alone);
void owners_clear(void (*visit)(const Owned *owned));
size_t owners_count(void);
bool owners_survive_fork(void);
