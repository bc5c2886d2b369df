/* Many wakes make one entry; a late wake makes none. */
#include "check.h"

#include "law/wake.h"

static void
test_a_storm_is_one_entry(void)
{
    uint8_t wake = LAW_WAKE_IDLE;
    CHECK_EQUAL(law_notify(&wake, 3, 3, true), LAW_NOTICE_ENQUEUE);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQUAL(law_notify(&wake, 3, 3, true), LAW_NOTICE_MERGED);
    }
    CHECK_EQUAL(wake, LAW_WAKE_QUEUED);
}

static void
test_woken_while_it_runs(void)
{
    uint8_t wake = LAW_WAKE_QUEUED;
    uint64_t generation = 3;
    law_begin_poll(&wake, &generation);
    CHECK_EQUAL(generation, 4);
    CHECK_EQUAL(law_notify(&wake, generation, 3, false), LAW_NOTICE_STALE); /* meant for the poll before */
    CHECK_EQUAL(wake, LAW_WAKE_RUNNING);
    CHECK_EQUAL(law_notify(&wake, generation, 4, false), LAW_NOTICE_NOTED);
    CHECK_EQUAL(law_notify(&wake, generation, 4, false), LAW_NOTICE_MERGED);
    CHECK(law_end_poll(&wake));
    CHECK_EQUAL(wake, LAW_WAKE_QUEUED);
}

static void
test_it_waits(void)
{
    uint8_t wake = LAW_WAKE_RUNNING;
    CHECK(!law_end_poll(&wake));
    CHECK_EQUAL(wake, LAW_WAKE_IDLE);
    CHECK_EQUAL(law_notify(&wake, 1, 1, false), LAW_NOTICE_STALE); /* on hold: a wake is no recharge */
    CHECK_EQUAL(wake, LAW_WAKE_IDLE);
}

static void
test_the_dead_do_not_wake(void)
{
    uint8_t wake = LAW_WAKE_DONE;
    CHECK_EQUAL(law_notify(&wake, 1, 1, true), LAW_NOTICE_STALE);
    CHECK_EQUAL(wake, LAW_WAKE_DONE);
    CHECK_BREAKS("WAKE-1", law_wake_queued(&wake));
}

int
main(void)
{
    test_a_storm_is_one_entry();
    test_woken_while_it_runs();
    test_it_waits();
    test_the_dead_do_not_wake();
    return finish();
}
