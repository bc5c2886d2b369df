/* The heap: its order, removal from anywhere, and what happens without memory. */
#include "check.h"

#include "law/chain.h"
#include "law/timers.h"

enum { TIMERS = 500 };

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

/* HEAP-1 and HEAP-2, seen from outside. */
static void
check_heap(const LawTimers *timers)
{
    bool ordered = true, placed = true;
    for (size_t i = 0; i < timers->count; i++) {
        const LawTimerSlot *slot = &timers->slots[i], *parent = &timers->slots[i == 0 ? 0 : (i - 1) / 4];
        ordered = ordered && (parent->deadline_ns < slot->deadline_ns ||
                              (parent->deadline_ns == slot->deadline_ns && parent->id <= slot->id));
        placed = placed && slot->entry->place == i + 1 && slot->entry->deadline_ns == slot->deadline_ns &&
                 slot->entry->id == slot->id;
    }
    CHECK(ordered);
    CHECK(placed);
}

static void
test_order_and_removal(void)
{
    Memory memory = {.left = 1000};
    LawTimers timers;
    LawTimer entries[TIMERS] = {0};
    LawStream stream = law_stream_init(7, 0);
    law_timers_init(&timers, reallocate, &memory);
    for (uint64_t i = 0; i < TIMERS; i++) { /* few deadlines, so that the id often decides */
        CHECK(law_timers_arm(&timers, &entries[i], (int64_t)law_stream_below(&stream, 20) - 10, i));
    }
    check_heap(&timers);
    for (size_t i = 0; i < TIMERS; i += 3) {
        law_timers_disarm(&timers, &entries[i]);
        law_timers_disarm(&timers, &entries[i]); /* twice is once */
        CHECK(!law_timer_armed(&entries[i]));
        check_heap(&timers);
    }
    size_t armed = timers.count, popped = 0;
    int64_t last_ns = INT64_MIN;
    uint64_t last_id = 0;
    while (timers.count > 0) {
        LawTimer *next = law_timers_next(&timers), *timer = law_timers_pop_due(&timers, INT64_MAX);
        CHECK(timer != NULL && timer == next && timer->id % 3 != 0);
        CHECK(timer->deadline_ns > last_ns || (timer->deadline_ns == last_ns && timer->id > last_id));
        last_ns = timer->deadline_ns;
        last_id = timer->id;
        popped += 1;
        check_heap(&timers);
    }
    CHECK_EQUAL(popped, armed);
    CHECK(law_timers_next(&timers) == NULL);
    law_timers_free(&timers);
    CHECK_EQUAL(memory.blocks, 0);
}

static void
test_only_what_is_due(void)
{
    Memory memory = {.left = 1};
    LawTimers timers;
    LawTimer early = {0}, late = {0};
    law_timers_init(&timers, reallocate, &memory);
    CHECK(!law_timers_due(&timers, INT64_MAX));
    CHECK(law_timers_arm(&timers, &late, 20, 1) && law_timers_arm(&timers, &early, 10, 2));
    CHECK(!law_timers_due(&timers, 9));
    CHECK(law_timers_pop_due(&timers, 9) == NULL);
    CHECK(law_timers_due(&timers, 10));
    CHECK(law_timers_pop_due(&timers, 10) == &early);
    CHECK(law_timers_pop_due(&timers, 19) == NULL);
    CHECK_BREAKS("HEAP-2", law_timers_arm(&timers, &late, 30, 1));
    law_timers_free(&timers);
    CHECK(!law_timer_armed(&late));
}

static void
test_no_memory_is_told(void)
{
    Memory memory = {.left = 1};
    LawTimers timers;
    LawTimer entries[TIMERS] = {0};
    law_timers_init(&timers, reallocate, &memory);
    uint64_t armed = 0;
    while (law_timers_arm(&timers, &entries[armed], 5, armed)) {
        armed += 1;
    }
    CHECK(armed > 0 && armed < TIMERS);
    CHECK(!law_timer_armed(&entries[armed]));
    CHECK_EQUAL(timers.count, armed);
    check_heap(&timers);
    CHECK(!law_timers_reserve(&timers, armed + 1));
    CHECK(!law_timers_reserve(&timers, SIZE_MAX));
    memory.left = 1;
    CHECK(law_timers_arm(&timers, &entries[armed], 4, armed)); /* memory came back: so does the timer */
    CHECK(law_timers_pop_due(&timers, 4) == &entries[armed]);
    for (uint64_t i = 0; i < armed; i++) {
        CHECK(law_timers_pop_due(&timers, 5) == &entries[i]); /* none was lost */
    }
    law_timers_free(&timers);
    CHECK_EQUAL(memory.blocks, 0);
}

static void
test_reserved_room_needs_no_memory(void)
{
    Memory memory = {.left = 1};
    LawTimers timers;
    LawTimer entries[TIMERS] = {0};
    law_timers_init(&timers, reallocate, &memory);
    CHECK(law_timers_reserve(&timers, TIMERS));
    for (uint64_t i = 0; i < TIMERS; i++) {
        CHECK(law_timers_arm(&timers, &entries[i], -(int64_t)i, i));
    }
    law_timers_free(&timers);
    CHECK_EQUAL(memory.blocks, 0);
}

int
main(void)
{
    test_order_and_removal();
    test_only_what_is_due();
    test_no_memory_is_told();
    test_reserved_room_needs_no_memory();
    return finish();
}
