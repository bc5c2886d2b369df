/* The order of the lanes, and the bound that the two streaks promise. */
#include "check.h"

#include "law/decide.h"

static void
test_the_order(void)
{
    CHECK_EQUAL(law_decide(true, true, true, true, 0, 16, 0), LAW_LANE_CANCEL);
    CHECK_EQUAL(law_decide(true, true, true, true, 16, 16, 0), LAW_LANE_TIMED);
    CHECK_EQUAL(law_decide(true, true, true, true, 16, 16, 8), LAW_LANE_READY);
    CHECK_EQUAL(law_decide(true, true, false, true, 16, 16, 8), LAW_LANE_STEAL);
    CHECK_EQUAL(law_decide(true, true, false, false, 16, 16, 8), LAW_LANE_TIMED);
    CHECK_EQUAL(law_decide(true, false, false, false, 16, 16, 8), LAW_LANE_CANCEL_FALLBACK);
    CHECK_EQUAL(law_decide(false, false, false, false, 0, 16, 0), LAW_LANE_IDLE);
}

/* Every lane always has work: how long does the ready one wait at most? */
static void
test_ready_work_is_not_starved(void)
{
    for (int draining = 0; draining < 2; draining++) {
        uint32_t limit = law_cancel_limit(draining), cancel_streak = 0, timed_streak = 0, waited = 0, longest = 0;
        for (int i = 0; i < 10000; i++) {
            LawLane lane = law_decide(true, true, true, false, cancel_streak, limit, timed_streak);
            law_streaks_after(lane, &cancel_streak, &timed_streak);
            CHECK(cancel_streak <= limit);
            CHECK(timed_streak <= LAW_TIMED_STREAK_MAX);
            waited = lane == LAW_LANE_READY ? 0 : waited + 1;
            longest = waited > longest ? waited : longest;
        }
        CHECK_EQUAL(longest, law_wait_max(limit));
    }
}

static void
test_streaks(void)
{
    uint32_t cancel_streak = 5, timed_streak = 7;
    law_streaks_after(LAW_LANE_CANCEL_FALLBACK, &cancel_streak, &timed_streak);
    CHECK(cancel_streak == 0 && timed_streak == 7);
    law_streaks_after(LAW_LANE_TIMED, &cancel_streak, &timed_streak);
    law_streaks_after(LAW_LANE_TIMED, &cancel_streak, &timed_streak);
    CHECK(cancel_streak == 0 && timed_streak == 8);
    law_streaks_after(LAW_LANE_STEAL, &cancel_streak, &timed_streak);
    CHECK(cancel_streak == 0 && timed_streak == 0);
}

int
main(void)
{
    test_the_order();
    test_ready_work_is_not_starved();
    test_streaks();
    CHECK_EQUAL(law_cancel_limit(false), 16);
    CHECK_EQUAL(law_cancel_limit(true), 32);
    return finish();
}
