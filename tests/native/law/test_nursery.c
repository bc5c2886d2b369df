/* The states of a nursery, and its result. */
#include "check.h"

#include "law/nursery.h"

static void
test_the_drawing(void)
{
    CHECK(law_nursery_may_move(LAW_NURSERY_OPEN, LAW_NURSERY_CLOSING));
    CHECK(law_nursery_may_move(LAW_NURSERY_OPEN, LAW_NURSERY_CANCELLING));
    CHECK(law_nursery_may_move(LAW_NURSERY_CLOSING, LAW_NURSERY_CANCELLING));
    CHECK(law_nursery_may_move(LAW_NURSERY_CLOSING, LAW_NURSERY_CLOSED));
    CHECK(law_nursery_may_move(LAW_NURSERY_CANCELLING, LAW_NURSERY_CANCELLED));
    CHECK(!law_nursery_may_move(LAW_NURSERY_CANCELLING, LAW_NURSERY_CLOSED));
    CHECK(!law_nursery_may_move(LAW_NURSERY_OPEN, LAW_NURSERY_CLOSED));
    CHECK(!law_nursery_may_move(LAW_NURSERY_STATES, 0));
    CHECK(!law_nursery_may_move(0, LAW_NURSERY_STATES));
}

static void
test_what_is_over_stays_over(void)
{
    for (unsigned state = 0; state < LAW_NURSERY_STATES; state++) {
        CHECK_EQUAL(law_nursery_terminal(state), state == LAW_NURSERY_CLOSED || state == LAW_NURSERY_CANCELLED);
        CHECK(!law_nursery_may_move(LAW_NURSERY_CLOSED, state));
        CHECK(!law_nursery_may_move(LAW_NURSERY_CANCELLED, state));
    }
}

static void
test_the_first_failure_wins(void)
{
    CHECK_EQUAL(law_nursery_result(LAW_OUTCOME_OK, false), LAW_OUTCOME_OK);
    CHECK_EQUAL(law_nursery_result(LAW_OUTCOME_OK, true), LAW_OUTCOME_CANCELLED);
    CHECK_EQUAL(law_nursery_result(LAW_OUTCOME_FAILED, true), LAW_OUTCOME_FAILED);
    CHECK_EQUAL(law_nursery_result(LAW_OUTCOME_PANICKED, true), LAW_OUTCOME_PANICKED);
}

static void
test_which_ends_are_noted(void)
{
    for (unsigned outcome = 0; outcome < LAW_OUTCOMES; outcome++) {
        bool failure = outcome == LAW_OUTCOME_FAILED || outcome == LAW_OUTCOME_PANICKED;
        CHECK_EQUAL(law_nursery_notes((LawOutcome)outcome, false), failure);
        CHECK(!law_nursery_notes((LawOutcome)outcome, true)); /* the supervisor decides */
    }
}

int
main(void)
{
    test_the_drawing();
    test_what_is_over_stays_over();
    test_the_first_failure_wins();
    test_which_ends_are_noted();
    return finish();
}
