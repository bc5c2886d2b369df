/* The two tables of a task's states, and the answer for numbers outside of them. test_law_parity.py compares the whole
 * tables with those in Python. */
#include "check.h"

#include "law/state.h"

static void
test_a_life(void)
{
    CHECK(law_may_move(LAW_STATE_PENDING, LAW_STATE_READY));
    CHECK(law_may_move(LAW_STATE_READY, LAW_STATE_RUNNING));
    CHECK(law_may_move(LAW_STATE_RUNNING, LAW_STATE_READY)); /* a yield */
    CHECK(law_may_move(LAW_STATE_RUNNING, LAW_STATE_BLOCKED));
    CHECK(law_may_move(LAW_STATE_BLOCKED, LAW_STATE_READY));
    CHECK(law_may_move(LAW_STATE_PAUSED, LAW_STATE_PENDING));
    CHECK(!law_may_move(LAW_STATE_BLOCKED, LAW_STATE_RUNNING)); /* only through the queue */
    CHECK(!law_may_move(LAW_STATE_READY, LAW_STATE_BLOCKED));
}

static void
test_the_end_is_the_end(void)
{
    for (unsigned to = 0; to < LAW_STATES; to++) {
        CHECK(!law_may_move(LAW_STATE_DONE, to));
        CHECK(!law_may_move(to, to));
    }
    for (unsigned outcome = 0; outcome < LAW_OUTCOMES; outcome++) {
        CHECK(!law_may_end(LAW_STATE_DONE, outcome));
    }
}

static void
test_endings(void)
{
    CHECK(law_may_end(LAW_STATE_RUNNING, LAW_OUTCOME_OK));
    CHECK(!law_may_end(LAW_STATE_BLOCKED, LAW_OUTCOME_OK));
    CHECK(law_may_end(LAW_STATE_PENDING, LAW_OUTCOME_DROPPED));
    CHECK(!law_may_end(LAW_STATE_RUNNING, LAW_OUTCOME_DROPPED));
    CHECK(!law_may_end(LAW_STATE_READY, LAW_OUTCOME_FAILED));
}

static void
test_a_state_changes_by_the_table_alone(void)
{
    uint8_t state = LAW_STATE_PENDING;
    law_state_move(&state, LAW_STATE_PENDING, LAW_STATE_READY);
    CHECK_EQUAL(state, LAW_STATE_READY);
    CHECK_BREAKS("TRANSITION-1", law_state_move(&state, LAW_STATE_READY, LAW_STATE_BLOCKED)); /* not in the table */
    CHECK_BREAKS("TRANSITION-1", law_state_move(&state, LAW_STATE_PENDING, LAW_STATE_READY)); /* it is not PENDING */
}

static void
test_numbers_that_are_no_states(void)
{
    CHECK(!law_may_move(LAW_STATES, LAW_STATE_READY));
    CHECK(!law_may_move(LAW_STATE_READY, LAW_STATES));
    CHECK(!law_may_move(LAW_STATE_READY, UINT32_MAX));
    CHECK(!law_may_end(LAW_STATES, LAW_OUTCOME_OK));
    CHECK(!law_may_end(LAW_STATE_RUNNING, LAW_OUTCOMES));
}

int
main(void)
{
    test_a_life();
    test_the_end_is_the_end();
    test_endings();
    test_a_state_changes_by_the_table_alone();
    test_numbers_that_are_no_states();
    CHECK_EQUAL(law_severer(LAW_OUTCOME_FAILED, LAW_OUTCOME_CANCELLED), LAW_OUTCOME_CANCELLED);
    CHECK_EQUAL(law_severer(LAW_OUTCOME_PANICKED, LAW_OUTCOME_OK), LAW_OUTCOME_PANICKED);
    return finish();
}
