/* What a permit may become. */
#include "check.h"

#include "law/admission/ticket.h"

static void
test_the_drawing(void)
{
    CHECK(law_permit_may_move(LAW_PERMIT_WAITS, LAW_PERMIT_QUEUED));
    CHECK(law_permit_may_move(LAW_PERMIT_WAITS, LAW_PERMIT_HELD));
    CHECK(law_permit_may_move(LAW_PERMIT_QUEUED, LAW_PERMIT_WAITS));
    CHECK(law_permit_may_move(LAW_PERMIT_HELD, LAW_PERMIT_ASIDE));
    CHECK(law_permit_may_move(LAW_PERMIT_RETURNS, LAW_PERMIT_HELD));
    CHECK(law_permit_may_move(LAW_PERMIT_ASIDE, LAW_PERMIT_HELD)); /* asked to stop */
    CHECK(!law_permit_may_move(LAW_PERMIT_HELD, LAW_PERMIT_QUEUED));
    CHECK(!law_permit_may_move(LAW_PERMIT_ASIDE, LAW_PERMIT_QUEUED));
    CHECK(!law_permit_may_move(LAW_PERMIT_STOPS, LAW_PERMIT_HELD));
    CHECK(!law_permit_may_move(LAW_PERMITS, 0));
    CHECK(!law_permit_may_move(0, LAW_PERMITS));
}

static void
test_all_end_and_what_is_over_stays_over(void)
{
    for (unsigned state = 0; state < LAW_PERMITS; state++) {
        CHECK_EQUAL(law_permit_may_move(state, LAW_PERMIT_OVER), state != LAW_PERMIT_OVER);
        CHECK(!law_permit_may_move(LAW_PERMIT_OVER, state));
    }
}

static void
test_a_move(void)
{
    uint8_t state = LAW_PERMIT_WAITS;
    law_permit_move(&state, LAW_PERMIT_HELD);
    law_permit_move(&state, LAW_PERMIT_OVER);
    CHECK_EQUAL(state, LAW_PERMIT_OVER);
}

int
main(void)
{
    test_the_drawing();
    test_all_end_and_what_is_over_stays_over();
    test_a_move();
    return finish();
}
