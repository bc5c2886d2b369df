/* Parker, backoff and idle set on one thread: everything that needs no second thread. */
#include "check.h"

#include "engine/idle.h"
#include "engine/park.h"
#include "faulty.h"

static void
test_parker(void)
{
    Parker parker;
    CHECK(parker_init(&parker));
    CHECK_EQUAL(parker_collect(&parker), 0);
    CHECK_EQUAL(parker_sleep(&parker, park_clock_ns()), 0); /* the deadline is now */
    CHECK_EQUAL(parker_sleep(&parker, -5), 0);
    parker_wake(&parker, 1);
    parker_wake(&parker, 4);
    CHECK_EQUAL(parker_sleep(&parker, PARK_FOREVER), 5); /* both tokens, at once, without a deadline */
    CHECK_EQUAL(parker_sleep(&parker, 0), 0);            /* only once */
    parker_wake(&parker, 2);
    CHECK_EQUAL(parker_collect(&parker), 2);
    parker_destroy(&parker);
}

static void
test_deadline(void)
{
    Parker parker;
    CHECK(parker_init(&parker));
    int64_t deadline_ns = park_clock_ns() + 2000000;
    CHECK_EQUAL(parker_sleep(&parker, deadline_ns), 0);
    CHECK(park_clock_ns() >= deadline_ns); /* never early */
    parker_destroy(&parker);
}

static void
test_backoff(void)
{
    Backoff backoff = {0};
    int64_t expected = BACKOFF_NS_MIN, pause;
    int pauses = 0;
    while ((pause = backoff_next_ns(&backoff)) != 0) {
        CHECK_EQUAL(pause, expected);
        expected = expected * 2 < BACKOFF_NS_MAX ? expected * 2 : BACKOFF_NS_MAX;
        pauses++;
    }
    CHECK_EQUAL(pauses, 11); /* 1, 2, 4 … 512 µs, 1 ms */
    CHECK_EQUAL(backoff_next_ns(&backoff), 0);
    int64_t before_ns = park_clock_ns();
    backoff_spin(BACKOFF_NS_MIN);
    CHECK(park_clock_ns() - before_ns >= BACKOFF_NS_MIN);
}

static bool
answer(void *context, uint32_t worker)
{
    (void)worker;
    return *(bool *)context;
}

static void
test_bounds(void)
{
    bool work = false;
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 256, IDLE_WORKERS_MAX};
    IdleSet set;
    CHECK(!idle_init(&set, 0, answer, &work, &engine_allocator_libc));
    CHECK(!idle_init(&set, IDLE_WORKERS_MAX + 1, answer, &work, &engine_allocator_libc));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t last = sizes[i] - 1;
        CHECK(idle_init(&set, sizes[i], answer, &work, &engine_allocator_libc));
        idle_notify(&set); /* no worker sleeps */
        idle_wake_one(&set);
        CHECK(load_u64(&set.word, RELAXED) == 0);
        idle_call(&set, last);
        CHECK(idle_park(&set, last, false, PARK_FOREVER) == IDLE_CALLED); /* a call waits for its worker */
        CHECK(idle_park(&set, last, false, 0) == IDLE_EXPIRED);
        CHECK(load_u64(&set.word, RELAXED) == 0);
        idle_destroy(&set);
    }
}

static void
test_roles(void)
{
    bool work = true;
    IdleSet set;
    CHECK(idle_init(&set, 4, answer, &work, &engine_allocator_libc));
    CHECK(idle_park(&set, 2, false, PARK_FOREVER) == IDLE_SEARCH); /* the look before the sleep finds work */
    CHECK_EQUAL(load_u64(&set.word, RELAXED), 1);
    CHECK(idle_park(&set, 2, true, PARK_FOREVER) == IDLE_SEARCH);
    CHECK_EQUAL(load_u64(&set.word, RELAXED), 1);
    CHECK(idle_search_begin(&set));
    CHECK(!idle_search_begin(&set)); /* half of four search */
    idle_search_end(&set);
    idle_search_end(&set);
    CHECK_EQUAL(load_u64(&set.word, RELAXED), 0);
    CHECK_BREAKS("IDLE-4", idle_search_end(&set));
    CHECK_BREAKS("IDLE-4", idle_call(&set, 4));
    work = false;
    CHECK(idle_search_begin(&set));
    CHECK(idle_park(&set, 3, true, 0) == IDLE_EXPIRED); /* gives up its role */
    CHECK_EQUAL(load_u64(&set.word, RELAXED), 0);
    idle_destroy(&set);
    CHECK(idle_init(&set, 1, answer, &work, &engine_allocator_libc));
    CHECK(idle_search_begin(&set)); /* a single worker may search */
    CHECK(!idle_search_begin(&set));
    idle_search_end(&set);
    idle_destroy(&set);
}

/* A waker between its claim and its token, step by step: a worker that returns meanwhile waits for the token (IDLE-6).
 */
static void
test_picked_while_returning(void)
{
    bool work = true;
    IdleSet set;
    CHECK(idle_init(&set, 2, answer, &work, &engine_allocator_libc));
    parker_wake(&set.parkers[1],
                2); /* the token of a waker that cleared the bit before it was set: not collected yet */
    CHECK(idle_park(&set, 1, false, PARK_FOREVER) == IDLE_SEARCH);
    CHECK_EQUAL(load_u64(&set.word, RELAXED), 1);
    idle_search_end(&set);
    CHECK_EQUAL(parker_collect(&set.parkers[1]), 2);
    idle_destroy(&set);
}

static void
test_faults(void)
{
    bool work = false;
    for (long at = 1; at <= 3; at++) {
        Faulty faulty = {.fail_at = at};
        EngineAllocator memory = {faulty_allocate, faulty_release, &faulty};
        IdleSet set;
        bool made = idle_init(&set, 256, answer, &work, &memory);
        CHECK(made == (at == 3)); /* two allocations */
        if (made) {
            idle_destroy(&set);
        }
        CHECK(faulty.blocks == 0 && faulty.bytes == 0);
    }
}

int
main(void)
{
    test_parker();
    test_deadline();
    test_backoff();
    test_bounds();
    test_roles();
    test_picked_while_returning();
    test_faults();
    return finish();
}
