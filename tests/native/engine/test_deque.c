/* The deque on one thread: order at both ends, growth, bounds, and what happens when there is no memory. */
#include "check.h"

#include "engine/deque.h"
#include "faulty.h"

static void *
item(uintptr_t number)
{
    return (void *)number;
}

static uintptr_t
stolen(Deque *deque)
{
    void *got = NULL;
    return deque_steal(deque, &got) == STEAL_DONE ? (uintptr_t)got : 0;
}

/* Make a deque, single-threaded or not: on one thread both behave the same (DEQUE-8). */
static bool
made(Deque *deque, size_t capacity, bool single_threaded)
{
    if (!deque_init(deque, capacity, &engine_allocator_libc)) {
        return false;
    }
    if (single_threaded) {
        deque_set_single_threaded(deque);
    }
    return true;
}

/* DQ-1, DQ-2, DQ-3, DQ-6. */
static void
test_order(bool single_threaded)
{
    Deque deque;
    void *got = item(99);
    CHECK(made(&deque, 8, single_threaded));
    CHECK(deque_length(&deque) == 0);
    CHECK(deque_take(&deque) == NULL);
    CHECK(deque_steal(&deque, &got) == STEAL_EMPTY);
    CHECK(got == item(99));
    for (uintptr_t i = 1; i <= 5; i++) {
        CHECK(deque_push(&deque, item(i)));
        CHECK_EQUAL(deque_length(&deque), i);
    }
    CHECK(deque_take(&deque) == item(5)); /* newest first */
    CHECK_EQUAL(stolen(&deque), 1);       /* oldest first */
    CHECK(deque_push(&deque, item(6)));
    CHECK_EQUAL(stolen(&deque), 2);
    CHECK(deque_take(&deque) == item(6));
    CHECK(deque_take(&deque) == item(4));
    CHECK_EQUAL(deque_length(&deque), 1);
    CHECK(deque_take(&deque) == item(3)); /* the last one */
    CHECK(deque_take(&deque) == NULL);
    CHECK_EQUAL(stolen(&deque), 0);
    CHECK(deque_push(&deque, item(7)));
    CHECK_EQUAL(stolen(&deque), 7);
    CHECK(deque_take(&deque) == NULL);
    CHECK(deque_take_oldest(&deque) == NULL);
    for (uintptr_t i = 8; i <= 11; i++) {
        CHECK(deque_push(&deque, item(i)));
    }
    CHECK(deque_take_oldest(&deque) == item(8)); /* as a queue */
    CHECK_EQUAL(stolen(&deque), 9);
    CHECK(deque_take_oldest(&deque) == item(10));
    CHECK(deque_take_oldest(&deque) == item(11));
    CHECK(deque_take_oldest(&deque) == NULL);
    deque_destroy(&deque);
}

/* DQ-4, and the opposite of DQ-5: a full deque grows. */
static void
test_capacity(void)
{
    Deque deque;
    CHECK(!deque_init(&deque, 0, &engine_allocator_libc));
    CHECK(!deque_init(&deque, (size_t)DEQUE_CAPACITY_MAX + 1, &engine_allocator_libc));
    CHECK(deque_init(&deque, 10, &engine_allocator_libc));
    CHECK_EQUAL(deque_capacity(&deque), 16);
    for (uintptr_t i = 1; i <= 16; i++) {
        CHECK(deque_push(&deque, item(i)));
    }
    CHECK_EQUAL(deque_capacity(&deque), 16);
    CHECK(deque_push(&deque, item(17)));
    CHECK_EQUAL(deque_capacity(&deque), 32);
    for (uintptr_t i = 1; i <= 17; i++) {
        CHECK_EQUAL(stolen(&deque), i);
    }
    CHECK_EQUAL(deque_reserve(&deque, 1000), 1000);
    CHECK_EQUAL(deque_capacity(&deque), 1024);
    CHECK_EQUAL(deque_reserve(&deque, (size_t)DEQUE_CAPACITY_MAX + 1), 1024); /* refused; the free slots are left */
    deque_destroy(&deque);
}

/* A million items, with the ends moving, through every growth. */
static void
test_growth(bool single_threaded)
{
    enum { COUNT = 1000000 };
    Deque deque;
    Faulty faulty = {0};
    EngineAllocator memory = {faulty_allocate, faulty_release, &faulty};
    uintptr_t pushed = 0, oldest = 1, wrong = 0;
    CHECK(deque_init(&deque, 1, &memory));
    if (single_threaded) {
        deque_set_single_threaded(&deque);
    }
    while (pushed < COUNT) {
        wrong += !deque_push(&deque, item(++pushed));
        if (pushed % 3 == 0) {
            wrong += stolen(&deque) != oldest++;
        }
    }
    CHECK_EQUAL(deque_length(&deque), COUNT - (oldest - 1));
    for (uintptr_t newest = COUNT; newest >= oldest; newest--) {
        wrong += deque_take(&deque) != item(newest);
    }
    CHECK(wrong == 0);
    CHECK(deque_take(&deque) == NULL);
    CHECK(faulty.bytes < 2 * 8 * 1048576 + 4096); /* DEQUE-6: the old buffers are smaller than the last one */
    deque_destroy(&deque);
    CHECK(faulty.blocks == 0 && faulty.bytes == 0);
}

