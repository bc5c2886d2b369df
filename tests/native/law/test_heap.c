/* The heap: its order, removal from anywhere, and what happens without memory. */
#include "check.h"

#include "law/chain.h"
#include "law/heap.h"

enum { ENTRIES = 500 };

/* Memory that can run out: `left` blocks may still be taken or grown. */
typedef struct {
    int left;
    int blocks;
} Memory;

static void *
reallocate(void *context, void *block, size_t bytes)
{
    Memory *memory = context;
    if (bytes == 0) {
        memory->blocks -= 1;
        free(block);
        return NULL;
    }
    if (memory->left == 0) {
        return NULL;
    }
    memory->left -= 1;
    memory->blocks += block == NULL;
    return realloc(block, bytes);
}

/* HEAP-1 and HEAP-2, checked from outside. */
static void
check_heap(const LawHeap *heap)
{
    bool ordered = true, placed = true;
    for (size_t i = 0; i < heap->count; i++) {
        const LawHeapSlot *slot = &heap->slots[i], *parent = &heap->slots[i == 0 ? 0 : (i - 1) / 4];
        ordered = ordered && (parent->deadline_ns < slot->deadline_ns ||
                              (parent->deadline_ns == slot->deadline_ns && parent->id <= slot->id));
        placed = placed && *slot->entry == i + 1 && law_heap_has(heap, slot->entry);
    }
    CHECK(ordered);
    CHECK(placed);
}

/* Make room and put an entry in, as every user does. */
static bool
push(LawHeap *heap, Memory *memory, LawHeapEntry *entry, int64_t deadline_ns, uint64_t id)
{
    if (!law_heap_reserve(heap, reallocate, memory)) {
        return false;
    }
    law_heap_push(heap, entry, deadline_ns, id);
    return true;
}

/* The earliest entry, taken out, if it is due; otherwise NULL. */
static LawHeapEntry *
pop_due(LawHeap *heap, int64_t now_ns)
{
    LawHeapEntry *due = law_heap_due(heap, now_ns);
    if (due != NULL) {
        law_heap_remove(heap, due);
    }
    return due;
}

static void
test_order_and_removal(void)
{
    Memory memory = {.left = 1000};
    LawHeap heap = {0};
    LawHeapEntry entries[ENTRIES] = {0};
    LawRandomStream stream = law_random_init(7, 0);
    for (uint64_t i = 0; i < ENTRIES; i++) { /* few deadlines, so that the id often decides */
        CHECK(push(&heap, &memory, &entries[i], (int64_t)law_random_below(&stream, 20) - 10, i));
    }
    check_heap(&heap);
    for (size_t i = 0; i < ENTRIES; i += 3) {
        law_heap_remove(&heap, &entries[i]);
        CHECK(entries[i] == 0 && !law_heap_has(&heap, &entries[i]));
        check_heap(&heap);
    }
    size_t held = heap.count, popped = 0;
    LawHeapSlot last = {INT64_MIN, 0, NULL};
    while (heap.count > 0) {
        LawHeapSlot first = *law_heap_first(&heap);
        CHECK(pop_due(&heap, INT64_MAX) == first.entry && first.entry == &entries[first.id] && first.id % 3 != 0);
        CHECK(law_heap_earlier(&last, &first));
        last = first;
        popped += 1;
        check_heap(&heap);
    }
    CHECK_EQUAL(popped, held);
    CHECK(law_heap_first(&heap) == NULL);
    law_heap_free(&heap, reallocate, &memory);
    CHECK_EQUAL(memory.blocks, 0);
}

static void
test_only_what_is_due(void)
{
    Memory memory = {.left = 1};
    LawHeap heap = {0}, other = {0};
    LawHeapEntry early = 0, late = 0;
    CHECK(law_heap_due(&heap, INT64_MAX) == NULL);
    CHECK(push(&heap, &memory, &late, 20, 1) && push(&heap, &memory, &early, 10, 2));
    CHECK(pop_due(&heap, 9) == NULL);
    CHECK(pop_due(&heap, 10) == &early);
    CHECK(pop_due(&heap, 19) == NULL);
    CHECK(!law_heap_has(&other, &late));
    CHECK_BREAKS("HEAP-2", law_heap_remove(&heap, &early));
    CHECK_BREAKS("HEAP-2", law_heap_remove(&other, &late));
    law_heap_free(&heap, reallocate, &memory);
    CHECK(late == 0);
}

static void
test_no_memory_is_reported(void)
{
    Memory memory = {.left = 1};
    LawHeap heap = {0};
    LawHeapEntry entries[ENTRIES] = {0};
    uint64_t held = 0;
    while (push(&heap, &memory, &entries[held], 5, held)) {
        held += 1;
    }
    CHECK(held > 0 && held < ENTRIES);
    CHECK(entries[held] == 0);
    CHECK_EQUAL(heap.count, held);
    check_heap(&heap);
    CHECK_BREAKS("HEAP-3", law_heap_push(&heap, &entries[held], 5, held));
    memory.left = 1;
    CHECK(push(&heap, &memory, &entries[held], 4, held)); /* there is memory again */
    CHECK(pop_due(&heap, 4) == &entries[held]);
    for (uint64_t i = 0; i < held; i++) {
        CHECK(pop_due(&heap, 5) == &entries[i]); /* none was lost */
    }
    law_heap_free(&heap, reallocate, &memory);
    CHECK_EQUAL(memory.blocks, 0);
}

int
main(void)
{
    test_order_and_removal();
    test_only_what_is_due();
    test_no_memory_is_reported();
    return finish();
}
