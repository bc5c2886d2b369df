/* The heap of everything that waits for a time: armed timers, and the tasks of a timed lane. Ordered by (deadline, id).
 * Mirrors the heaps of src/bursar/law/timers.py and lanes.py.
 *
 * Entries that are due together come out in that order, on every host. No two entries of a heap share an id, so a
 * generation never decides. An entry is one word inside a record of the caller: its place in the heap. LAW_RECORD finds
 * the record from the word. So removal from the middle needs no search, costs O(log n), and leaves nothing behind. (In
 * Python it is cheaper to leave a dead entry and to sweep now and then; the entries come out in the same order.)
 *
 * HEAP-1  slot 0 is the earliest; no slot is earlier than its parent, (i - 1) / 4
 * HEAP-2  *slots[*entry - 1].entry == *entry for every entry in the heap; the word of an entry that left the heap is 0
 * HEAP-3  making room is the only step that can fail, and then nothing has changed: a lack of memory loses no entry
 *
 * With four children per slot the heap is half as deep as with two, and the four keys that are compared are adjacent in
 * memory. The key is in the slot, so a comparison touches no record. The functions are inline: each user has one heap,
 * so the compiler inlines its allocator too. Rejected: a timing wheel. Its order inside a slot is the order of
 * insertion, but this order must be a function of the key. For one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/rule.h"

enum {
    LAW_HEAP_CHILDREN = 4,
    LAW_HEAP_ROOM_MIN = 16, /* the first block: most runs would waste a whole page of slots */
};

/* An entry: its slot in the heap, counted from 1; 0: it is in no heap. Its record must not move while it is in one. */
typedef uint32_t LawHeapEntry;

typedef struct {
    int64_t deadline_ns;
    uint64_t id;
    LawHeapEntry *entry;
} LawHeapSlot;

/* All zero is an empty heap. */
typedef struct {
    LawHeapSlot *slots;
    uint32_t count;
    uint32_t room;
} LawHeap;

/* Like realloc, with the caller's context. 0 bytes: free; the result is not used. Returns NULL if there is no memory,
 * and leaves the old block as it was. */
typedef void *(*LawRealloc)(void *context, void *block, size_t bytes);

/* The order of HEAP-1. */
static inline bool
law_heap_earlier(const LawHeapSlot *a, const LawHeapSlot *b)
{
    return a->deadline_ns < b->deadline_ns || (a->deadline_ns == b->deadline_ns && a->id < b->id);
}

/* Write `slot` at `place`, counted from 0, and its place into its entry (HEAP-2). */
static inline void
law_heap_write(LawHeap *heap, uint32_t place, LawHeapSlot slot)
{
    heap->slots[place] = slot;
    *slot.entry = place + 1;
}

/* Move `slot`, which belongs at `place` or above, up to where HEAP-1 holds. */
static inline void
law_heap_rise(LawHeap *heap, uint32_t place, LawHeapSlot slot)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / LAW_HEAP_CHILDREN;
        if (!law_heap_earlier(&slot, &heap->slots[parent])) {
            break;
        }
        law_heap_write(heap, place, heap->slots[parent]);
        place = parent;
    }
    law_heap_write(heap, place, slot);
}

/* Move `slot`, which belongs at `place` or below, down to where HEAP-1 holds. */
static inline void
law_heap_sink(LawHeap *heap, uint32_t place, LawHeapSlot slot)
{
    LawHeapSlot *slots = heap->slots, *over = slots + heap->count;
    for (;;) {
        LawHeapSlot *least = slots + (size_t)place * LAW_HEAP_CHILDREN + 1;
        if (least >= over) {
            break;
        }
        LawHeapSlot *end = over - least < LAW_HEAP_CHILDREN ? over : least + LAW_HEAP_CHILDREN;
        for (LawHeapSlot *child = least + 1; child < end; child++) {
            if (law_heap_earlier(child, least)) {
                least = child;
            }
        }
        if (!law_heap_earlier(least, &slot)) {
            break;
        }
        law_heap_write(heap, place, *least);
        place = (uint32_t)(least - slots);
    }
    law_heap_write(heap, place, slot);
}

/* Make room for one more entry, so that the next law_heap_push cannot fail. Returns false, with nothing changed, if
 * there is no memory (HEAP-3). */
static inline bool
law_heap_reserve(LawHeap *heap, LawRealloc reallocate, void *context)
{
    if (heap->count < heap->room) {
        return true;
    }
    size_t room = heap->room < LAW_HEAP_ROOM_MIN ? LAW_HEAP_ROOM_MIN : 2 * (size_t)heap->room;
    if (room > UINT32_MAX || room > SIZE_MAX / sizeof(LawHeapSlot)) { /* a place must fit into an entry */
        return false;
    }
    LawHeapSlot *slots = reallocate(context, heap->slots, room * sizeof(LawHeapSlot));
    if (slots == NULL) {
        return false;
    }
    heap->slots = slots;
    heap->room = (uint32_t)room;
    return true;
}

/* Put in an entry that is in no heap. law_heap_reserve made room. Cannot fail. */
static inline void
law_heap_push(LawHeap *heap, LawHeapEntry *entry, int64_t deadline_ns, uint64_t id)
{
    LAW_RULE(heap->count < heap->room, "HEAP-3");
    heap->count += 1;
    law_heap_rise(heap, heap->count - 1, (LawHeapSlot){deadline_ns, id, entry});
}

/* Whether an entry is in this heap. */
static inline bool
law_heap_has(const LawHeap *heap, const LawHeapEntry *entry)
{
    return *entry - 1 < heap->count && heap->slots[*entry - 1].entry == entry; /* 0 wraps, and is too large */
}

/* Take out an entry that is in this heap; the last slot fills the gap. Cannot fail. */
static inline void
law_heap_remove(LawHeap *heap, LawHeapEntry *entry)
{
    LAW_RULE(law_heap_has(heap, entry), "HEAP-2");
    uint32_t place = *entry - 1;
    *entry = 0;
    heap->count -= 1;
    if (place < heap->count) {
        LawHeapSlot last = heap->slots[heap->count];
        if (place > 0 && law_heap_earlier(&last, &heap->slots[(place - 1) / LAW_HEAP_CHILDREN])) {
            law_heap_rise(heap, place, last);
        } else {
            law_heap_sink(heap, place, last);
        }
    }
}

/* The slot that is due first; NULL when the heap is empty. */
static inline const LawHeapSlot *
law_heap_first(const LawHeap *heap)
{
    return heap->count == 0 ? NULL : &heap->slots[0];
}

/* The earliest entry, left in the heap, if it is due; otherwise NULL. */
static inline LawHeapEntry *
law_heap_due(const LawHeap *heap, int64_t now_ns)
{
    return heap->count != 0 && heap->slots[0].deadline_ns <= now_ns ? heap->slots[0].entry : NULL;
}

/* Free the memory. The words of the entries that are still in the heap become 0. */
static inline void
law_heap_free(LawHeap *heap, LawRealloc reallocate, void *context)
{
    for (size_t i = 0; i < heap->count; i++) {
        *heap->slots[i].entry = 0;
    }
    if (heap->slots != NULL) {
        reallocate(context, heap->slots, 0);
    }
    *heap = (LawHeap){0};
}