/* DEQUE-5: far beyond 32 bits nothing changes. */
static void
test_indices(bool single_threaded)
{
    Deque deque;
    const int64_t start = (INT64_C(1) << 40) - 3;
    CHECK(made(&deque, 4, single_threaded));
    init_i64(&deque.top, start);
    init_i64(&deque.bottom, start);
    deque.top_seen = start;
    for (uintptr_t i = 1; i <= 9; i++) {
        CHECK(deque_push(&deque, item(i)));
    }
    CHECK_EQUAL(stolen(&deque), 1);
    CHECK(deque_take(&deque) == item(9));
    CHECK_EQUAL(deque_length(&deque), 7);
    deque_destroy(&deque);
}

static void
test_batches(bool single_threaded)
{
    Deque victim, thief;
    void *items[100], *got;
    size_t count;
    CHECK(made(&victim, 4, single_threaded));
    CHECK(made(&thief, 4, single_threaded));
    CHECK(deque_steal_batch(&victim, items, 100, &count) == STEAL_EMPTY && count == 0);
    CHECK(deque_steal_into(&victim, &thief, &got, &count) == STEAL_EMPTY && count == 0);
    for (uintptr_t i = 1; i <= 200; i++) {
        deque_push(&victim, item(i));
    }
    CHECK(deque_steal_batch(&victim, items, 0, &count) == STEAL_EMPTY && count == 0);
    CHECK(deque_steal_batch(&victim, items, 3, &count) == STEAL_DONE && count == 3);
    CHECK(items[0] == item(1) && items[2] == item(3));
    CHECK(deque_steal_batch(&victim, items, 100, &count) == STEAL_DONE && count == DEQUE_BATCH_MAX);
    CHECK(items[0] == item(4) && items[DEQUE_BATCH_MAX - 1] == item(3 + DEQUE_BATCH_MAX));
    while (deque_length(&victim) > 5) {
        deque_take(&victim);
    }
    CHECK(deque_steal_into(&victim, &thief, &got, &count) == STEAL_DONE && count == 3); /* half of 5, rounded up */
    CHECK(got == item(36));
    CHECK(deque_take(&thief) == item(38)); /* the others, newest first, as its own */
    CHECK(deque_take(&thief) == item(37));
    CHECK(deque_take(&thief) == NULL);
    CHECK_EQUAL(deque_length(&victim), 2);
    CHECK(deque_steal_into(&victim, &thief, &got, &count) == STEAL_DONE && count == 1);
    CHECK(deque_steal_into(&victim, &thief, &got, &count) == STEAL_DONE && count == 1); /* the last one, too */
    CHECK(deque_length(&victim) == 0);
    deque_destroy(&victim);
    deque_destroy(&thief);
}

/* Every allocation of one scenario fails in turn: the push returns false, and nothing is lost (DEQUE-7). */
static bool
scenario_without_memory(Faulty *faulty)
{
    EngineAllocator memory = {faulty_allocate, faulty_release, faulty};
    Deque victim, thief;
    uintptr_t sum = 0, expected = 0;
    void *got;
    size_t count;
    if (!deque_init(&victim, 1, &memory)) {
        return false;
    }
    if (!deque_init(&thief, 1, &memory)) {
        deque_destroy(&victim);
        return false;
    }
    bool refused = false;
    for (uintptr_t i = 1; i <= 100; i++) {
        if (deque_push(&victim, item(i))) {
            expected += i;
        } else {
            refused = true;
        }
    }
    while (deque_steal_into(&victim, &thief, &got, &count) == STEAL_DONE) {
        sum += (uintptr_t)got;
        while ((got = deque_take(&thief)) != NULL) {
            sum += (uintptr_t)got;
        }
    }
    CHECK(sum == expected);
    CHECK(expected > 0);
    deque_destroy(&thief);
    deque_destroy(&victim);
    return !refused;
}

static void
test_faults(void)
{
    Faulty counting = {0};
    CHECK(scenario_without_memory(&counting));
    CHECK(counting.calls > 8);
    for (long at = 1; at <= counting.calls; at++) {
        Faulty once = {.fail_at = at}, ever = {.fail_from = at};
        scenario_without_memory(&once);
        CHECK(once.blocks == 0 && once.bytes == 0);
        bool whole = scenario_without_memory(&ever);
        CHECK(!whole || at == counting.calls); /* the last allocation is the thief's: it only takes fewer */
        CHECK(ever.blocks == 0 && ever.bytes == 0);
    }
}

int
main(void)
{
    test_order(false);
    test_order(true);
    test_capacity();
    test_growth(false);
    test_growth(true);
    test_indices(false);
    test_indices(true);
    test_batches(false);
    test_batches(true);
    test_faults();
    return finish();
}
