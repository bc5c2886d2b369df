/* Timers: one heap, ordered by (deadline, id). Mirrors src/bursar/law/timers.py, and `TimedLane` of lanes.py.
 *
 * Timers that are due together come out in that order, on every host. No two entries of a heap share an id, so a
 * generation never decides. An entry sits in the record of whoever armed it and knows its place in the heap: disarming
 * takes it out at once, in O(log n), and leaves nothing behind. (In Python it is cheaper to leave a dead entry and
 * to sweep now and then; what comes out, and when, is the same.)
 *
 * HEAP-1  slot 0 is the earliest; every slot is not earlier than its parent, (i − 1) / 4
 * HEAP-2  slots[entry->place - 1].entry == entry for every armed entry, and place is 0 otherwise
 * HEAP-3  an entry is armed or the caller is told that it is not: no timer is lost to a lack of memory
 *
 * Four children per slot: half as deep as with two, and the four keys that are compared lie side by side.
 * Rejected: a timing wheel. Its order inside a slot is insertion order, and ours must be a function of the key.
 * For one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/enums.h"
#include "law/generated/limits.h"

/* One alarm, inside a record of the caller's; it must not move while armed. All zero is unarmed. */
typedef struct {
    int64_t deadline_ns;
    uint64_t id;
    size_t place; /* its slot in the heap, counted from 1; 0: it is not armed */
} LawTimer;

/* Like realloc, with the caller's context; 0 bytes means free, and then the answer is not used. NULL means that there
 * is no memory, and leaves the old block as it was. */
typedef void *(*LawRealloc)(void *context, void *block, size_t bytes);

/* A slot has the key beside it, so that comparing touches no record. */
typedef struct {
    int64_t deadline_ns;
    uint64_t id;
    LawTimer *entry;
} LawTimerSlot;

/* The heap of armed timers. */
typedef struct {
    LawTimerSlot *slots;
    size_t count;
    size_t capacity;
    LawRealloc reallocate;
    void *context;
} LawTimers;

/* An empty heap that takes its memory from `reallocate`. Cannot fail: memory is taken when something is armed. */
void law_timers_init(LawTimers *timers, LawRealloc reallocate, void *context);

/* Give the memory back. Entries that are still armed become unarmed. */
void law_timers_free(LawTimers *timers);

/* Make room for `count` timers in all, so that arming up to that many cannot fail. False if there is no memory. */
bool law_timers_reserve(LawTimers *timers, size_t count);

/* Arm an unarmed entry. False, and nothing is changed, if there is no memory (HEAP-3). */
bool law_timers_arm(LawTimers *timers, LawTimer *timer, int64_t deadline_ns, uint64_t id);

/* Take an entry out. Idempotent: one that fired or was disarmed before stays as it is. */
void law_timers_disarm(LawTimers *timers, LawTimer *timer);

/* Take the first entry whose deadline has come, unarmed now; NULL when there is none. */
LawTimer *law_timers_pop_due(LawTimers *timers, int64_t now_ns);

static inline bool
law_timer_armed(const LawTimer *timer)
{
    return timer->place != 0;
}

/* The entry that is due first, left where it is; NULL when nothing is armed. */
static inline LawTimer *
law_timers_next(const LawTimers *timers)
{
    return timers->count == 0 ? NULL : timers->slots[0].entry;
}

/* Whether the first entry is due. */
static inline bool
law_timers_due(const LawTimers *timers, int64_t now_ns)
{
    return timers->count != 0 && timers->slots[0].deadline_ns <= now_ns;
}
